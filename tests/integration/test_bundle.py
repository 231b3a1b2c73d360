# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that reaches no repository, from an archive that is made of one: real signatures, real apt, one host."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab import aptrepo, artefacts
from tests.tools.onlab import Fleet, Run, repository

HOST = "bundle1"
PLACE = "/var/lib/gpufleet/bundle"
SOURCE = "/etc/apt/sources.list.d/gpufleet-nvidia.sources"
BASE = f"nvidia-container-toolkit-base_{aptrepo.VERSION}_amd64.deb"
pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"}})
    found.shell(HOST, "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*")
    return found


def make(fleet: Fleet, archive: Path, home: Path, **more: Any) -> Run:
    """An archive of the repository in a directory of this machine."""
    variables = {
        **repository(),
        "gpufleet_toolkit_repository": f"file://{home}/{aptrepo.FLAT}",
        "gpufleet_bundle_file": str(archive),
        **more,
    }
    return fleet.play("bundle", variables=variables)


@pytest.fixture(scope="module")
def archive(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bundle") / "bundle.tar"
    done = make(fleet, place, artefacts.nvidia_debs())
    assert done.failed == {}, done.words
    return place


def site(fleet: Fleet, archive: Path, *arguments: str, **more: Any) -> Run:
    own = {"gpufleet_toolkit_key_fingerprint": repository()["gpufleet_toolkit_key_fingerprint"], "gpufleet_bundle_file": str(archive)}
    return fleet.play("site", [HOST], variables={**own, **more}, arguments=arguments)


def test_a_second_run_makes_the_same_archive(fleet: Fleet, archive: Path) -> None:
    before = archive.read_bytes()
    again = make(fleet, archive, artefacts.nvidia_debs())
    assert (again.changed, again.failed) == ({}, {})
    other = archive.with_name("other.tar")
    assert make(fleet, other, artefacts.nvidia_debs()).of("bundle")["localhost"]["changed"]
    assert other.read_bytes() == before == archive.read_bytes()


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(home: Path) -> None:
        place = home / aptrepo.FLAT / name
        data = place.read_bytes()
        assert old in data
        place.write_bytes(data.replace(old, new, 1))

    return change


def unsigned(home: Path) -> None:
    shutil.copy2(home / aptrepo.FLAT / "Release", home / aptrepo.FLAT / "InRelease")


REPOSITORIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "its metadata was changed": (replaced("InRelease", b"Suite: stable", b"Suite: stabel"), "gpgv says BADSIG"),
    "its metadata is not signed": (unsigned, "it has no signature of the key"),
    "its list was changed": (
        replaced("Packages", b"Version: ", b"Version:  "),
        "Packages: the repository's file is not the one that it has signed",
    ),
    "a package was changed": (replaced(BASE, b"!<arch>", b"!<arcx>"), f"{BASE}: the repository's file is not the one that it has signed"),
}


@pytest.mark.parametrize(("change", "says"), REPOSITORIES.values(), ids=REPOSITORIES)
def test_no_archive_is_made_of_a_repository_that_somebody_changed(
    fleet: Fleet, change: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    shutil.copytree(artefacts.nvidia_debs(), home)
    change(home)
    done = make(fleet, tmp_path / "bundle.tar", home)
    assert says in done.failed["localhost"]
    assert not (tmp_path / "bundle.tar").exists()


def test_no_archive_is_made_with_another_key(fleet: Fleet, tmp_path: Path) -> None:
    home = artefacts.nvidia_debs()
    wrong = {"gpufleet_toolkit_key": (home / "wrong.asc").read_text(), "gpufleet_toolkit_key_fingerprint": ""}
    assert "gpgv says ERRSIG: another key has signed it" in make(fleet, tmp_path / "bundle.tar", home, **wrong).failed["localhost"]


def test_what_is_refused_is_refused_before_the_host_is_asked(fleet: Fleet, archive: Path, tmp_path: Path) -> None:
    damaged, key = tmp_path / "damaged.tar", {"toolkit_key_fingerprint": repository()["gpufleet_toolkit_key_fingerprint"]}
    damaged.write_bytes(archive.read_bytes().replace(b"!<arch>", b"!<arcx>", 1))
    cases: dict[str, dict[str, str]] = {
        "has not the bytes that its manifest.json says": {"bundle_file": str(damaged), **key},
        "No such file or directory": {"bundle_file": str(tmp_path / "missing.tar"), **key},
        "the key of the package repository is not the expected one": {"bundle_file": str(archive)},
        f"is 1.19.1, and apt/x86_64 has {aptrepo.VERSION}": {"bundle_file": str(archive), "toolkit_version": "1.19.1", **key},
    }
    tasks = [{"gpufleet.nvidia.node": options, "ignore_errors": True} for options in cases.values()]
    done = fleet.play([{"hosts": HOST, "gather_facts": False, "tasks": tasks}], [HOST])
    for says, entry in zip(cases, done.entries, strict=True):
        assert says in entry["result"]["msg"]
    assert done.operations == {}, "nothing was asked of the host"


def test_a_host_without_a_repository_is_converged(fleet: Fleet, archive: Path) -> None:
    """Check mode, the change, nothing left to do, and everything taken back."""
    before = fleet.tree(HOST, "/etc", "/var/lib/apt", "/var/lib/dpkg")
    tried = site(fleet, archive, "--check", "--diff")
    assert tried.failed == {}, tried.words
    assert BASE in tried.words
    assert fleet.tree(HOST, "/etc", "/var/lib/apt", "/var/lib/dpkg") == before

    done = site(fleet, archive)
    assert done.failed == {}, done.words
    assert fleet.shell(HOST, "dpkg-query -W -f '${Version}' nvidia-container-toolkit-base") == aptrepo.VERSION
    assert f"URIs: file://{PLACE}/apt\n" in fleet.text(HOST, SOURCE)
    assert BASE in fleet.shell(HOST, f"ls {PLACE}/apt")
    fleet.shell(HOST, "apt-get update -o APT::Update::Error-Mode=any")  # as its own user, and with nothing else to read

    again = site(fleet, archive)
    assert (again.changed, again.failed) == ({}, {}), again.words
    assert again.operations == {HOST: 1}

    assert fleet.play("rollback", [HOST]).failed == {}
    assert fleet.shell(HOST, f"ls -d {PLACE} {SOURCE} 2>/dev/null || true") == ""
