# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines that are left alone, and the result for their host: refused by a cause, not managed, or
managed all the same.

An engine that is stopped, silent or not verified is not gone: it is unknown what it will need when
it is back.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
    RefusalKind,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Instance,
    Policy,
    build_refused_instance_error,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_messages

# The kinds of refusal by which nothing is known of an engine, the most telling first.
NOT_KNOWN: tuple[RefusalKind, ...] = ("stopped", "silent", "unverified")
# The kinds that a person ends. If such an engine is all that a host has, the host is refused.
FOR_A_PERSON: tuple[RefusalKind, ...] = (*NOT_KNOWN, "unfit")


def refuse_stopped_unit(known: Mapping[str, str], title: str, unit: str) -> Refusal:
    """Return the refusal of an installed engine that does not run: it can neither report nor prove
    anything.

    known: the properties of its unit, {} if there is none. title: the engine, as its project writes
    it. unit: its unit of systemd, '' if none is known.
    """
    values = {"engine": title, "unit": unit or "its unit"}
    if not known:
        return Refusal(host_messages.ENGINE_WITHOUT_UNIT.fill(**values), kind="stopped")
    states = [known.get("ActiveState") or "not known to systemd"]
    states += [state for state in (known.get("UnitFileState"),) if state in ("disabled", "masked")]
    failed = (
        host_messages.ENGINE_FAILED
        if {"failed", "activating"} & set(states)
        else host_messages.STOPPED_ENGINE
    )
    row = host_messages.ENGINE_MASKED if "masked" in states else failed
    return Refusal(row.fill(**values, states=" and ".join(states)), kind="stopped")


def refuse_other_file(policy: Policy, title: str, file: str) -> Refusal:
    """Return the refusal of a running engine whose file is another than the options name, an empty
    one if they name it or none.

    Settings that are written there would have no effect. title: the engine, as its project writes
    it. file: the main file with which it runs.
    """
    if policy.config_path in ("", file):
        return Refusal()
    return Refusal(
        host_messages.ENGINES_OTHER_FILE.fill(path=policy.config_path, engine=title, file=file),
        kind="stopped",
    )


def is_engine_chosen(policy: Policy, instance: Instance) -> bool:
    """Tell whether the option `engines` asks for this engine."""
    return bool({"auto", instance.engine} & set(policy.engines))


def narrow_policy_to_engine(policy: Policy, engine: str) -> Policy:
    """Return the policy as one engine reads it.

    If `engines` asks for others alone, the options for places are theirs.
    """
    if policy.single or {"auto", engine} & set(policy.engines):
        return policy
    return dc.replace(policy, config_path="", socket="", service="")


def open_ones(policy: Policy, instances: Iterable[Instance]) -> list[Instance]:
    """List the requested engines that nothing is known about now, the most telling first."""
    refused = [
        i
        for i in instances
        if i.refusal and i.refusal.kind in NOT_KNOWN and is_engine_chosen(policy, i)
    ]
    return sorted(refused, key=lambda i: NOT_KNOWN.index(i.refusal.kind))


def require_engine(policy: Policy, instances: Iterable[Instance]) -> None:
    """Raise PlanError if nothing on a host can be configured, for a cause that a person can end.

    A host whose engine is configured by others is not refused: it is reported, and not managed.
    """
    every_instance = tuple(instances)
    if not policy.engines:
        raise PlanError(host_messages.NO_ENGINE_CHOSEN.fill())
    if not every_instance:
        here = policy.root == "/"
        row = host_messages.NO_ENGINE_HERE if here else host_messages.NO_ENGINE_IN_TREE
        raise PlanError(row.fill())
    cause = (
        None
        if any(not i.refusal and is_engine_chosen(policy, i) for i in every_instance)
        else choose_refused_engine(policy, every_instance)
    )
    if cause:
        raise build_refused_instance_error(cause)
    for engine in policy.engines:
        if engine != "auto" and not any(i.engine == engine for i in every_instance):
            others = ", ".join(i.key for i in every_instance)
            raise PlanError(host_messages.ENGINE_NOT_HERE.fill(engine=engine, found=others))


def require_engine_to_verify(policy: Policy, instances: Iterable[Instance]) -> None:
    """Raise PlanError if a requested engine cannot start the containers of a verification now.

    To verify nothing would look as if the host were right.
    """
    for one in open_ones(policy, instances)[:1]:
        raise build_refused_instance_error(one)


def require_heard_engines(policy: Policy, instances: Iterable[Instance]) -> None:
    """Raise PlanError before anything is taken away by a decision that a requested engine has no
    part in.
    """
    for one in open_ones(policy, instances)[:1]:
        why = host_messages.WOULD_TAKE_AWAY.fill()
        raise PlanError(one.refusal.message, where=one.config_path or one.binary, why=why)


def choose_refused_engine(policy: Policy, instances: tuple[Instance, ...]) -> Instance | None:
    """Return the engine for which a host is refused if none can be configured, the most telling
    first; None if there is none.

    A stopped or unfit engine beside a running engine that others configure is most often unused. A
    containerd that serves Docker alone is a part of Docker.
    """
    served = any(
        i.refusal and i.refusal.kind == "writer" and i.running and i.cri for i in instances
    )
    kinds = ("silent",) if served else FOR_A_PERSON
    wanted = [
        i
        for i in instances
        if i.refusal and i.refusal.kind in kinds and is_engine_chosen(policy, i)
    ]
    return min(wanted, key=lambda i: kinds.index(i.refusal.kind), default=None)


def is_host_left_alone(record: HostDecision) -> bool:
    """Tell whether every engine of this host is configured by others.

    The host is then not managed, which does not mean that it is right.
    """
    return bool(record.refused) and not record.decisions and not record.skipped
