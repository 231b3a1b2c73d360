# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the kubelet of a host, and the engine's socket that it uses."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    cgroup_driver,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

CONFIG = "/var/lib/kubelet/config.yaml"
KUBEADM_FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
ENDPOINT = re.compile(r"^containerRuntimeEndpoint:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
PROGRAMS = ("/usr/bin/kubelet", "/usr/local/bin/kubelet", "/opt/bin/kubelet")
# asked for with the others, so its process can be verified without a further call
UNIT = "kubelet.service"


def list_kubelet_questions(policy: Policy) -> list[queries.Question]:
    files = [
        queries.ask_for_file(CONFIG, file_places.KUBELET_CONFIG),
        queries.ask_for_file(KUBEADM_FLAGS, file_places.KUBEADM_FLAGS),
    ]
    files += [queries.ask_for_file(path, content=False) for path in PROGRAMS]
    if policy.root != "/":
        return files
    return [
        *files,
        queries.ask_for_units([UNIT, *known.list_kubelet_units()]),
        cgroup_driver.process_question(),
        queries.ask_for_command(cgroup_driver.KUBELET_VERSION, process="kubelet"),
    ]


def find_kubelet(policy: Policy, obs: Observation) -> Kubelet:
    """Find the kubelet that runs here, and the engine's socket that it uses.

    The socket comes from its arguments, else from kubeadm's flags, else from its configuration
    file.
    """
    facts = cgroup_driver.read_kubelet_facts(obs)
    running = facts.process.value
    within = facts.manager.value if policy.root == "/" and running is None else None
    if within:
        return Kubelet(present=True, endpoint=within[0].socket)
    if policy.root != "/" or running is None:
        # A kubelet that was not verified tells nothing about its settings. But Kubernetes is here,
        # and its engine must not be restarted lightly.
        units = policy.root == "/" and bool(obs.get_unit(UNIT) or facts.kubernetes_title.value)
        installed = units or any(obs.is_there(path) for path in PROGRAMS)
        return Kubelet(
            present=policy.root == "/" and bool(facts.unverified.value),
            installed=installed,
        )
    argv = facts.argv
    config = processes.flag(argv, "--config") or CONFIG
    endpoint = (
        processes.flag(argv, "--container-runtime-endpoint")
        or processes.flag(
            obs.get_text(KUBEADM_FLAGS).replace('"', " ").split(), "--container-runtime-endpoint"
        )
        or parse_kubelet_endpoint(obs.get_text(config, file_places.KUBELET_CONFIG))
    )
    # Distributions have their kubelet outside PATH, or in another program. Without a version, it
    # counts as a current one.
    return Kubelet(present=True, version=facts.version.value, endpoint=endpoint)


def parse_kubelet_endpoint(text: str) -> str:
    """Return the engine's socket in the kubelet's YAML file, a top-level scalar; '' if it is not
    set.
    """
    found = ENDPOINT.search(text)
    return found.group(1) if found else ""
