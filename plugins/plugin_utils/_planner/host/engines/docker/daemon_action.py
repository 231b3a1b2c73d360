# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what the running daemon does not apply yet, and plan its reload or restart with its cost."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Instance,
    Plan,
    Policy,
    Restart,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config,
    desired_config,
    gpus_flag,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    facts as docker_facts,
)

NAMED = 10  # containers that are named one by one


@dc.dataclass(frozen=True)
class Lag:
    """The part of the configuration that the running daemon does not apply yet.

    reload: a reload applies it. restart: only a restart does. why: the reason of the restart.
    """

    reload: bool
    restart: bool
    why: Sentence = messages.SWITCHES_AT_START


def find_docker_lag(desired: desired_config.DesiredDocker, info: Mapping[str, Any]) -> Lag:
    """Return what is not in force, by the daemon's own report.

    CDI is switched only at the start, so a reload does not change it.
    """
    runtimes = info.get("Runtimes") or {}
    late = any(
        (runtimes.get(name) or {}).get("path") != path for name, path in desired.paths.items()
    )
    late = late or (bool(desired.default) and info.get("DefaultRuntime") != desired.default)
    dirs = tuple(info.get("CDISpecDirs") or ())
    return Lag(late, (desired.cdi and not dirs) or (bool(desired.dirs) and dirs != desired.dirs))


def find_missed_hooks(
    desired: desired_config.DesiredDocker,
    info: Mapping[str, Any],
    lag: Lag,
    hooks: gpus_flag.GpusFlagFacts,
    coming: frozenset[str],
    series: tuple[int, int],
    active_seconds: float | None,
    left: bool,
) -> Lag:
    """Return what is not in force, with a restart if the daemon cannot serve `--gpus` without one.

    A daemon that has our runtime was set up before: there a newer program is an upgrade, and its
    predecessor was found. That is not so if its restart was left to a person, since a reload alone
    shows it our runtime.

    coming: programs that this run brings. left: whether an earlier run has left the restart to a
    person, by the journal.
    """
    new_here = bool(desired.paths) and not set(desired.paths) & set(info.get("Runtimes") or {})
    if lag.restart or not (new_here or left):
        return lag
    if not gpus_flag.has_missed_hooks(hooks, coming, series, active_seconds):
        return lag
    return Lag(lag.reload, True, messages.FINDS_HOOKS_AT_START)


def build_docker_health_check(
    instance: Instance, desired: desired_config.DesiredDocker, restarted: bool
) -> transaction.Http:
    """Require that Docker answers and reports what we wrote. A reload that fails logs a line and
    still ends with success.
    """
    require: list[transaction.HealthNeed] = [
        {"path": ["Runtimes", name, "path"], "equals": path} for name, path in desired.paths.items()
    ]
    if desired.default:
        require.append({"path": ["DefaultRuntime"], "equals": desired.default})
    if restarted and (desired.dirs or desired.cdi):
        where = ["CDISpecDirs"]
        require.append(
            {"path": where, "equals": list(desired.dirs)}
            if desired.dirs
            else {"path": where, "filled": True}
        )
    return {
        "kind": "http",
        "socket": instance.socket,
        "path": "/info",
        "timeout": traits.SERVES_WITHIN,
        "require": require,
    }


@dc.dataclass(frozen=True)
class Cost:
    """The containers that a restart would end, by name. swarm: the host is in a Swarm, with which
    Docker refuses live-restore.
    """

    containers: tuple[str, ...] = ()
    swarm: bool = False

    @property
    def text(self) -> str:
        return f"{names.count_noun(len(self.containers), 'running container')} ({names.show_few_texts(self.containers, NAMED)})"


def list_docker_restart_cost(
    facts: docker_facts.DockerFacts, instance: Instance, after: json_text.JsonDocument
) -> Cost:
    """List the containers that a restart of this daemon ends.

    These are all that run, unless live-restore is on both at its end and at its start. Raise
    QueryFailed if Docker does not list them.

    after: the file at that start.
    """
    info = facts.info.get(instance.socket)
    if not info.get("ContainersRunning") or config.can_survive_docker_restart(
        after.data, facts.flags.value, info
    ):
        return Cost()
    swarm = (info.get("Swarm") or {}).get("LocalNodeState") == "active"
    return Cost(
        facts.containers.get(instance.socket) or (f"{info['ContainersRunning']} without a name",),
        swarm,
    )


def add_docker_action(
    policy: Policy,
    facts: docker_facts.DockerFacts,
    instance: Instance,
    plan: Plan,
    lag: Lag,
    ended: Cost,
    health_: transaction.Http,
) -> Plan:
    """Add a reload or a restart of the daemon to the plan.

    A reload is used if it is enough. A restart is used if it ends no container, or if the policy
    forces it.
    """
    if not (lag.reload or lag.restart) or policy.root != "/":
        return plan
    if not instance.unit:
        outside = messages.DOCKER_OUTSIDE_SYSTEMD.fill(path=instance.config_path)
        return dc.replace(plan, advice=(*plan.advice, outside))
    refuse_masked(facts, instance)
    why, ends = lag.why.fill() if lag.restart else "", bool(ended.containers)
    act = Restart(instance.unit, "restart", why)
    done = (
        restarts.plan_engine_restart(policy, instance, act, (health_,), ends=ends)
        if lag.restart
        else Plan()
    )
    restart, left = bool(done.restarts), bool(done.pending)
    if lag.reload and not restart:
        act = Restart(instance.unit, "reload", messages.READS_RUNNING.fill())
        done = dc.replace(restarts.act_on_engine(instance, act, (health_,)), pending=done.pending)
    return dc.replace(
        plan,
        differences=plan.differences or (build_late_difference(instance, lag.restart),),
        restarts=done.restarts,
        health=done.health,
        expect_units=done.expect_units,
        pending=done.pending,
        ends=ended.containers if lag.restart and not policy.leaves_restarts else (),
        advice=(*plan.advice, *restart_advice(policy, instance, ended, left, restart)),
    )


def build_late_difference(instance: Instance, restart: bool) -> Difference:
    why = (messages.NEEDS_RESTART if restart else messages.NEEDS_RELOAD).fill()
    values = ("an older one is in use", "as in the file")
    return Difference("unit", instance.unit, "configuration", *values, why)


def restart_advice(
    policy: Policy, instance: Instance, ended: Cost, left: bool, restart: bool
) -> tuple[str, ...]:
    if restart and ended.containers:
        return (messages.DOCKER_RESTART_ENDS.fill(unit=instance.unit, containers=ended.text),)
    if not left:
        return ()
    if policy.leaves_restarts and not ended.containers:
        return (messages.DOCKER_RESTART_NEVER.fill(unit=instance.unit),)
    values = {"unit": instance.unit, "containers": ended.text}
    if ended.swarm:
        return (messages.RESTART_LEFT_IN_SWARM.fill(**values),)
    return (messages.DOCKER_RESTART_LEFT.fill(**values, path=instance.config_path),)


def refuse_masked(facts: docker_facts.DockerFacts, instance: Instance) -> None:
    """Raise PlanError if the unit is masked, so that systemd neither reloads nor restarts it."""
    if facts.units.get(instance.unit).get("LoadState") == "masked":
        raise PlanError(messages.DOCKER_MASKED.fill(unit=instance.unit), where=instance.unit)
