# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a package repository: they suit the distribution, and go as they came."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository,
    repository_check,
)

from tests.unit.repository_hosts import URL, observe_distribution
from tests.unit.repository_keys import FINGERPRINT, OLD, armor


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
        repository.read_repository_facts(observe_distribution(os_id, like)),
        url=URL,
        key=armor(OLD),
        expected=FINGERPRINT,
        state="present",
    )
    assert plan.changes[1]["path"] == list_path
    assert URL in plan.changes[1]["content"]
    again = observe_distribution(
        os_id, like, key=plan.changes[0]["content"], list=plan.changes[1]["content"]
    )
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
        repository.read_repository_facts(observe_distribution(os_id, like)),
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
        repository.read_repository_facts(observe_distribution(os_id, "rhel suse")),
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


@pytest.mark.parametrize("journaled", [True, False])
def test_absent_gives_back_what_stood_there_before(journaled: bool) -> None:
    """A key of our name that the journal does not have is a person's."""
    here = observe_distribution("debian", key="ours", list="ours, too")
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
    if journaled:
        kept[where.key_path] = {"existed": False, "sha256_after": hashes[where.key_path]}
    found = Observation(here.host, {**here.answers, "originals": {"originals": kept}})
    gone = repository.plan_repository_files(
        repository.read_repository_facts(found), url=URL, key="", expected="", state="absent"
    )
    assert [(c["op"], c["path"]) for c in gone.changes] == [
        ("restore", path) for path in (where.list_path, where.key_path)[: 1 + journaled]
    ]
    assert set(gone.expect_files.items()) <= set(hashes.items())
    assert len(gone.expect_files) == 1 + journaled


# ID and ID_LIKE of os-release -> the package manager. Azure Linux 4:
# https://github.com/microsoft/azurelinux/blob/00ce6401ec3ce169c79fd374db080d36295b3a75/base/comps/azurelinux-release/azurelinux-release.spec
DISTRIBUTIONS = {
    "Ubuntu 26.04": ("ubuntu", "debian", "apt"),
    "Debian": ("debian", "", "apt"),
    "RHEL 10": ("rhel", "centos fedora", "dnf"),
    "Azure Linux 4": ("azurelinux", "fedora", "dnf"),
    "Amazon Linux 2023": ("amzn", "fedora", "dnf"),
    "SLES 16": ("sles", "suse", "zypper"),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_distribution_has_the_package_manager_of_its_family(name: str) -> None:
    os_id, like, manager = DISTRIBUTIONS[name]
    family = repository.get_repository_family({"ID": os_id, "ID_LIKE": like})
    assert family.manager == manager


def test_an_unknown_distribution_and_a_bad_address_are_named() -> None:
    with pytest.raises(PlanError, match=r"plan9.*\[repository.unknown-distribution\]"):
        repository.get_repository_family({"ID": "plan9"})
    with pytest.raises(PlanError, match=r"\[repository.not-an-address\]"):
        repository.plan_repository_files(
            repository.read_repository_facts(observe_distribution("debian")),
            url="mirror",
            key=armor(OLD),
            expected="",
            state="present",
        )


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


def test_absent_knows_each_path_once() -> None:
    """dnf and zypper keep their keys in one place."""
    here = observe_distribution("fedora", key="ours", list="ours, too")
    rest = {f"file:{path}": {"exists": False} for path in repository.PATHS}
    gone = repository.plan_absent(
        Policy(state="absent"),
        repository.read_repository_facts(Observation(here.host, {**rest, **here.answers})),
    )
    where = repository.FAMILIES["fedora"]
    assert [c["path"] for c in gone.changes] == [where.list_path, where.key_path]
