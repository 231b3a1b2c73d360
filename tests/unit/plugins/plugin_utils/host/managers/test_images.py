# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Systems that are made as images are refused, whichever engine they have, with the page of whoever
makes them.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

from tests.unit.builders import obs
from tests.unit.crio_plans import host

IMAGES = [
    # ID of os-release, whose page the refusal names
    ("bottlerocket", "manager.bottlerocket"),
    ("talos", "manager.talos"),
    ("cos", "manager.cos"),
    ("rhcos", "manager.rhcos"),
    ("scos", "manager.rhcos"),
]


@pytest.mark.parametrize(("name", "code"), IMAGES)
def test_cri_o_of_an_image_is_left_to_whoever_makes_it(name: str, code: str) -> None:
    (found,) = crio_detect.find_instances(
        Policy(), crio_detect.read_facts(Policy(), host(host={"os_release": {"ID": name}}))
    )
    assert found.manager == next(m.name for m in known.MANAGERS if name in m.os_ids)
    assert found.refusal.message.code == code


@pytest.mark.parametrize(("name", "code"), IMAGES)
def test_a_tree_of_such_a_system_is_no_containerd_of_a_package(name: str, code: str) -> None:
    seen = obs(
        files={"/etc/containerd/config.toml": "version = 2\n"}, host={"os_release": {"ID": name}}
    )
    policy = Policy(root="/image", engine_version="1.7.24")
    (found,) = containerd_detect.find_instances(
        policy,
        containerd_detect.read_facts(policy, seen),
    )
    assert found.manager == next(m.name for m in known.MANAGERS if name in m.os_ids)
    assert found.refusal.message.code == code


def test_docker_of_an_image_is_left_to_whoever_makes_it() -> None:
    policy = Policy(root="/image", engines=("docker",), engine_version="24.0.9")
    (found,) = docker_detect.find_instances(
        policy, docker_detect.read_facts(policy, obs(files={}, host={"os_release": {"ID": "cos"}}))
    )
    assert (found.manager, found.refusal.message.code) == ("cos", "manager.cos")


@pytest.mark.parametrize("name", ["debian", "rhel", "fedora", "flatcar", ""])
def test_cri_o_of_others_is_configured(name: str) -> None:
    (found,) = crio_detect.find_instances(
        Policy(), crio_detect.read_facts(Policy(), host(host={"os_release": {"ID": name}}))
    )
    assert (found.manager, str(found.refusal)) == ("package", "")
