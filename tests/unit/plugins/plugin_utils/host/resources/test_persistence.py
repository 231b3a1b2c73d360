# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-persistenced at boot, before the engines: what is planned by its state, and what is given
back.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    persistence,
)

from tests.unit import builders
from tests.unit.coded import get_codes
from tests.unit.records import ONE_GPU

ENABLED = Policy(persistence="enabled")
OFF = {"ActiveState": "inactive", "UnitFileState": "disabled"}
RUNS = {"ActiveState": "active", "UnitFileState": "enabled"}
STARTS = {"ActiveState": "activating", "SubState": "start", "UnitFileState": "enabled"}
ENDS_AGAIN = {"ActiveState": "activating", "SubState": "auto-restart", "UnitFileState": "enabled"}
MASKED = {"LoadState": "masked", "ActiveState": "inactive"}
BROKEN, NONE = Driver("broken", "580.1", (), "apart"), Driver("none", "", (), "no GPU")
WANTED, ORDERED = persistence.WANTED, persistence.ORDERED
BOTH = dict(persistence.TEXTS)
OTHERS = {**BOTH, ORDERED: "[Unit]\nBefore=docker.service\n"}


def look(
    unit: dict[str, str] | None, files: dict[str, str], originals: dict[str, Any] | None = None
) -> persistence.PersistenceFacts:
    units = {} if unit is None else {persistence.UNIT: unit}
    return persistence.read_persistence_facts(
        builders.obs(files=files, units=units, originals=originals)
    )


def paths(plan: Plan) -> set[str]:
    return {str(change["path"]) for change in plan.changes}


# The policy, the unit, the drop-ins, the driver; the files that are written, whether the unit is
# started, the advice.
CASES: dict[str, tuple[Policy, dict[str, str] | None, dict[str, str], Driver, set[str], bool, list[str]]] = {
    "off": (ENABLED, OFF, {}, ONE_GPU, {WANTED, ORDERED}, True, []),
    "it runs": (ENABLED, RUNS, {}, ONE_GPU, {WANTED, ORDERED}, False, []),
    "all is so": (ENABLED, RUNS, BOTH, ONE_GPU, set(), False, []),
    "on its way": (ENABLED, STARTS, BOTH, ONE_GPU, set(), False, []),
    "it ends over and over": (ENABLED, ENDS_AGAIN, BOTH, ONE_GPU, set(), True, []),
    "it was stopped": (ENABLED, OFF, BOTH, ONE_GPU, set(), True, []),
    "another's order": (ENABLED, RUNS, OTHERS, ONE_GPU, {ORDERED}, False, []),
    "not installed": (ENABLED, None, {}, ONE_GPU, set(), False, ["persistence.absent"]),
    "masked": (ENABLED, MASKED, {}, ONE_GPU, set(), False, ["persistence.masked"]),
    "a driver that does not work": (ENABLED, OFF, {}, BROKEN, {WANTED, ORDERED}, False, []),
    "no GPU": (ENABLED, OFF, {}, NONE, set(), False, ["persistence.no-driver"]),
    "no GPU, and nobody asks": (Policy(), OFF, {}, NONE, set(), False, []),
    "advise": (Policy(), OFF, {}, ONE_GPU, set(), False, []),
    "ignore": (Policy(persistence="ignore"), OFF, {}, ONE_GPU, set(), False, []),
    "an image": (dc.replace(ENABLED, root="/srv/image"), None, {}, ONE_GPU, {WANTED, ORDERED}, False, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_unit_is_wanted_ordered_and_started_where_it_is_asked_for(case: str) -> None:
    policy, unit, files, driver, written, started, advice = CASES[case]
    plan = persistence.plan_persistence(policy, look(unit, files), driver)
    assert paths(plan) == written
    assert [(r.unit, r.action) for r in plan.restarts] == [(persistence.UNIT, "start")] * started
    assert get_codes(plan.advice) == advice
    assert plan.empty is not (written or started)


def test_only_a_policy_that_needs_it_asks() -> None:
    assert persistence.list_questions(Policy()) == []
    assert persistence.list_questions(Policy(persistence="ignore")) == []
    assert len(persistence.list_questions(ENABLED)) == 3
    assert len(persistence.list_questions(Policy(state="absent"))) == 3


def test_the_engines_come_after_it() -> None:
    order = BOTH[ORDERED].partition("Before=")[2].split()
    assert {"containerd.service", "crio.service", "docker.service", "kubelet.service"} <= set(order)


def test_both_files_go_and_the_unit_runs_on() -> None:
    kept = {path: {"existed": False, "sha256_after": builders.file_answer(text)["sha256"]} for path, text in BOTH.items()}  # fmt: skip
    plan = persistence.plan_absent(look(RUNS, BOTH, kept))
    assert (paths(plan), plan.restarts, plan.commands) == ({WANTED, ORDERED}, (), ())
    assert persistence.plan_absent(look(RUNS, {})).empty


THEIRS = "[Unit]\nBefore=docker.service\n"
OURS = BOTH[ORDERED]
JOURNALED = {"existed": False, "sha256_after": builders.file_answer(OURS)["sha256"]}
# The drop-in that orders the unit, what the journal has of it, whether it goes, the advice.
REMOVALS: dict[str, tuple[str, dict[str, Any] | None, bool, list[str]]] = {
    "ours, by the journal": (OURS, JOURNALED, True, []),
    "ours, by its mark": (OURS, None, True, []),
    "ours, and changed since": (
        OURS + "# more\n",
        JOURNALED,
        True,
        ["restore.changed-removed"],
    ),
    "a person's of the same name": (THEIRS, None, False, []),
    "a person's, put in its place": (THEIRS, JOURNALED, False, ["restore.replaced-since"]),
}


@pytest.mark.parametrize("case", REMOVALS)
def test_a_file_is_ours_by_the_journal_or_its_mark(case: str) -> None:
    text, journaled, goes, advice = REMOVALS[case]
    kept = {ORDERED: journaled} if journaled else {}
    plan = persistence.plan_absent(look(RUNS, {ORDERED: text}, kept))
    assert paths(plan) == ({ORDERED} if goes else set())
    assert get_codes(plan.advice) == advice


def test_a_removal_that_was_not_asked_asks_once() -> None:
    with pytest.raises(NeedMore) as need:
        persistence.plan_absent(persistence.read_persistence_facts(Observation({}, {})))
    assert len(need.value.questions) == 3
