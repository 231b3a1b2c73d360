# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No package manager is started where packages come with the system's image; the message has that
system's own way.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    image_hosts,
    installers,
    packages,
    repository,
)

from tests.unit.builders import obs
from tests.unit.records import record

BASE = packages.BASE
# Where it was told, os-release's ID, the files, and the way.
HOSTS = {
    "Silverblue and its kind (ublue-os/hwe/issues/35)": (
        "fedora",
        {image_hosts.OSTREE: ""},
        "packages.image-host-ostree",
    ),
    "RHEL in image mode (coreos/rpm-ostree/issues/4695)": (
        "rhel",
        {image_hosts.OSTREE: ""},
        "packages.image-host-ostree",
    ),
    "MicroOS (NVIDIA/libnvidia-container/issues/40)": (
        "opensuse-microos",
        {},
        "packages.image-host-snapshot",
    ),
    "SL Micro": ("sl-micro", {}, "packages.image-host-snapshot"),
}


def planned(os_id: str, files: dict[str, str], policy: Policy, installed: dict[str, str]) -> Plan:
    asked = installers.ask_for_available_versions("rpm", BASE)
    answers = {asked["id"]: {"rc": 0, "stdout": ""}} if asked else {}
    seen = obs(
        packages=installed,
        files=files,
        host={"os_release": {"ID": os_id, "ID_LIKE": "suse"}},
        answers=answers,
    )
    seen.answers[repository.SOURCES["id"]] = {"files": []}
    return packages.plan_packages(policy, packages.read_toolkit_facts(seen), record(policy))


@pytest.mark.parametrize(("os_id", "files", "code"), HOSTS.values(), ids=HOSTS)
def test_the_way_of_the_system_is_named(os_id: str, files: dict[str, str], code: str) -> None:
    with pytest.raises(PlanError) as caught:
        planned(os_id, files, Policy(), {})
    assert (caught.value.code, caught.value.values) == (code, {"packages": BASE})


@pytest.mark.parametrize(("os_id", "files", "_code"), HOSTS.values(), ids=HOSTS)
def test_nothing_is_said_where_nothing_is_to_be_installed(
    os_id: str, files: dict[str, str], _code: str
) -> None:
    assert planned(os_id, files, Policy(), {BASE: "1.20.2-1"}).empty
    assert not planned(os_id, files, Policy(packages="ignore"), {}).commands
    assert not planned(os_id, files, Policy(root="/srv/tree"), {}).commands


@pytest.mark.parametrize("os_id", ["debian", "opensuse-leap", "sles"])
def test_other_systems_get_their_packages(os_id: str) -> None:
    assert planned(os_id, {}, Policy(), {}).commands
