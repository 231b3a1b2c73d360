# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The locks by which a hold keeps packages of RPM: by the version that they name, in dnf's and zypper's own files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    hold_commands,
    hold_facts,
    holding,
    package_locks,
)

from tests.unit.coded import read_all_coded
from tests.unit.driver_holds import (
    DNF4,
    DRIVER,
    ELSEWHERE,
    HOLD,
    LOCKS4,
    LOCKS5,
    LOCKSZ,
    NAMES,
    RPMS,
    facts,
    files_of,
    record,
    shown,
)

RPM_NAMES = ["kmod-nvidia-open-dkms", "nvidia-driver-cuda-libs"]


OF_ZYPPER = "type: package\nsolvable_name: {}\n"


LINES = {name: f"{name}-3:580.82.07-1.el9" for name in RPM_NAMES}


def locked(plan: Plan) -> list[str]:
    """Return the packages that a plan has dnf lock."""
    adds = [c["argv"] for c in plan.commands if c["argv"][: len(ADD)] == [*ADD]]
    return [word for argv in adds for word in argv[len(ADD) :]]


ADD = hold_commands.HOLDERS["dnf"].hold


def test_dnf_locks_what_has_no_lock() -> None:
    kmod, libs = LINES.values()
    there = {**DNF4, LOCKS4: f"{kmod}.*\n"}
    plan = holding.plan_hold(HOLD, facts(RPMS, there, database="rpm", system="rhel"))
    (command,) = plan.commands
    assert command["argv"] == [*hold_commands.HOLDERS["dnf"].hold, libs]
    assert command["undo"] == [*hold_commands.EDITOR, "-e", hold_commands.write_edit(libs), LOCKS4]
    assert hold_facts.BLACKLIST not in files_of(plan)
    assert json.loads(files_of(plan)[hold_facts.RECORD])["locks"] == [libs]
    assert ("hold.of-others", {"packages": RPM_NAMES[0]}) in read_all_coded(plan.advice)


def test_dnf_5_releases_by_its_own_command() -> None:
    there = {package_locks.DNF5: ""}
    plan = holding.plan_hold(HOLD, facts(RPMS, there, database="rpm", system="fedora"))
    (command,) = plan.commands
    assert command["argv"] == [*ADD, *LINES.values()]
    assert command["undo"] == [*hold_commands.HOLDERS["dnf"].release, *RPM_NAMES]


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
    there = {**DNF4, hold_facts.RECORD: mine, LOCKS4: f"# mine\n{old}.*\n"}
    plan = holding.plan_hold(HOLD, facts(RPMS[:1], there, database="rpm", system="rhel"))
    assert [command["argv"] for command in plan.commands] == [
        [*hold_commands.EDITOR, "-e", hold_commands.write_edit(old), LOCKS4],
        [*ADD, LINES[NVIDIA_LIBS]],
    ]
    assert json.loads(files_of(plan)[hold_facts.RECORD])["locks"] == [LINES[NVIDIA_LIBS]]


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
    edit = [*hold_commands.EDITOR, "-e", hold_commands.write_edit(OURS), str(link)]
    subprocess.run(edit, check=True)
    assert (link.is_symlink(), file.read_text()) == (True, after)


def test_zypper_locks() -> None:
    plan = holding.plan_hold(HOLD, facts(RPMS, database="rpm", system="opensuse-leap"))
    assert plan.commands[0]["argv"] == [*hold_commands.HOLDERS["zypper"].hold, *RPM_NAMES]


def test_zypper_heeds_no_file_of_dnf() -> None:
    there = {package_locks.VERSIONLOCK: "[main]\nenabled = 0\n", LOCKS4: "<<<<<<< HEAD\n"}
    plan = holding.plan_hold(HOLD, facts(RPMS, there, database="rpm", system="opensuse-leap"))
    assert plan.commands[0]["argv"] == [*hold_commands.HOLDERS["zypper"].hold, *RPM_NAMES]


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
        [*hold_commands.EDITOR, "-e", hold_commands.write_edit(GONE_LOCK), LOCKS4],
        None,
    ),
    (
        "dnf",
        LOCKS5,
        OF_DNF5,
        "fedora",
        [*hold_commands.HOLDERS["dnf"].release, "nvidia-driver"],
        None,
    ),
    (
        "zypper",
        LOCKSZ,
        OF_ZYPPER.format("nvidia-driver"),
        "opensuse-leap",
        [*hold_commands.HOLDERS["zypper"].release, "nvidia-driver"],
        [*hold_commands.HOLDERS["zypper"].hold, "nvidia-driver"],
    ),
]


@pytest.mark.parametrize(("manager", "path", "text", "system", "argv", "again"), GONE)
def test_a_lock_outlives_its_package_and_is_taken_back(
    manager: str, path: str, text: str, system: str, argv: list[str], again: list[str] | None
) -> None:
    names = ["nvidia-driver", "nvidia-driver-libs", "*", 5, {}]
    there = {hold_facts.RECORD: record(names, manager=manager, locks=[GONE_LOCK]), path: text}
    there.update({package_locks.DNF5: ""} if path == LOCKS5 else {})
    known = facts([], there, Policy(), "rpm", system)
    for plan in (holding.plan_absent(known), holding.plan_hold(Policy(), known)):
        (command,) = plan.commands
        assert (command["argv"], command["undo"]) == (argv, again)
        assert files_of(plan) == {hold_facts.RECORD: "remove"}


def test_a_lock_of_a_person_stays_beside_ours() -> None:
    theirs = "kmod-nvidia-open-dkms-3:580.82.07-1.el9"
    mine = record([NVIDIA_LIBS], manager="dnf", locks=[OURS])
    there = {**DNF4, hold_facts.RECORD: mine, LOCKS4: f"{theirs}.*\n{OURS}.*\n"}
    known = facts(RPMS, there, Policy(state="absent"), "rpm", "rhel")
    (command,) = holding.plan_absent(known).commands
    assert command["argv"] == [*hold_commands.EDITOR, "-e", hold_commands.write_edit(OURS), LOCKS4]
    assert command["undo"] == [*ADD, OURS]


def test_a_file_of_locks_that_others_can_change_is_not_edited() -> None:
    """dnf.conf excludes the packages, so that they count as held, and a lock may be ours."""
    there = {
        package_locks.VERSIONLOCK: "[main]\nlocklist = /srv/locks\n",
        package_locks.DNF_MAIN: "[main]\nexclude=*nvidia*\n",
        "/srv": {"type": "dir"},
        "/srv/locks": {"content": f"{OURS}.*\n", "uid": 1000},
        hold_facts.RECORD: record([NVIDIA_LIBS], manager="dnf", locks=[OURS]),
    }
    known = facts(RPMS, there, Policy(state="absent"), "rpm", "rhel")
    plan = holding.plan_absent(known)
    why = ("keeping.list-not-roots", {"path": "/srv/locks"})
    values = {"path": package_locks.VERSIONLOCK, "packages": NVIDIA_LIBS, "why": why}
    assert (plan.commands, read_all_coded(plan.advice)) == ((), [("hold.locks-left", values)])
    of_root = {**there, "/srv/locks": f"{OURS}.*\n"}
    (command,) = holding.plan_absent(facts(RPMS, of_root, Policy(), "rpm", "rhel")).commands
    assert command["argv"][-1] == "/srv/locks"


SWITCHES = {"enabled": (package_locks.VERSIONLOCK, "enabled"), "plugins": (package_locks.DNF_MAIN, "plugins")}  # fmt: skip


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_lock_is_taken_back_while_its_plugin_is_off(switch: str) -> None:
    """It would hold the package again, as soon as a person switches the plugin on."""
    path, option = SWITCHES[switch]
    theirs = "kmod-nvidia-open-dkms-3:580.82.07-1.el9"
    mine = record([NVIDIA_LIBS], manager="dnf", locks=[OURS])
    excluded = {package_locks.DNF_MAIN: "[main]\nexclude=*nvidia*\n"}
    off = {**excluded, path: f"[main]\n{option} = 0\nexclude=*nvidia*\n"}
    lines = f"{theirs}.*\n{OURS}.*\n{NVIDIA_LIBS}-3:570.1-1.el9.*\n"
    there = {**DNF4, **off, hold_facts.RECORD: mine, LOCKS4: lines}
    plan = holding.plan_absent(facts(RPMS, there, Policy(state="absent"), "rpm", "rhel"))
    (command,) = plan.commands
    edit = [*hold_commands.EDITOR, "-e", hold_commands.write_edit(OURS), LOCKS4]
    # dnf has no command that locks a package then
    assert (command["argv"], command["undo"]) == (edit, None)
    assert files_of(plan) == {hold_facts.RECORD: "remove"}
