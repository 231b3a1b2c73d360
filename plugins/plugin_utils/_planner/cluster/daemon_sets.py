# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which DaemonSets of a cluster can change its hosts.

Any user of a cluster can make a DaemonSet with the labels and annotations of another one, in a
namespace of their own. With these alone the user would decide what this collection does with nodes.
A pod that may change a host has to pass the pod security of its namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def may_change_hosts(one: Mapping[str, Any]) -> bool:
    """Tell whether pods of a DaemonSet can write to hosts, and it is not kept from all of them."""
    return may_write((one.get("spec") or {}).get("template") or {}) and not is_refused(one)


def may_write(pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod, or a DaemonSet's template of one, can change its host.

    It can if it is privileged, or mounts a directory of the host.
    """
    spec = pod.get("spec") or {}
    privileged = any(
        (container.get("securityContext") or {}).get("privileged")
        for container in spec.get("containers") or ()
    )
    return privileged or any(volume.get("hostPath") for volume in spec.get("volumes") or ())


def is_refused(one: Mapping[str, Any]) -> bool:
    """Tell whether a DaemonSet is to have pods and none of them can be made."""
    status = one.get("status") or {}
    return bool(status.get("desiredNumberScheduled")) and not status.get("currentNumberScheduled")


def is_nowhere(one: Mapping[str, Any]) -> bool:
    """Tell whether a DaemonSet has no pod on any node.

    If it selects no node, the pod security of its namespace is never asked.
    """
    return (one.get("status") or {}).get("currentNumberScheduled") == 0
