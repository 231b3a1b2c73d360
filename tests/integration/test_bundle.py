# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that reaches no repository, from an archive that is made of one: real signatures, real
apt, one host.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import archives
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import manifest

from tests.integration import documented_tasks
from tests.lab import aptrepo, artefacts
from tests.tools.onlab import Fleet, Run, repository

HOST = "bundle1"
PLACE = "/var/lib/gpufleet/bundle"
SOURCE = "/etc/apt/sources.list.d/gpufleet-nvidia.sources"
BASE = f"nvidia-container-toolkit-base_{aptrepo.VERSION}_amd64.deb"
pytestmark = pytest.mark.lab
OTHER_WAY = pytest.mark.nightly(
    "the module host makes and installs the same archive by day; this asks for it in another way"
)


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"}})
    found.shell(HOST, "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*")
    return found


def options(archive: Path, home: Path) -> dict[str, Any]:
    """Of the module bundle, for the repository in a directory of this machine."""
    return {
        "file": str(archive),
        "url": f"file://{home}/{aptrepo.FLAT}",
        "key": (home / "key.asc").read_text(),
    }


def make(fleet: Fleet, *made: dict[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The results of several in one play: what takes time is to start Ansible."""
    tasks = [{"gpufleet.nvidia.bundle": options, "ignore_errors": True} for options in made]
    return tuple(
        entry["result"]
        for entry in fleet.play(
            [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]
        ).entries
    )


@pytest.fixture(scope="module")
def archive(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, found = (
        tmp_path_factory.mktemp("bundle") / "bundle.tar",
        options(Path(), artefacts.nvidia_debs()),
    )
    variables = {
        "gpufleet_bundle_file": str(place),
        "gpufleet_toolkit_repository": found["url"],
        "gpufleet_toolkit_key": found["key"],
    }
    done = fleet.play("bundle", variables=variables)
    assert done.failed == {}, done.words
    assert f"sha256 {hashlib.sha256(place.read_bytes()).hexdigest()}" in done.words
    return place


def fingerprint() -> str:
    return repository()["gpufleet_toolkit_key_fingerprint"]


@OTHER_WAY
def test_a_second_run_makes_the_same_archive(fleet: Fleet, archive: Path) -> None:
    before, other = archive.read_bytes(), archive.with_name("other.tar")
    results = make(
        fleet, options(archive, artefacts.nvidia_debs()), options(other, artefacts.nvidia_debs())
    )
    assert [result["changed"] for result in results] == [False, True]
    assert other.read_bytes() == before == archive.read_bytes()


@OTHER_WAY
def test_the_examples_run(fleet: Fleet, tmp_path: Path) -> None:
    """With the lab's repository, which has one version for one architecture."""
    shown = [
        dict(task["gpufleet.nvidia.bundle"])
        for task in documented_tasks.documented("bundle", "EXAMPLES")
    ]
    of_lab = {"versions": [aptrepo.VERSION.partition("-")[0]], "architectures": ["x86_64"]}
    own = options(tmp_path / "bundle.tar", artefacts.nvidia_debs())
    suited = [
        {**task, **{name: value for name, value in of_lab.items() if name in task}, **own}
        for task in shown
    ]
    assert [result.get("changed") for result in make(fleet, *suited)] == [True, False]


def play_role(fleet: Fleet, archive: Path, *arguments: str) -> Run:
    """Play the role toolkit with the archive."""
    play = {
        "hosts": HOST,
        "gather_facts": False,
        "tasks": [{"ansible.builtin.import_role": {"name": "gpufleet.nvidia.toolkit"}}],
    }
    variables = {
        "gpufleet_bundle_file": str(archive),
        "gpufleet_toolkit_key_fingerprint": fingerprint(),
    }
    return fleet.play([play], variables=variables, arguments=arguments)


@OTHER_WAY
def test_the_role_toolkit_adds_no_repository_where_packages_come_from_the_archive(
    fleet: Fleet, archive: Path
) -> None:
    run = play_role(fleet, archive, "--check")
    answer = run.of("toolkit_repository")[HOST]
    assert (run.status, run.changed) == (0, {HOST: ["gpufleet.nvidia.toolkit_packages"]}), run.words
    assert f"the packages come from {archive}" in answer["advice"][0]
    assert f"{PLACE}/apt" in [
        difference["path"] for difference in run.of("toolkit_packages")[HOST]["differences"]
    ]
    assert fleet.shell(HOST, "ls /etc/apt/sources.list.d") == ""


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(home: Path) -> None:
        place = home / aptrepo.FLAT / name
        data = place.read_bytes()
        assert old in data
        place.write_bytes(data.replace(old, new, 1))

    return change


def unsigned(home: Path) -> None:
    shutil.copy2(home / aptrepo.FLAT / "Release", home / aptrepo.FLAT / "InRelease")


REPOSITORIES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another key has signed it": (
        lambda home: shutil.copy2(home / "wrong.asc", home / "key.asc"),
        "gpgv says ERRSIG: another key has signed it",
    ),
    "its metadata was changed": (
        replaced("InRelease", b"Suite: stable", b"Suite: stabel"),
        "gpgv says BADSIG",
    ),
    "its metadata is not signed": (unsigned, "it has no signature of the key"),
    "its list was changed": (
        replaced("Packages", b"Version: ", b"Version:  "),
        "Packages: the repository's file is not the one that it has signed",
    ),
    "a package was changed": (
        replaced(BASE, b"!<arch>", b"!<arcx>"),
        f"{BASE}: the repository's file is not the one that it has signed",
    ),
}


def test_no_archive_is_made_of_what_the_key_has_not_signed(fleet: Fleet, tmp_path: Path) -> None:
    wanted = []
    for name, (change, _says) in REPOSITORIES.items():
        home = tmp_path / name.replace(" ", "-")
        shutil.copytree(artefacts.nvidia_debs(), home)
        change(home)
        wanted.append(options(tmp_path / "bundle.tar", home))
    for (_change, says), result in zip(REPOSITORIES.values(), make(fleet, *wanted), strict=True):
        assert says in result["msg"]
    assert not (tmp_path / "bundle.tar").exists()


def test_what_is_refused_is_refused_before_the_host_is_asked(
    fleet: Fleet, archive: Path, tmp_path: Path
) -> None:
    damaged, key = tmp_path / "damaged.tar", {"toolkit_key_fingerprint": fingerprint()}
    damaged.write_bytes(archive.read_bytes().replace(b"!<arch>", b"!<arcx>", 1))
    cases: dict[str, dict[str, str]] = {
        "has not the bytes that its manifest.json says": {"bundle_file": str(damaged), **key},
        "No such file or directory": {"bundle_file": str(tmp_path / "missing.tar"), **key},
        "[repository.other-key]": {"bundle_file": str(archive)},
        f"is 1.19.1, and apt/x86_64 has {aptrepo.VERSION}": {
            "bundle_file": str(archive),
            "toolkit_version": "1.19.1",
            **key,
        },
    }
    tasks = [{"gpufleet.nvidia.host": options, "ignore_errors": True} for options in cases.values()]
    done = fleet.play([{"hosts": HOST, "gather_facts": False, "tasks": tasks}], [HOST])
    for says, entry in zip(cases, done.entries, strict=True):
        assert says in entry["result"]["msg"]
    assert done.operations == {}, "nothing was asked of the host"


def forged(archive: Path, name: str, old: bytes, new: bytes) -> Path:
    """The archive of somebody who has changed a file in it, and its manifest as well."""
    with tarfile.open(archive) as found:
        files = {member.name: found.extractfile(member).read() for member in found}  # type: ignore[union-attr]
    assert old in files[name]
    files[name] = files[name].replace(old, new, 1)
    told = json.loads(files[manifest.NAME])
    told["files"][name] = {
        "sha256": hashlib.sha256(files[name]).hexdigest(),
        "size": len(files[name]),
    }
    place = archive.with_name("forged.tar")
    place.write_bytes(archives.pack_archive({**files, manifest.NAME: json.dumps(told).encode()}))
    return place


OTHER_FORGERY = pytest.mark.nightly("apt refuses both by the same signature")
FORGED = {
    "the signed metadata": (
        "apt/x86_64/InRelease",
        b"Suite: stable",
        b"Suite: stabel",
        "apt-get: exit status 100",
    ),
    "a package": (f"apt/x86_64/{BASE}", b"!<arch>", b"!<arcx>", "apt-get install"),
}


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        pytest.param(*row, id=name, marks=[] if name == "a package" else [OTHER_FORGERY])
        for name, row in FORGED.items()
    ],
)
def test_nothing_is_installed_from_a_forged_archive(
    fleet: Fleet, archive: Path, name: str, old: bytes, new: bytes, says: str
) -> None:
    """The maker of a manifest can make it fit. The repository's own signature is what apt believes."""
    options = {
        "bundle_file": str(forged(archive, name, old, new)),
        "toolkit_key_fingerprint": fingerprint(),
    }
    found = fleet.task("host", [HOST], options).of("host")[HOST]
    assert found["status"] == "failed"
    assert says in found["msg"], found["msg"]
    assert fleet.shell(HOST, "dpkg-query -W 'nvidia-*' 2>/dev/null || true") == ""


def test_a_host_without_a_repository_is_converged(fleet: Fleet, archive: Path) -> None:
    """Check mode, the change, nothing left to do, and everything taken back. The right archive
    mends what a forged one has left.
    """
    own = {"bundle_file": str(archive), "toolkit_key_fingerprint": fingerprint()}
    before = fleet.tree(HOST, "/etc", "/var/lib/apt", "/var/lib/dpkg")
    tried = fleet.task("host", [HOST], own, arguments=["--check"])
    assert tried.failed == {}, tried.words
    assert f"{PLACE}/apt" in [
        difference["path"] for difference in tried.of("host")[HOST]["differences"]
    ]
    assert fleet.tree(HOST, "/etc", "/var/lib/apt", "/var/lib/dpkg") == before

    done = fleet.play(
        "site", [HOST], variables={f"gpufleet_{name}": value for name, value in own.items()}
    )
    assert done.failed == {}, done.words
    assert (
        fleet.shell(HOST, "dpkg-query -W -f '${Version}' nvidia-container-toolkit-base")
        == aptrepo.VERSION
    )
    assert f"URIs: file://{PLACE}/apt\n" in fleet.text(HOST, SOURCE)
    assert BASE in fleet.shell(HOST, f"ls {PLACE}/apt")
    # as its own user, and with nothing else to read
    fleet.shell(HOST, "apt-get update -o APT::Update::Error-Mode=any")

    again = fleet.task("host", [HOST], own)
    assert (again.changed, again.failed, again.operations) == ({}, {}, {HOST: 1}), again.words

    assert fleet.task("host", [HOST], {"state": "absent"}).failed == {}
    assert fleet.shell(HOST, f"ls -d {PLACE} {SOURCE} 2>/dev/null || true") == ""


@OTHER_WAY
def test_the_role_toolkit_installs_from_the_archive(fleet: Fleet, archive: Path) -> None:
    fleet.shell(HOST, "dpkg --purge nvidia-container-toolkit-base")
    engine = fleet.tree(HOST, "/etc/containerd")
    done = play_role(fleet, archive)
    assert (done.status, done.changed) == (0, {HOST: ["gpufleet.nvidia.toolkit_packages"]}), (
        done.words
    )
    assert (
        fleet.shell(HOST, "dpkg-query -W -f '${Version}' nvidia-container-toolkit-base")
        == aptrepo.VERSION
    )
    again = play_role(fleet, archive)
    assert (again.status, again.changed) == (0, {}), again.words
    assert fleet.tree(HOST, "/etc/containerd") == engine
