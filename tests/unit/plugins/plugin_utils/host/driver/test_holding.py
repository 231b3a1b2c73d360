# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that is held as one: commands, files, and what a person has held before."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import lowering
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    holding,
    package_movers,
)

from tests.unit.builders import obs
from tests.unit.coded import read_all_coded

NVIDIA = "cudatools <cudatools@nvidia.com>"
UBUNTU = "Ubuntu Core developers <ubuntu-devel-discuss@lists.ubuntu.com>"
DAY = 86_400
NOW = 20_783 * DAY + 3_600  # 2026-11-26
HOLD = Policy(driver="hold", driver_hold_reason="CUDA 12 until March")


def row(text: str, by: str = NVIDIA, offered: str = "", *, held: bool = False) -> list[Any]:
    return [*text.split(" "), by, held, offered]


DRIVER = [
    row("libnvidia-compute 580.82.07-1"),
    row("nvidia-kernel-open-dkms 580.82.07-1"),
    row("nvidia-fabricmanager 580.82.07-1"),
]
NAMES = ["libnvidia-compute", "nvidia-fabricmanager", "nvidia-kernel-open-dkms"]
TOOLKIT = row("nvidia-container-toolkit 1.20.2-1")
RPMS = [
    row("nvidia-driver-cuda-libs 3:580.82.07-1.el9"),
    row("kmod-nvidia-open-dkms 3:580.82.07-1.el9"),
]
RPM_NAMES = ["kmod-nvidia-open-dkms", "nvidia-driver-cuda-libs"]


def as_held(rows: list[list[Any]]) -> list[list[Any]]:
    return [[*package[:3], True, package[4]] for package in rows]


def facts(
    like: list[list[Any]],
    files: dict[str, Any] | None = None,
    policy: Policy = HOLD,
    database: str = "dpkg",
    system: str = "debian",
    now: float = NOW,
    originals: dict[str, Any] | None = None,
) -> holding.HoldingFacts:
    asked = driver_packages.get_package_question(policy)
    given = {
        asked["id"]: {"manager": database, "installed": {}, "like": like},
        "package:of this test": {"manager": database, "installed": {}, "candidates": {}},
    }
    seen = obs(
        files=files or {},
        answers=given,
        originals=originals,
        host={"epoch": now, "os_release": {"ID": system}, "kernel": ""},
    )
    return holding.read_holding_facts(policy, seen)


def record(names: list[str], since: str = "2026-11-01", **more: Any) -> str:
    values = {
        "writer": "gpufleet.nvidia",
        "schema": 1,
        "manager": "apt",
        "reason": HOLD.driver_hold_reason,
        "release": "580.82.07",
        "since": since,
        "packages": names,
        **more,
    }
    return json.dumps(values, indent=1, sort_keys=True) + "\n"


def files_of(plan: Plan) -> dict[str, str]:
    return {change["path"]: change.get("content", change["op"]) for change in plan.changes}


def test_a_host_whose_driver_is_not_held_yet() -> None:
    plan = holding.plan_hold(HOLD, facts([*DRIVER, TOOLKIT]))
    (command,) = plan.commands
    assert command["argv"] == ["apt-mark", "hold", *NAMES]
    assert command["undo"] == ["apt-mark", "unhold", *NAMES]
    written = files_of(plan)
    assert json.loads(written[holding.RECORD]) == json.loads(record(NAMES, "2026-11-26"))
    rules = re.findall(r'^    "(.*)";$', written[holding.BLACKLIST], re.MULTILINE)
    assert [rule for rule in rules if re.match(rule, "nvidia-container-toolkit")] == []
    assert [name for name in NAMES if any(re.match(rule, name) for rule in rules)] == NAMES
    assert not any(re.match(rule, "libnvidia-compute-extra") for rule in rules)
    assert [(d.path, d.before, d.after) for d in plan.differences if d.what == "package"] == [
        (name, None, "held") for name in NAMES
    ]
    assert read_all_coded(plan.advice) == [
        (
            "hold.since",
            {
                "release": "580.82.07",
                "since": "2026-11-26",
                "days": 0,
                "reason": "CUDA 12 until March",
            },
        )
    ]


def test_a_host_as_it_should_be_is_left_alone_and_its_age_is_said() -> None:
    there = {
        holding.RECORD: record(NAMES),
        holding.BLACKLIST: holding.build_blacklist(NAMES),
    }
    plan = holding.plan_hold(HOLD, facts(as_held(DRIVER), there))
    assert plan.empty
    ((code, values),) = read_all_coded(plan.advice)
    assert (code, values["since"], values["days"]) == ("hold.since", "2026-11-01", 25)


def test_the_hold_of_a_release_that_has_moved_begins_again() -> None:
    """A rollout releases it for a change of the driver, and the same run holds the new one."""
    there = {holding.RECORD: record(NAMES, release="570.172.08")}
    plan = holding.plan_hold(HOLD, facts(DRIVER, there))
    assert plan.commands[0]["argv"] == ["apt-mark", "hold", *NAMES]
    assert json.loads(files_of(plan)[holding.RECORD]) == json.loads(record(NAMES, "2026-11-26"))


def test_what_a_person_has_held_stays_theirs() -> None:
    plan = holding.plan_hold(HOLD, facts([*as_held(DRIVER[:1]), *DRIVER[1:]]))
    assert plan.commands[0]["argv"] == ["apt-mark", "hold", *NAMES[1:]]
    assert json.loads(files_of(plan)[holding.RECORD])["packages"] == NAMES[1:]
    assert ("hold.of-others", {"packages": NAMES[0]}) in read_all_coded(plan.advice)
    there = {holding.RECORD: record(NAMES[1:]), holding.BLACKLIST: holding.build_blacklist(NAMES)}
    back = holding.plan_absent(facts(as_held(DRIVER), there))
    assert [command["argv"] for command in back.commands] == [["apt-mark", "unhold", *NAMES[1:]]]


def test_a_package_that_came_later_joins_the_hold_and_the_date_stays() -> None:
    there = {
        holding.RECORD: record(NAMES[:1]),
        holding.BLACKLIST: holding.build_blacklist(NAMES[:1]),
    }
    plan = holding.plan_hold(HOLD, facts([*as_held(DRIVER[:1]), *DRIVER[1:]], there))
    assert plan.commands[0]["argv"] == ["apt-mark", "hold", *NAMES[1:]]
    assert json.loads(files_of(plan)[holding.RECORD]) == json.loads(record(NAMES))


def test_a_package_that_is_gone_leaves_the_record() -> None:
    there = {
        holding.RECORD: record(NAMES),
        holding.BLACKLIST: holding.build_blacklist(NAMES),
    }
    plan = holding.plan_hold(HOLD, facts(as_held(DRIVER[:2]), there))
    assert plan.commands == ()
    assert json.loads(files_of(plan)[holding.RECORD])["packages"] == [NAMES[0], NAMES[2]]


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


LOCKS4, LOCKS5, LOCKSZ = package_movers.LOCKS


def test_dnf_locks_what_has_no_lock() -> None:
    there = {holding.VERSIONLOCK: "[main]\n", LOCKS4: "kmod-nvidia-open-dkms-3:580.82.07-1.el9.*\n"}
    plan = holding.plan_hold(HOLD, facts(RPMS, there, database="rpm", system="rhel"))
    (command,) = plan.commands
    assert command["argv"] == [*holding.HOLDERS["dnf"].hold, RPM_NAMES[1]]
    assert command["undo"] == [*holding.HOLDERS["dnf"].release, RPM_NAMES[1]]
    assert holding.BLACKLIST not in files_of(plan)
    assert ("hold.of-others", {"packages": RPM_NAMES[0]}) in read_all_coded(plan.advice)


@pytest.mark.parametrize(
    ("sign", "keeps"), [("=", True), ("<=", True), ("!=", False), (">=", False)]
)
def test_a_condition_of_dnf_5_keeps_a_driver_or_not(sign: str, keeps: bool) -> None:
    entry = '[[packages]]\nname = "{}"\ncomment = "x"\n[[packages.conditions]]\nkey = "evr"\n'
    text = "".join(
        f'{entry.format(name)}comparator = "{by}"\nvalue = "3:580.82.07-1.el9"\n'
        for name, by in zip(RPM_NAMES, ("=", sign), strict=True)
    )
    told = shown(1, f'version = "1.0"\n{text}')
    there = {holding.DNF5: "", LOCKS5: told}
    plan = holding.plan_hold(HOLD, facts(RPMS, there, database="rpm", system="fedora"))
    locked = [word for command in plan.commands for word in command["argv"] if word in RPM_NAMES]
    assert locked == ([] if keeps else RPM_NAMES[1:])


def test_zypper_locks() -> None:
    plan = holding.plan_hold(HOLD, facts(RPMS, database="rpm", system="opensuse-leap"))
    assert plan.commands[0]["argv"] == [*holding.HOLDERS["zypper"].hold, *RPM_NAMES]


def shown(number: int, text: str) -> dict[str, Any]:
    """Return a file of locks as it arrives."""
    keep = package_movers.LOCK_KEEPS[number]
    told = contents.show_content(text.encode(), keep, package_movers.LOCKS[number])
    return {key: told[key] for key in ("content", "fault")}


OTHERS = row("libnvidia-compute 550.90.07-1")
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
        {holding.VERSIONLOCK: "", LOCKS4: shown(0, "bash-5.1\n<<<<<<< HEAD\nnvidia*\n")},
        "rpm",
        "rhel",
        "hold.locks-unread",
    ),
    (
        "a lock with blanks in it",
        RPMS,
        {holding.VERSIONLOCK: "", LOCKS4: shown(0, "# ours\nnvidia driver\n")},
        "rpm",
        "rhel",
        "hold.locks-unread",
    ),
    (
        "no TOML",
        RPMS,
        {holding.DNF5: "", LOCKS5: shown(1, 'version = "1.0"\n[[packages]\n')},
        "rpm",
        "fedora",
        "hold.locks-unread",
    ),
    (
        "the record is another's",
        DRIVER,
        {holding.RECORD: "{}"},
        "dpkg",
        "debian",
        "hold.record-of-others",
    ),
    (
        "the file for unattended-upgrades is another's",
        DRIVER,
        {holding.BLACKLIST: "// of a person\n"},
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


def test_a_tree_is_refused() -> None:
    policy = Policy(driver="hold", root="/srv/image")
    with pytest.raises(PlanError) as refused:
        holding.plan_hold(policy, facts(DRIVER, policy=policy))
    assert refused.value.message.code == "hold.cannot-hold"


@pytest.mark.parametrize("driver", ["advise", "absent"])
def test_a_hold_is_taken_back_with_its_cause(driver: str) -> None:
    policy = Policy() if driver == "advise" else Policy(state="absent")
    there = {
        holding.RECORD: record(NAMES),
        holding.BLACKLIST: holding.build_blacklist(NAMES),
    }
    # a person has released one of them, and holds the toolkit
    like = [*as_held(DRIVER[:2]), DRIVER[2], *as_held([TOOLKIT])]
    known = facts(like, there, policy)
    plan = holding.plan_absent(known) if driver == "absent" else holding.plan_hold(policy, known)
    (command,) = plan.commands
    assert command["argv"] == ["apt-mark", "unhold", NAMES[0], NAMES[2]]
    assert command["undo"] == ["apt-mark", "hold", NAMES[0], NAMES[2]]
    assert files_of(plan) == {holding.RECORD: "remove", holding.BLACKLIST: "remove"}
    lowering.require_causes(plan)


@pytest.mark.parametrize("text", [None, "{}", "no JSON", '{"writer": "another"}'])
def test_without_its_record_a_hold_is_not_taken_back(text: str | None) -> None:
    files = {} if text is None else {holding.RECORD: text}
    assert holding.plan_absent(facts(as_held(DRIVER), files)) == Plan()


BROKEN = '{"writer": "gpufleet.nvidia", "packages": ["libnvidia-compute"'
UNREADABLE = {"error": {"kind": "failed", "message": "Input/output error"}}


@pytest.mark.parametrize("file", [BROKEN, UNREADABLE], ids=["broken", "unreadable"])
def test_a_record_that_cannot_be_read_is_no_host_without_a_hold(file: Any) -> None:
    known = facts(as_held(DRIVER), {holding.RECORD: file}, Policy())
    with pytest.raises(PlanError):
        holding.plan_absent(known)
    plan = holding.plan_hold(Policy(), known)
    assert plan.empty
    assert [code for code, _values in read_all_coded(plan.advice)] == ["hold.not-withdrawn"]


def test_a_file_for_unattended_upgrades_without_a_record_is_taken_back() -> None:
    files = {holding.BLACKLIST: holding.build_blacklist(NAMES)}
    policy = Policy(state="absent")
    plan = holding.plan_absent(facts(DRIVER, files, policy))
    assert files_of(plan) == {holding.BLACKLIST: "remove"}
    assert holding.plan_hold(Policy(), facts(DRIVER, files, Policy())) == Plan()


def test_what_is_no_part_any_more_is_released() -> None:
    """Modules that were built have gone, so that the kernel moves again."""
    kernel = row("linux-image-generic 5.15.0.112.112", UBUNTU, held=True)
    names = [*NAMES, "linux-image-generic"]
    there = {holding.RECORD: record(names), holding.BLACKLIST: holding.build_blacklist(names)}
    plan = holding.plan_hold(HOLD, facts([*as_held(DRIVER), kernel], there))
    (command,) = plan.commands
    assert command["argv"] == ["apt-mark", "unhold", "linux-image-generic"]
    assert command["undo"] == ["apt-mark", "hold", "linux-image-generic"]
    assert json.loads(files_of(plan)[holding.RECORD])["packages"] == NAMES
    assert "linux-image-generic" not in files_of(plan)[holding.BLACKLIST]


OF_ZYPPER = "type: package\nsolvable_name: {}\n"
GONE: list[tuple[str, str, str, str, list[str] | None]] = [
    # the manager, its file, its lock of a package that is gone, the system, how it is made again
    ("dnf", LOCKS4, "nvidia-driver-3:580.82.07-1.el9.*\n", "rhel", None),
    ("dnf", LOCKS5, '[[packages]]\nname = "nvidia-driver"\n', "fedora", None),
    ("zypper", LOCKSZ, OF_ZYPPER.format("nvidia-driver"), "opensuse-leap", ["nvidia-driver"]),
]


@pytest.mark.parametrize(("manager", "path", "text", "system", "again"), GONE)
def test_a_lock_outlives_its_package_and_is_taken_back(
    manager: str, path: str, text: str, system: str, again: list[str] | None
) -> None:
    names = ["nvidia-driver", "nvidia-driver-libs", "*", 5, {}]
    there = {holding.RECORD: record(names, manager=manager), path: text}
    holder = holding.HOLDERS[manager]
    known = facts([], there, Policy(), "rpm", system)
    for plan in (holding.plan_absent(known), holding.plan_hold(Policy(), known)):
        (command,) = plan.commands
        assert command["argv"] == [*holder.release, "nvidia-driver"]
        assert command["undo"] == (again and [*holder.hold, *again])
        assert files_of(plan) == {holding.RECORD: "remove"}


def test_ignore_leaves_a_hold_as_it_is() -> None:
    policy = Policy(driver="ignore")
    files = {holding.RECORD: record(NAMES)}
    assert holding.plan_hold(policy, facts(as_held(DRIVER), files, policy)) == Plan()


def test_an_approval_binds_the_record_without_its_day() -> None:
    one, other = (
        holding.plan_hold(HOLD, facts(DRIVER, now=now)).lasting for now in (NOW, NOW + 9 * DAY)
    )
    assert one == other != {}
