# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that is held as one: commands, files, and what a person has held before."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import lowering
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    apt_pins,
    hold_blacklist,
    hold_facts,
    hold_record,
    holding,
    package_locks,
)

from tests.unit.coded import read_all_coded
from tests.unit.driver_holds import (
    DAY,
    DNF4,
    DRIVER,
    ELSEWHERE,
    HOLD,
    LOCKS4,
    LOCKS5,
    NAMES,
    NOW,
    RPMS,
    facts,
    files_of,
    record,
    row,
    shown,
)

UBUNTU = "Ubuntu Core developers <ubuntu-devel-discuss@lists.ubuntu.com>"


TOOLKIT = row("nvidia-container-toolkit 1.20.2-1")


def as_held(rows: list[list[Any]]) -> list[list[Any]]:
    return [[*package[:3], True, package[4]] for package in rows]


def test_a_host_whose_driver_is_not_held_yet() -> None:
    plan = holding.plan_hold(HOLD, facts([*DRIVER, TOOLKIT]))
    (command,) = plan.commands
    assert command["argv"] == ["apt-mark", "hold", *NAMES]
    assert command["undo"] == ["apt-mark", "unhold", *NAMES]
    written = files_of(plan)
    assert json.loads(written[hold_facts.RECORD]) == json.loads(record(NAMES, "2026-11-26"))
    rules = re.findall(r'^    "(.*)";$', written[hold_facts.BLACKLIST], re.MULTILINE)
    assert [rule for rule in rules if re.match(rule, "nvidia-container-toolkit")] == []
    assert [name for name in NAMES if any(re.match(rule, name) for rule in rules)] == NAMES
    assert not any(re.match(rule, "libnvidia-compute-extra") for rule in rules)
    assert [(d.path, d.before, d.after) for d in plan.differences if d.what == "package"] == [
        (name, None, "held") for name in NAMES
    ]
    told = {"release": "580.82.07", "reason": "CUDA 12 until March"}
    assert read_all_coded(plan.advice) == [("hold.begins", told)]


def test_a_host_as_it_should_be_is_left_alone_and_its_age_is_said() -> None:
    there = {
        hold_facts.RECORD: record(NAMES),
        hold_facts.BLACKLIST: hold_blacklist.build_blacklist(NAMES),
    }
    plan = holding.plan_hold(HOLD, facts(as_held(DRIVER), there))
    assert plan.empty
    ((code, values),) = read_all_coded(plan.advice)
    assert (code, values["since"], values["days"]) == ("hold.since", "2026-11-01", 25)


DATES = [
    # a date as a host has it in the record; whether the hold is as old as that
    ("2026-11-01", True),
    ("x" * 100000, False),
    ("2026-11-01 by a person", False),
    ("20261101", False),
    (20261101, False),
    (None, False),
    (["2026-11-01"], False),
]


@pytest.mark.parametrize(("since", "old"), DATES)
def test_a_date_of_a_record_is_shown_if_it_is_one(since: Any, old: bool) -> None:
    there = {
        hold_facts.RECORD: record(NAMES, since),
        hold_facts.BLACKLIST: hold_blacklist.build_blacklist(NAMES),
    }
    plan = holding.plan_hold(HOLD, facts(as_held(DRIVER), there))
    assert [code for code, _values in read_all_coded(plan.advice)] == [
        "hold.since" if old else "hold.begins"
    ]
    assert plan.empty is old


def test_the_hold_of_a_release_that_has_moved_begins_again() -> None:
    """A rollout releases it for a change of the driver, and the same run holds the new one."""
    there = {hold_facts.RECORD: record(NAMES, release="570.172.08")}
    plan = holding.plan_hold(HOLD, facts(DRIVER, there))
    assert plan.commands[0]["argv"] == ["apt-mark", "hold", *NAMES]
    assert json.loads(files_of(plan)[hold_facts.RECORD]) == json.loads(record(NAMES, "2026-11-26"))


def test_what_a_person_has_held_stays_theirs() -> None:
    plan = holding.plan_hold(HOLD, facts([*as_held(DRIVER[:1]), *DRIVER[1:]]))
    assert plan.commands[0]["argv"] == ["apt-mark", "hold", *NAMES[1:]]
    assert json.loads(files_of(plan)[hold_facts.RECORD])["packages"] == NAMES[1:]
    assert ("hold.of-others", {"packages": NAMES[0]}) in read_all_coded(plan.advice)
    there = {
        hold_facts.RECORD: record(NAMES[1:]),
        hold_facts.BLACKLIST: hold_blacklist.build_blacklist(NAMES),
    }
    back = holding.plan_absent(facts(as_held(DRIVER), there))
    assert [command["argv"] for command in back.commands] == [["apt-mark", "unhold", *NAMES[1:]]]


def test_a_package_that_came_later_joins_the_hold_and_the_date_stays() -> None:
    there = {
        hold_facts.RECORD: record(NAMES[:1]),
        hold_facts.BLACKLIST: hold_blacklist.build_blacklist(NAMES[:1]),
    }
    plan = holding.plan_hold(HOLD, facts([*as_held(DRIVER[:1]), *DRIVER[1:]], there))
    assert plan.commands[0]["argv"] == ["apt-mark", "hold", *NAMES[1:]]
    assert json.loads(files_of(plan)[hold_facts.RECORD]) == json.loads(record(NAMES))


def test_a_package_that_is_gone_leaves_the_record() -> None:
    there = {
        hold_facts.RECORD: record(NAMES),
        hold_facts.BLACKLIST: hold_blacklist.build_blacklist(NAMES),
    }
    plan = holding.plan_hold(HOLD, facts(as_held(DRIVER[:2]), there))
    assert plan.commands == ()
    assert json.loads(files_of(plan)[hold_facts.RECORD])["packages"] == [NAMES[0], NAMES[2]]


NEWER: list[tuple[str, str]] = [
    # what apt offers, the release that the hold keeps back
    ("580.82.07-1", ""),
    ("580.95.05-1", "580.95.05"),
    ("580.126.09-1", "580.126.09"),
    ("595.45.04-1", ""),  # another branch
    ("580.65.06-1", ""),
    ("", ""),
]


@pytest.mark.parametrize(("offered", "release"), NEWER)
def test_what_a_hold_keeps_back(offered: str, release: str) -> None:
    like = [row("libnvidia-compute 580.82.07-1", offered=offered, held=True)]
    told = read_all_coded(holding.plan_hold(HOLD, facts(like)).advice)
    kept = [values["version"] for code, values in told if code == "hold.keeps-back"]
    assert kept == ([release] if release else [])


def test_built_modules_are_held_with_what_brings_the_next_kernel() -> None:
    like = [
        row("libnvidia-compute-535-server 535.183.01-0ubuntu1", UBUNTU),
        row("linux-modules-nvidia-535-server-5.15.0-112-generic 5.15.0-112.122", UBUNTU),
        row("linux-modules-nvidia-535-server-generic 5.15.0-112.122", UBUNTU),
        row("linux-generic 5.15.0.112.112", UBUNTU),
        row("linux-image-generic 5.15.0.112.112", UBUNTU),
        row("linux-image-5.15.0-112-generic 5.15.0-112.122", UBUNTU),
        row("linux-headers-generic-hwe-22.04 6.5.0.41", UBUNTU),
        row("linux-base 4.5", UBUNTU),
        row("linux-firmware 2022", UBUNTU),
        row("linux-libc-dev 5.15", UBUNTU),
    ]
    (command,) = holding.plan_hold(HOLD, facts(like)).commands
    assert command["argv"][2:] == [
        "libnvidia-compute-535-server",
        "linux-generic",
        "linux-headers-generic-hwe-22.04",
        "linux-image-generic",
        "linux-modules-nvidia-535-server-generic",
    ]


OWN_PACKAGES: list[tuple[str, str, bool]] = [
    # a package of the owner's, its version, whether it is of the driver
    ("acme-nvidia-setup", "2026.10.1", False),
    ("nvidia-acme-exporter", "120.1-2", False),
    ("libnvidia-acme-rebuilt", "580.82.07-1acme1", True),
]


@pytest.mark.parametrize(("name", "version", "part"), OWN_PACKAGES)
def test_a_package_of_nvidias_name_is_no_part_by_its_name(
    name: str, version: str, part: bool
) -> None:
    like = [*DRIVER[:1], row(f"{name} {version}", "Acme IT <it@acme.example>")]
    (command,) = holding.plan_hold(HOLD, facts(like)).commands
    assert command["argv"][2:] == [*([name] if part else []), NAMES[0]]


def test_kernels_of_a_host_with_dkms_are_not_held() -> None:
    like = [*DRIVER, row("linux-image-amd64 6.1.119-1", "Debian Kernel Team")]
    (command,) = holding.plan_hold(HOLD, facts(like)).commands
    assert command["argv"][2:] == NAMES


REFUSED: list[tuple[str, list[list[Any]], dict[str, Any], str, str, str]] = [
    # what is wrong, packages, files, package database, system, the code
    ("no driver by packages", [TOOLKIT], {}, "dpkg", "debian", "hold.nothing-installed"),
    (
        "parts of several versions",
        [*DRIVER, row("libnvidia-encode 550.90.07-1")],
        {},
        "dpkg",
        "debian",
        "hold.several-releases",
    ),
    ("dnf without its plugin", RPMS, {}, "rpm", "rhel", "hold.no-versionlock"),
    (
        "a conflict in the file of locks",
        RPMS,
        {**DNF4, LOCKS4: shown(0, "bash-5.1\n<<<<<<< HEAD\nnvidia*\n")},
        "rpm",
        "rhel",
        "hold.locks-unread",
    ),
    (
        "a lock with blanks in it",
        RPMS,
        {**DNF4, LOCKS4: shown(0, "# ours\nnvidia driver\n")},
        "rpm",
        "rhel",
        "hold.locks-unread",
    ),
    (
        "no TOML",
        RPMS,
        {package_locks.DNF5: "", LOCKS5: shown(1, 'version = "1.0"\n[[packages]\n')},
        "rpm",
        "fedora",
        "hold.locks-unread",
    ),
    (
        "the plugin is switched off",
        RPMS,
        {package_locks.VERSIONLOCK: "[main]\nenabled = 0\n"},
        "rpm",
        "rhel",
        "hold.versionlock-off",
    ),
    (
        "all plugins are switched off",
        RPMS,
        {**DNF4, package_locks.DNF_MAIN: "[main]\nplugins = False\n"},
        "rpm",
        "rhel",
        "hold.versionlock-off",
    ),
    (
        "the folder of the locks is still to be made",
        RPMS,
        ELSEWHERE,
        "rpm",
        "rhel",
        "hold.locks-distrusted",
    ),
    (
        "the locks are in a file of another user",
        RPMS,
        {**ELSEWHERE, "/srv": {"type": "dir"}, "/srv/locks": {"content": "", "uid": 1000}},
        "rpm",
        "rhel",
        "hold.locks-distrusted",
    ),
    (
        "the locks are in a directory of another user",
        RPMS,
        {**ELSEWHERE, "/srv": {"type": "dir", "untrusted": "/srv is not root's"}},
        "rpm",
        "rhel",
        "hold.locks-distrusted",
    ),
    (
        "the file of locks has no path",
        RPMS,
        {package_locks.VERSIONLOCK: "[main]\nlocklist = locks\n"},
        "rpm",
        "rhel",
        "hold.locks-distrusted",
    ),
    (
        "a library of two builds, by an interrupted run",
        [*RPMS, row("nvidia-driver-cuda-libs 3:580.82.07-2.el9")],
        DNF4,
        "rpm",
        "rhel",
        "hold.unfinished",
    ),
    (
        "the record is another's",
        DRIVER,
        {hold_facts.RECORD: "{}"},
        "dpkg",
        "debian",
        "hold.record-of-others",
    ),
    (
        "the file for unattended-upgrades is another's",
        DRIVER,
        {hold_facts.BLACKLIST: "// of a person\n"},
        "dpkg",
        "debian",
        "hold.record-of-others",
    ),
]


@pytest.mark.parametrize(
    ("like", "files", "database", "system", "code"),
    [c[1:] for c in REFUSED],
    ids=[c[0] for c in REFUSED],
)
def test_what_is_refused(
    like: list[list[Any]], files: dict[str, Any], database: str, system: str, code: str
) -> None:
    with pytest.raises(PlanError) as refused:
        holding.plan_hold(HOLD, facts(like, files, database=database, system=system))
    assert refused.value.message.code == code


HALF: list[tuple[str, list[list[Any]], list[list[Any]], bool]] = [
    # what dpkg has left, the installed packages, the unfinished ones, whether it counts
    ("a library is unpacked", DRIVER[1:], [["libnvidia-compute", "unpacked", False]], True),
    ("nothing else is installed", [], [["libnvidia-compute", "half-installed", False]], True),
    ("a held one is half configured", DRIVER, [["nvidia-smi", "half-configured", True]], True),
    ("a built module", DRIVER, [["linux-modules-nvidia-580-6.8", "unpacked", False]], True),
    ("the toolkit", DRIVER, [["nvidia-container-toolkit", "half-configured", False]], False),
    ("a tool of its own", DRIVER, [["nvidia-settings", "half-configured", False]], False),
    ("a kernel", DRIVER, [["linux-image-6.8.0-90-generic", "half-configured", False]], False),
]


@pytest.mark.parametrize(
    ("like", "half", "counts"), [c[1:] for c in HALF], ids=[c[0] for c in HALF]
)
def test_a_driver_that_dpkg_has_not_finished_is_not_held(
    like: list[list[Any]], half: list[list[Any]], counts: bool
) -> None:
    known = facts(like, half=half)
    if counts:
        with pytest.raises(PlanError) as refused:
            holding.plan_hold(HOLD, known)
        assert refused.value.message.code == "hold.unfinished"
        assert refused.value.message.values["packages"] == f"{half[0][0]} ({half[0][1]})"
    else:
        assert holding.plan_hold(HOLD, known).commands != ()


def test_a_hold_of_a_package_that_dpkg_has_not_finished_is_taken_back() -> None:
    there = {hold_facts.RECORD: record(NAMES)}
    half = [[NAMES[0], "half-configured", True], [NAMES[1], "unpacked", False]]
    known = facts(as_held(DRIVER[1:2]), there, Policy(state="absent"), half=half)
    (command,) = holding.plan_absent(known).commands
    assert command["argv"] == ["apt-mark", "unhold", NAMES[2], NAMES[0]]


@pytest.mark.parametrize("running", ["", "580.82.07"])
def test_a_hold_of_the_running_driver(running: str) -> None:
    assert holding.plan_hold(HOLD, facts(DRIVER), running).commands[0]["argv"][2:] == NAMES


def test_packages_of_another_driver_than_the_running_one_are_not_held() -> None:
    """As a .run file leaves them, for example."""
    with pytest.raises(PlanError) as refused:
        holding.plan_hold(HOLD, facts(DRIVER), "580.95.05")
    assert refused.value.message.code == "hold.another-runs"


def test_a_package_of_another_architecture_is_held_beside_its_twin() -> None:
    both = [*DRIVER[:1], row("libnvidia-compute:i386 580.82.07-1")]
    plan = holding.plan_hold(HOLD, facts(both))
    names = ["libnvidia-compute", "libnvidia-compute:i386"]
    assert plan.commands[0]["argv"] == ["apt-mark", "hold", *names]
    rules = re.findall(r'^    "(.*)";$', files_of(plan)[hold_facts.BLACKLIST], re.MULTILINE)
    assert [name for name in names if any(re.match(rule, name) for rule in rules)] == names
    there = {
        hold_facts.RECORD: record(names),
        hold_facts.BLACKLIST: hold_blacklist.build_blacklist(names),
    }
    assert holding.plan_hold(HOLD, facts(as_held(both), there)).empty
    back = holding.plan_absent(facts(as_held(both), there, Policy(state="absent")))
    assert back.commands[0]["argv"] == ["apt-mark", "unhold", *names]


def test_a_transitional_package_is_no_part() -> None:
    like = [*DRIVER, row("libnvidia-compute-590 590.1-1", UBUNTU)]
    plan = holding.plan_hold(HOLD, facts(like, empty=["libnvidia-compute-590"]))
    assert plan.commands[0]["argv"][2:] == NAMES


PINS = "Package: libnvidia-*\nPin: version 580.82.07-1\nPin-Priority: 1001\n"


def test_a_pin_of_a_person_is_said_beside_the_hold() -> None:
    plan = holding.plan_hold(HOLD, facts(DRIVER, {apt_pins.PIN_FILE: PINS}))
    assert plan.commands[0]["argv"][2:] == NAMES
    told = {"path": apt_pins.PIN_FILE, "packages": "libnvidia-compute"}
    assert ("hold.pinned", told) in read_all_coded(plan.advice)


def test_a_tree_is_refused() -> None:
    policy = Policy(driver="hold", root="/srv/image")
    with pytest.raises(PlanError) as refused:
        holding.plan_hold(policy, facts(DRIVER, policy=policy))
    assert refused.value.message.code == "hold.cannot-hold"


@pytest.mark.parametrize("driver", ["advise", "absent"])
def test_a_hold_is_taken_back_with_its_cause(driver: str) -> None:
    policy = Policy() if driver == "advise" else Policy(state="absent")
    there = {
        hold_facts.RECORD: record(NAMES),
        hold_facts.BLACKLIST: hold_blacklist.build_blacklist(NAMES),
    }
    # a person has released one of them, and holds the toolkit
    like = [*as_held(DRIVER[:2]), DRIVER[2], *as_held([TOOLKIT])]
    known = facts(like, there, policy)
    plan = holding.plan_absent(known) if driver == "absent" else holding.plan_hold(policy, known)
    (command,) = plan.commands
    assert command["argv"] == ["apt-mark", "unhold", NAMES[0], NAMES[2]]
    assert command["undo"] == ["apt-mark", "hold", NAMES[0], NAMES[2]]
    assert files_of(plan) == {hold_facts.RECORD: "remove", hold_facts.BLACKLIST: "remove"}
    lowering.require_causes(plan)


@pytest.mark.parametrize("text", [None, "{}", "no JSON", '{"writer": "another"}'])
def test_without_its_record_a_hold_is_not_taken_back(text: str | None) -> None:
    files = {} if text is None else {hold_facts.RECORD: text}
    assert holding.plan_absent(facts(as_held(DRIVER), files)) == Plan()


BROKEN = '{"writer": "gpufleet.nvidia", "packages": ["libnvidia-compute"'


UNREADABLE = {"error": {"kind": "failed", "message": "Input/output error"}}


@pytest.mark.parametrize("file", [BROKEN, UNREADABLE], ids=["broken", "unreadable"])
def test_a_record_that_cannot_be_read_is_no_host_without_a_hold(file: Any) -> None:
    known = facts(as_held(DRIVER), {hold_facts.RECORD: file}, Policy())
    with pytest.raises(PlanError):
        holding.plan_absent(known)
    plan = holding.plan_hold(Policy(), known)
    assert plan.empty
    assert [code for code, _values in read_all_coded(plan.advice)] == ["hold.not-withdrawn"]


def test_a_file_for_unattended_upgrades_without_a_record_is_taken_back() -> None:
    files = {hold_facts.BLACKLIST: hold_blacklist.build_blacklist(NAMES)}
    policy = Policy(state="absent")
    plan = holding.plan_absent(facts(DRIVER, files, policy))
    assert files_of(plan) == {hold_facts.BLACKLIST: "remove"}
    assert holding.plan_hold(Policy(), facts(DRIVER, files, Policy())) == Plan()


def test_what_is_no_part_any_more_is_released() -> None:
    """Modules that were built have gone, so that the kernel moves again."""
    kernel = row("linux-image-generic 5.15.0.112.112", UBUNTU, held=True)
    names = [*NAMES, "linux-image-generic"]
    there = {
        hold_facts.RECORD: record(names),
        hold_facts.BLACKLIST: hold_blacklist.build_blacklist(names),
    }
    plan = holding.plan_hold(HOLD, facts([*as_held(DRIVER), kernel], there))
    (command,) = plan.commands
    assert command["argv"] == ["apt-mark", "unhold", "linux-image-generic"]
    assert command["undo"] == ["apt-mark", "hold", "linux-image-generic"]
    assert json.loads(files_of(plan)[hold_facts.RECORD])["packages"] == NAMES
    assert "linux-image-generic" not in files_of(plan)[hold_facts.BLACKLIST]


def test_ignore_leaves_a_hold_as_it_is() -> None:
    policy = Policy(driver="ignore")
    files = {hold_facts.RECORD: record(NAMES)}
    assert holding.plan_hold(policy, facts(as_held(DRIVER), files, policy)) == Plan()


def test_an_approval_binds_the_record_without_its_day() -> None:
    one, other = (
        holding.plan_hold(HOLD, facts(DRIVER, now=now)).lasting for now in (NOW, NOW + 9 * DAY)
    )
    assert one == other != {}


def test_a_record_of_very_many_names_is_read_up_to_what_a_host_may_have() -> None:
    names = [f"nvidia-{n}" for n in range(hold_record.MOST_RECORDED + 1)]
    known = facts([], {hold_facts.RECORD: record(names)})
    assert hold_record.read_record(known)[0] == tuple(names[:-1])
