# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fleet file may say, and what the lab makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import LabError, fleet, images, network, roots, rpmrepo
from tests.lab.kinds import KINDS


def test_the_whole_fleet_has_every_kind_and_a_host_without_gpu() -> None:
    specs = fleet.parse(fleet.read(fleet.ALL)).values()
    # a cluster of its own, which the tests of draining boot, and a host with two engines, one
    # without images
    others = {"slurm-22.05", "crio-1.34-containerd-1.7"}
    assert {spec.kind for spec in specs} == KINDS.keys() - others
    assert {
        spec.kind for spec in specs if KINDS[spec.kind].tree not in ("docker", "podman")
    } <= images.PAUSE_NAMES.keys()
    assert [spec.name for spec in specs if not spec.gpus.gpus] == ["nogpu"]


def test_the_fleet_of_engines_has_each_engine_with_a_daemon_and_a_host_without_gpu() -> None:
    specs = fleet.parse(fleet.read(fleet.ENGINES)).values()
    assert {KINDS[spec.kind].service for spec in specs} == {
        "containerd.service",
        "crio.service",
        "docker.service",
    }
    assert [spec.name for spec in specs if not spec.gpus.gpus] == ["nogpu"]


def test_hosts_that_take_themselves_for_another_distribution_have_its_files_in_the_whole_fleet_as_well() -> (
    None
):
    hosts = fleet.parse(fleet.read(fleet.ALL))
    for name, release in {
        "rocky": rpmrepo.ROCKY,
        "fedora": rpmrepo.FEDORA,
        "sles": rpmrepo.SLES,
    }.items():
        assert hosts[name].files == rpmrepo.files(release)


def test_a_fleet_may_have_the_hosts_of_another(tmp_path: Path) -> None:
    (tmp_path / "few.json").write_text(
        '{"hosts": {"one": {"kind": "docker"}, "two": {"kind": "docker"}}}'
    )
    (tmp_path / "more.json").write_text(
        '{"with": "few", "hosts": {"two": {"kind": "docker-28"}, "three": {"kind": "docker"}}}'
    )
    found = fleet.parse(fleet.read(tmp_path / "more.json"))
    assert {name: spec.kind for name, spec in found.items()} == {
        "one": "docker",
        "two": "docker-28",
        "three": "docker",
    }


def test_the_demo_fleet_needs_no_engine_built_from_source_and_has_a_host_without_gpu() -> None:
    specs = fleet.parse(fleet.read(fleet.DEMO)).values()
    assert {KINDS[spec.kind].programs for spec in specs} == {""}
    assert {KINDS[spec.kind].suite for spec in specs} == {"bookworm", "trixie", "forky"}
    assert {KINDS[spec.kind].service for spec in specs} == {"containerd.service", "docker.service"}
    assert [spec.name for spec in specs if not spec.gpus.gpus] == ["nogpu"]


@pytest.mark.parametrize(
    "name, entry, why",
    [
        ("Big", {"kind": "docker"}, "small letters"),
        ("a/b", {"kind": "docker"}, "small letters"),
        ("one", {}, "its kind is None; known are containerd-1.6"),
        ("one", {"kind": "podman"}, "its kind is 'podman'"),
        ("one", {"kind": "docker", "gpu": 1}, "unknown keys: gpu"),
        ("one", {"kind": "docker", "driver": "new"}, "driver is 'new'"),
        ("one", {"kind": "docker", "gpus": [{"colour": "green"}]}, "GPUs are described wrongly"),
    ],
)
def test_a_wrong_host_is_refused_with_the_reason(
    name: str, entry: dict[str, object], why: str
) -> None:
    with pytest.raises(LabError, match=why):
        fleet.parse({"hosts": {name: entry}})


@pytest.mark.parametrize("content", [{}, {"hosts": {}}, {"hosts": []}])
def test_a_fleet_without_hosts_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(LabError, match="names no hosts"):
        fleet.parse(content)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_file_that_is_no_fleet_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "fleet.json").write_text(text)
    with pytest.raises(LabError, match="fleet.json"):
        fleet.read(tmp_path / "fleet.json")


@pytest.mark.parametrize("host, machine", [("c17", "c17"), ("twelve-chars", "twelve-chars")])
def test_a_short_name_is_the_name_of_its_port(host: str, machine: str) -> None:
    assert network.machine(host) == machine


def test_long_names_that_begin_alike_have_different_ports() -> None:
    one, two = network.machine("default-containerd-1"), network.machine("default-containerd-2")
    assert one != two
    assert max(len(one), len(two)) <= network.MACHINE_LENGTH


def test_addresses_are_given_out_from_the_first_free_one() -> None:
    assert network.free_address([]) == "10.77.1.1"
    assert network.free_address(["10.77.1.1", "10.77.1.3"]) == "10.77.1.2"
    with pytest.raises(LabError, match="taken"):
        network.free_address(f"10.77.1.{number}" for number in range(1, 250))


STATUS = "Package: a\nVersion: 1\n\nPackage: containerd\nVersion: 1.7\nDepends: runc\n\nPackage: z\nVersion: 1\n"


def test_only_the_version_of_the_named_package_is_replaced() -> None:
    assert roots.replace_version(STATUS, "containerd", "2.4.2-1") == STATUS.replace(
        "Version: 1.7", "Version: 2.4.2-1"
    )


def test_a_package_that_is_not_installed_cannot_have_a_version() -> None:
    with pytest.raises(LabError, match="docker is not in"):
        roots.replace_version(STATUS, "docker", "1")


def test_a_host_may_have_the_gpus_of_a_recorded_node() -> None:
    entry = {"kind": "docker", "recorded": "gb300"}
    found = fleet.spec("one", entry).gpus
    assert [gpu.bus for gpu in found.gpus] == [
        "0008:06:00.0",
        "0009:06:00.0",
        "0018:06:00.0",
        "0019:06:00.0",
    ]
    assert found.cpu == "x86_64"
    with pytest.raises(LabError, match="gb301"):
        fleet.spec("one", {**entry, "recorded": "gb301"})
