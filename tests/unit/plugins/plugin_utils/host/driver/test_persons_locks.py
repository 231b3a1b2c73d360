# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks and preferences of a person: which of them keep a package of the driver, and which keep nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    apt_pins,
    package_locks,
)

from tests.unit.builders import obs
from tests.unit.driver_hosts import (
    AUTOMATIC,
    DEBIAN,
    HEALTHY,
    NVIDIA,
    OF_NVIDIA,
    PIN,
    advise,
    rows,
)

LOCK = "nvidia-driver-cuda-3:{}-1.el9.*\n"


OFF = {package_locks.VERSIONLOCK: "[main]\nenabled = no\n"}


IDLE: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    # what the locks are like, their files, the findings with their packages
    ("the installed version", {package_locks.LOCKS[0]: LOCK.format("580.82.07")}, []),
    (
        "a newer version",
        {package_locks.LOCKS[0]: LOCK.format("580.95.05")},
        [("keeping.locked-elsewhere", "nvidia-driver-cuda"), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the installed version and a newer one",
        {package_locks.LOCKS[0]: LOCK.format("580.82.07") + LOCK.format("580.95.05")},
        [("keeping.locked-elsewhere", "nvidia-driver-cuda"), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the plugin is off",
        {**OFF, package_locks.LOCKS[0]: LOCK.format("580.82.07")},
        [("keeping.locks-idle", ""), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the plugin is off, and nothing is locked",
        {**OFF, package_locks.LOCKS[0]: "bash-0:5-1.*\n"},
        [("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the locks are in a folder that is still to be made",
        {package_locks.VERSIONLOCK: "[main]\nlocklist = /home/user/new/locks\n"},
        [("keeping.locks-idle", ""), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the locks are in a file whose path is longer than a host shows",
        {package_locks.VERSIONLOCK: f"[main]\nlocklist = /{'l' * 256}\n"},
        [("keeping.will-move", "nvidia-driver-cuda")],
    ),
    (
        "the locks are in a file of another user",
        {
            package_locks.VERSIONLOCK: "[main]\nlocklist = /srv/locks\n",
            "/srv": {"type": "dir"},
            "/srv/locks": {"content": LOCK.format("580.82.07"), "mode": 0o666},
        },
        [("keeping.locks-idle", ""), ("keeping.will-move", "nvidia-driver-cuda")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "told"), [c[1:] for c in IDLE], ids=[c[0] for c in IDLE])
def test_locks_that_keep_nothing(files: dict[str, Any], told: list[tuple[str, str]]) -> None:
    found = advise({**HEALTHY, **AUTOMATIC, **files}, OF_NVIDIA[:1], "rpm")
    assert [(code, values.get("packages", "")) for code, values in found] == told


APART: list[tuple[str, str, bool, bool]] = [
    # what the preferences say, the text, whether the package is held, whether it is told
    ("a newer version, as soon as it is there", PIN % ("libcuda1", "550.*", 1001), False, True),
    ("the same for a package that is held", PIN % ("libcuda1", "550.*", 1001), True, False),
    ("less than the target release", PIN % ("libcuda1", "550.*", 900), False, False),
    ("the installed version first", PIN % ("lib*", "535.*", 1002) + "\n" + PIN % ("libcuda1", "550.*", 1001), False, False),
    ("all packages", PIN % ("*", "550.*", 1001), False, False),
    ("any architecture", PIN % ("libcuda1:any", "550.*", 1001), False, True),
    ("another architecture", PIN % ("libcuda1:i386", "550.*", 1001), False, False),
    ("a comment", "# " + (PIN % ("libcuda1", "550.*", 1001)).replace("\n", "\n# "), False, False),
    ("a name in capital letters", PIN % ("LIBCUDA1", "550.*", 1001), False, False),
    ("a pattern in capital letters", PIN % ("LIBCUDA?", "550.*", 1001), False, True),
    ("the ends of lines of Windows", (PIN % ("libcuda1", "550.*", 1001)).replace("\n", "\r\n"), False, True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "held", "told"), [c[1:] for c in APART], ids=[c[0] for c in APART])  # fmt: skip
def test_preferences_that_take_the_driver_elsewhere(text: str, held: bool, told: bool) -> None:
    shown = contents.show_content(text.encode(), apt_pins.PIN_KEEP, "/x")["content"]
    like = rows(DEBIAN, "libcuda1 535.261.03-1", held=held)
    values = {
        "path": apt_pins.PIN_FILE,
        "packages": "libcuda1",
        "version": "550.*",
        "priority": 1001,
        "release": "535.261.03",
    }
    found = advise({**HEALTHY, apt_pins.PIN_FILE: shown}, like)
    assert found == ([("keeping.pinned-elsewhere", values)] if told else [])


SECRET_WORD = "a-word"


PREFERENCES = f"""Explanation: {SECRET_WORD}
 {SECRET_WORD}: {SECRET_WORD}
Package: libcuda1
Pin: release o=Debian,n={SECRET_WORD}
Pin-Priority: 990 {SECRET_WORD}
{SECRET_WORD}: {SECRET_WORD}

Package: nvidia-driver {{{SECRET_WORD}}}
Pin: origin "{SECRET_WORD}.example.org"
Pin-Priority: 1001
"""


def test_only_names_versions_and_priorities_of_preferences_leave_a_host() -> None:
    shown = contents.show_content(PREFERENCES.encode(), apt_pins.PIN_KEEP, "/x")["content"]
    assert SECRET_WORD not in shown
    of_unread = apt_pins.Pin("/x", apt_pins.NOT_COMPARED, "", 1001)
    assert apt_pins.parse_pins("/x", shown) == (
        apt_pins.Pin("/x", ("libcuda1",), "", 990),
        of_unread,
    )


def test_each_lock_is_compared_with_the_packages_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host may have thousands of both."""
    locks, packages = 1 << 10, 1 << 13
    lines = "".join(f"nvidia-{n}-0:580.{n}-1.*\n" for n in range(locks))
    index = package_locks.LockIndex(package_locks.parse_locks(package_locks.LOCK_LIST, lines))
    compared: list[str] = []
    keeps = package_locks.Lock.keeps

    def count(lock: package_locks.Lock, evrs: Any) -> bool:
        compared.append(lock.name)
        return keeps(lock, evrs)

    monkeypatch.setattr(package_locks.Lock, "keeps", count)
    verdicts = [index.judge(f"nvidia-{n}", [f"580.{n}-1"]) for n in range(packages)]
    assert verdicts == ["kept"] * locks + ["free"] * (packages - locks)
    assert len(compared) == locks


def test_locks_of_one_name_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may have a package in very many versions, and a lock for each of them."""
    many = 1 << 10
    versions = [f"3:580.{n}-1" for n in range(many)]
    lines = "".join(f"nvidia-x-{version}.*\n" for version in reversed(versions))
    index = package_locks.LockIndex(package_locks.parse_locks(package_locks.LOCK_LIST, lines))
    compared: list[str] = []
    spells = package_locks._spells_out

    def count(pattern: str, evr: str) -> bool:
        compared.append(evr)
        return spells(pattern, evr)

    monkeypatch.setattr(package_locks, "_spells_out", count)
    judged = {index.judge("nvidia-x", versions) for _package in range(many)}
    assert judged == {"elsewhere"}, "not all of them are compared"
    assert len(compared) <= many * package_locks.MOST_VERSIONS
    assert index.judge("nvidia-x", versions[:1]) == "elsewhere"


MANY = "\n".join([PIN % ("bash", "5*", 100)] * apt_pins.MOST_PINS)


def test_versions_behind_those_that_are_compared_end_no_plan() -> None:
    versions = [f"3:580.82.07-{n:02}.el9" for n in range(package_locks.MOST_VERSIONS + 1)]
    like = rows(NVIDIA, *(f"nvidia-driver-cuda {version}" for version in versions))
    lock = f"nvidia-driver-cuda-{versions[-1]}.*\n"
    found = advise({**HEALTHY, **AUTOMATIC, package_locks.LOCKS[0]: lock}, like, "rpm")
    assert "keeping.locked-elsewhere" in [code for code, _values in found]


RIVALS: list[tuple[str, str, bool]] = [
    # what a record beside the one that pins libcuda1 is like, the record, whether libcuda1 stays
    ("of another package", PIN % ("bash", "5*", 1001), True),
    ("of the same version, by names that are not compared", PIN % ("*l*i*b*c*u*d*a*", "535.261.03-1", 1001), True),
    ("of its branch", PIN % ("libcuda1", "535*", 1001), False),
    ("for all versions", "Package: libcuda1\nPin: release *\nPin-Priority: 1001\n", False),
    ("by names that are not compared", PIN % ("bash *l*i*b*c*u*d*a*", "550*", 1001), False),
    ("by a name that is too long", PIN % ("n" * (apt_pins.LONGEST_NAME + 1), "550*", 1001), False),
    ("the last of very many names", PIN % ("bash " * apt_pins.MOST_NAMES + "libcuda1", "550*", 1001), False),
    ("by a regular expression", PIN % ("/cuda/", "550*", 1001), False),
    ("by the name of a source", PIN % ("src:nvidia-graphics-drivers", "550*", 1001), False),
    ("by a name that is not shown", PIN % ("libcuda{1}", "550*", 1001), False),
    ("with a lower priority", PIN % ("/cuda/", "550*", 1000), True),
    ("for all packages, by a version, over which apt passes", PIN % ("*", "550*", 1001), True),
    ("of another package, by a name that is not compared", PIN % ("b*a*s*h*x*y", "550*", 1001), False),
    ("after very many, not the last", "\n".join([MANY, PIN % ("libcuda1", "550*", 1001), PIN % ("bash", "5*", 1)]), False),
    ("after very many", MANY + "\n" + PIN % ("libcuda1", "550*", 1001), False),
]  # fmt: skip


BEFORE: list[tuple[str, str, bool]] = [
    # the same of a record before it: apt takes each version's first record
    ("of a repository, which may have the installed version", "Package: lib*\nPin: origin example.org\nPin-Priority: 600\n", False),
    ("of a repository, for all packages", "Package: *\nPin: origin example.org\nPin-Priority: 600\n", True),
    ("of its branch", PIN % ("libcuda1", "535*", 600), False),
    ("of another branch", PIN % ("libcuda1", "550*", 600), True),
    ("of its branch, by a regular expression", PIN % ("/cuda/", "535*", 600), False),
    ("of another branch, by a regular expression", PIN % ("/cuda/", "550*", 600), True),
    ("of its version, with another priority", PIN % ("/cuda/", "535.261.03-1", 1000), True),
    ("of its version, with a priority that is too low", PIN % ("/cuda/", "535.261.03-1", 500), False),
    ("by a regular expression of versions", PIN % ("libcuda1", "/^535/", 600), False),
]  # fmt: skip


def judge(text: str, machine: str = "x86_64") -> str:
    """Return what apt's preferences make of libcuda1 535.261.03-1."""
    shown = contents.show_content(text.encode(), apt_pins.PIN_KEEP, "/x")["content"]
    pins = apt_pins.read_pins(obs(files={apt_pins.PIN_FILE: shown}, host={"machine": machine}))
    return apt_pins.judge_pins(pins, "libcuda1", "535.261.03-1").verdict


OF_VERSION = PIN % ("libcuda1", "535.261.03-1", 1001)


@pytest.mark.parametrize(("text", "stays"), [c[1:] for c in RIVALS], ids=[c[0] for c in RIVALS])
def test_a_record_that_is_not_compared_may_be_a_rival(text: str, stays: bool) -> None:
    assert (judge(f"{OF_VERSION}\n{text}") == "kept") is stays


@pytest.mark.parametrize(("text", "stays"), [c[1:] for c in BEFORE], ids=[c[0] for c in BEFORE])
def test_the_first_record_of_a_version_counts(text: str, stays: bool) -> None:
    assert (judge(f"{text}\n{OF_VERSION}") == "kept") is stays


NONE_COMES = "Package: libcuda1\nPin: release *\nPin-Priority: -1\n"
KEEPING_ALL_OUT: list[tuple[str, str, str]] = [
    # which record is before or behind the one that lets no version in, the text, the verdict
    ("none", NONE_COMES, "kept"),
    ("one that lets a branch in", PIN % ("libcuda1", "550*", 100) + "\n" + NONE_COMES, "free"),
    ("one that may let a branch in", PIN % ("/cuda/", "550*", 1001) + "\n" + NONE_COMES, "free"),
    ("one by a source that may let a branch in", PIN % ("src:nvidia*", "550*", 1001) + "\n" + NONE_COMES, "free"),
    ("one that keeps a branch out", PIN % ("/cuda/", "550*", -2) + "\n" + NONE_COMES, "kept"),
    ("one that comes too late", NONE_COMES + "\n" + PIN % ("libcuda1", "550*", 1001), "kept"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "verdict"), [c[1:] for c in KEEPING_ALL_OUT], ids=[c[0] for c in KEEPING_ALL_OUT])  # fmt: skip
def test_records_that_let_no_version_in(text: str, verdict: str) -> None:
    assert judge(text) == verdict


FORMS: list[tuple[str, str, str, bool]] = [
    # how the record of the installed version is written, its text, what apt 2.6 makes of libcuda1,
    # whether it stays if a record of another branch is written so, beside a plain one of its version
    ("plainly", OF_VERSION, "kept", False),
    ("with the ends of lines of Windows", OF_VERSION.replace("\n", "\r\n"), "kept", False),
    ("with blanks before the colons", OF_VERSION.replace(":", " :"), "kept", False),
    ("with tabs", OF_VERSION.replace(" ", "\t"), "kept", False),
    ("with words behind the number", OF_VERSION.replace("1001", "1001 # until May"), "kept", False),
    ("with a sign before the number", OF_VERSION.replace("1001", "+1001"), "kept", False),
    ("with a field twice", OF_VERSION + "Pin-Priority: 10\n", "free", True),
    ("with names in two lines", "Package: bash\n libcuda1\n" + OF_VERSION.partition("\n")[2], "free", False),
    ("with its version in a second line", OF_VERSION.replace("version ", "version\n "), "free", False),
    ("with its number in a second line", OF_VERSION.replace("1001", "\n 1001"), "free", False),
    ("with a comment between", OF_VERSION.replace("\n", "\n# a comment\n"), "kept", False),
    ("with an explanation of two lines", "Explanation: a\n word\n" + OF_VERSION, "kept", False),
    ("before a line of blanks, which ends no record", OF_VERSION + " \n" + PIN % ("bash", "5*", 1), "free", True),
    ("before a comment, which ends no record", OF_VERSION + "#\n" + PIN % ("bash", "5*", 1), "free", True),
    ("by a name in capital letters", PIN % ("LIBCUDA1", "535.261.03-1", 1001), "free", True),
    ("by a pattern in capital letters", PIN % ("LIB*", "535.261.03-1", 1001), "kept", False),
    ("by very many names", PIN % ("bash " * 99 + "libcuda1", "535.261.03-1", 1001), "kept", False),
    ("of the system's architecture", PIN % ("libcuda1:amd64", "535.261.03-1", 1001), "kept", False),
    ("of another architecture", PIN % ("libcuda1:i386", "535.261.03-1", 1001), "free", True),
    # these are not compared
    ("of an architecture that apt does not have", PIN % ("libcuda1:native", "535.261.03-1", 1001), "free", False),
    ("of a pattern of architectures", PIN % ("libcuda1:linux-any", "535.261.03-1", 1001), "free", False),
    ("by a source that does not exist", PIN % ("src:libcuda1", "535.261.03-1", 1001), "free", False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "verdict", "stays"), [c[1:] for c in FORMS], ids=[c[0] for c in FORMS])  # fmt: skip
def test_a_record_is_read_as_apt_reads_it(text: str, verdict: str, stays: bool) -> None:
    assert judge(text) == verdict
    other = text.replace("535.261.03-1", "550*")
    assert (judge(f"{OF_VERSION}\n{other}") == "kept") is stays


REAL = """Package: libcuda1
Status: install ok installed
Version: 535.261.03-1
Source: nvidia-graphics-drivers
Architecture: amd64
Maintainer: A person <person@example.org>
Description: a library

"""
OFFERED = ("535.261.03-1", "535.274.02-1", "550.163.01-1", "580.95.05-1")


@pytest.fixture(scope="module")
def apt(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A function that returns the version of libcuda1 that a real apt would install by preferences,
    '' if it refuses them.
    """
    base = tmp_path_factory.mktemp("apt")
    for folder in ("lists/partial", "cache/archives/partial", "etc/apt.conf.d", "repository"):
        (base / folder).mkdir(parents=True)
    (base / "status").write_text(REAL)
    versions = (REAL.replace("535.261.03-1", version) for version in OFFERED)
    parts = (text.replace("Status: install ok installed\n", "") for text in versions)
    files = "".join(
        text.rstrip() + f"\nFilename: ./x.deb\nSize: 1\nSHA256: {'0' * 64}\n\n" for text in parts
    )
    (base / "repository/Packages").write_text(files)
    (base / "etc/sources.list").write_text(f"deb [trusted=yes] copy:{base}/repository ./\n")
    settings = {
        "Dir": base, "Dir::State": base, "Dir::State::status": base / "status", "Dir::Etc": base / "etc",
        "Dir::Cache": base / "cache", "APT::Architecture": "amd64", "APT::Sandbox::User": "",
    }  # fmt: skip
    (base / "apt.conf").write_text(
        "".join(f'{key} "{value}";\n' for key, value in settings.items())
    )
    environment = {**os.environ, "APT_CONFIG": str(base / "apt.conf"), "LC_ALL": "C"}
    subprocess.run(["apt-get", "-qq", "update"], check=True, timeout=60, env=environment)

    def ask(text: str) -> str:
        (base / "etc/preferences").write_bytes(text.encode())
        said = subprocess.run(
            ["apt-cache", "policy", "libcuda1"], env=environment, timeout=60, capture_output=True, text=True, check=False
        )  # fmt: skip
        offered = re.search(r"Candidate: (\S+)", said.stdout)
        return "" if "E:" in said.stderr or not offered else offered[1]

    return ask


JUDGED = [
    *(f"{OF_VERSION}\n{text}" for _name, text, _stays in RIVALS),
    *(f"{text}\n{OF_VERSION}" for _name, text, _stays in BEFORE),
    *(text for _name, text, _verdict in KEEPING_ALL_OUT),
    *(text for _name, text, _verdict, _stays in FORMS),
    *(
        f"{OF_VERSION}\n{text.replace('535.261.03-1', '550*').replace('1001', '1002')}"
        for _name, text, _verdict, _stays in FORMS
    ),
]


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="this machine has no apt")
def test_what_is_called_kept_is_kept_by_a_real_apt(apt: Callable[[str], str]) -> None:
    kept = [text for text in JUDGED if judge(text) == "kept"]
    assert len(kept) > len(JUDGED) // 4
    moved = [text for text in kept if apt(text) not in ("535.261.03-1", "(none)")]
    assert moved == []
    assert apt(PIN % ("libcuda1", "550*", 1001)) == "550.163.01-1"


@pytest.mark.parametrize("version", ["9" * 257, "550 {secret}", "550\u0665", "/^550/"])
def test_a_version_that_no_host_shows_is_not_told(version: str) -> None:
    pins = apt_pins.parse_pins("/x", PIN % ("libcuda1", version, 1001))
    assert [(pin.names, pin.version) for pin in pins] == [(("libcuda1",), "")]


def test_a_lock_that_is_too_long_is_not_told() -> None:
    line = "nvidia-driver-cuda-3:580.95.05-{}.el9.*\n"
    for release, told in (("1", True), ("1" * package_locks.LONGEST_LOCK, False)):
        files = {**HEALTHY, **AUTOMATIC, package_locks.LOCKS[0]: line.format(release)}
        codes = [code for code, _values in advise(files, OF_NVIDIA[:1], "rpm")]
        assert ("keeping.locked-elsewhere" in codes) is told
        assert "keeping.will-move" in codes


@pytest.mark.parametrize(("machine", "verdict"), [("x86_64", "kept"), ("aarch64", "free"), ("", "free")])  # fmt: skip
def test_an_architecture_is_compared_with_that_of_the_system(machine: str, verdict: str) -> None:
    assert judge(PIN % ("libcuda1:amd64", "535.261.03-1", 1001), machine) == verdict


@pytest.mark.parametrize(("machine", "verdict"), [("x86_64", "kept"), ("", "free")])
def test_without_the_systems_architecture_a_record_of_one_may_be_a_rival(
    machine: str, verdict: str
) -> None:
    assert judge(PIN % ("libcuda1:i386", "535*", 500) + "\n" + OF_VERSION, machine) == verdict


def test_very_many_patterns_of_names_are_not_compared() -> None:
    """A host may have very many packages as well."""
    names = " ".join(f"*{n}*" for n in range(apt_pins.MOST_PATTERNS // 2))
    text = "\n".join([PIN % (f"{names} bash", "5*", 100)] * 3)
    pins = apt_pins.read_pins(obs(files={apt_pins.PIN_FILE: text}))
    assert [pin.names == apt_pins.NOT_COMPARED for pin in pins] == [False, False, True]


def test_an_architecture_is_compared_with_that_of_a_package() -> None:
    pins = apt_pins.parse_pins("/x", PIN % ("libcuda1:i386", "535.261.03-1", 1001))
    names = ("libcuda1:i386", "libcuda1:arm64", "libcuda1")
    found = [apt_pins.judge_pins(pins, name, "535.261.03-1").verdict for name in names]
    assert found == ["kept", "free", "free"]
    # one for the system's architecture is about no other
    of_system = apt_pins.parse_pins("/x", PIN % ("lib*", "535*", 500))
    assert apt_pins.judge_pins((*of_system, *pins), names[0], "535.261.03-1").verdict == "kept"


def test_a_name_that_is_longer_than_those_of_packages_excludes_none() -> None:
    longest = package_locks.LONGEST_LOCK
    index = package_locks.index_excluded(["n" * longest, "n" * (longest + 1)])
    assert [len(lock.name) for lock in index.locks] == [longest]


ZYPPER_LOCKS: list[tuple[str, str, str]] = [
    # what the lock is like, its stanza, what becomes of nvidia-driver-cuda
    ("as zypper makes it", "type: package\nmatch_type: glob\nsolvable_name: nvidia-driver-cuda\n", "kept"),
    ("a part of a name", "type: package\nmatch_type: substring\nsolvable_name: driver\n", "kept"),
    ("a regular expression", "type: package\nmatch_type: regex\nsolvable_name: nvidia.*\n", "free"),
    ("of a version", "type: package\nsolvable_name: nvidia-driver-cuda\nversion: > 580\n", "free"),
    ("of a repository", "type: package\nsolvable_name: nvidia-driver-cuda\nrepo: cuda\n", "free"),
    ("of patches", "type: patch\nmatch_type: glob\nsolvable_name: nvidia-*\n", "free"),
    ("of patches and packages", "type: package\ntype: patch\nsolvable_name: nvidia-*\n", "kept"),
    ("without a kind", "match_type: glob\nsolvable_name: nvidia-*\n", "kept"),
    ("beside another one", "type: package\nsolvable_name: x\nrepo: y\n\ntype: package\nsolvable_name: nvidia-*\n", "kept"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "verdict"), [c[1:] for c in ZYPPER_LOCKS], ids=[c[0] for c in ZYPPER_LOCKS])  # fmt: skip
def test_a_lock_of_zypper(text: str, verdict: str) -> None:
    keep, path = package_locks.LOCK_KEEPS[2], package_locks.LOCKS[2]
    shown = contents.show_content(text.encode(), keep, path)["content"]
    index = package_locks.LockIndex(package_locks.parse_locks(path, shown))
    assert index.judge("nvidia-driver-cuda", ["580.82.07-1"]) == verdict
