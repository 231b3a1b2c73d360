# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan what other writers on a host have to stop doing, and advise on them.

These are nvidia-cdi-refresh and units like it, the GPU Operator and Kubespray.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import cdi_generators, cdi_refresh, messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import kubelet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import HostDecision, Plan, Policy, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

# The GPU Operator's validator writes it, with toolkit.enabled=false as well (cmd/nvidia-validator in gpu-operator).
OPERATOR_MARK = "/run/nvidia/validations/toolkit-ready"
KUBESPRAY_MARK = "/etc/kubernetes/kubelet.env"


def questions(policy: Policy) -> list[queries.Question]:
    marks = [queries.file(path, content=False) for path in (OPERATOR_MARK, KUBESPRAY_MARK)]
    return [*cdi_refresh.questions(policy), *cdi_generators.questions(), *kubelet.questions(policy), *marks]


def plan(policy: Policy, obs: Observation, record: HostDecision) -> Plan:
    """Plan what other writers have to stop doing, and advise on them."""
    if record.skipped:
        return Plan()
    parts = [Plan(advice=(*operator_advice(obs), *kubespray_advice(obs)))]
    if record.cdi_owner == "collection":
        parts += [cdi_refresh.stop(policy, obs, record), Plan(advice=cdi_generators.advice(obs, cdi_refresh.SERVICE))]
    return merge(parts)


def operator_advice(obs: Observation) -> tuple[str, ...]:
    if not obs.exists(OPERATOR_MARK):
        return ()
    return (messages.OPERATOR_SEEN.fill(path=OPERATOR_MARK),)


def kubespray_advice(obs: Observation) -> tuple[str, ...]:
    if not obs.exists(KUBESPRAY_MARK):
        return ()
    return (messages.KUBESPRAY_SEEN.fill(path=KUBESPRAY_MARK),)
