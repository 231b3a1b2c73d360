# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stay on a host, and set what no file keeps to the values of a list, by the programs that the list
names.

    modes.py LIST.json

Each setting is read first, set if it differs, and read again. If the program succeeds but another
value is read back, that is a failure. It is run at every boot, when a driver is loaded again, and
by a run of the collection. Host side: standard library only, Python 3.6.
"""

import re
import sys

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident.programs import (
    LATER,
    TRIES,
    get_lock_stamp,
    read_instructions,
    run_program,
    turn,
)


def main(arguments):
    """Set the modes of the list. Print what went wrong, and return the exit status."""
    troubles = None
    try:
        for _try in range(TRIES):
            before = get_lock_stamp()
            troubles = settle_modes(read_instructions(arguments[0]), before)
            if troubles is not None:
                break
    except OSError as exc:  # the list or the lock of transactions
        troubles = [str(exc)]
    for line in troubles or []:
        sys.stdout.write(line + "\n")
    return 1 if troubles else 0


def settle_modes(wanted, before):
    """Settle each setting.

    Return troubles as sentences; None if a transaction came between: the settings may have changed.
    """
    troubles = []
    for setting in wanted["settings"]:
        with turn(wanted.get("units") or []) as mine:
            if not mine:
                sys.stdout.write(LATER)
                return troubles
            if get_lock_stamp() != before:
                return None
            try:
                done = settle_mode(setting, wanted["seconds"])
            except (OSError, ValueError) as exc:
                troubles.append("%s: %s" % (setting["name"], exc))
                continue
        if done:
            sys.stdout.write(done + "\n")
    return troubles


def settle_mode(setting, seconds):
    """Return what was done, '' if the value is right.

    Raise ValueError if it cannot be read or does not stay.
    """
    before = read_mode(setting, seconds)
    if before == setting["value"].upper():
        return ""
    run_program(setting["set"], seconds, setting["accepts"])
    after = read_mode(setting, seconds)
    if after != setting["value"].upper():
        raise ValueError("%s was set, and %s is read back" % (setting["value"], after))
    return "%s: %s instead of %s" % (setting["name"], after, before)


def read_mode(setting, seconds):
    """Return the present mode of a GPU in capitals. Raise ValueError if the program does not tell."""
    text = run_program(setting["read"], seconds, setting["accepts"])
    match = re.search(setting["pattern"], text, re.MULTILINE)
    if not match:
        raise ValueError("%s says nothing of it" % " ".join(setting["read"]))
    return match.group(1).upper()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
