# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the cgroup driver that the kubelet uses now, by its pods' control groups, else by its
settings.

The kubelet makes a group per pod before it asks the engine for anything, below `kubepods.slice`
with the systemd driver and below `kubepods` with cgroupfs (pkg/kubelet/cm/cgroup_manager_linux.go),
and removes it with the pod: so the group shows what works on this node now. A kubelet whose driver
was changed leaves the groups of its pods from before behind, empty; only groups with processes
count.

If no pod runs, the kubelet's own order counts (cmd/kubelet/app/server.go): with the feature gate
KubeletCgroupDriverFromCRI it asks the engine, and then no setting of its own counts; an engine that
does not know the question leaves it to the flag, the drop-ins, the file.
"""

from __future__ import annotations

import posixpath
from typing import Literal, NamedTuple, cast

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Instance
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    build_query_failure,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
    messages,
    settings,
)

Driver = Literal["systemd", "cgroupfs", ""]

GATE = "KubeletCgroupDriverFromCRI"
# pkg/features/kube_features.go: alpha in 1.28, on by default from 1.31, and always on from 1.34.
GATE_SINCE, GATE_ON, GATE_LOCKED = (1, 28), (1, 31), (1, 34)


class InUse(NamedTuple):
    """The driver in use, '' if nothing shows it, with a sentence that tells how it is known."""

    driver: Driver
    why: Message


UNKNOWN = InUse("", Message(""))


def get_known_cgroup_driver(facts: kubelet_facts.KubeletFacts, instance: Instance) -> InUse:
    """Return what is known about the cgroup driver of this host's kubelet.

    instance: the kubelet's engine.
    """
    pods = get_cgroup_driver_in_use(facts)
    return (
        pods
        if pods.driver or facts.process.value is None
        else _read_started_driver(facts, instance)
    )


# ---------------------------------------------------------------- its pods


def get_cgroup_driver_in_use(facts: kubelet_facts.KubeletFacts) -> InUse:
    """Return the driver by the pods' control groups.

    Raise PlanError if pods are in both places: no handler would be right for all of them.
    """
    paths = facts.pod_groups.value
    systemd, cgroupfs = (
        next((p for p in paths if f"/{top}/" in p), "") for top in ("kubepods.slice", "kubepods")
    )
    if systemd and cgroupfs:
        raise PlanError(
            messages.PODS_OF_BOTH_DRIVERS.fill(path=cgroupfs),
            where=systemd,
        )
    if not (systemd or cgroupfs):
        return UNKNOWN
    driver: Driver = "systemd" if systemd else "cgroupfs"
    return InUse(driver, messages.PODS_USE_DRIVER.fill(driver=driver, path=systemd or cgroupfs))


# ---------------------------------------------------------------- its settings


def is_same_socket(endpoint: str, socket: str) -> bool:
    """Tell whether both name one socket.

    kubelet writes unix:///run/...; /var/run is a link to /run on every systemd host.
    """
    plain = [
        host_paths.keep_as_opened(p.removeprefix("unix://")).replace("/var/run/", "/run/", 1)
        for p in (endpoint, socket)
    ]
    return plain[0] == plain[1]


def is_cri_dockerd(endpoint: str) -> bool:
    """Tell whether a kubelet's socket is one of cri-dockerd, which starts pods in Docker.

    It has that name everywhere, in a directory of k3s as well (cmd/cri/options/options.go of
    Mirantis/cri-dockerd).
    """
    return posixpath.basename(endpoint.removeprefix("unix://")) == "cri-dockerd.sock"


def _read_started_driver(facts: kubelet_facts.KubeletFacts, instance: Instance) -> InUse:
    argv = facts.argv
    endpoint = settings.get_engine_socket(facts)
    if endpoint and not is_same_socket(endpoint, instance.socket):
        return UNKNOWN  # it runs its pods in another engine
    release = facts.version.value
    if _asks(facts, argv, release):
        driver = _get_answered_driver(facts, instance)
        if driver:
            return InUse(
                driver, messages.ENGINE_TELLS_DRIVER.fill(engine=instance.engine, driver=driver)
            )
    flag = processes.flag(argv, "--cgroup-driver")
    if flag:
        return _read_stated_driver(flag, "its flag --cgroup-driver")
    for path, value in settings.list_settings(facts, argv, "cgroupDriver"):
        return _read_stated_driver(str(value), path)
    return InUse("cgroupfs", messages.DRIVER_IS_BUILT_IN.fill())


def _read_stated_driver(value: str, where: str) -> InUse:
    if value not in ("systemd", "cgroupfs"):
        raise PlanError(
            messages.DRIVER_UNKNOWN.fill(value=value),
            where=where,
        )
    return InUse(cast(Driver, value), messages.DRIVER_IS_SET.fill(driver=value, where=where))


def _asks(facts: kubelet_facts.KubeletFacts, argv: list[str], release: str) -> bool:
    """Tell whether the kubelet takes its driver from the engine."""
    parsed = versions.parse_engine_version(release)
    if parsed is None or parsed.series >= GATE_LOCKED:
        return True
    if parsed.series < GATE_SINCE:
        return False
    group = settings.ALL_BETA if parsed.series >= GATE_ON else settings.ALL_ALPHA
    said = settings.get_feature_gate(facts, argv, GATE, group)
    return parsed.series >= GATE_ON if said is None else said


def _get_answered_driver(facts: kubelet_facts.KubeletFacts, instance: Instance) -> Driver:
    """Return the driver that the engine reports; '' if the engine does not know the question.

    Raise an error if the engine does not answer.
    """
    asked, said = facts.answers.get((instance.socket, instance.pid))
    if "error" in said:
        raise build_query_failure(asked["id"], said["error"])
    return cast(Driver, said.get("driver") or "")
