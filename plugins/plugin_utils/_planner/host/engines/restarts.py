# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether an engine is restarted so that it takes its files up, or whether a person does it."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Plan,
    Policy,
    Restart,
)


def is_restart_left(policy: Policy, *, ends: bool = False) -> bool:
    """Tell whether the restart of an engine is left to a person: by `restart: never`, and by `auto`
    if it ends containers.

    ends: whether it does.
    """
    return policy.leaves_restarts or (ends and policy.restart != "force")


def plan_engine_restart(
    policy: Policy,
    instance: Instance,
    restart: Restart,
    health: tuple[transaction.Health, ...],
    *,
    ends: bool = False,
    left: str = "",
    outside: str = "",
) -> Plan:
    """Return the part of a plan by which an engine takes its files up, if it runs with older ones.

    Nothing is restarted in a tree, nor without a unit.

    health: the checks after the restart. ends: whether it ends containers. left: the advice if it is
    left to a person. outside: the advice if the engine has no unit.
    """
    if policy.root != "/":
        return Plan()
    if is_restart_left(policy, ends=ends):
        return Plan(
            pending=(instance.unit,) if instance.unit else (), advice=(left,) if left else ()
        )
    if not instance.unit:
        return Plan(advice=(outside,) if outside else ())
    return act_on_engine(instance, restart, health)


def act_on_engine(instance: Instance, act: Restart, health: tuple[transaction.Health, ...]) -> Plan:
    """Return the part of a plan that does something to an engine's unit, if it still runs as it was
    seen, and then checks it.
    """
    seen = {instance.unit: instance.invocation_id} if instance.invocation_id else {}
    return Plan(restarts=(act,), health=health, expect_units=seen)
