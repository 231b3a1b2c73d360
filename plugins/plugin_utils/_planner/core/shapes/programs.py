# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of the other programs' answers: the executor, the note of what was told, and the check of
containers.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import common
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes.common import (
    MESSAGE,
    NAME,
    NUMBER,
    PATH,
    PATHS,
    SECONDS,
    STATUS,
    TEXTS,
    VERSION,
    WORD,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes.rules import (
    Flag,
    Items,
    Keyed,
    Maybe,
    Shape,
    TableShape,
    Text,
    TreeShape,
    Whole,
)

SCHEMA = Whole(1, 1)
_RAN: Mapping[str, Shape] = {
    "argv": TEXTS,
    "rc": Maybe(STATUS),
    "causes?": common.CAUSES,
    "why?": MESSAGE,
}
_FINDINGS: Mapping[str, Shape] = {**_RAN, "findings": TEXTS, "baseline_rc?": Maybe(STATUS)}
_HEALTH: Mapping[str, Shape] = {
    "kind": WORD, "ok": Flag(), "seconds": SECONDS, "evidence": MESSAGE, "socket?": PATH, "path?": PATH, "name?": NAME, "after?": WORD,
    "timeout?": SECONDS, "replaces?": common.PEER, "require?": TreeShape(), "failed?": Flag(), "causes?": common.CAUSES,
}  # fmt: skip
_OUTCOME: Mapping[str, Shape] = {
    "id": NAME, "time": Maybe(WORD), "reason": Maybe(MESSAGE), "outcome": WORD, "why": Maybe(MESSAGE), "by": NAME, "foreign": PATHS,
    "health": Items(TableShape(_HEALTH)), "trouble": Maybe(MESSAGE), "ran": Items(TableShape(_RAN)),
}  # fmt: skip
_CONFLICT: Mapping[str, Shape] = {
    "what": WORD,
    "path": PATH,
    "expected": Maybe(MESSAGE),
    "found": Maybe(MESSAGE),
}
_CASE: Mapping[str, Shape] = {
    "name": MESSAGE, "ok": Flag(), "expected": Keyed(PATH, WORD), "found": Keyed(PATH, WORD), "listed": PATHS, "unexpected": PATHS,
    "record": TEXTS, "problems": TEXTS, "again": TEXTS, "error": Maybe(TableShape({"step": WORD, "message": MESSAGE})), "seconds": SECONDS,
}  # fmt: skip
_KEPT: Mapping[str, Shape] = {"name": NAME, "arch": WORD, "version": VERSION}
# A host keeps 200 packages at most (kept_driver.py). A look names 1024 of each kind, and rpm may
# have one in several versions. A hold is released by a command or two.
MOST_KEPT, MOST_LEFT, MOST_RELEASES = 1 << 8, 1 << 12, 1 << 4

ROWS: Mapping[str, Shape] = {
    "transaction": TableShape(
        {
            "schema": SCHEMA, "id": Maybe(VERSION), "changed": Flag(), "rolled_back": Flag(), "journal": Maybe(PATH),
            "error": Maybe(TableShape({"phase": WORD, "message": MESSAGE, "where": PATH, "next": MESSAGE})),
            "containers": Maybe(TableShape({"before": NUMBER, "lost": Items(NAME)})), "probation": SECONDS, "said": Maybe(PATH),
            "rewritten": Flag(), "written": PATHS, "removed": PATHS, "ran": Items(TableShape(_RAN)), "restarted": Items(NAME),
            "disabled": Items(NAME), "conflict": Items(TableShape(_CONFLICT)), "validation": Items(TableShape(_FINDINGS)),
            "health": Items(TableShape(_HEALTH)), "recovered": Items(TableShape(_OUTCOME)), "foreign": PATHS, "swept": PATHS,
        }
    ),
    "acknowledge": TableShape({"swept": PATHS, "error": Maybe(MESSAGE)}),
    "kept_packages": TableShape(
        {
            "schema": SCHEMA, "state": WORD, "again": Flag(), "refused": Flag(), "unread": Flag(),
            "rollout": WORD, "ran": Items(TableShape(_RAN), MOST_RELEASES),
            "kept": Items(TableShape({**_KEPT, "file": NAME, "sha256": NAME, "size": NUMBER}), MOST_KEPT),
            "left": Items(TableShape({**_KEPT, "why": WORD}), MOST_LEFT),
            "error": Maybe(TableShape({"message": MESSAGE, "next": MESSAGE})),
        }
    ),
    "container_check": TableShape(
        {
            "schema": SCHEMA, "cases": Items(TableShape(_CASE), exactly="cases"),
            "left": Items(TableShape({"socket": PATH, "sandbox": Text(256), "message": MESSAGE})),
        }
    ),
}  # fmt: skip
