# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host after a change of its driver: which findings keep it out of service, and which runs take it
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    driver_change,
    left_out,
    rollout,
    settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    keeping_messages,
    kept_driver,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import needs

from tests.unit.rollout_looks import CHANGE, looked

NOW = "550.163.01"  # of the look
BEFORE = kept_driver.DriverChange("changing", "535.261.03", "2026-11-26", 8, driver="ok")
UNMOVED = kept_driver.DriverChange("changing", NOW, "2026-11-26", 8, driver="ok")


def advised(*codes: str) -> dict[str, Any]:
    return looked(advice=[f"something is so. Do this [{code}]" for code in codes])


def unit(verdict: str, code: str = "platform.fabric-manager-version") -> dict[str, Any]:
    row = {"unit": "x", "verdict": verdict, "why": f"so it is [{code}]", "code": code}
    return looked(platform={"unknown": "", "needs": [row]})


def packaged(look: dict[str, Any]) -> dict[str, Any]:
    """A host whose own packages bring the driver."""
    return {**look, "versions": {"driver_packages": NOW}}


FM_GONE = "platform.fabric-manager-not-on-host"


def found(code: str, **more: Any) -> dict[str, Any]:
    row = {"code": code, "what": "x", "gpu": "", "next": "Reset it", "source": "files", **more}
    return looked(health={"findings": [{"stops": True, **row}]})


def driver(state: str, gpus: int = 8) -> dict[str, Any]:
    model = [{"model": "L4"}] * gpus
    return looked(driver={"state": state, "version": NOW, "gpus": model, "evidence": "why"})


JUDGED: list[tuple[dict[str, Any], str]] = [
    # the look after the change, the code of the reason that keeps the host out
    (looked(), ""),
    (looked(advice=["nothing with a code"]), ""),
    ({}, "moved.broken"),
    ({"unreachable": True, "msg": "no route"}, "moved.broken"),
    ({"failed": True, "msg": "no Python"}, "moved.broken"),
    (looked(problem="the plan is refused"), "moved.broken"),
    (driver("broken"), "moved.broken"),
    (driver("not-loaded", 0), "moved.not-loaded"),
    (driver("none", 0), "moved.no-driver"),
    (driver("ok", 7), "moved.fewer-gpus"),
    (driver("ok", 9), ""),
    (advised("keeping.parts-differ"), "moved.apart"),
    (advised("keeping.next-kernel-lacks-module"), "moved.apart"),
    (advised("driver.other-module-after-reboot"), "moved.apart"),
    (advised("keeping.next-kernel-other-module"), "moved.apart"),
    (advised("cdi.libcuda-missing"), "moved.apart"),
    (advised("cdi.nvml-missing"), "moved.apart"),
    (advised("cdi.libraries-missing"), ""),
    (advised("keeping.not-checked"), "moved.apart"),
    (advised("keeping.half-installed"), "moved.apart"),
    (advised("keeping.reinstallation-required"), "moved.apart"),
    (advised("keeping.installed-twice"), "moved.apart"),
    (advised("keeping.will-move", "hold.since", "platform.persistence-off"), ""),
    (unit("wrong"), "moved.apart"),
    (unit("advise"), ""),
    # the row says that it returns, and a finding without a row stays out
    (unit("wrong", "platform.imex-by-host"), ""),
    (unit("wrong", "platform.of-another-release"), "moved.apart"),
    (unit("well", ""), ""),
    # a driver container may bring it, unless packages of the host bring the driver
    (unit("advise", FM_GONE), ""),
    (packaged(unit("advise", FM_GONE)), "moved.apart"),
    (unit("advise", "platform.subnet-manager-absent"), ""),
    (packaged(unit("advise", "platform.subnet-manager-absent")), "moved.apart"),
    (packaged(unit("advise", "platform.persistence-off")), ""),
    (packaged(unit("well", "")), ""),
    (looked(platform={"unknown": "systemctl: no bus", "needs": []}), "moved.apart"),
    (found("gpu-health.fewer-served"), "moved.sick"),
    (found("gpu-health.fewer-served", stops=False), ""),
    # a line of the kernel log may be older than the change; the second look compares those
    (found("gpu-health.log", source="log"), ""),
]


@pytest.mark.parametrize(("look", "code"), JUDGED)
def test_a_host_returns_only_if_its_driver_fits_together(look: dict[str, Any], code: str) -> None:
    assert get_code(driver_change.explain_bad_change(look, BEFORE) or "") == code


def expected(gpus: int | None, served: int) -> dict[str, Any]:
    """A host whose inventory says how many GPUs it has. A look finds a host with fewer sick."""
    sick = found("gpu-health.fewer-served")["health"]["findings"]
    health = {"expected": gpus, "findings": sick if gpus is not None and served < gpus else []}
    return {**driver("ok", served), "health": health}


UNKNOWN, NO_GPU = (
    kept_driver.DriverChange(),
    kept_driver.DriverChange("changing", gpus=0, driver="none"),
)
UNLOADED = kept_driver.DriverChange("changing", gpus=0, driver="not-loaded")
COUNTS = [
    # what is noted of before, the look after the change, the release that it shall have; the code
    (UNKNOWN, driver("ok", 1), "", "moved.before-unknown"),
    (UNKNOWN, driver("ok", 8), "550", "moved.before-unknown"),
    (kept_driver.parse_change({}), driver("ok", 8), "", "moved.before-unknown"),
    # the inventory knows
    (UNKNOWN, expected(8, 8), "", ""),
    (UNKNOWN, expected(8, 1), "", "moved.sick"),
    (BEFORE, expected(1, 1), "", "moved.fewer-gpus"),
    # a host without a GPU is left alone, if it had none before
    (NO_GPU, driver("none", 0), "", ""),
    (NO_GPU, driver("none", 0), "580", ""),
    (UNKNOWN, driver("none", 0), "", "moved.no-driver"),
    (UNKNOWN, driver("none", 0), "580", "moved.no-driver"),
    (UNLOADED, driver("none", 0), "580", "moved.no-driver"),
    (UNLOADED, driver("none", 0), "", "moved.no-driver"),
    (UNLOADED, driver("ok", 8), "550", ""),
]  # fmt: skip


@pytest.mark.parametrize(("before", "look", "wanted", "code"), COUNTS)
def test_gpus_of_before_that_are_not_known_are_not_none(
    before: kept_driver.DriverChange, look: dict[str, Any], wanted: str, code: str
) -> None:
    assert get_code(driver_change.explain_bad_change(look, before, wanted=wanted) or "") == code


FM = "platform.fabric-manager-version"
NOT_SERVED = "gpu-health.not-served"


def accepting(look: dict[str, Any], *entries: str, lost: tuple[bool, ...] = ()) -> dict[str, Any]:
    """A look at a host whose owner accepts findings. lost: GPUs, by whether each is accepted."""
    rows = [{"code": NOT_SERVED, "what": "x", "stops": not yes, "accepted": yes} for yes in lost]
    return {**look, "health": {"accepted": list(entries), "findings": rows}}


ACCEPTED = [
    # the look, the code of the reason that keeps the host out
    (accepting(unit("wrong")), "moved.apart"),
    (accepting(unit("wrong"), FM), ""),
    (accepting(unit("wrong"), "platform.fabric-manager-off"), "moved.apart"),
    # a code with the address of a GPU is about that GPU
    (accepting(unit("wrong"), f"{FM} 0000:43:00.0"), "moved.apart"),
    (accepting(advised("driver.gpus-lost"), f"{NOT_SERVED} 0000:43:00.0", lost=(True,)), ""),
    (accepting(advised("driver.gpus-lost"), f"{NOT_SERVED} 0000:43:00.0", lost=(True, False)), "moved.apart"),
    (accepting(advised("driver.gpus-lost"), f"{NOT_SERVED} 0000:43:00.0"), "moved.apart"),
    (accepting(advised("keeping.parts-differ"), FM), "moved.apart"),
]  # fmt: skip


@pytest.mark.parametrize(("look", "code"), ACCEPTED)
def test_a_finding_that_the_owner_accepts_keeps_no_host_out(
    look: dict[str, Any], code: str
) -> None:
    assert get_code(driver_change.explain_bad_change(look, BEFORE) or "") == code


LEFT = [
    # what is noted of before, the loaded and the installed release, the setting; whether it is said
    (UNMOVED, NOW, NOW, "", True),
    (UNMOVED, NOW, "", "", True),
    (UNMOVED, NOW, "580.95.05", "", False),
    (BEFORE, NOW, NOW, "", False),
    # it is what the host shall have
    (UNMOVED, NOW, NOW, "550", False),
    (NO_GPU, "", "", "", False),
]


@pytest.mark.parametrize(("before", "loaded", "installed", "wanted", "said"), LEFT)
def test_a_change_that_moved_no_driver_is_said(
    before: kept_driver.DriverChange, loaded: str, installed: str, wanted: str, said: bool
) -> None:
    look = looked(**versions(loaded, installed))
    told = driver_change.explain_unmoved_driver(look, before, wanted)
    assert get_code(told or "") == ("moved.nothing" if said else "")


APART, CORE, ML = "keeping.parts-differ", "cdi.libcuda-missing", "cdi.nvml-missing"
BLAMED = [
    # the driver before, what was found then and now, whether it keeps the host out
    (BEFORE, (), APART, True),
    (BEFORE, (APART,), APART, True),
    (UNMOVED, (), APART, True),
    (UNMOVED, (APART,), APART, False),
    (UNMOVED, ("keeping.headers-missing",), APART, True),
    # a host without libcuda has had none before: its owner wants it so
    (BEFORE, (), CORE, True),
    (BEFORE, (APART,), CORE, True),
    (BEFORE, (CORE,), CORE, False),
    (UNMOVED, (CORE,), CORE, False),
    (BEFORE, (CORE,), ML, True),
    (BEFORE, (ML,), ML, True),
]


@pytest.mark.parametrize(("before", "codes", "code", "blamed"), BLAMED)
def test_a_finding_of_before_is_not_blamed_on_a_change_that_left_the_driver(
    before: kept_driver.DriverChange, codes: tuple[str, ...], code: str, blamed: bool
) -> None:
    noted = kept_driver.parse_change({**kept_driver.report_change(before), "before": list(codes)})
    said = driver_change.explain_bad_change(advised(code), noted)
    assert bool(said) == blamed


def test_the_reason_names_the_findings_and_the_way_back() -> None:
    way = kept_driver.WAY_BACK["apt"]
    said = driver_change.explain_bad_change(advised("keeping.parts-differ"), BEFORE, way)
    assert said
    assert "[keeping.parts-differ]" in said
    assert way in said.next


def test_each_finding_about_a_driver_and_its_units_is_in_the_table_once() -> None:
    every = [row.row.code for row in driver_change.ROWS]
    assert len(every) == len(set(every))
    # a reason that stands in a finding has no step of its own
    sentences = [row for row in vars(keeping_messages).values() if isinstance(row, Sentence)]
    of_keeping = {sentence.code for sentence in sentences if sentence.next}
    of_units = {row.row.code for row in needs.ROWS}
    assert of_keeping | of_units <= set(every)


def test_a_unit_that_is_wrong_keeps_a_host_out_and_one_with_advice_does_not() -> None:
    blocks: Mapping[str, bool] = {row.row.code: row.blocks for row in driver_change.ROWS}
    wrong = {row.row.code for row in needs.ROWS if row.verdict == "wrong"}
    only_advice = {row.row.code for row in needs.ROWS} - wrong
    assert all(blocks[code] for code in wrong)
    assert not any(blocks[code] for code in only_advice)


def versions(loaded: str, installed: str, state: str = "ok") -> dict[str, Any]:
    """A host with this driver; '' for none."""
    gpus = [{"model": "NVIDIA L4"}] * 8
    return {
        "driver": {"state": state, "version": loaded, "gpus": gpus},
        "versions": {"driver_packages": installed},
    }


RELEASES = [
    # loaded, installed, the setting, whether the host has another release
    ("550.163.01", "550.163.01", "550", False),
    ("550.163.01", "550.163.01", "550.163", False),
    ("550.163.01", "550.163.01", "550.163.01", False),
    ("550.163.01", "550.163.01", "550.1", True),
    ("550.163.01", "550.163.01", "550.16", True),
    ("550.163.01", "550.163.01", "580", True),
    # an upgrade whose reboot is due, and a module that came another way
    ("550.163.01", "580.95.05", "580", True),
    ("580.95.05", "550.163.01", "580", True),
    ("580.95.05", "", "580", False),
    ("", "580.95.05", "580", False),
    # a driver that serves, and neither its file nor a package names its release
    ("", "", "580", True),
    ("", "", "", False),
    ("550.163.01", "550.163.01", "", False),
]


@pytest.mark.parametrize(("loaded", "installed", "wanted", "other"), RELEASES)
def test_a_host_with_another_release_has_something_to_do_and_fails_if_it_keeps_it(
    loaded: str, installed: str, wanted: str, other: bool
) -> None:
    look = looked(**versions(loaded, installed))
    given = {"tasks": {"change": "driver.yml"}, **({"driver": wanted} if wanted else {})}
    chosen = settings.build_rollout_settings(given)
    host = rollout.plan_rollout(rollout.Fleet({"gpu1": look}, changes=True), chosen).hosts["gpu1"]
    assert (host.state, bool(host.moves)) == (rollout.DO if other else rollout.DONE, other)
    said = driver_change.explain_bad_change(look, BEFORE, wanted=wanted)
    assert get_code(said or "") == ("moved.other-release" if other else "")


def test_the_plan_says_whose_driver_is_to_be_moved_and_why() -> None:
    chosen = settings.build_rollout_settings({"tasks": {"change": "x"}, "driver": "580"})
    old, done = versions("550.163.01", "550.163.01"), versions("580.95.05", "580.95.05")
    without = {"driver": {"state": "none", "version": "", "gpus": []}}
    hosts = {"gpu1": looked(**old), "gpu2": looked(**done), "cpu1": looked(**without)}
    plan = rollout.plan_rollout(rollout.Fleet(hosts, changes=True), chosen)
    lines = rollout.list_rollout_lines(plan)
    assert lines[0] == "3 hosts: 1 to change in 1 batch, 2 already as desired, 0 left out"
    assert [line for line in lines if "driver to be moved" in line] == [
        "  driver to be moved by your tasks: gpu1: 550.163.01 is the driver, and gpufleet_rollout_driver is 580"
    ]
    kept_by_others = rollout.Fleet(hosts, changes=True, others={"gpu1": "another rollout has it"})
    lenient = settings.build_rollout_settings(
        {"tasks": {"change": "x"}, "driver": "580", "max_left_out": "100%"}
    )
    assert rollout.plan_rollout(kept_by_others, lenient).hosts["gpu1"].state == rollout.LEFT_OUT


WRONG: list[tuple[Any, str]] = [
    ("580-server", "rollout.driver"),
    ("newest", "rollout.driver"),
    (580.1, "rollout.driver"),  # 580.10 in YAML, without its zero
    (True, "rollout.driver"),
    ("580.", "rollout.driver"),
    ("\u0665\u0668\u0660", "rollout.driver"),  # digits of another alphabet
    (580, ""),
    (" 580.95.05 ", ""),
]


@pytest.mark.parametrize(("value", "code"), WRONG)
def test_a_release_is_text_of_numbers(value: Any, code: str) -> None:
    given = {"tasks": {"change": "driver.yml"}, "driver": value}
    if not code:
        assert settings.build_rollout_settings(given).driver == str(value).strip()
        return
    with pytest.raises(PlanError) as caught:
        settings.build_rollout_settings(given)
    assert caught.value.code == code


@pytest.mark.parametrize("tasks", [None, "", {}, {"after": "check.yml"}, {"change": ""}])
def test_a_release_needs_a_file_that_installs_it(tasks: Any) -> None:
    with pytest.raises(PlanError) as caught:
        settings.build_rollout_settings({"tasks": tasks, "driver": "580"})
    assert caught.value.code == "rollout.driver-without-tasks"


CHANGING = {"driver_change": {"state": "changing"}}
BROKEN = {"driver": {"state": "broken", "version": NOW, "gpus": [], "evidence": "why"}}
SICK = found("gpu-health.off-bus")["health"]
AGAIN: list[tuple[dict[str, Any], bool, str]] = [
    # what a look has found, whether this run has a file `change`, the state in the plan
    (CHANGING, False, rollout.DO),
    (CHANGING, True, rollout.DO),
    ({"driver_change": {"state": "settled"}}, True, rollout.DONE),
    ({"driver_change": {"state": ""}}, True, rollout.DONE),
    ({"driver_change": {"state": "preparing"}}, True, rollout.DONE),
    # an upgrade whose controller died before the reboot
    ({**CHANGING, **BROKEN}, True, rollout.DO),
    ({**CHANGING, "problem": "the plan is refused"}, True, rollout.DO),
    ({**CHANGING, "health": SICK}, True, rollout.DO),
    ({**CHANGING, **BROKEN}, False, rollout.LEFT_OUT),
    (BROKEN, True, rollout.LEFT_OUT),
    ({**CHANGING, "unreachable": True}, True, rollout.LEFT_OUT),
    ({**CHANGING, "work": {"at_work": "process 7"}}, True, rollout.LEFT_OUT),
]


@pytest.mark.parametrize(("more", "changes", "state"), AGAIN)
def test_a_run_takes_a_host_again_whose_change_was_not_judged(
    more: dict[str, Any], changes: bool, state: str
) -> None:
    wanted = settings.build_rollout_settings({"max_left_out": "100%"})
    fleet = rollout.Fleet({"gpu1": looked(**more)}, changes=changes)
    assert rollout.plan_rollout(fleet, wanted).hosts["gpu1"].state == state


def test_it_is_taken_before_all_others() -> None:
    wanted = settings.build_rollout_settings({"canaries": 0, "waves": [1]})
    hosts = {f"gpu{n}": looked(CHANGE) for n in range(1, 6)}
    plan = rollout.plan_rollout(
        rollout.Fleet({**hosts, "gpu9": looked(**CHANGING)}, changes=True), wanted
    )
    assert plan.batches[0].hosts == ("gpu9",)
    assert plan.has_unjudged_hosts
    assert not rollout.plan_rollout(rollout.Fleet(hosts, changes=True), wanted).has_unjudged_hosts


def test_a_host_that_is_left_out_is_not_judged() -> None:
    wanted = settings.build_rollout_settings({"max_left_out": "100%"})
    fleet = rollout.Fleet({"gpu1": looked(**CHANGING, **BROKEN)})
    assert not rollout.plan_rollout(fleet, wanted).has_unjudged_hosts
    assert left_out.is_change_unjudged(looked(**CHANGING))
