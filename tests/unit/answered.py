# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole answers as the programs of the host make them, for tests that play a host. A test names
only what it is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import JOURNAL_DIR

HOST = {
    "python": [3, 11, 2], "system": "Linux", "kernel": "6.1.0", "machine": "x86_64", "hostname": "gpu1", "uid": 0, "root": True,
    "boot_id": "", "epoch": 1.0, "os_release": {"ID": "debian"},
}  # fmt: skip
ENTRY = {
    "id": "a1", "time": None, "reason": None, "state": "rolled_back", "files": [], "removed": [], "ran": [], "units": [], "actions": [],
    "by": None, "why": None, "trouble": None, "foreign": [], "entry": "/journal/a1",
}  # fmt: skip
ORIGINALS = queries.ask_for_originals(JOURNAL_DIR)


def look(request: Mapping[str, Any], **by_kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a look, by the kinds of its queries."""
    answers = {
        str(at): dict(by_kind[question["kind"]]) for at, question in enumerate(request["questions"])
    }
    return {"schema": 1, "host": dict(HOST), "answers": answers}


def journal(**more: Any) -> dict[str, Any]:
    """Return the journal's answer: nothing, and in addition these parts."""
    empty = {
        "originals": {},
        "damaged": [],
        "known": True,
        "unfinished": [],
        "outcomes": [],
        "pending": [],
        "strays": [],
    }
    found = {**empty, **more}
    found["unfinished"] = [{**ENTRY, "at_work": False, **entry} for entry in found["unfinished"]]
    found["outcomes"] = [{**ENTRY, "logs": {}, **entry} for entry in found["outcomes"]]
    return found
