# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of an archive a host gets, in which version, and which archive is not for it."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import (
    archive_plan,
    manifest,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    apt_sources,
    image_hosts,
    packages,
    repository,
    repository_key,
    rpm_sources,
)

from tests.unit import bundle_keys, bundles

BASE, TOOLKIT = "nvidia-container-toolkit-base", "nvidia-container-toolkit"
KEY = bundle_keys.NEVER
FINGERPRINT = repository_key.compute_key_fingerprint(KEY)
RECORD = HostDecision((), (), "", "cdi", (), "compatible", (), (BASE,), "collection", "", ())
POLICY = Policy(bundle_file="/srv/bundle.tar", toolkit_key_fingerprint=FINGERPRINT)
PLACE = "/var/lib/gpufleet/bundle/apt"


def described(
    *versions: str, form: str = "apt", machine: str = "x86_64", expires: str = ""
) -> manifest.Manifest:
    names = [
        (name, version, f"{name}_{version}.{'deb' if form == 'apt' else 'rpm'}")
        for version in versions
        for name in packages.FAMILY
    ]
    indexes = (
        ("InRelease", "Packages")
        if form == "apt"
        else ("repodata/repomd.xml", "repodata/repomd.xml.asc")
    )
    source = manifest.Repository(
        form, machine, "https://m", indexes, tuple(manifest.Package(*name) for name in names)
    )
    files = {f"{source.place}/{name}": manifest.BundleFile("0" * 64, 10) for name in source.files}
    return manifest.Manifest(
        manifest.Key(FINGERPRINT, expires),
        (source,),
        {"key.asc": manifest.BundleFile("0" * 64, 1), **files},
    )


def host(
    archive: manifest.Manifest,
    installed: Mapping[str, str] | None = None,
    *,
    os: str = "debian",
    there: Mapping[str, int] | None = None,
) -> Observation:
    """A host with these packages, and with these files in the archive's place."""
    entries = [{"name": name, "type": "file", "size": size} for name, size in (there or {}).items()]
    rpm = f"{archive_plan.DIRECTORY}/rpm"
    answers: dict[str, Any] = {
        **{
            f"glob:{pattern}": {"files": []}
            for pattern in (*apt_sources.PATTERNS, *rpm_sources.PATTERNS.values())
        },
        image_hosts.MARK["id"]: {"exists": False},
        packages.QUESTION["id"]: {
            "manager": "dpkg" if os == "debian" else "rpm",
            "installed": {name: (installed or {}).get(name) for name in packages.FAMILY},
            "candidates": {},
        },
        queries.ask_for_archive(POLICY.bundle_file)["id"]: {
            "manifest": manifest.render_manifest(archive),
            "key": KEY,
        },
        earlier_runs.ORIGINALS["id"]: {"originals": {}},
        **{queries.ask_for_directory(place)["id"]: {"entries": entries} for place in (PLACE, rpm)},
        queries.ask_for_directory(f"{rpm}/repodata")["id"]: {"entries": []},
        **{f"file:{path}": {"exists": False} for path in repository.PATHS},
    }
    return Observation({"os_release": {"ID": os}, "machine": "x86_64"}, answers)


def sent(plan: Plan) -> list[str]:
    return [
        str(change["path"]).removeprefix(f"{PLACE}/")
        for change in plan.changes
        if change["op"] == "write" and "archived" in change
    ]


def test_a_host_gets_the_signed_metadata_and_what_it_installs() -> None:
    plan = archive_plan.plan_needed_archive(
        POLICY, archive_plan.read_archive_facts(POLICY, host(described("1.20.1-1"))), RECORD
    )
    assert sent(plan) == ["InRelease", "Packages", f"{BASE}_1.20.1-1.deb"]
    assert [change["path"] for change in plan.changes[-2:]] == [
        repository.FAMILIES["debian"].key_path,
        repository.FAMILIES["debian"].list_path,
    ]
    (first, *_rest) = plan.differences
    assert (first.path, first.before, first.after) == (
        PLACE,
        None,
        "3 files, 30 bytes, toolkit 1.20.1-1",
    )
    assert f"URIs: file://{PLACE}\n" in plan.changes[-1]["content"]  # type: ignore[typeddict-item]


def test_apt_tries_the_metadata_where_it_is_staged() -> None:
    plan = archive_plan.plan_needed_archive(
        POLICY, archive_plan.read_archive_facts(POLICY, host(described("1.20.1-1"))), RECORD
    )
    assert [item["name"] for item in plan.stage_files][-2:] == [
        "bundle/InRelease",
        "bundle/Packages",
    ]
    assert (f"file://{PLACE}", "file://{stage}/bundle") in plan.substitute


def test_rpm_hosts_get_their_own_part() -> None:
    plan = archive_plan.plan_needed_archive(
        POLICY,
        archive_plan.read_archive_facts(
            POLICY, host(described("1.20.1-1", form="rpm"), os="fedora")
        ),
        RECORD,
    )
    assert [str(c["path"]) for c in plan.changes[:3]] == [
        f"{archive_plan.DIRECTORY}/rpm/{name}"
        for name in ("repodata/repomd.xml", "repodata/repomd.xml.asc", f"{BASE}_1.20.1-1.rpm")
    ]


def test_an_old_archive_goes() -> None:
    there = {f"{BASE}_1.20.1-1.deb": 10, "InRelease": 9, f"{BASE}_1.19.1-1.deb": 10}
    plan = archive_plan.plan_needed_archive(
        POLICY,
        archive_plan.read_archive_facts(POLICY, host(described("1.20.1-1"), there=there)),
        RECORD,
    )
    assert sent(plan) == ["InRelease", "Packages", f"{BASE}_1.20.1-1.deb"]
    assert [str(c["path"]) for c in plan.changes if c["op"] == "remove"] == [
        f"{PLACE}/{BASE}_1.19.1-1.deb"
    ]
    assert plan.differences[0].before == "3 files, 29 bytes"


def test_what_has_to_be_known_of_a_host_is_one_look_more() -> None:
    full = host(described("1.20.1-1", form="rpm"), os="fedora")
    first = {packages.QUESTION["id"], queries.ask_for_archive(POLICY.bundle_file)["id"]}
    with pytest.raises(NeedMore) as caught:
        archive_plan.plan_needed_archive(
            POLICY,
            archive_plan.read_archive_facts(
                POLICY, Observation(full.host, {name: full.answers[name] for name in first})
            ),
            RECORD,
        )
    asked = {question["id"]: full.answers[question["id"]] for question in caught.value.questions}
    assert archive_plan.plan_needed_archive(
        POLICY,
        archive_plan.read_archive_facts(
            POLICY,
            Observation(full.host, {**{name: full.answers[name] for name in first}, **asked}),
        ),
        RECORD,
    ).changes


NOTHING: dict[str, tuple[Policy, dict[str, str]]] = {
    "all is installed": (POLICY, {BASE: "1.20.1-1"}),
    "another version is installed, and none is asked for": (POLICY, {BASE: "1.18.0-1"}),
    "packages are left alone": (dc.replace(POLICY, packages="ignore"), {}),
    "another root": (dc.replace(POLICY, root="/srv/image"), {}),
}


@pytest.mark.parametrize(("policy", "installed"), NOTHING.values(), ids=NOTHING)
def test_nothing_is_sent_where_nothing_is_installed(
    policy: Policy, installed: dict[str, str]
) -> None:
    assert archive_plan.plan_needed_archive(
        policy,
        archive_plan.read_archive_facts(policy, host(described("1.20.1-1"), installed)),
        RECORD,
    ).empty


BOTH = dc.replace(RECORD, packages=(BASE, TOOLKIT))
VERSIONS: dict[str, tuple[Policy, dict[str, str], str]] = {
    "the newest in the archive": (POLICY, {}, "1.20.1-1"),
    "the one that the rest has": (POLICY, {BASE: "1.19.1-1"}, "1.19.1-1"),
    "the one that is asked for": (dc.replace(POLICY, toolkit_version="1.19.1"), {}, "1.19.1-1"),
    "the one that is asked for, whatever is installed": (
        dc.replace(POLICY, toolkit_version="1.19.1"),
        {BASE: "1.20.1-1"},
        "1.19.1-1",
    ),
}


@pytest.mark.parametrize(("policy", "installed", "version"), VERSIONS.values(), ids=VERSIONS)
def test_the_version_is_one_that_the_archive_has(
    policy: Policy, installed: dict[str, str], version: str
) -> None:
    """The signed metadata lists others as well, which no host could install."""
    obs = host(described("1.19.1-1", "1.20.1-1"), installed)
    assert (
        archive_plan.pin_archive_in_policy(
            policy, archive_plan.read_archive_facts(policy, obs), BOTH
        ).toolkit_version
        == version
    )
    assert f"{TOOLKIT}_{version}.deb" in sent(
        archive_plan.plan_needed_archive(policy, archive_plan.read_archive_facts(policy, obs), BOTH)
    )


def test_apt_reads_the_lists_of_the_archive_alone() -> None:
    obs = host(described("1.20.1-1"))
    plan = archive_plan.narrow_install_plan(
        POLICY,
        archive_plan.read_archive_facts(POLICY, obs),
        packages.plan_packages(
            archive_plan.pin_archive_in_policy(
                POLICY, archive_plan.read_archive_facts(POLICY, obs), RECORD
            ),
            packages.read_toolkit_facts(obs),
            RECORD,
        ),
    )
    refresh, install = [command["argv"] for command in plan.commands]
    assert refresh[:2] == ["apt-get", "update"]
    assert "Dir::Etc::sourceparts=-" in refresh
    assert install[-1] == f"{BASE}=1.20.1-1"


@pytest.mark.parametrize(
    ("versions", "way_back"), [(("1.20.1-1",), False), (("1.19.1-1", "1.20.1-1"), True)]
)
def test_there_is_a_way_back_where_the_archive_has_it(
    versions: tuple[str, ...], way_back: bool
) -> None:
    """A failed installation is undone by the packages from before, which have to be on the host for
    that.
    """
    policy = dc.replace(POLICY, toolkit_version="1.20.1")
    obs = host(described(*versions), {BASE: "1.19.1-1"})
    command = archive_plan.narrow_install_plan(
        policy,
        archive_plan.read_archive_facts(policy, obs),
        packages.plan_packages(
            archive_plan.pin_archive_in_policy(
                policy, archive_plan.read_archive_facts(policy, obs), RECORD
            ),
            packages.read_toolkit_facts(obs),
            RECORD,
        ),
    ).commands[-1]
    assert ("undo" in command) is way_back
    assert (
        f"{BASE}_1.19.1-1.deb"
        in sent(
            archive_plan.plan_needed_archive(
                policy, archive_plan.read_archive_facts(policy, obs), RECORD
            )
        )
    ) is way_back


REFUSED: dict[str, tuple[Policy, Observation, str]] = {
    "another format": (POLICY, host(described("1.20.1-1", form="rpm")), "bundle.other-format"),
    "another architecture": (
        POLICY,
        host(described("1.20.1-1", machine="aarch64")),
        "bundle.other-format",
    ),
    "another version": (
        POLICY,
        host(described("1.20.1-1"), {BASE: "1.18.0-1"}),
        "bundle.installed-version-missing",
    ),
}


@pytest.mark.parametrize(("policy", "obs", "code"), REFUSED.values(), ids=REFUSED)
def test_an_archive_that_is_not_for_this_host(policy: Policy, obs: Observation, code: str) -> None:
    with pytest.raises(PlanError) as caught:
        archive_plan.plan_needed_archive(policy, archive_plan.read_archive_facts(policy, obs), BOTH)
    assert caught.value.code == code
    assert "gpufleet" in caught.value.next


NOW = "2026-11-22T20:00:00Z"
BEFORE: dict[str, tuple[Policy, manifest.Manifest, str]] = {
    "a key that nobody vouches for": (
        dc.replace(POLICY, toolkit_key_fingerprint=""),
        described("1.20.1-1"),
        "repository.other-key",
    ),
    "a key that has expired": (
        POLICY,
        described("1.20.1-1", expires="2026-11-22T19:59:59Z"),
        "bundle.expired-key",
    ),
    "a key that expires now": (
        POLICY,
        described("1.20.1-1", expires="2026-11-22T20:00:00Z"),
        "bundle.expired-key",
    ),
    "another key than it says": (
        POLICY,
        dc.replace(described("1.20.1-1"), key=manifest.Key(bundles.FINGERPRINT)),
        "bundle.other-key",
    ),
    "a version that it has not": (
        dc.replace(POLICY, toolkit_version="1.21"),
        described("1.19.1-1", "1.20.1-1"),
        "bundle.version-missing",
    ),
}


@pytest.mark.parametrize(("policy", "archive", "code"), BEFORE.values(), ids=BEFORE)
def test_what_is_refused_before_any_host_is_looked_at(
    policy: Policy, archive: manifest.Manifest, code: str
) -> None:
    with pytest.raises(PlanError) as caught:
        archive_plan.require_usable_archive(policy, archive, KEY, NOW)
    assert (caught.value.code, caught.value.where) == (code, policy.bundle_file)


def test_an_archive_that_is_good_for_now() -> None:
    archive_plan.require_usable_archive(
        POLICY, described("1.20.1-1", expires="2026-11-22T20:00:01Z"), KEY, NOW
    )
