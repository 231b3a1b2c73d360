# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a file that is wholly ours when it is to be taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    owned_file,
)

from tests.unit.builders import obs, sha
from tests.unit.coded import get_codes

PATH = "/etc/x/90-gpufleet.conf"
# What is there now, what the journal keeps, whether the content says that it is ours -> the change
# (None: none), the code of the advice
CASES: dict[str, tuple[str | None, dict[str, Any] | None, bool, dict[str, Any] | None, str]] = {
    "as written, new": ("ours", {"existed": False, "sha256_after": sha("ours")}, True, {"op": "restore"}, ""),
    "as written, over another's": ("ours", {"existed": True, "sha256_after": sha("ours")}, True, {"op": "restore"}, ""),
    "changed since, new": ("edited", {"existed": False, "sha256_after": sha("ours")}, True, {"op": "remove"}, "restore.changed-removed"),
    "changed since, over another's": (
        "edited", {"existed": True, "sha256_after": sha("ours")}, True, {"op": "restore", "changed": True}, "restore.changed-put-back",
    ),
    "another's now": ("theirs", {"existed": True, "sha256_after": sha("ours")}, False, None, "restore.replaced-since"),
    "ours, and the journal is gone": ("ours", None, True, {"op": "remove"}, ""),
    "another's": ("theirs", None, False, None, ""),
    "gone": (None, {"existed": False, "sha256_after": sha("ours")}, False, None, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_taking_back(case: str) -> None:
    now, kept, ours, wanted, code = CASES[case]
    seen = obs(
        files={} if now is None else {PATH: now}, originals={} if kept is None else {PATH: kept}
    )
    plan = owned_file.plan_owned_file_restore(
        earlier_runs.read_earlier_runs(seen), seen.get_file(PATH), why="state: absent", own=ours
    )
    done = {
        key: value
        for change in plan.changes
        for key, value in change.items()
        if key in ("op", "changed")
    }
    assert done == (wanted or {})
    assert all(change["expect"] == sha(now or "") for change in plan.changes)
    assert get_codes(plan.advice) == ([code] if code else [])


OPEN = {
    "error": {
        "kind": "untrusted",
        "message": f"{PATH} may be written to by others (mode 0666). Run chmod o-w on the file",
    }
}


@pytest.mark.parametrize(
    "kept",
    [{PATH: {"existed": False, "sha256_after": sha("ours")}}, {}],
    ids=["a copy", "no journal"],
)
def test_a_file_that_cannot_be_read_is_not_taken_for_somebody_elses(kept: dict[str, Any]) -> None:
    seen = obs(originals=kept, answers={f"file:{PATH}": OPEN})
    with pytest.raises(PlanError) as caught:
        owned_file.plan_owned_file_restore(
            earlier_runs.read_earlier_runs(seen),
            seen.get_file(PATH),
            why="state: absent",
            own=False,
        )
    assert caught.value.code == "restore.file-unreadable"
    assert "mode 0666" in caught.value.values["reason"]


def test_one_of_which_the_journal_knows_nothing_is_somebody_elses() -> None:
    seen = obs(answers={f"file:{PATH}": OPEN, "originals": {"known": True, "originals": {}}})
    assert (
        owned_file.plan_owned_file_restore(
            earlier_runs.read_earlier_runs(seen),
            seen.get_file(PATH),
            why="state: absent",
            own=False,
        )
        == Plan()
    )


def list_of(number: int) -> str:
    return json.dumps({f"k{n:02}": number for n in range(number)})


VALUES: list[tuple[str | None, str, list[str]]] = [
    # what the file has, what it is to have, the places that the plan shows ("" is the whole)
    (None, '{"a": {"b": 1, "c": 2}, "d": 3}', ["a.b", "a.c", ""]),
    (None, '{"d": 3}', [""]),
    ('{"a": 1, "d": 3}', '{"a": 2, "d": 3}', ["a"]),
    ('{"a": 1, "d": 3}', '{"a": 1}', ["d"]),
    ('{"a": 1}', '{ "a": 1 }', [""]),
    ("no JSON", '{"a": 1, "d": 3}', ["a", ""]),
    ('{"x": 1}', list_of(31), [*(f"k{n:02}" for n in range(31)), "x"]),
    ('{"x": 1}', list_of(32), [*(f"k{n:02}" for n in range(32)), ""]),
]


@pytest.mark.parametrize(("now", "text", "shown"), VALUES)
def test_the_values_that_change_are_shown_and_the_whole_where_they_do_not_tell_all(
    now: str | None, text: str, shown: list[str]
) -> None:
    seen = obs(files={} if now is None else {PATH: now})
    plan = owned_file.write_values(seen.get_file(PATH), text, why="as wanted", shows=("a",))
    assert [difference.key for difference in plan.differences] == shown
    assert [change["op"] for change in plan.changes] == ["write"]
