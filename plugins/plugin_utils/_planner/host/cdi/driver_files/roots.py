# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert paths between the host and a tree of the driver's or the devices' own.

Such a tree is /run/nvidia/driver of a driver container, or an offline root.

A root ends where a component of a path ends: /driver is not a part of /driver-backup
(nvidia-container-toolkit 1.20 takes it for one).
"""

from __future__ import annotations

import dataclasses as dc

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import host_paths
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    DeviceNode,
    Edits,
)


def list_named_roots(policy: Policy) -> tuple[str, ...]:
    """Return the roots that the caller has named."""
    return tuple(
        root for root in (policy.cdi_driver_root, policy.cdi_dev_root) if root not in ("", "/")
    )


def clean_tree_root(root: str) -> str:
    """Return a root without doubled and trailing slashes; '/' for none."""
    return host_paths.clean_host_path(f"/{root}")


def is_within_root(root: str, path: str) -> bool:
    """Tell whether the path is the root or lies beneath it."""
    root = clean_tree_root(root)
    return root == "/" or path == root or path.startswith(f"{root}/")


def get_path_beneath_root(root: str, path: str) -> str:
    """Return the path on the host of a path of the tree."""
    root = clean_tree_root(root)
    if root == "/":
        return path
    return root if path == "/" else root + path


def get_path_inside_root(root: str, path: str) -> str:
    """Return a path of the host as the tree sees it; one outside the tree stays as it is."""
    root = clean_tree_root(root)
    if root == "/" or not is_within_root(root, path):
        return path
    return path[len(root) :] or "/"


def place_edits_in_roots(edits: Edits, driver_root: str, dev_root: str = "") -> Edits:
    """Put host paths into their roots.

    The paths that containers see stay as they are, and so do hooks, which are the host's own
    programs.
    """
    devices = dev_root or driver_root
    mounts = tuple(
        dc.replace(m, host_path=get_path_beneath_root(driver_root, m.host_path))
        for m in edits.mounts
    )
    return dc.replace(
        edits,
        mounts=mounts,
        device_nodes=tuple(place_node_in_root(n, devices) for n in edits.device_nodes),
    )


def place_node_in_root(device: DeviceNode, dev_root: str) -> DeviceNode:
    """Put a device node into its root.

    A host path is written only if it differs: a consumer of CDI below 0.5.0 loses the whole file
    otherwise.
    """
    host = get_path_beneath_root(dev_root, device.host_path or device.path)
    return dc.replace(device, host_path="" if host == device.path else host)
