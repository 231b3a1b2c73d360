# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package repository: a key is compared before anything is written, and the files suit the
distribution.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    apt_sources,
    repository,
    repository_check,
    repository_key,
    rpm_sources,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.repository_keys import BODY, FINGERPRINT, OLD, armor

OLD_TWO = bytes([0x99, 0, len(BODY)]) + BODY
NEW = bytes([0xC6, len(BODY)]) + BODY
URL = "http://mirror.example.org/deb"


SECOND = b"\x04" + bytes(range(1, 41))
SUBKEY = bytes([0xB8, len(SECOND)]) + SECOND  # tag 14
USER_ID = bytes([0xB4, 4]) + b"lab@"  # tag 13


KEYS = {
    "old format": armor(OLD),
    "old format, two length bytes": armor(OLD_TWO),
    "new format": armor(NEW),
    "with a user id and a subkey": armor(OLD + USER_ID + SUBKEY),
    "without a header": armor(OLD, header=""),
    "with blank lines around": "\n" + armor(OLD) + "\n\n",
    "with line ends of another system": armor(OLD).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_fingerprint(key: str) -> None:
    assert repository_key.compute_key_fingerprint(key) == FINGERPRINT


TWO = bytes([0x98, len(SECOND)]) + SECOND
MORE_THAN_ONE = {
    "a second primary key in the block": (armor(OLD + TWO), "primary-keys"),
    "a second primary key behind a user id": (armor(OLD + USER_ID + TWO), "primary-keys"),
    "a second key in the new format": (
        armor(OLD + bytes([0xC6, len(SECOND)]) + SECOND),
        "primary-keys",
    ),
    "a second block": (armor(OLD) + armor(TWO), "second-block"),
    "a block within the block": (armor(OLD).replace("=abcd", armor(TWO)), "second-block"),
    "text before the block": ("trust me\n" + armor(OLD), "text-beside-key"),
    "text behind the block": (armor(OLD) + "mQINBFnNWDEBEAC", "text-beside-key"),
    "a key in the header": (
        armor(OLD, header=base64.b64encode(TWO).decode() + "\n"),
        "odd-key-line",
    ),
    "bytes behind the checksum": (
        armor(OLD).replace("=abcd", "=abcd\n" + base64.b64encode(TWO).decode()),
        "odd-key-line",
    ),
    "padding and more": (
        armor(OLD).replace("=abcd", base64.b64encode(TWO).decode()),
        "key-unreadable",
    ),
    "a user id first": (armor(USER_ID + OLD), "first-packet"),
    "a secret key": (armor(OLD + bytes([0x94, 2]) + b"\x04a"), "strange-packet"),
    "a packet in parts": (armor(OLD + b"\xcd\xe0a"), "packet-in-parts"),
    "a packet without a length": (armor(OLD + b"\xb7a"), "packet-without-length"),
    "bytes that are no packet": (armor(OLD + b"\x00"), "not-a-packet"),
}


@pytest.mark.parametrize(("key", "code"), MORE_THAN_ONE.values(), ids=MORE_THAN_ONE)
def test_a_text_that_holds_more_than_one_key_is_refused(key: str, code: str) -> None:
    """The whole text becomes the keyring, and whatever else is in it would be trusted as well."""
    assert refused_key(key) == f"repository.{code}"


def refused_key(key: str) -> str:
    """Return the code of what is wrong with a key."""
    with pytest.raises(PlanError) as refused:
        repository.plan_repository_files(
            repository.read_repository_facts(seen("debian")),
            url=URL,
            key=key,
            expected=FINGERPRINT,
            state="present",
        )
    return get_code(refused.value.values.get("problem", "")) or refused.value.code


CHANGED_ON_THE_WAY = {
    "indented lines": (armor(OLD).replace("\n", "\n    "), "key-lines-changed"),
    "folded by YAML's >": (armor(OLD).replace("\n", " "), "key-lines-changed"),
    "newlines as two characters": (armor(OLD).replace("\n", "\\n"), "key-lines-changed"),
    "cut off": (armor(OLD).partition("=abcd")[0], "key-without-end"),
}


@pytest.mark.parametrize(("key", "code"), CHANGED_ON_THE_WAY.values(), ids=CHANGED_ON_THE_WAY)
def test_one_key_whose_lines_were_changed_is_not_called_more_than_one(key: str, code: str) -> None:
    assert refused_key(key) == f"repository.{code}"


@given(st.binary(max_size=64))
def test_bytes_behind_the_key_never_bring_a_second_one(more: bytes) -> None:
    """Whatever follows the primary key is refused, or is made of packets none of which is a primary
    key.
    """
    try:
        assert repository_key.compute_key_fingerprint(armor(OLD + more)) == FINGERPRINT
    except PlanError:
        return
    at = 0
    while at < len(more):
        kind, _body, at = repository_key._read_packet(more, at)
        assert kind in repository_key.PACKETS
        assert kind != repository_key.PRIMARY


@pytest.mark.parametrize(
    "key",
    [
        "",
        "ssh-ed25519 AAAA",
        armor(b""),
        armor(OLD[:20]),
        armor(b"\xc2" + NEW[1:]),
        armor(bytes([0xC6, 3]) + b"\x03ab"),
        armor(OLD).replace("=abcd", "%%%"),
    ],
)
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(PlanError, match=r"\[repository.key-(not-armored|unreadable)\]"):
        repository_key.compute_key_fingerprint(key)


def seen(os_id: str, like: str = "", **files: str) -> Observation:
    where = repository.get_repository_family({"ID": os_id, "ID_LIKE": like})
    answers: dict = {f"file:{p}": {"exists": False} for p in (where.key_path, where.list_path)}
    answers["originals"] = {"originals": {}}
    answers.update(
        {
            f"glob:{pattern}": {"files": []}
            for pattern in (*apt_sources.PATTERNS, *rpm_sources.PATTERNS.values())
        }
    )
    for name, text in files.items():
        path = {"key": where.key_path, "list": where.list_path}[name]
        answers[f"file:{path}"] = {
            "exists": True,
            "type": "file",
            "content": text,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
    return Observation({"os_release": {"ID": os_id, "ID_LIKE": like}}, answers)


@pytest.mark.parametrize(
    ("os_id", "like", "list_path"),
    [
        ("debian", "", "/etc/apt/sources.list.d/gpufleet-nvidia.sources"),
        ("ubuntu", "debian", "/etc/apt/sources.list.d/gpufleet-nvidia.sources"),
        ("rocky", "rhel centos fedora", "/etc/yum.repos.d/gpufleet-nvidia.repo"),
        ("sles", "suse", "/etc/zypp/repos.d/gpufleet-nvidia.repo"),
    ],
)
def test_each_distribution_gets_its_own_files_and_a_second_run_changes_nothing(
    os_id: str, like: str, list_path: str
) -> None:
    plan = repository.plan_repository_files(
        repository.read_repository_facts(seen(os_id, like)),
        url=URL,
        key=armor(OLD),
        expected=FINGERPRINT,
        state="present",
    )
    assert plan.changes[1]["path"] == list_path
    assert URL in plan.changes[1]["content"]
    again = seen(os_id, like, key=plan.changes[0]["content"], list=plan.changes[1]["content"])
    assert repository.plan_repository_files(
        repository.read_repository_facts(again),
        url=URL,
        key=armor(OLD),
        expected="",
        state="present",
    ).empty
    gone = repository.plan_repository_files(
        repository.read_repository_facts(again), url=URL, key="", expected="", state="absent"
    )
    assert [c["op"] for c in gone.changes] == ["remove", "remove"]
    assert repository.plan_repository_files(
        repository.read_repository_facts(seen(os_id, like)),
        url=URL,
        key="",
        expected="",
        state="absent",
    ).empty


@pytest.mark.parametrize("os_id", ["debian", "rocky", "sles"])
@pytest.mark.parametrize(
    "url",
    [
        "https://mirror.example/deb/$(ARCH)",
        "https://user:pw@mirror.example/?token=x",
        "http://ü.example/",
    ],
)
@pytest.mark.parametrize("key", [armor(OLD), armor(OLD).replace("\n", " \r\n")])
def test_what_was_written_here_is_seen_whole_by_who_wants_it_there(
    os_id: str, url: str, key: str
) -> None:
    plan = repository.plan_repository_files(
        repository.read_repository_facts(seen(os_id, "rhel suse")),
        url=url,
        key=key,
        expected="",
        state="present",
    )
    keeps = {
        q["path"]: q["keep"]
        for q in repository.list_repository_questions(url=url)
        if q["kind"] == "file"
    }
    for change in plan.changes:
        assert (
            file_places.show_own_text(change["content"], keeps[change["path"]]) == change["content"]
        )


@pytest.mark.parametrize("os_id", ["debian", "rocky", "sles"])
def test_of_a_list_that_somebody_has_changed_no_password_travels(os_id: str) -> None:
    where = repository.get_repository_family({"ID": os_id, "ID_LIKE": "rhel suse"})
    changed = (
        where.text.format(url="https://user:hunter2@mirror.example", key=where.key_path)
        + "# hunter2\npassword=hunter2\n"
    )
    for url in ("", "https://mirror.example"):
        keeps = {
            q["path"]: q["keep"]
            for q in repository.list_repository_questions(url=url)
            if q["kind"] == "file"
        }
        shown = file_places.show_own_text(changed, keeps[where.list_path])
        assert ("hunter2" in shown, where.key_path in shown) == (False, True)
        assert "hunter2" not in file_places.show_own_text(
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nhunter2\n", keeps[where.key_path]
        )


def test_absent_gives_back_what_stood_there_before() -> None:
    here = seen("debian", key="ours", list="ours, too")
    where = repository.get_repository_family({"ID": "debian"})
    hashes = {
        f.path: f.sha256 for f in (here.get_file(where.key_path), here.get_file(where.list_path))
    }
    kept = {
        where.list_path: {
            "existed": True,
            "content": "deb ...",
            "sha256_after": hashes[where.list_path],
        }
    }
    found = Observation(here.host, {**here.answers, "originals": {"originals": kept}})
    gone = repository.plan_repository_files(
        repository.read_repository_facts(found), url=URL, key="", expected="", state="absent"
    )
    assert [(c["op"], c["path"]) for c in gone.changes] == [
        ("restore", where.list_path),
        ("remove", where.key_path),
    ]
    assert gone.expect_files == hashes


def test_another_key_than_expected_writes_nothing() -> None:
    with pytest.raises(PlanError) as refused:
        repository.plan_repository_files(
            repository.read_repository_facts(seen("debian")),
            url=URL,
            key=armor(OLD),
            expected="00" * 20,
            state="present",
        )
    assert (refused.value.code, refused.value.values) == (
        "repository.other-key",
        {"found": FINGERPRINT, "expected": "00" * 20},
    )


def test_an_unknown_distribution_and_a_bad_address_are_named() -> None:
    with pytest.raises(PlanError, match=r"plan9.*\[repository.unknown-distribution\]"):
        repository.get_repository_family({"ID": "plan9"})
    with pytest.raises(PlanError, match=r"\[repository.not-an-address\]"):
        repository.plan_repository_files(
            repository.read_repository_facts(seen("debian")),
            url="mirror",
            key=armor(OLD),
            expected="",
            state="present",
        )


# ---------------------------------------------------------------- whether one is needed


NO_SOURCES: dict[str, Any] = {repository.SOURCES["id"]: {"files": []}}
REACHED = {**NO_SOURCES, "probe:reach": {"value": {"tried": True, "reached": True, "why": ""}}}
LOST = {
    **NO_SOURCES,
    "probe:reach": {"value": {"tried": True, "reached": False, "why": "its name is not known"}},
}
FETCHED = {f"fetch:{repository.KEY_URL}": {"content": armor(OLD)}}
MIRROR = {"toolkit_repository": URL, "toolkit_key": armor(OLD)}

NEEDED: dict[str, tuple[dict[str, str], bool, bool, bool]] = {
    # options, packages are missing, a configured repository has them -> a repository comes
    "nothing is missing": ({}, False, False, False),
    "a configured one has them": ({}, True, True, False),
    "none has them": ({}, True, False, True),
    "none is wanted": ({"toolkit_repository": ""}, True, False, False),
    "packages are left alone": ({"packages": "ignore"}, True, False, False),
    "another root": ({"root": "/srv/image"}, True, False, False),
    "a mirror, though nothing is missing": (MIRROR, False, False, True),
    "a mirror, though another has them": (MIRROR, True, True, True),
    "a mirror, but packages are left alone": ({**MIRROR, "packages": "ignore"}, True, False, False),
}


def needed(
    options: dict[str, str], missing: bool, offered: bool, answers: dict[str, Any] | None = None
) -> Plan:
    here = seen("debian")
    found = Observation(
        {**here.host, "machine": "x86_64"}, {**here.answers, **(answers or {**REACHED, **FETCHED})}
    )
    policy = Policy(**{"toolkit_key_fingerprint": FINGERPRINT, **options})  # type: ignore[arg-type]
    return repository.plan_needed_repository(
        policy, repository.read_repository_facts(found), missing=missing, offered=lambda: offered
    )


@pytest.mark.parametrize(("options", "missing", "offered", "comes"), NEEDED.values(), ids=NEEDED)
def test_a_repository_comes_only_where_it_is_needed_or_named(
    options: dict[str, str], missing: bool, offered: bool, comes: bool
) -> None:
    assert bool(needed(options, missing, offered).changes) is comes


def test_nothing_is_asked_of_the_network_where_no_repository_is_needed() -> None:
    """No answer is there to any question of this kind, so asking one would raise."""
    for missing, offered in ((False, False), (True, True)):
        assert needed({}, missing, offered, {"none": {}}).empty


def test_what_the_look_has_not_asked_is_asked_where_it_is_needed() -> None:
    """A look has no question about NVIDIA's repository where the user names none, which is the
    default.
    """
    here = Observation(seen("debian").host, {**REACHED, **FETCHED})
    with pytest.raises(NeedMore) as caught:
        repository.plan_needed_repository(
            Policy(toolkit_key_fingerprint=FINGERPRINT),
            repository.read_repository_facts(here),
            missing=True,
            offered=lambda: False,
        )
    where = repository.FAMILIES["debian"]
    asked = {question["id"] for question in caught.value.questions}
    assert asked == {
        "originals",
        f"file:{where.key_path}",
        f"file:{where.list_path}",
        *(f"glob:{p}" for p in apt_sources.PATTERNS),
    }


def test_nvidias_own_address_is_in_each_package_managers_words() -> None:
    written = needed({}, True, False).changes[1]["content"]
    assert "URIs: https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)\n" in written
    assert {f.nvidia for f in repository.FAMILIES.values() if f.manager != "apt"} == {
        "https://nvidia.github.io/libnvidia-container/stable/rpm/$basearch"
    }


CHECKS = {
    # distribution -> the programs that read the staged repository, and with what
    "debian": [("apt-get", "Dir::Etc::sourceparts=-")],
    "rocky": [("dnf", "--setopt=reposdir={stage}")],
    "sles": [("rpmkeys", "{stage}/gpufleet-nvidia.asc"), ("zypper", "{stage}")],
}


@pytest.mark.parametrize("os_id", CHECKS)
def test_the_package_manager_reads_the_repository_before_it_is_put_in_place(os_id: str) -> None:
    where = repository.get_repository_family(
        {"ID": os_id, "ID_LIKE": {"rocky": "rhel", "sles": "suse"}.get(os_id, "")}
    )
    found = repository_check.build_repository_check(where.manager, where.list_path, where.key_path)
    assert all(
        check["argv"][0] == name and word in check["argv"]
        for check, (name, word) in zip(found["validate"], CHECKS[os_id], strict=True)
    )
    assert {staged["source"] for staged in found["stage_files"]} == {
        where.list_path,
        where.key_path,
    }
    assert "--gpg-auto-import-keys" not in str(found), (
        "zypper would take the key that lies beside the metadata"
    )


def test_apt_reads_the_repository_before_it_is_put_in_place() -> None:
    plan = needed({}, True, False)
    (check,) = plan.validate
    assert check["argv"][:3] == ["apt-get", "-q", "update"]
    assert "Dir::Etc::sourceparts=-" in check["argv"]
    assert plan.substitute == (
        (repository.FAMILIES["debian"].key_path, "{stage}/gpufleet-nvidia.asc"),
    )
    assert "gpufleet_toolkit_repository" in plan.beforehand[0]


ADDRESSES = [
    # distribution, address, whether it looks like one of the other kind of packages
    ("debian", "https://mirror.example.org/stable/deb/amd64", False),
    ("debian", "https://mirror.example.org/stable/rpm/x86_64", True),
    ("fedora", "https://mirror.example.org/stable/deb/amd64", True),
    ("sles", "https://mirror.example.org/stable/rpm/x86_64", False),
    ("sles", "https://mirror.example.org/stable/deb/amd64", True),
    ("fedora", "https://deb.example.org/nvidia", False),
    ("fedora", "https://mirror.example.org/deb/rpm", False),
]


@pytest.mark.parametrize(("os_id", "url", "other"), ADDRESSES)
def test_an_address_of_the_other_kind_of_packages_is_told(
    os_id: str, url: str, other: bool
) -> None:
    where = repository.get_repository_family(
        {"ID": os_id, "ID_LIKE": "suse" if os_id == "sles" else ""}
    )
    assert [said.code for said in repository.advise_on_address(url, where)] == (
        ["repository.looks-other"] if other else []
    )


IN_RPM = f"gpg-pubkey-{FINGERPRINT[-8:].lower()}"
TRUSTED = {
    # distribution, our repository comes, our key is there -> whether rpm gets the key
    "dnf has keys of its own": ("rocky", True, True, False),
    "the repository comes": ("sles", True, False, True),
    "it is there": ("sles", False, True, True),
    "the packages come from elsewhere": ("sles", False, False, False),
    "a distribution that is not known": ("plan9", True, True, False),
}


@pytest.mark.parametrize(("os_id", "comes", "there", "told"), TRUSTED.values(), ids=TRUSTED)
def test_rpm_trusts_our_key_before_zypper_installs(
    os_id: str, comes: bool, there: bool, told: bool
) -> None:
    key = repository.FAMILIES["suse"].key_path
    like = {"ID": os_id, "ID_LIKE": {"rocky": "rhel", "sles": "suse"}.get(os_id, "")}
    source = Plan(changes=({"op": "remove", "path": "/x"},)) if comes else Plan()
    for known in (False, True):
        here = Observation(
            {"os_release": like},
            {
                f"stat:{key}": {"exists": there},
                f"command:rpm --query {IN_RPM}": {"rc": int(not known)},
            },
        )
        commands = [
            (c["argv"], c["undo"])
            for c in repository.list_trust_commands(
                Policy(**MIRROR), repository.read_repository_facts(here), source
            )
        ]
        assert commands == (
            [(["rpmkeys", "--import", key], ["rpm", "--erase", IN_RPM])]
            if told and not known
            else []
        )


def test_whether_rpm_has_the_key_is_not_guessed() -> None:
    """A rollback erases the key that was imported, so one of a person's must not pass for ours."""
    key = repository.FAMILIES["suse"].key_path
    late = {"timed_out": True, "stdout": "", "stderr": ""}
    here = Observation(
        {"os_release": {"ID": "sles", "ID_LIKE": "suse"}},
        {f"stat:{key}": {"exists": True}, f"command:rpm --query {IN_RPM}": late},
    )
    with pytest.raises(QueryFailed, match="rpm --query"):
        repository.list_trust_commands(
            Policy(**MIRROR), repository.read_repository_facts(here), Plan()
        )


def test_rpm_trusts_the_key_of_an_archive_where_no_repository_is_named() -> None:
    """bundle_file excludes the address of a repository, so an empty one is no reason to leave its
    packages without a key.
    """
    key = repository.FAMILIES["suse"].key_path
    here = Observation(
        {"os_release": {"ID": "sles", "ID_LIKE": "suse"}},
        {f"command:rpm --query {IN_RPM}": {"rc": 1}},
    )
    archived = Policy(
        toolkit_repository="", bundle_file="/srv/bundle.tar", toolkit_key=MIRROR["toolkit_key"]
    )
    (command,) = repository.list_trust_commands(
        archived,
        repository.read_repository_facts(here),
        Plan(changes=({"op": "remove", "path": "/x"},)),
    )
    assert command["argv"] == ["rpmkeys", "--import", key]


TIME = f"command:rpm --query --queryformat %{{INSTALLTIME}}\n {IN_RPM}"
GOES: dict[str, tuple[dict[str, Any], str, bool]] = {
    # what rpm says of our key, another source of NVIDIA's packages -> rpm loses it. Our file is of
    # 1000.7.
    "as we left it": ({"rc": 0, "stdout": "1000\n"}, "", True),
    "somebody has removed it": ({"rc": 1, "stdout": ""}, "", False),
    "another source may need it": (
        {"rc": 0, "stdout": "1000\n"},
        "/etc/zypp/repos.d/nvidia-container-toolkit.repo",
        False,
    ),
    "a person had imported it before": ({"rc": 0, "stdout": "999\n"}, "", False),
    "rpm does not say when": ({"rc": 0, "stdout": ""}, "", False),
}


@pytest.mark.parametrize(("said", "other", "goes"), GOES.values(), ids=GOES)
def test_rpm_no_longer_trusts_our_key_when_the_repository_goes(
    said: dict[str, Any], other: str, goes: bool
) -> None:
    here = seen("sles", "suse", key=armor(OLD), list="ours")
    where = repository.FAMILIES["suse"]
    rest = {f"file:{path}": {"exists": False} for path in repository.PATHS}
    paths = [where.list_path, *([other] if other else [])]
    more = {
        repository.SOURCES["id"]: {"files": [{"path": path, "type": "file"} for path in paths]},
        TIME: said,
    }
    key = {f"file:{where.key_path}": {**here.answers[f"file:{where.key_path}"], "mtime": 1000.7}}
    gone = repository.plan_absent(
        Policy(state="absent"),
        repository.read_repository_facts(
            Observation(here.host, {**rest, **here.answers, **more, **key})
        ),
    )
    assert [c["argv"] for c in gone.commands] == ([["rpm", "--erase", IN_RPM]] if goes else [])
    assert [c["op"] for c in gone.changes] == ["remove", "remove"]


def test_a_package_manager_that_has_to_be_started_is_asked_last() -> None:
    """One that never read a configured repository, whose key nobody has accepted yet, fails at it."""
    asked: list[str] = []

    def offered() -> bool:
        asked.append("dnf")
        return False

    source = {
        repository.SOURCES["id"]: {
            "files": [{"path": "/etc/yum.repos.d/gpufleet-nvidia.repo", "type": "file"}]
        }
    }
    here = Observation({"os_release": {"ID": "rocky"}}, source)
    assert repository.plan_needed_repository(
        Policy(), repository.read_repository_facts(here), missing=True, offered=offered, slow=True
    ).empty
    assert asked == []


REFUSED = {
    "another key than NVIDIA's": ({"toolkit_key_fingerprint": ""}, {**REACHED, **FETCHED}, "other-key"),
    "a key that is none": ({}, {**REACHED, f"fetch:{repository.KEY_URL}": {"content": "<html>"}}, "key-not-armored"),
    "no key": (
        {}, {**REACHED, f"fetch:{repository.KEY_URL}": {"error": {"message": "timed out"}}},
        "key-not-fetched"),
    "out of reach": ({}, {**LOST, **FETCHED}, "out-of-reach"),
    "a mirror out of reach": (MIRROR, LOST, "out-of-reach"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_source_out_of_reach_is_told_from_a_wrong_one(case: str) -> None:
    """The rest of a plan is shown for the first, since a person corrects it without a look at the
    host.
    """
    options, answers, _code = REFUSED[case]
    with pytest.raises(PlanError) as refused:
        needed(options, True, False, answers)
    assert isinstance(refused.value, repository.NoSource) is (
        case in ("no key", "out of reach", "a mirror out of reach")
    )


@pytest.mark.parametrize(("options", "answers", "code"), REFUSED.values(), ids=REFUSED)
def test_what_stands_in_the_way_is_said_before_anything_is_touched(
    options: dict[str, str], answers: dict[str, Any], code: str
) -> None:
    with pytest.raises(PlanError) as refused:
        needed(options, True, False, answers)
    assert refused.value.code == f"repository.{code}"
    assert refused.value.values.get("problem", "") in ("", "timed out", "its name is not known")
    assert (
        not options.get("toolkit_repository")
        or refused.value.where == options["toolkit_repository"]
    )


def test_a_given_key_needs_no_fetching_and_a_reach_that_could_not_be_tried_stops_nothing() -> None:
    for answer in (
        {"value": {"tried": False, "reached": False, "why": "a proxy"}},
        {"error": {"kind": "timeout", "message": ""}},
    ):
        assert needed(
            {"toolkit_key": armor(OLD)}, True, False, {**NO_SOURCES, "probe:reach": answer}
        ).changes


def test_a_source_that_no_package_list_knows_yet_is_a_configured_one() -> None:
    found = {
        repository.SOURCES["id"]: {
            "files": [
                {"path": "/etc/apt/sources.list.d/nvidia-container-toolkit.list", "type": "file"}
            ]
        }
    }
    assert needed({}, True, False, {**REACHED, **FETCHED, **found}).empty


def test_absent_knows_each_path_once() -> None:
    """dnf and zypper keep their keys in one place."""
    here = seen("fedora", key="ours", list="ours, too")
    rest = {f"file:{path}": {"exists": False} for path in repository.PATHS}
    gone = repository.plan_absent(
        Policy(state="absent"),
        repository.read_repository_facts(Observation(here.host, {**rest, **here.answers})),
    )
    where = repository.FAMILIES["fedora"]
    assert [c["path"] for c in gone.changes] == [where.list_path, where.key_path]
