# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that is held as one: commands, files, and what a person has held before."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
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
    apt_pins,
    driver_packages,
    holding,
    package_locks,
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
    **more: list[Any],
) -> holding.HoldingFacts:
    asked = driver_packages.get_package_question(policy)
    given = {
        asked["id"]: {"manager": database, "installed": {}, "like": like, **more},
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
    told = {"release": "580.82.07", "reason": "CUDA 12 until March"}
    assert read_all_coded(plan.advice) == [("hold.begins", told)]


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


LOCKS4, LOCKS5, LOCKSZ = package_locks.LOCKS


OF_ZYPPER = "type: package\nsolvable_name: {}\n"
LINES = {name: f"{name}-3:580.82.07-1.el9" for name in RPM_NAMES}
DNF4 = {package_locks.VERSIONLOCK: "[main]\nenabled = 1\n"}


def locked(plan: Plan) -> list[str]:
    """Return the packages that a plan has dnf lock."""
    adds = [c["argv"] for c in plan.commands if c["argv"][: len(ADD)] == [*ADD]]
    return [word for argv in adds for word in argv[len(ADD) :]]


ADD = holding.HOLDERS["dnf"].hold


def test_dnf_locks_what_has_no_lock() -> None:
    kmod, libs = LINES.values()
    there = {**DNF4, LOCKS4: f"{kmod}.*\n"}
    plan = holding.plan_hold(HOLD, facts(RPMS, there, database="rpm", system="rhel"))
    (command,) = plan.commands
    assert command["argv"] == [*holding.HOLDERS["dnf"].hold, libs]
    assert command["undo"] == [*holding.EDITOR, "-e", holding.write_edit(libs), LOCKS4]
    assert holding.BLACKLIST not in files_of(plan)
    assert json.loads(files_of(plan)[holding.RECORD])["locks"] == [libs]
    assert ("hold.of-others", {"packages": RPM_NAMES[0]}) in read_all_coded(plan.advice)


def test_dnf_5_releases_by_its_own_command() -> None:
    there = {package_locks.DNF5: ""}
    plan = holding.plan_hold(HOLD, facts(RPMS, there, database="rpm", system="fedora"))
    (command,) = plan.commands
    assert command["argv"] == [*ADD, *LINES.values()]
    assert command["undo"] == [*holding.HOLDERS["dnf"].release, *RPM_NAMES]


NVIDIA_LIBS = "nvidia-driver-cuda-libs"
# As dnf 4.14 does with a newer release in its repository. The last column: whether the package
# stays (kept), moves as without a lock (free), or cannot be held beside this lock (refused).
LINES_OF_DNF4: list[tuple[str, str]] = [
    (f"{NVIDIA_LIBS}-3:580.82.07-1.el9.*", "kept"),
    (f"{NVIDIA_LIBS}-3:580.82.07-1.el9.x86_64", "kept"),
    (f"{NVIDIA_LIBS}-580.82.07-1.el9", "kept"),
    (f"{NVIDIA_LIBS}-580.82.07*", "kept"),
    ("*nvidia*-3:580.82.07-1.el9.*", "kept"),
    (f"!{NVIDIA_LIBS}-3:590.1-1.el9.*", "free"),
    ("nvidia-driver-3:580.82.07-1.el9.*", "free"),
    (f"{NVIDIA_LIBS}-3:580.95.05-1.el9.*", "refused"),
    (f"{NVIDIA_LIBS}-3:570.1-1.el9.*", "refused"),
    (f"{NVIDIA_LIBS}-2:580.82.07-1.el9.*", "refused"),
    (f"{NVIDIA_LIBS}-3:580*", "refused"),
    (f"{NVIDIA_LIBS}-3:580.82.07-1.el9.*\n{NVIDIA_LIBS}-3:580.95.05-1.el9.*", "refused"),
    (NVIDIA_LIBS, "refused"),
    ("*nvidia*", "refused"),
]


@pytest.mark.parametrize(("lines", "outcome"), LINES_OF_DNF4)
def test_a_lock_of_dnf_4_counts_by_the_version_that_it_names(lines: str, outcome: str) -> None:
    there = {**DNF4, LOCKS4: shown(0, f"{lines}\n")}
    known = facts(RPMS[:1], there, database="rpm", system="rhel")
    if outcome == "refused":
        with pytest.raises(PlanError) as refused:
            holding.plan_hold(HOLD, known)
        assert (refused.value.message.code, refused.value.where) == (
            "hold.locked-otherwise",
            LOCKS4,
        )
    else:
        assert locked(holding.plan_hold(HOLD, known)) == (
            [] if outcome == "kept" else [LINES[NVIDIA_LIBS]]
        )


CONDITION = '[[packages.conditions]]\nkey = "{}"\ncomparator = "{}"\nvalue = "{}"\n'
EVR = "3:580.82.07-1.el9"
ENTRIES_OF_DNF5: list[tuple[list[tuple[str, str, str]], str]] = [
    # the conditions of an entry, and what becomes of the package
    ([("evr", "=", EVR)], "kept"),
    ([("evr", "==", EVR)], "kept"),
    ([("evr", "<=", EVR)], "kept"),
    ([("arch", "=", "x86_64"), ("evr", "=", EVR)], "kept"),
    ([], "free"),  # an entry without a condition locks nothing
    ([("evr", "!=", EVR)], "refused"),
    ([("evr", ">=", EVR)], "refused"),
    ([("evr", "<", "3:590")], "refused"),
    ([("evr", "=", "580.82.07-1.el9")], "refused"),  # without its epoch
    ([("evr", "<=", "3:580.95.05-1.el9")], "refused"),
    ([("evr", "=", "3:570.1-1.el9")], "refused"),
    ([("arch", "=", "x86_64")], "refused"),
]


@pytest.mark.parametrize(("conditions", "outcome"), ENTRIES_OF_DNF5)
def test_a_lock_of_dnf_5_counts_by_the_version_that_it_names(
    conditions: list[tuple[str, str, str]], outcome: str
) -> None:
    entry = f'version = "1.0"\n[[packages]]\nname = "{NVIDIA_LIBS}"\ncomment = "x"\n'
    text = entry + "".join(CONDITION.format(*condition) for condition in conditions)
    there = {package_locks.DNF5: "", LOCKS5: shown(1, text)}
    known = facts(RPMS[:1], there, database="rpm", system="fedora")
    if outcome == "refused":
        with pytest.raises(PlanError) as refused:
            holding.plan_hold(HOLD, known)
        assert (refused.value.message.code, refused.value.where) == (
            "hold.locked-otherwise",
            LOCKS5,
        )
    else:
        assert locked(holding.plan_hold(HOLD, known)) == (
            [] if outcome == "kept" else [LINES[NVIDIA_LIBS]]
        )


NAMED = f'name = "{NVIDIA_LIBS}"\n'
NO_LOCKS: list[tuple[str, str]] = [
    # what the file of dnf 5 is like, its text
    (
        "another format",
        f'version = "2.0"\n[[packages]]\n{NAMED}{CONDITION.format("evr", "=", EVR)}',
    ),
    ("no format", f"[[packages]]\n{NAMED}{CONDITION.format('evr', '=', EVR)}"),
    ("a table for an array", f'version = "1.0"\n[packages]\n{NAMED}'),
    ("a text for a table", f'version = "1.0"\npackages = ["{NVIDIA_LIBS}"]\n'),
    ("a text for conditions", f'version = "1.0"\n[[packages]]\n{NAMED}conditions = "x"\n'),
]


@pytest.mark.parametrize("text", [c[1] for c in NO_LOCKS], ids=[c[0] for c in NO_LOCKS])
def test_a_file_of_dnf_5_that_locks_nothing(text: str) -> None:
    there = {package_locks.DNF5: "", LOCKS5: text}
    known = facts(RPMS[:1], there, database="rpm", system="fedora")
    assert locked(holding.plan_hold(HOLD, known)) == [LINES[NVIDIA_LIBS]]


def test_a_hold_follows_a_driver_that_was_moved_past_its_lock() -> None:
    """By rpm itself, for example, which asks no plugin of dnf."""
    old = f"{NVIDIA_LIBS}-3:570.1-1.el9"
    mine = record([NVIDIA_LIBS], release="570.1", manager="dnf", locks=[old])
    there = {**DNF4, holding.RECORD: mine, LOCKS4: f"# mine\n{old}.*\n"}
    plan = holding.plan_hold(HOLD, facts(RPMS[:1], there, database="rpm", system="rhel"))
    assert [command["argv"] for command in plan.commands] == [
        [*holding.EDITOR, "-e", holding.write_edit(old), LOCKS4],
        [*ADD, LINES[NVIDIA_LIBS]],
    ]
    assert json.loads(files_of(plan)[holding.RECORD])["locks"] == [LINES[NVIDIA_LIBS]]


ADDED = "\n# Added lock on Sun Nov 29 03:00:35 2026\n"
OURS = LINES[NVIDIA_LIBS]
EDITED: list[tuple[str, str]] = [
    # a file of locks, and what is left of it
    (f"# mine\nbash-0:5-1.*\n{ADDED}{OURS}.*\n", "# mine\nbash-0:5-1.*\n"),
    (f"{ADDED}{OURS}.*\n", ""),
    (f"{ADDED}{OURS}.*\n# mine\n", "# mine\n"),
    (f"# mine\n{OURS}.*\n\n# too\n", "# mine\n\n# too\n"),
    (f"# mine\n{OURS}.*", "# mine\n"),
    (f"{ADDED}{OURS}.*\n{ADDED}bash-0:5-1.*\n", f"{ADDED}bash-0:5-1.*\n"),
    (f"#{OURS}.*\n{OURS}.x86_64\n!{OURS}.*\n", f"#{OURS}.*\n{OURS}.x86_64\n!{OURS}.*\n"),
    (f"{OURS.replace('.', 'x')}.*\n", f"{OURS.replace('.', 'x')}.*\n"),
]


@pytest.mark.parametrize(("before", "after"), EDITED)
def test_every_byte_of_a_file_of_locks_stays_that_is_not_ours(
    tmp_path: Path, before: str, after: str
) -> None:
    file, link = tmp_path / "versionlock.list", tmp_path / "link"
    file.write_text(before)
    link.symlink_to(file)
    edit = [*holding.EDITOR, "-e", holding.write_edit(OURS), str(link)]
    subprocess.run(edit, check=True)
    assert (link.is_symlink(), file.read_text()) == (True, after)


def test_zypper_locks() -> None:
    plan = holding.plan_hold(HOLD, facts(RPMS, database="rpm", system="opensuse-leap"))
    assert plan.commands[0]["argv"] == [*holding.HOLDERS["zypper"].hold, *RPM_NAMES]


def test_zypper_heeds_no_file_of_dnf() -> None:
    there = {package_locks.VERSIONLOCK: "[main]\nenabled = 0\n", LOCKS4: "<<<<<<< HEAD\n"}
    plan = holding.plan_hold(HOLD, facts(RPMS, there, database="rpm", system="opensuse-leap"))
    assert plan.commands[0]["argv"] == [*holding.HOLDERS["zypper"].hold, *RPM_NAMES]


OTHER_MANAGERS: list[tuple[str, str, list[list[Any]], dict[str, str], list[str]]] = [
    # package database, system, packages, files of managers that do not move them, what is held
    (
        "dpkg",
        "debian",
        DRIVER,
        {LOCKS4: "*nvidia*-580.82.07-1\n", LOCKSZ: OF_ZYPPER.format("*nvidia*")},
        NAMES,
    ),
    ("dpkg", "debian", DRIVER, {package_locks.DNF_MAIN: "[main]\nexclude=*nvidia*\n"}, NAMES),
    ("rpm", "rhel", RPMS, {**DNF4, LOCKSZ: OF_ZYPPER.format("*nvidia*")}, list(LINES.values())),
    ("rpm", "fedora", RPMS, {package_locks.DNF5: "", LOCKSZ: OF_ZYPPER.format("*nvidia*")}, list(LINES.values())),
    ("rpm", "opensuse-leap", RPMS, {**DNF4, LOCKS4: "".join(f"{line}.*\n" for line in LINES.values())}, RPM_NAMES),
    ("rpm", "opensuse-leap", RPMS, {package_locks.DNF_MAIN: "[main]\nexclude=*nvidia*\n"}, RPM_NAMES),
    # a lock of zypper that is about patches
    ("rpm", "opensuse-leap", RPMS, {LOCKSZ: OF_ZYPPER.replace("package", "patch").format("*nvidia*")}, RPM_NAMES),
]  # fmt: skip


@pytest.mark.parametrize(("database", "system", "like", "files", "held"), OTHER_MANAGERS)
def test_what_another_manager_keeps_is_not_held(
    database: str, system: str, like: list[list[Any]], files: dict[str, str], held: list[str]
) -> None:
    text = files.get(LOCKSZ)
    there = {**files, **({LOCKSZ: shown(2, text)} if text else {})}
    plan = holding.plan_hold(HOLD, facts(like, there, database=database, system=system))
    (command,) = plan.commands
    assert command["argv"][-len(held) :] == held
    assert "hold.of-others" not in [code for code, _values in read_all_coded(plan.advice)]


def shown(number: int, text: str) -> dict[str, Any]:
    """Return a file of locks as it arrives."""
    keep = package_locks.LOCK_KEEPS[number]
    told = contents.show_content(text.encode(), keep, package_locks.LOCKS[number])
    return {key: told[key] for key in ("content", "fault")}


ELSEWHERE = {package_locks.VERSIONLOCK: "[main]\nlocklist = /srv/locks\n"}
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


def test_locks_elsewhere_count_if_they_are_roots() -> None:
    there = {**ELSEWHERE, "/srv": {"type": "dir"}, "/srv/locks": f"{OURS}.*\n"}
    plan = holding.plan_hold(HOLD, facts(RPMS, there, database="rpm", system="rhel"))
    (command,) = plan.commands
    assert command["argv"] == [*ADD, LINES["kmod-nvidia-open-dkms"]]
    assert command["undo"][-1] == "/srv/locks"


def test_dnf_5_has_no_plugin_that_is_switched_off() -> None:
    off = {package_locks.DNF_MAIN: "[main]\nplugins = 0\n", package_locks.DNF5: ""}
    known = facts(RPMS, off, database="rpm", system="fedora")
    assert locked(holding.plan_hold(HOLD, known)) == [*LINES.values()]
    # beside dnf 4, dnf 5 is not the program that `dnf` starts
    both = {**off, package_locks.DNF4: {"real": "/usr/bin/dnf-3"}, **DNF4}
    with pytest.raises(PlanError) as refused:
        holding.plan_hold(HOLD, facts(RPMS, both, database="rpm", system="fedora"))
    assert refused.value.message.code == "hold.versionlock-off"


HALF: list[tuple[str, list[list[Any]], list[list[Any]], bool]] = [
    # what dpkg has left, packages that are installed, those that are not finished, whether it counts
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
    there = {holding.RECORD: record(NAMES)}
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
    rules = re.findall(r'^    "(.*)";$', files_of(plan)[holding.BLACKLIST], re.MULTILINE)
    assert [name for name in names if any(re.match(rule, name) for rule in rules)] == names
    there = {holding.RECORD: record(names), holding.BLACKLIST: holding.build_blacklist(names)}
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


GONE_LOCK = "nvidia-driver-3:580.82.07-1.el9"
OF_DNF5 = (
    f'version = "1.0"\n[[packages]]\nname = "nvidia-driver"\n{CONDITION.format("evr", "=", EVR)}'
)
GONE: list[tuple[str, str, str, str, list[str], list[str] | None]] = [
    # the manager, its file, its lock of a package that is gone, the system, how it is taken out,
    # how it is made again
    (
        "dnf",
        LOCKS4,
        f"{GONE_LOCK}.*\n",
        "rhel",
        [*holding.EDITOR, "-e", holding.write_edit(GONE_LOCK), LOCKS4],
        None,
    ),
    ("dnf", LOCKS5, OF_DNF5, "fedora", [*holding.HOLDERS["dnf"].release, "nvidia-driver"], None),
    (
        "zypper",
        LOCKSZ,
        OF_ZYPPER.format("nvidia-driver"),
        "opensuse-leap",
        [*holding.HOLDERS["zypper"].release, "nvidia-driver"],
        [*holding.HOLDERS["zypper"].hold, "nvidia-driver"],
    ),
]


@pytest.mark.parametrize(("manager", "path", "text", "system", "argv", "again"), GONE)
def test_a_lock_outlives_its_package_and_is_taken_back(
    manager: str, path: str, text: str, system: str, argv: list[str], again: list[str] | None
) -> None:
    names = ["nvidia-driver", "nvidia-driver-libs", "*", 5, {}]
    there = {holding.RECORD: record(names, manager=manager, locks=[GONE_LOCK]), path: text}
    there.update({package_locks.DNF5: ""} if path == LOCKS5 else {})
    known = facts([], there, Policy(), "rpm", system)
    for plan in (holding.plan_absent(known), holding.plan_hold(Policy(), known)):
        (command,) = plan.commands
        assert (command["argv"], command["undo"]) == (argv, again)
        assert files_of(plan) == {holding.RECORD: "remove"}


def test_a_lock_of_a_person_stays_beside_ours() -> None:
    theirs = "kmod-nvidia-open-dkms-3:580.82.07-1.el9"
    mine = record([NVIDIA_LIBS], manager="dnf", locks=[OURS])
    there = {**DNF4, holding.RECORD: mine, LOCKS4: f"{theirs}.*\n{OURS}.*\n"}
    known = facts(RPMS, there, Policy(state="absent"), "rpm", "rhel")
    (command,) = holding.plan_absent(known).commands
    assert command["argv"] == [*holding.EDITOR, "-e", holding.write_edit(OURS), LOCKS4]
    assert command["undo"] == [*ADD, OURS]


def test_a_file_of_locks_that_others_can_change_is_not_edited() -> None:
    """dnf.conf excludes the packages, so that they count as held, and a lock may be ours."""
    there = {
        package_locks.VERSIONLOCK: "[main]\nlocklist = /srv/locks\n",
        package_locks.DNF_MAIN: "[main]\nexclude=*nvidia*\n",
        "/srv": {"type": "dir"},
        "/srv/locks": {"content": f"{OURS}.*\n", "uid": 1000},
        holding.RECORD: record([NVIDIA_LIBS], manager="dnf", locks=[OURS]),
    }
    known = facts(RPMS, there, Policy(state="absent"), "rpm", "rhel")
    assert holding.plan_absent(known).commands == ()
    of_root = {**there, "/srv/locks": f"{OURS}.*\n"}
    (command,) = holding.plan_absent(facts(RPMS, of_root, Policy(), "rpm", "rhel")).commands
    assert command["argv"][-1] == "/srv/locks"


def test_ignore_leaves_a_hold_as_it_is() -> None:
    policy = Policy(driver="ignore")
    files = {holding.RECORD: record(NAMES)}
    assert holding.plan_hold(policy, facts(as_held(DRIVER), files, policy)) == Plan()


def test_an_approval_binds_the_record_without_its_day() -> None:
    one, other = (
        holding.plan_hold(HOLD, facts(DRIVER, now=now)).lasting for now in (NOW, NOW + 9 * DAY)
    )
    assert one == other != {}


def test_a_record_of_very_many_names_is_read_up_to_what_a_host_may_have() -> None:
    names = [f"nvidia-{n}" for n in range(holding.MOST_RECORDED + 1)]
    known = facts([], {holding.RECORD: record(names)})
    assert holding.read_record(known)[0] == tuple(names[:-1])
