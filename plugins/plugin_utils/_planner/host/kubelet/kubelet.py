# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the kubelet of a host, and the engine's socket that it uses."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
    settings,
)


def find_kubelet(policy: Policy, facts: kubelet_facts.KubeletFacts) -> Kubelet:
    """Find the kubelet that runs here, and the engine's socket that it uses.

    Raise PlanError if a place that may name the socket cannot be read.
    """
    running = facts.process.value
    within = facts.manager.value if policy.root == "/" and running is None else None
    if within:
        return Kubelet(present=True, endpoint=within[0].socket, directory=facts.directory.value)
    if policy.root != "/" or running is None:
        # A kubelet that was not verified tells nothing about its settings. But Kubernetes is here,
        # and its engine must not be restarted lightly.
        units = policy.root == "/" and (facts.has_unit.value or bool(facts.kubernetes_title.value))
        return Kubelet(
            present=policy.root == "/" and bool(facts.unverified.value),
            installed=units or facts.has_program.value,
        )
    # Distributions have their kubelet outside PATH, or in another program. Without a version, it
    # counts as a current one.
    return Kubelet(
        present=True,
        version=facts.version.value,
        endpoint=settings.get_engine_socket(facts),
        directory=facts.directory.value,
    )
