# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a host has noted of packages that are kept before a change (kept_packages.py).

Host side: standard library only, Python 3.6.
"""

import os
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import journal

# preparing: packages are being kept, and no change has begun. changing: one has, and no run has
# judged it. settled: a run has.
PREPARING, CHANGING, SETTLED = "preparing", "changing", "settled"
RECORD, ROWS = "record.json", "packages.json"
ROLLOUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")  # of a rollout, by its setting
OF_ROWS = {"name": str, "arch": str, "version": str}


def list_releasing(folder):
    """Return the commands that hold the packages which a killed run was about to release. How far
    that run came is unknown. The record of an earlier release of this collection names none.
    """
    return (read_change_record(folder) or {}).get("releasing", [])


def find_other_rollout(record, run):
    """Return the rollout whose run has begun or taken up a change, '' if that is this run. The
    record of an earlier release of this collection names none.
    """
    if record.get("run") in (None, run):
        return ""
    rollout = record.get("rollout")
    return rollout if isinstance(rollout, str) and ROLLOUT_NAME.match(rollout) else "unknown"


def read_change_state(folder):
    """Return how far a change is, '' if none is noted. A record that cannot be read is a change
    that has not been judged, and so is one with another word.
    """
    record = read_change_record(folder)
    if record is None:
        return ""
    return record["state"] if record.get("state") in (PREPARING, SETTLED) else CHANGING


def read_change_record(folder):
    """Return the record; None if there is none, {} for one that cannot be read."""
    path = os.path.join(folder, RECORD)
    if not os.path.lexists(path):
        return None
    try:
        record = journal.read_json(path)
    except (OSError, ValueError):
        return {}
    whole = isinstance(record, dict) and _are_commands(record.get("releasing", []))
    return record if whole else {}


def _are_commands(rows):
    """Tell whether this is a list of commands, each with its words."""
    return isinstance(rows, list) and all(
        row and isinstance(row, list) and all(isinstance(word, str) for word in row) for row in rows
    )


def read_kept_rows(folder):
    """Return {"kept", "left"} as they were when the change began; None if that cannot be read. A
    package whose file is gone since is left.
    """
    if not read_change_record(folder):
        return None
    try:
        rows = journal.read_json(os.path.join(folder, ROWS))
    except (OSError, ValueError):
        return None
    of_kept = dict(OF_ROWS, file=str, sha256=str, size=int)
    if not (
        isinstance(rows, dict)
        and _are_rows(rows.get("kept"), of_kept)
        and _are_rows(rows.get("left"), dict(OF_ROWS, why=str))
    ):
        return None
    kept, left = [], list(rows["left"])
    for row in rows["kept"]:
        path = os.path.join(folder, "packages", os.path.basename(row["file"]))
        if os.path.isfile(path) and os.path.getsize(path) == row["size"]:
            kept.append(row)
        else:
            left.append(dict({name: row[name] for name in OF_ROWS}, why="lost"))
    return {"kept": kept, "left": left}


def _are_rows(rows, kinds):
    """Tell whether this is a list of packages. kinds: name -> the type of its value. A truth value
    is an int to Python.
    """
    return isinstance(rows, list) and all(
        isinstance(row, dict)
        and set(row) == set(kinds)
        and all(isinstance(row[name], kind) for name, kind in kinds.items())
        and not any(isinstance(value, bool) for value in row.values())
        for row in rows
    )
