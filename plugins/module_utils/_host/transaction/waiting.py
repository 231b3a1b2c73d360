# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which programs that stay on a host work in a transaction's place, and which wait for its
end.

They try the lock without waiting (resident/programs.py). If a transaction holds it, a program goes
on only if the lock names its unit as one that the transaction waits for. Otherwise it ends and
leaves the unit's name in DIR/waiting. Neither of the two ever waits for the other. Host side:
standard library only, Python 3.6.
"""

import contextlib
import json
import os
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
)

_UNIT = re.compile(r"gpufleet-[A-Za-z0-9@-]+\.service\Z")
_TAKEN = ".taken-"  # before the name of a unit that is being started


@contextlib.contextmanager
def write_awaited_units(base, words):
    """Write into the lock, which is ours, for which units we wait while this context lasts.

    These are the units of this collection's programs among these words.
    """
    named = [word for word in words if isinstance(word, str) and _UNIT.match(word)]
    if named:
        _say(base, starts=named)
    try:
        yield
    finally:
        if named:
            _say(base, starts=[])


def _say(base, **more):
    path = os.path.join(base, "lock")
    # then the program ends, and its unit is started once more afterwards
    with contextlib.suppress(OSError, ValueError, AttributeError):
        held = journal.read_json(path)
        if held.get("pid") == os.getpid():
            fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                data = (json.dumps(dict(held, **more)) + "\n").encode("utf-8")
                os.pwrite(fd, data, 0)
                os.ftruncate(fd, len(data))
            finally:
                os.close(fd)


def start_waiting_units(base):
    """Start the units whose programs found the lock taken, without waiting for them.

    The lock is free already. They are started in the order in which they came: systemd lets one
    wait for another that is to be started, but not for one that it learns of later. Each gets
    another name first, since its program may have to wait again, and that name goes once systemd
    has been told. So a process that is killed in between, or does not reach systemd, has lost none
    of them: the next one starts them.
    """
    place = os.path.join(base, "waiting")
    with contextlib.suppress(host_files.HostError, OSError):
        names = _list_taken(place) if os.path.isdir(place) else []
        if (
            names
            and not commands.run(["systemctl", "--no-block", "start"] + names, timeout=15)[
                "timed_out"
            ]
        ):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(place, _TAKEN + name))


def _list_taken(place):
    """List the units to start, in the order in which they came.

    These are units that wait, and units that another process took but did not come to start.
    """
    came = {}
    for name in os.listdir(place):
        unit = name[len(_TAKEN) :] if name.startswith(_TAKEN) else name
        if _UNIT.match(unit):
            with contextlib.suppress(FileNotFoundError):  # another one starts it
                came[unit] = os.stat(os.path.join(place, name)).st_mtime_ns
                if name == unit:
                    os.rename(os.path.join(place, name), os.path.join(place, _TAKEN + unit))
    return sorted(came, key=lambda unit: (came[unit], unit))
