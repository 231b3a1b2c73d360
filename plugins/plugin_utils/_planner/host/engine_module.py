# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the work of the modules that configure one engine, by their options instead of a decision
about the host.
"""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Instance,
    Kubelet,
    Plan,
    Policy,
    build_refused_instance_error,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decide,
    earlier_runs,
    host_messages,
    host_plan,
    lowering,
    protocols,
    restore,
    seen_host,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    programs,
)


def list_engine_module_questions(engine: str) -> Callable[[Policy], list[queries.Question]]:
    """Return a function that lists the questions of one engine's module. The journal knows which
    handlers came from a file taken over.
    """
    rooms: tuple[protocols.AskingRoom, ...] = (
        seen_host.ENGINES[engine],
        gpu_operator,
        programs,
    )
    return lambda policy: [
        *(q for room in rooms for q in room.list_questions(policy)),
        earlier_runs.ORIGINALS,
    ]


@dc.dataclass(frozen=True)
class EngineModuleFacts:
    """All that the module of one engine plans from.

    own: the facts of the engine, of a type of its own.
    """

    engine: str
    own: Any
    foreign: seen_host.ForeignFacts


def read_engine_module_facts(policy: Policy, obs: Observation, engine: str) -> EngineModuleFacts:
    desired = dc.replace(policy, engines=(engine,))
    return EngineModuleFacts(
        engine,
        seen_host.ENGINES[engine].read_facts(desired, obs),
        seen_host.read_foreign_facts(policy, obs),
    )


def plan_engine_module(policy: Policy, facts: EngineModuleFacts) -> Plan:
    """Return the plan of the module of one engine."""
    instance, decision = find_single_instance(policy, facts)
    parts = [
        host_plan.plan_left_by_others(
            policy, facts.foreign, {facts.engine: facts.own}, (instance,), (decision,)
        ),
        seen_host.ENGINES[facts.engine].plan_instance(policy, facts.own, instance, decision),
    ]
    return host_plan.sum_plans(parts, lowering.get_policy_cause)


def find_single_instance(policy: Policy, facts: EngineModuleFacts) -> tuple[Instance, Decision]:
    """Return the instance that a single-resource module works on, and a decision by its options.
    Raise PlanError for none or several.
    """
    instances = seen_host.ENGINES[facts.engine].find_instances(
        dc.replace(policy, engines=(facts.engine,)), facts.own
    )
    instances = gpu_operator.refuse_operator_instances(policy, facts.foreign.operator, instances)
    usable = [i for i in instances if not i.refusal]
    if not usable and instances:
        raise build_refused_instance_error(instances[0])
    if not usable:
        here = policy.root == "/"
        row = host_messages.ENGINE_NOT_FOUND if here else host_messages.ENGINE_NOT_IN_TREE
        raise PlanError(row.fill(engine=traits.get_traits(facts.engine).title))
    if len(usable) > 1:
        keys = ", ".join(i.key for i in usable)
        raise PlanError(host_messages.SEVERAL_INSTANCES.fill(instances=keys))
    instance, handler = usable[0], policy.handlers[0].name
    desired = dc.replace(policy, injection="nvidia-runtime", cdi="auto")
    if policy.set_as_default == "auto":  # leaves the engine's default as it is
        desired = dc.replace(
            desired, set_as_default="enabled" if instance.default_handler == handler else "disabled"
        )
    decision = decide.decide_one(desired, instance, Kubelet())
    prefixes = policy.annotation_prefixes or decision.annotation_prefixes
    enable = instance.cdi.able and not instance.cdi.enabled and policy.cdi == "enabled"
    return instance, dc.replace(decision, enable_cdi=enable, annotation_prefixes=prefixes)


def read_engine_removal_facts(
    policy: Policy, obs: Observation, engine: str
) -> restore.TakeBackFacts:
    """Return what a host has of one engine that can be taken back."""
    desired = dc.replace(policy, engines=(engine,))
    return restore.read_take_back_facts(
        obs, {engine: seen_host.CONFIGURED[engine].read_facts(desired, obs)}
    )


def plan_engine_module_removal(policy: Policy, facts: restore.TakeBackFacts, engine: str) -> Plan:
    """Plan what a single-resource module takes back from this engine's configuration, whatever the
    state of the engine.
    """
    desired, module = dc.replace(policy, engines=(engine,)), seen_host.CONFIGURED[engine]
    covers = functools.partial(module.owns_file, desired, facts.engines[engine])
    return lowering.add_cause(
        restore.plan_take_back(desired, facts, {engine: module}, covers=covers), "policy"
    )
