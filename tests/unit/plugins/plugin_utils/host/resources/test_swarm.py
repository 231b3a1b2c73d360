# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs that Docker Swarm assigns: nvidia-docker#1378, nvidia-container-toolkit#36, #57 and #1599."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    end_with_code,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)

from tests.unit.bare_trees import Tree
from tests.unit.coded import read_coded

WHOLE, SHORT = "GPU-7af7a99b-0000-0000-0000-00000000000a", "GPU-7af7a99b"
UNIT = "/usr/lib/systemd/system/docker.service"
ROW, NAMES, BY_UUID = "toolkit-without-swarm", "swarm.not-a-uuid", "swarm.spec-without-uuids"
MODE, PERHAPS = "swarm.assigns", "swarm.may-assign"
# what Swarm offers, what the runtime reads, its mode before, release of the toolkit, options ->
# what is said, whether the plan is refused
CASES: dict[str, tuple[list[str], str, str, str, dict[str, Any], set[str], bool]] = {
    "nothing": ([], "DOCKER_RESOURCE_GPU", "auto", "1.17.8", {}, set(), False),
    "not read by the runtime": ([f"GPU={WHOLE}"], "", "auto", "1.17.8", {}, set(), False),
    "read by another name": ([f"GPU={WHOLE}"], "DOCKER_RESOURCE_FPGA", "auto", "1.17.8", {}, set(), False),
    "a toolkit that reads it in legacy mode only": ([f"GPU={WHOLE}"], "DOCKER_RESOURCE_GPU", "auto", "1.17.8", {}, {ROW}, True),
    "the same in legacy mode": ([f"GPU={WHOLE}"], "DOCKER_RESOURCE_GPU", "auto", "1.17.8", {"injection": "legacy"}, set(), False),
    "the same with a word": ([f"GPU={WHOLE}"], "DOCKER_RESOURCE_GPU", "auto", "1.18.2", {"known_bad": "warn"}, {ROW, MODE}, False),
    "a toolkit that reads it in all modes": ([f"GPU={WHOLE}"], "DOCKER_RESOURCE_GPU", "auto", "1.19.0", {}, {MODE}, False),
    "in the mode that is there": ([f"GPU={WHOLE}"], "DOCKER_RESOURCE_GPU", "cdi", "1.19.0", {}, set(), False),
    "a toolkit that is not known": ([f"GPU={WHOLE}"], "DOCKER_RESOURCE_GPU", "auto", "", {}, {MODE}, False),
    "several names": ([f"gpu_a={WHOLE}", "ssd=1"], "DOCKER_RESOURCE_X,docker_resource_gpu_a", "auto", "1.18.0", {}, {ROW}, True),
    "the beginning of a UUID": ([f"NVIDIA-GPU={SHORT}"], "DOCKER_RESOURCE_NVIDIA-GPU", "cdi", "1.20.2", {}, {NAMES}, False),
    "an index": (["GPU=0"], "DOCKER_RESOURCE_GPU", "cdi", "1.20.2", {}, set(), False),
    "a spec without UUIDs": ([f"GPU={WHOLE}"], "DOCKER_RESOURCE_GPU", "cdi", "1.20.2", {"cdi_device_names": ("index",)}, {BY_UUID}, False),
    "of a form that is not sent": (["GPU=a b"], "DOCKER_RESOURCE_GPU", "cdi", "1.20.2", {}, set(), False),
    "a resource whose form is not sent": ([f"GPU={WHOLE}", "disk=a b"], "DOCKER_RESOURCE_GPU", "auto", "1.17.8", {}, {PERHAPS}, False),
    "by a setting of another form": ([f"GPU={WHOLE}"], "DOCKER_RESOURCE_GPU, DOCKER_RESOURCE_X", "auto", "1.17.8", {}, {PERHAPS}, False),
    "the same in legacy mode, by neither": (["GPU=a b"], "DOCKER_RESOURCE_GPU, X", "auto", "1.17.8", {"injection": "legacy"}, set(), False),
    "a setting that reads nothing": ([f"GPU={WHOLE}"], "X", "auto", "1.17.8", {}, set(), False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("offers", "reads", "mode", "release", "options", "says", "refused"), CASES.values(), ids=CASES
)
def test_what_is_said_of_swarm(
    offers: list[str],
    reads: str,
    mode: str,
    release: str,
    options: dict[str, Any],
    says: set[str],
    refused: bool,
    tmp_path: Path,
) -> None:
    tree = swarm(tmp_path, offers, reads, mode, release)
    before = tree.read(docker_config.CONFIG)
    result = tree.run_host(engines=("docker",), engine_version="26.1.5", **options)
    told = " ".join([str(result.get("msg") or ""), *map(end_with_code, result["advice"])])
    assert {word for word in (ROW, NAMES, MODE, PERHAPS, BY_UUID) if word in told} == says
    assert result["failed"] is refused
    after = json.loads(tree.read(docker_config.CONFIG))
    assert {key: after[key] for key in json.loads(before)} == {**json.loads(before)}
    assert reads in tree.read(toolkit_config.PATH)


def test_what_swarm_is_offered_by_a_flag(tmp_path: Path) -> None:
    tree = swarm(tmp_path, [], "DOCKER_RESOURCE_GPU", "auto", "1.17.8")
    tree.write(UNIT, f"[Service]\nExecStart=/usr/bin/dockerd --node-generic-resource GPU={SHORT}\n")
    result = tree.run_host(engines=("docker",), engine_version="26.1.5", known_bad="ignore")
    assert (NAMES, {"place": f"{UNIT}:2", "gpus": SHORT}) in [
        read_coded(text) for text in result["advice"] if get_code(text)
    ]


def swarm(path: Path, offers: list[str], reads: str, mode: str, release: str) -> Tree:
    tree = Tree(path / "tree")
    offered = {"node-generic-resources": offers} if offers else {}
    runtimes = {"nvidia": {"path": "nvidia-container-runtime"}}
    tree.write(
        docker_config.CONFIG,
        json.dumps({"default-runtime": "nvidia", "runtimes": runtimes, **offered}),
    )
    line = f'swarm-resource = "{reads}"\n' if reads else ""
    tree.write(toolkit_config.PATH, f'{line}[nvidia-container-runtime]\nmode = "{mode}"\n')
    package = (
        f"Package: nvidia-container-toolkit-base\nStatus: install ok installed\nVersion: {release}-1\n\n"
        if release
        else ""
    )
    tree.write("/var/lib/dpkg/status", package)
    return tree
