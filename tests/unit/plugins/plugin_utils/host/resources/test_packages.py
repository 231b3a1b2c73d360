# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's packages: what is installed, in which version, by which command."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    RUNTIME_BINARY,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    installers,
    packages,
    repository,
)

from tests.unit.builders import obs
from tests.unit.coded import read_all_coded
from tests.unit.records import record

BASE, HOOK, TOOLS, LIBRARY = (
    packages.BASE,
    "nvidia-container-toolkit",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
ALL = (HOOK, BASE, TOOLS, LIBRARY)
CDI, LEGACY = Policy(), Policy(cdi="disabled")
NEW, OLD = "1.20.1-1", "1.19.0-1"


def planned(
    policy: Policy,
    installed: dict[str, str],
    offered: str = NEW,
    manager: str = "dpkg",
    os_id: str = "debian",
    **files: Any,
) -> Plan:
    seen = obs(
        packages=installed,
        candidates=dict.fromkeys(packages.FAMILY, offered) if offered else {},
        files=files.get("files", {RUNTIME_BINARY: ""} if installed else {}),
        host={"os_release": {"ID": os_id, "ID_LIKE": ""}},
        answers={
            repository.SOURCES["id"]: {"files": files.get("sources") or []},
            **(files.get("answers") or {}),
        },
    )
    seen.answers["package:of this test"]["manager"] = manager
    return packages.plan_packages(policy, packages.read_toolkit_facts(seen), record(policy))


@pytest.mark.parametrize(
    ("manager", "os_id", "step"),
    [
        ("dpkg", "debian", "apt-get install --reinstall"),
        ("rpm", "rhel", "dnf reinstall"),
        ("rpm", "opensuse-leap", "zypper install --force"),
    ],
)
def test_a_package_whose_program_is_gone_is_told_with_what_brings_it_back(
    manager: str, os_id: str, step: str
) -> None:
    """The package manager counts it as installed, so no run would install it again."""
    plan = planned(CDI, {BASE: NEW}, manager=manager, os_id=os_id, files={})
    assert not plan.commands
    assert [f"{step} {BASE}" in said for said in plan.advice] == [True]
    assert not planned(
        Policy(root="/mnt/image"), {BASE: NEW}, manager=manager, os_id=os_id, files={}
    ).advice


@pytest.mark.parametrize(
    ("case", "policy", "installed", "exact"),
    [
        ("CDI takes the base package", CDI, {}, [f"{BASE}={NEW}"]),
        ("legacy takes the hook and its tools", LEGACY, {}, [f"{p}={NEW}" for p in ALL]),
        ("what is there stays", CDI, {BASE: OLD}, None),
        (
            "what is there says the version of the rest",
            LEGACY,
            {BASE: OLD},
            [f"{p}={OLD}" for p in ALL],
        ),
        ("more than needed is no harm", CDI, dict.fromkeys(ALL, NEW), None),
        ("the user's version", Policy(toolkit_version=NEW), {BASE: OLD}, [f"{BASE}={NEW}"]),
        (
            "the user's version without packaging",
            Policy(toolkit_version="1.20.1"),
            {BASE: OLD},
            [f"{BASE}={NEW}"],
        ),
        (
            "a version that no list has yet",
            Policy(toolkit_version="1.21.0"),
            {BASE: OLD},
            [f"{BASE}=1.21.0-*"],
        ),
        (
            "all that is installed moves together",
            Policy(toolkit_version=NEW),
            {BASE: OLD, HOOK: OLD},
            [f"{BASE}={NEW}", f"{HOOK}={NEW}"],
        ),
        ("the user's version is there", Policy(toolkit_version="1.20.1"), {BASE: NEW}, None),
        (
            "one of the family is behind",
            Policy(toolkit_version="1.20.1"),
            {BASE: NEW, HOOK: OLD},
            [f"{BASE}={NEW}", f"{HOOK}={NEW}"],
        ),
    ],
)
def test_apt(case: str, policy: Policy, installed: dict[str, str], exact: list[str] | None) -> None:
    plan = planned(policy, installed)
    if exact is None:
        assert plan == Plan(), case
        return
    argv = plan.commands[-1]["argv"]
    assert argv[:4] == ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install"]
    assert [a for a in argv if "nvidia" in a and "=" in a] == exact, case
    assert {"-y", "--no-install-recommends", "Dpkg::Options::=--force-confold"} <= set(argv)
    assert ("--allow-downgrades" in argv) == bool(policy.toolkit_version)
    assert all(d.what == "package" and d.why for d in plan.differences)


MIXED: list[tuple[str, Policy, dict[str, str], str]] = [
    # where it was told, the policy, what is installed, the code of the advice
    (
        "NVIDIA/nvidia-container-toolkit#1091",
        LEGACY,
        {**dict.fromkeys(ALL, NEW), HOOK: OLD},
        "packages.mixed-versions",
    ),
    (
        "NVIDIA/nvidia-docker#1355: one more than is needed",
        CDI,
        {BASE: NEW, LIBRARY: OLD},
        "packages.mixed-versions",
    ),
    (
        "packages are left alone",
        Policy(packages="ignore"),
        {BASE: NEW, HOOK: OLD},
        "packages.mixed-versions-kept",
    ),
    ("in a tree", Policy(root="/srv/tree"), {BASE: NEW, HOOK: OLD}, "packages.mixed-versions-kept"),
    ("two builds of one release", CDI, {BASE: "1.20.1-1", HOOK: "1.20.1-2"}, ""),
    ("one release", LEGACY, dict.fromkeys(ALL, NEW), ""),
]


@pytest.mark.parametrize(
    ("policy", "installed", "code"), [row[1:] for row in MIXED], ids=[row[0] for row in MIXED]
)
def test_packages_of_two_releases_are_named(
    policy: Policy, installed: dict[str, str], code: str
) -> None:
    plan = planned(policy, installed)
    assert not plan.acts
    found = [values["versions"] for of, values in read_all_coded(plan.advice) if of == code]
    versions = ", ".join(
        f"{name} {installed[name]}" for name in packages.FAMILY if name in installed
    )
    assert found == ([versions] if code else [])
    assert [get_code(text) for text in plan.advice if "mixed" in get_code(text)] == (
        [code] if code else []
    )


@pytest.mark.parametrize(
    ("case", "policy", "offered", "refreshed"),
    [
        ("known to the lists", CDI, NEW, False),
        ("not known", CDI, "", True),
        ("not known, but pinned", Policy(toolkit_version="1.20.1"), "", True),
    ],
)
def test_lists_are_refreshed_only_where_they_lack_something(
    case: str, policy: Policy, offered: str, refreshed: bool
) -> None:
    plan = planned(policy, {}, offered)
    assert (["apt-get", "update"] in [c["argv"] for c in plan.commands]) == refreshed, case
    assert plan.commands[-1]["argv"][-1].partition("=")[0] == BASE


INSTALL = [
    "dnf",
    "install",
    "-y",
    "--setopt=*.skip_if_unavailable=1",
    "--setopt=metadata_expire=1",
    "--setopt=install_weak_deps=False",
]


@pytest.mark.parametrize(
    ("os_id", "policy", "argv"),
    [
        ("rocky", CDI, [*INSTALL, BASE]),
        ("fedora", Policy(toolkit_version="1.20.1"), [*INSTALL, f"{BASE}-1.20.1"]),
        ("opensuse-leap", CDI, ["zypper", "--non-interactive", "install", "--no-recommends", BASE]),
        (
            "suse",
            Policy(toolkit_version="1.20.1"),
            [
                "zypper",
                "--non-interactive",
                "install",
                "--no-recommends",
                "--oldpackage",
                f"{BASE}=1.20.1",
            ],
        ),
    ],
)
def test_rpm(os_id: str, policy: Policy, argv: list[str]) -> None:
    assert [c["argv"] for c in planned(policy, {}, "", "rpm", os_id).commands] == [argv]


CONFIGURED = [{"path": "/etc/yum.repos.d/gpufleet-nvidia.repo", "type": "file"}]
TWO = f"  | {BASE} | package | {NEW}\n  | {BASE} | package | {OLD}\n"
COMES: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    # distribution, sources of the packages, the package manager's answer -> the version that the
    # plan names
    "dnf knows": ("rocky", CONFIGURED, {"rc": 0, "stdout": f"{BASE} {NEW}\n"}, f"{BASE}-{NEW}"),
    "dnf has not accepted the repository's key yet": (
        "rocky",
        CONFIGURED,
        {"rc": 1, "stdout": ""},
        BASE,
    ),
    "the repository is yet to come, and dnf is not started": ("rocky", [], {}, BASE),
    "zypper knows two": ("suse", CONFIGURED, {"rc": 0, "stdout": TWO}, f"{BASE}={NEW}"),
    "zypper could not read it": (
        "suse",
        CONFIGURED,
        {"rc": 104, "stdout": installers.UNREAD},
        BASE,
    ),
}


@pytest.mark.parametrize(("os_id", "sources", "answer", "word"), COMES.values(), ids=COMES)
def test_the_plan_says_which_version_comes(
    os_id: str, sources: list[Any], answer: dict[str, Any], word: str
) -> None:
    question = (
        installers.ask_for_available_versions("zypper" if os_id == "suse" else "dnf", BASE) or {}
    )
    plan = planned(
        CDI,
        {},
        "",
        "rpm",
        os_id,
        sources=sources,
        answers={question["id"]: answer} if answer else {},
    )
    assert plan.commands[0]["argv"][-1] == word
    assert [d.after for d in plan.differences] == [NEW if NEW in word else "the repository's"]


def test_zypper_waits_for_the_lock_and_a_broken_repository_beside_ours_is_no_failure() -> None:
    (command,) = planned(CDI, {}, "", "rpm", "suse").commands
    assert (command["env"], command["accepts"]) == ({"ZYPP_LOCK_TIMEOUT": "120"}, [106])


def test_an_upgrade_warns_of_the_reload_and_a_first_installation_does_not() -> None:
    assert "packages.systemd-reloads" in map(
        get_code, planned(Policy(toolkit_version=NEW), {BASE: OLD}).advice
    )
    assert planned(CDI, {}).advice == ()


@pytest.mark.parametrize("policy", [Policy(packages="ignore"), Policy(root="/srv/tree")])
def test_nothing_is_installed_where_that_is_not_wanted(policy: Policy) -> None:
    plan = planned(policy, {})
    assert plan.commands == ()
    beneath = "" if policy.root == "/" else "-beneath-root"
    values = {"packages": BASE, "program": "nvidia-container-runtime"}
    assert (f"packages.stays-missing{beneath}", values) in read_all_coded(plan.advice)
    assert planned(policy, {}, files={"/usr/bin/nvidia-container-runtime": ""}).advice == ()


def test_a_host_that_is_skipped_gets_nothing() -> None:
    assert (
        packages.plan_packages(CDI, packages.read_toolkit_facts(obs()), record(skipped="no GPU"))
        == Plan()
    )


def test_a_host_whose_packages_are_left_alone_is_not_asked_for_offers() -> None:
    asked, _runtime = packages.list_questions(Policy(packages="ignore"))
    assert "candidates" not in asked
    assert (
        {**asked, "candidates": "first missing"}
        == packages.QUESTION
        == packages.list_questions(Policy())[0]
    )


def test_a_host_that_has_the_base_package_is_asked_for_offers_of_the_others_only_when_it_needs_them() -> (
    None
):
    """Asking apt takes longer than the rest of a look, and a converged host would be asked each
    time.
    """
    assert packages.QUESTION["names"][0] == BASE
    assert packages.QUESTION["candidates"] == "first missing"
    assert planned(CDI, {BASE: OLD}, "") == Plan()
    with pytest.raises(NeedMore) as asked:
        planned(LEGACY, {BASE: OLD, TOOLS: OLD}, "")
    assert asked.value.questions == [
        {**queries.ask_for_packages([HOOK, LIBRARY]), "candidates": True}
    ]
    answer = {
        "manager": "dpkg",
        "installed": {HOOK: None, LIBRARY: None},
        "candidates": {HOOK: OLD, LIBRARY: OLD},
    }
    seen = obs(packages={BASE: OLD, TOOLS: OLD}, answers={asked.value.questions[0]["id"]: answer})
    seen.answers["package:of this test"]["manager"] = "dpkg"
    (install,) = packages.plan_packages(
        LEGACY, packages.read_toolkit_facts(seen), record(LEGACY)
    ).commands
    assert [word for word in install["argv"] if "nvidia" in word] == [
        f"{name}={OLD}" for name in ALL
    ]


DNF, ZYPPER = (
    installers.ask_for_available_versions(name, BASE) or {} for name in ("dnf", "zypper")
)
OTHERS, CACHED = installers.list_questions_without_repository("dnf", BASE)
FOUND, NOTHING, FAILS = (
    {"rc": 0, "stdout": f"{BASE} {NEW}\n"},
    {"rc": 0, "stdout": ""},
    {"rc": 1, "stdout": ""},
)


def told(first: dict[str, Any], others: dict[str, Any], cached: dict[str, Any]) -> dict[str, Any]:
    """The answers of dnf: from all repositories, from the ones that it can read, from its last
    read.
    """
    return {"answers": {DNF["id"]: first, OTHERS["id"]: others, CACHED["id"]: cached}}


UNREAD = f"{installers.UNREAD}.\nNo matching items found.\n"
OFFERED: dict[str, tuple[str, str, dict[str, Any], bool]] = {
    # package database, distribution, what is known -> whether a configured repository has the base
    # package
    "apt knows it": ("dpkg", "debian", {"candidates": {BASE: NEW}}, True),
    "apt does not": ("dpkg", "debian", {"candidates": {BASE: None}}, False),
    "it is installed, in another version": ("dpkg", "debian", {"packages": {BASE: OLD}}, True),
    "dnf finds it": ("rpm", "rocky", {"answers": {DNF["id"]: {"rc": 0, "stdout": f"{BASE} {NEW}\n"}}}, True),
    "dnf5 ends no line": ("rpm", "fedora", {"answers": {DNF["id"]: {"rc": 0, "stdout": f"{BASE} {NEW}"}}}, True),
    "dnf finds nothing": ("rpm", "rocky", {"answers": {DNF["id"]: {"rc": 0, "stdout": ""}}}, False),
    "dnf cannot read a repository, and another has it": ("rpm", "rocky", told(FAILS, FOUND, {}), True),
    "dnf cannot read a repository that had it": ("rpm", "rocky", told(FAILS, NOTHING, FOUND), True),
    "dnf cannot read a repository that did not have it": ("rpm", "rocky", told(FAILS, NOTHING, NOTHING), False),
    "dnf could not even pass over it, and had read all": ("rpm", "rocky", told(FAILS, FAILS, NOTHING), False),
    "zypper finds it": ("rpm", "suse", {"answers": {ZYPPER["id"]: {"rc": 0, "stdout": f"  | {BASE} | package | {NEW}"}}}, True),
    "zypper finds it, and a repository is broken": (
        "rpm", "suse", {"answers": {ZYPPER["id"]: {"rc": 106, "stdout": f"{installers.UNREAD}\n  | {BASE} | package | {NEW}"}}}, True),
    "zypper has no repository": ("rpm", "suse", {"answers": {ZYPPER["id"]: {"rc": 6, "stdout": ""}}}, False),
    "zypper finds nothing": ("rpm", "suse", {"answers": {ZYPPER["id"]: {"rc": 104, "stdout": ""}}}, False),
}  # fmt: skip


def is_offered(seen: Observation) -> bool:
    return packages.are_packages_offered(packages.read_toolkit_facts(seen), [BASE])


def known(manager: str, os_id: str, **there: Any) -> Any:
    seen = obs(**{"packages": {BASE: None}, "host": {"os_release": {"ID": os_id}}, **there})
    seen.answers["package:of this test"]["manager"] = manager
    return seen


@pytest.mark.parametrize(("manager", "os_id", "there", "offered"), OFFERED.values(), ids=OFFERED)
def test_whether_a_configured_repository_has_it(
    manager: str, os_id: str, there: dict[str, Any], offered: bool
) -> None:
    assert is_offered(known(manager, os_id, **there)) is offered


FAILED = {"candidates_error": "apt-cache policy ended with exit status 100"}


def test_apt_that_cannot_tell_is_not_taken_for_one_that_has_nothing() -> None:
    seen = known("dpkg", "debian")
    seen.answers["package:of this test"].update(FAILED)
    with pytest.raises(PlanError) as caught:
        is_offered(seen)
    values = {"command": f"apt-cache policy {BASE}", "problem": FAILED["candidates_error"]}
    assert (caught.value.code, caught.value.values) == ("packages.offer-unknown", values)


def test_what_is_installed_is_known_without_it() -> None:
    seen = known("dpkg", "debian", packages={BASE: OLD})
    seen.answers["package:of this test"].update(FAILED)
    assert is_offered(seen)


def test_dnf_is_asked_only_here() -> None:
    with pytest.raises(NeedMore) as asked:
        is_offered(known("rpm", "rocky"))
    assert [q["argv"][:3] for q in asked.value.questions] == [["dnf", "-q", "repoquery"]]


SILENT = [
    {"rc": 1, "stdout": ""},
    {"rc": None, "timed_out": True},
    {"error": {"kind": "not-found", "message": ""}},
]


BROKEN = [
    {"rc": 104, "stdout": UNREAD},
    {"rc": 104, "stdout": "", "stderr": UNREAD},
    {"rc": 106, "stdout": UNREAD},
    {"rc": 7, "stdout": ""},
]


@pytest.mark.parametrize("answer", BROKEN)
def test_zypper_that_could_not_read_a_repository_is_not_taken_for_one_that_has_nothing(
    answer: dict[str, Any],
) -> None:
    """zypper search ends with 104, "no match", also where a repository was skipped; what it says is
    all that tells.
    """
    with pytest.raises(PlanError) as caught:
        is_offered(known("rpm", "suse", answers={ZYPPER["id"]: answer}))
    assert_unknown(caught.value, "zypper --non-interactive -q search")


@pytest.mark.parametrize("others", [NOTHING, FAILS])
@pytest.mark.parametrize("answer", SILENT)
def test_a_repository_that_was_never_read_is_not_taken_for_one_that_has_nothing(
    answer: dict[str, Any], others: dict[str, Any]
) -> None:
    with pytest.raises(PlanError) as caught:
        is_offered(known("rpm", "rocky", **told(answer, others, answer)))
    assert_unknown(caught.value, "dnf -q repoquery")


def assert_unknown(error: PlanError, command: str) -> None:
    """Check that a package manager's failure is what is refused."""
    assert (error.code, get_code(error.values["problem"])) == (
        "packages.offer-unknown",
        "packages.command-failed",
    )
    assert error.values["command"].startswith(command)


def test_dnf_is_asked_again_only_where_it_cannot_read_a_repository() -> None:
    with pytest.raises(NeedMore) as asked:
        is_offered(known("rpm", "rocky", answers={DNF["id"]: FAILS}))
    assert [q["id"] for q in asked.value.questions] == [OTHERS["id"]]
    with pytest.raises(NeedMore) as asked:
        is_offered(known("rpm", "rocky", answers={DNF["id"]: FAILS, OTHERS["id"]: NOTHING}))
    assert [q["id"] for q in asked.value.questions] == [CACHED["id"]]


APT_REMOVE = "env DEBIAN_FRONTEND=noninteractive apt-get remove -y -o DPkg::Lock::Timeout=120"
REMOVE = {
    ("dpkg", "debian"): (APT_REMOVE, None),
    ("rpm", "rhel"): ("dnf remove -y --noautoremove", None),
    ("rpm", "opensuse-leap"): ("zypper --non-interactive remove", [104, 106]),
}


@pytest.mark.parametrize(("manager", "os_id"), REMOVE)
@pytest.mark.parametrize(
    ("case", "policy", "installed", "gone"),
    [
        ("a first installation", LEGACY, {}, ALL),
        ("of one more package", LEGACY, {HOOK: NEW, BASE: NEW, LIBRARY: NEW}, (TOOLS,)),
    ],
)
def test_an_installation_that_fails_takes_away_what_was_not_there(
    manager: str,
    os_id: str,
    case: str,
    policy: Policy,
    installed: dict[str, str],
    gone: tuple[str, ...],
) -> None:
    command = planned(policy, installed, manager=manager, os_id=os_id).commands[-1]
    words, accepts = REMOVE[manager, os_id]
    assert command["undo"] == [*words.split(), *gone], case
    assert (command.get("undo_accepts"), command["undo_leaves"]) == (accepts, True)


def named(words: list[str] | None) -> list[str]:
    """Those words of a command that are packages."""
    return [word for word in words or () if word.startswith(("nvidia", "libnvidia"))]


@pytest.mark.parametrize(
    ("manager", "os_id", "sign"),
    [("dpkg", "debian", "="), ("rpm", "rhel", "-"), ("rpm", "opensuse-leap", "=")],
)
def test_what_moves_goes_back_to_its_own_version_and_what_is_new_goes_away(
    manager: str, os_id: str, sign: str
) -> None:
    """Two commands, since no package manager does both in one that can be undone by one."""
    policy = Policy(cdi="disabled", toolkit_version=NEW)
    moving, coming = [
        c
        for c in planned(
            policy, {BASE: OLD, LIBRARY: "1.18.2-1"}, manager=manager, os_id=os_id
        ).commands
        if "undo" in c
    ]
    assert named(moving["argv"]) == [f"{BASE}{sign}{NEW}", f"{LIBRARY}{sign}{NEW}"]
    assert named(moving["undo"]) == [f"{BASE}{sign}{OLD}", f"{LIBRARY}{sign}1.18.2-1"]
    assert named(coming["argv"]) == [f"{HOOK}{sign}{NEW}", f"{TOOLS}{sign}{NEW}"]
    assert named(coming["undo"]) == [HOOK, TOOLS]


OFFERS = [
    # what an installer answers, the versions that it offers; None if that is not known
    ({"rc": 0, "stdout": "base 1.0-1\nother 3\n"}, ["1.0-1"]),
    (
        {"rc": 0, "stdout": "  | base | package | 1.0-1\n  | base | package | 0.9-1\n"},
        ["1.0-1", "0.9-1"],
    ),
    ({"rc": 0, "stdout": "base\nbase 1.0-1\n"}, ["1.0-1"]),
    ({"rc": 0, "stdout": "base\n"}, []),
    ({"rc": 0, "stdout": "base 1.0-1\nbase 1.0-1\n"}, ["1.0-1"]),
    ({"rc": 1, "stdout": "base 1.0-1\n"}, None),
    ({"rc": 0, "stdout": "base 1.0-1\n", "timed_out": True}, None),
    ({"error": {}}, None),
]


@pytest.mark.parametrize(("answer", "offered"), OFFERS)
def test_the_versions_that_an_installer_offers(
    answer: dict[str, Any], offered: list[str] | None
) -> None:
    assert installers.parse_available_versions(answer, "base") == offered
