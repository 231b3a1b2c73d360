# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan what other writers on a host have to stop doing, and advise on them.

These are nvidia-cdi-refresh and units like it, the GPU Operator and Kubespray.
"""

from __future__ import annotations

import dataclasses as dc

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Lookup
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_generators,
    cdi_refresh,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
)

# The GPU Operator's validator writes it, with toolkit.enabled=false as well (cmd/nvidia-validator
# in gpu-operator).
OPERATOR_MARK = "/run/nvidia/validations/toolkit-ready"
KUBESPRAY_MARK = "/etc/kubernetes/kubelet.env"


def list_questions(policy: Policy) -> list[queries.Question]:
    marks = [queries.ask_for_file(path, content=False) for path in (OPERATOR_MARK, KUBESPRAY_MARK)]
    return [
        *cdi_refresh.list_refresh_questions(policy),
        *cdi_generators.list_generator_questions(),
        *kubelet_facts.list_kubelet_questions(policy),
        *marks,
    ]


@dc.dataclass(frozen=True)
class WriterFacts:
    """A host's facts about others who write CDI specs or configure engines. is_there: whether there
    is anything at a path.
    """

    is_there: Lookup[str, bool]
    refresh: cdi_refresh.RefreshFacts
    generators: cdi_generators.GeneratorFacts


def read_writer_facts(obs: Observation) -> WriterFacts:
    return WriterFacts(
        Lookup(obs.is_there),
        cdi_refresh.read_refresh_facts(obs),
        cdi_generators.read_generator_facts(obs),
    )


def plan_other_writers(
    policy: Policy,
    facts: WriterFacts,
    record: HostDecision,
    *,
    installing: bool = False,
    goes: bool = False,
) -> Plan:
    """Plan what other writers have to stop doing, and advise on them.

    installing: this run's packages are installed right before. goes: the way back takes them away.
    """
    if record.skipped:
        return Plan()
    parts = [Plan(advice=(*advise_on_operator(facts), *advise_on_kubespray(facts)))]
    if record.cdi_owner == "collection":
        parts += [
            cdi_refresh.stop(policy, facts.refresh, record),
            cdi_refresh.stop_installed(facts.refresh, goes=goes) if installing else Plan(),
            Plan(
                advice=cdi_generators.advise_on_other_generators(
                    facts.generators, cdi_refresh.SERVICE
                )
            ),
        ]
    return merge_plans(parts)


def clear_behind_installation(facts: WriterFacts, record: HostDecision) -> Plan:
    """Plan what goes before an installation, so that its way back leaves nothing of writers that
    come with it.
    """
    if record.skipped or record.cdi_owner != "collection":
        return Plan()
    return cdi_refresh.clear_behind_installation(facts.refresh)


def advise_on_operator(facts: WriterFacts) -> tuple[str, ...]:
    if not facts.is_there.get(OPERATOR_MARK):
        return ()
    return (messages.OPERATOR_SEEN.fill(path=OPERATOR_MARK),)


def advise_on_kubespray(facts: WriterFacts) -> tuple[str, ...]:
    if not facts.is_there.get(KUBESPRAY_MARK):
        return ()
    return (messages.KUBESPRAY_SEEN.fill(path=KUBESPRAY_MARK),)
