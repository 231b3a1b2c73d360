# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cgroup driver the kubelet uses now, by where its pods' control groups are.

The kubelet makes a group per pod before it asks the engine for anything, below `kubepods.slice` with the systemd driver and below
`kubepods` with cgroupfs (pkg/kubelet/cm/cgroup_manager_linux.go), and removes it with the pod: it says what works on this node now.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import Observation

Driver = Literal["systemd", "cgroupfs", ""]

ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")  # version 2, and version 1's hierarchy of systemd
PODS: dict[Driver, tuple[str, ...]] = {
    "systemd": ("kubepods.slice/kubepods-pod*.slice", "kubepods.slice/kubepods-*.slice/kubepods-*-pod*.slice"),
    "cgroupfs": ("kubepods/pod*", "kubepods/*/pod*"),
}


class InUse(NamedTuple):
    """The driver, '' where no pod runs here, and the control group that shows it."""

    driver: Driver
    group: str


def question() -> ask.Question:
    return ask.paths("control groups of pods", [f"{root}/{pods}" for root in ROOTS for found in PODS.values() for pods in found])


def in_use(obs: Observation) -> InUse:
    """Raises PlanError where pods are in both places: no handler would be right for all of them."""
    paths = [str(entry["path"]) for entry in obs.raw(question()).get("files") or ()]
    systemd, cgroupfs = (next((p for p in paths if f"/{top}/" in p), "") for top in ("kubepods.slice", "kubepods"))
    if systemd and cgroupfs:
        raise PlanError(
            "pods of this node use both cgroup drivers",
            where=systemd,
            why=f"there is {cgroupfs}, too, so that the kubelet's driver was changed while pods were running",
            next="drain the node and start its kubelet again, then run again",
        )
    if systemd:
        return InUse("systemd", systemd)
    return InUse("cgroupfs", cgroupfs) if cgroupfs else InUse("", "")
