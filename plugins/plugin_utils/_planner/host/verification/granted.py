# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the device nodes that a container gets which asks for all GPUs, and expect just these.

A GPU beside one with MIG devices may be in MIG mode without a device of its own. Whether it is
only NVML knows, but what is granted can be read: CDI gives the nodes of the spec, and NVIDIA's hook
gives every GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    lookup,
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    KIND,
)

ALL = "all"
NODE_OF_GPU = re.compile(r"/dev/nvidia[0-9]{1,9}")
BY_SPEC = ("native-cdi", "nvidia-runtime")
# libnvidia-container src/cli/common.c, select_all_devices: every GPU, in MIG mode or not, and every
# MIG device.
BY_HOOK = ("legacy", "oci-hook")


def find_granted_nodes(
    directories: Iterable[tuple[ObservedFile, ...]],
) -> frozenset[str] | None:
    """Return the nodes of GPUs that `nvidia.com/gpu=all` gives; None if that is not known.

    directories: the files of each CDI directory, lowest priority first. The last directory that has
    the device counts, and two files of one directory that have it take it away.
    """
    granted: frozenset[str] | None = None
    for files in directories:
        devices = [
            nodes for file in files if lookup.is_read(file.path) for nodes in _read_all(file)
        ]
        if None in devices or len(devices) > 1:
            return None
        granted = devices[0] if devices else granted
    return granted


def _read_all(file: ObservedFile) -> list[frozenset[str] | None]:
    """Return the nodes of the device in a file: one entry if it has it, None in it if the file
    cannot be read as a spec.
    """
    if not file.exists:
        return []
    try:
        spec = reader.parse_spec(file.content or "")
    except ValueError:
        return [None]
    parts = [device.edits for device in spec.devices if device.name == ALL]
    if spec.kind != KIND or not parts:
        return []
    paths = (node.path for edits in (*parts, spec.edits) for node in edits.device_nodes)
    return [frozenset(path for path in paths if NODE_OF_GPU.fullmatch(path))]


def expect_granted_nodes(
    case: dict[str, Any], injection: str, nodes: frozenset[str] | None
) -> dict[str, Any]:
    """Return a case that leaves no node of a GPU open whose grant is known.

    nodes: the ones that the spec gives with all GPUs, None if that is not known. A case with a
    record is judged by it.
    """
    if "record" in case or (injection in BY_SPEC and nodes is None):
        return case
    if injection not in (*BY_SPEC, *BY_HOOK):
        return case

    def expect(node: dict[str, Any]) -> dict[str, Any]:
        if node["expect"] != "optional" or not NODE_OF_GPU.fullmatch(node["path"]):
            return node
        given = injection in BY_HOOK or node["path"] in (nodes or ())
        return {**node, "expect": "allowed" if given else "refused"}

    return {**case, "nodes": [expect(node) for node in case["nodes"]]}
