# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the kubelet of a host, and the engine's socket that it uses."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import processes, queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import cgroup_driver
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Kubelet, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import file_places

CONFIG = "/var/lib/kubelet/config.yaml"
KUBEADM_FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
ENDPOINT = re.compile(r"^containerRuntimeEndpoint:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
PROGRAMS = ("/usr/bin/kubelet", "/usr/local/bin/kubelet", "/opt/bin/kubelet")
UNIT = "kubelet.service"  # asked for with the others, so its process can be verified without a further call


def questions(policy: Policy) -> list[queries.Question]:
    files = [queries.file(CONFIG, file_places.KUBELET_CONFIG), queries.file(KUBEADM_FLAGS, file_places.KUBEADM_FLAGS)]
    files += [queries.file(path, content=False) for path in PROGRAMS]
    if policy.root != "/":
        return files
    return [
        *files,
        queries.units([UNIT, *known.kubelet_units()]),
        cgroup_driver.process_question(),
        queries.command(cgroup_driver.KUBELET_VERSION, process="kubelet"),
    ]


def find(policy: Policy, obs: Observation) -> Kubelet:
    """Find the kubelet that runs here, and the engine's socket that it uses.

    The socket comes from its arguments, else from kubeadm's flags, else from its configuration
    file.
    """
    running = cgroup_driver.process(obs)
    within = known.with_kubelet(obs) if policy.root == "/" and running is None else None
    if within:
        return Kubelet(present=True, endpoint=within[0].socket)
    if policy.root != "/" or running is None:
        # A kubelet that was not verified tells nothing about its settings. But Kubernetes is here, and its engine
        # must not be restarted lightly.
        units = policy.root == "/" and bool(obs.unit(UNIT) or known.distribution(obs))
        installed = units or any(obs.exists(path) for path in PROGRAMS)
        return Kubelet(present=policy.root == "/" and bool(processes.called(obs, "kubelet")), installed=installed)
    argv = [str(a) for a in running.get("argv") or ()]
    config = processes.flag(argv, "--config") or CONFIG
    endpoint = (
        processes.flag(argv, "--container-runtime-endpoint")
        or processes.flag(obs.text(KUBEADM_FLAGS).replace('"', " ").split(), "--container-runtime-endpoint")
        or endpoint_in(obs.text(config, file_places.KUBELET_CONFIG))
    )
    # Distributions have their kubelet outside PATH, or in another program. Without a version, it counts as a current one.
    return Kubelet(present=True, version=cgroup_driver.version(obs), endpoint=endpoint)


def endpoint_in(text: str) -> str:
    """Return the engine's socket in the kubelet's YAML file, a top-level scalar; '' if it is not set."""
    found = ENDPOINT.search(text)
    return found.group(1) if found else ""
