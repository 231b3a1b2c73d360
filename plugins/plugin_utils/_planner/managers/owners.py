# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who writes a containerd's configuration, when it is not the administrator of the host, and what to do there instead."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation


@dc.dataclass(frozen=True)
class Owner:
    """A system that generates the configuration. It is recognised by where its files are, its units, or the operating system's id."""

    name: str
    title: str
    instead: str
    config: str = ""
    socket: str = ""
    homes: tuple[str, ...] = ()  # a config below one of these is theirs
    units: tuple[str, ...] = ()
    os_ids: tuple[str, ...] = ()
    own_engine: bool = True  # brings a containerd of its own, beside which a plain one may run
    kubernetes: bool = True  # comes with Kubernetes

    @property
    def refusal(self) -> str:
        return f"{self.title} writes this containerd's configuration. {self.instead}"


OWNERS = (
    Owner(
        "k3s", "k3s", "Install the toolkit's packages and restart k3s (k3s-agent on agents): it finds the NVIDIA runtime at start and adds "
        "the handler nvidia by itself; more goes into config-v3.toml.tmpl beside the generated file.",
        config="/var/lib/rancher/k3s/agent/etc/containerd/config.toml", socket="/run/k3s/containerd/containerd.sock",
        homes=("/var/lib/rancher/k3s/",), units=("k3s.service", "k3s-agent.service")),
    Owner(
        "rke2", "RKE2", "Install the toolkit's packages and restart rke2-server or rke2-agent: it finds the NVIDIA runtime at start and "
        "adds the handler nvidia by itself; more goes into config-v3.toml.tmpl beside the generated file.",
        config="/var/lib/rancher/rke2/agent/etc/containerd/config.toml", socket="/run/k3s/containerd/containerd.sock",
        homes=("/var/lib/rancher/rke2/",), units=("rke2-server.service", "rke2-agent.service")),
    Owner(
        "k0s", "k0s", "Put a drop-in with the handler into /etc/k0s/containerd.d; k0s restarts its containerd by itself.",
        config="/etc/k0s/containerd.toml", socket="/run/k0s/containerd.sock", homes=("/etc/k0s/", "/var/lib/k0s/", "/run/k0s/"),
        units=("k0scontroller.service", "k0sworker.service")),
    Owner(
        "microk8s", "MicroK8s",
        "Use `microk8s enable nvidia`, or edit args/containerd-template.toml, from which the file is made at every start.",
        config="/var/snap/microk8s/current/args/containerd.toml", socket="/var/snap/microk8s/common/run/containerd.sock",
        homes=("/var/snap/microk8s/", "/snap/microk8s/"), units=("snap.microk8s.daemon-containerd.service",)),
    Owner(
        "eks", "EKS nodeadm", "Put the handler into the NodeConfig (spec.containerd.config) or /etc/eks/nodeadm.d and boot the node again.",
        units=("nodeadm-config.service", "nodeadm-run.service"), own_engine=False),
    Owner(
        "bottlerocket", "Bottlerocket", "Use its NVIDIA variant and the settings of its API; its files are read-only.",
        os_ids=("bottlerocket",), own_engine=False),
    Owner(
        "talos", "Talos Linux", "Use its NVIDIA system extensions and a machine config patch; its files are read-only.",
        os_ids=("talos",), own_engine=False),
    Owner(
        "cos", "Container-Optimized OS", "Use the provider's GPU driver installer; its files are read-only.",
        os_ids=("cos",), own_engine=False),
    Owner(
        "flatcar", "Flatcar", "Copy /usr/share/containerd/config.toml to /etc/containerd/config.toml, have the unit start it by a drop-in "
        "(ExecStart=/usr/bin/containerd), and run again; /usr is read-only there.",
        homes=("/usr/share/containerd/",), own_engine=False, kubernetes=False),
)  # fmt: skip

# Owners beside whom our part of a configuration can be told from theirs. What the others generate is never edited here.
JUDGED = ("package", "docker", "nvidia-ctk", "gpu-operator")

DOCKER_HOMES = ("/var/run/docker/containerd/", "/run/docker/containerd/")
DOCKER_UNITS = ("docker.service",)
DOCKER_PACKAGES = ("docker.io", "docker-ce", "moby-engine", "containerd.io")

DOCKER_REFUSAL = (
    "This containerd serves Docker only: {where} switches CRI off. It is left alone, as Docker has a configuration of its own. "
    "For Kubernetes, take \"{entry}\" out of disabled_plugins, restart containerd and run again."
)
CRI_REFUSAL = (
    "CRI is switched off in this containerd: {where} lists it in disabled_plugins, so that nothing written for CRI would have an effect. "
    "Take \"{entry}\" out of disabled_plugins, restart containerd and run again."
)
DOCKER_OWN_REFUSAL = "Docker started this containerd for itself and writes its configuration. Configure Docker instead."


def questions() -> list[queries.Question]:
    return [queries.file(o.config, content=False) for o in OWNERS if o.config]


def unit_names() -> list[str]:
    return [u for o in OWNERS for u in o.units] + list(DOCKER_UNITS)


def of_process(obs: Observation, process: Mapping[str, Any], config: str) -> Owner | None:
    """The system that started this daemon, by its config, its program, its unit, or the host it runs on."""
    for owner in OWNERS:
        places = (config, str(process.get("exe") or ""))
        if any(p.startswith(h) for p in places for h in owner.homes) or process.get("unit") in owner.units:
            return owner
    return of_host(obs)


def of_path(config: str) -> Owner | None:
    """The system below whose directories this configuration lies."""
    return next((o for o in OWNERS if config == o.config or any(config.startswith(h) for h in o.homes)), None)


def of_host(obs: Observation) -> Owner | None:
    """A system that owns the plain containerd of the host."""
    ids = obs.host.get("os_release") or {}
    for owner in OWNERS:
        if not owner.own_engine and (ids.get("ID") in owner.os_ids or any(obs.unit(u) for u in owner.units)):
            return owner
    return None


def present(obs: Observation) -> list[Owner]:
    """Systems with a containerd of their own that are on this host, running or not."""
    return [o for o in OWNERS if o.own_engine and (any(obs.unit(u) for u in o.units) or (o.config and obs.exists(o.config)))]


def docker_here(obs: Observation) -> bool:
    return any(obs.unit(u) for u in DOCKER_UNITS) or any(obs.package(p) for p in DOCKER_PACKAGES)
