# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find Podman, which reads the CDI specs again for every command, and give advice about it.

It has no daemon, needs no socket, and gets no configuration of this collection.

It counts as an engine of its own if no other engine on the host can be managed, or if `engines` names
it. Otherwise it is one more reader of the spec that the others get (consumers.py).
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import host_paths, queries, refusals, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi import consumers
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.podman import directories, messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
    CDI_DIRS,
    Cdi,
    Decision,
    Evidence,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation

NAME = consumers.PODMAN
BINARY = "/usr/bin/podman"
CONFIG = "/etc/containers/containers.conf"  # where its key cdi_spec_dirs would stand; nothing is written there


def questions(policy: Policy) -> list[queries.Question]:
    return [*consumers.questions(policy), *directories.questions()]


def find(policy: Policy, obs: Observation) -> tuple[Instance, ...]:
    """Find the Podman of this host. One that reads no CDI spec is left alone, since CDI is all that this collection does for it."""
    said = consumers.read_podmans_version(policy, obs)
    if said is None:
        return ()
    program = (obs.raw(consumers.QUESTION).get("found") or {}).get(NAME) or BINARY
    evidence = Evidence("version", f"package {NAME} {said}" if obs.package(NAME) else program)
    version = said.rpartition(":")[2].partition("-")[0].partition("+")[0]
    newest = next((reader.newest for reader in consumers.podman(policy, obs)), "")
    cdi = Cdi(able=bool(newest), enabled=bool(newest), dirs=looks_into(obs, said) if newest else (), max_version=newest, evidence=evidence)
    refusal, place = (Refusal(), CONFIG) if newest else (refuse_old(version), program)
    return (Instance(NAME, version, program, "", place, "", "package", running=False, cdi=cdi, cri=False, refusal=refusal),)


def refuse_old(version: str) -> Refusal:
    """Refuse a Podman that reads no CDI specs."""
    needed = traits.of(NAME).first_cdi
    return Refusal(messages.PODMAN_NO_CDI.fill(version=version, needed=needed), kind="unfit")


def looks_into(obs: Observation, version: str) -> tuple[str, ...]:
    found = directories.configured(obs, version)
    return host_paths.clean_directories(found.names) if found and found.names else CDI_DIRS


def looking(obs: Observation, readers: Iterable[consumers.Consumer]) -> tuple[consumers.Consumer, ...]:
    """Return the readers of specs. Podman has the directories that its own files set."""
    return tuple(dc.replace(r, directories=looks_into(obs, r.version)) if r.name == NAME else r for r in readers)


def advice(policy: Policy, obs: Observation) -> tuple[str, ...]:
    """Advise on the Podman of this host, whichever other engines are configured on it."""
    used = (policy.cdi_place,) if policy.cdi_place else policy.cdi_spec_dirs or CDI_DIRS
    return tuple(text for reader in consumers.podman(policy, obs) for text in list_advice(policy, obs, reader.version, used))


def list_advice(policy: Policy, obs: Observation, version: str, used: tuple[str, ...]) -> tuple[str, ...]:
    """Collect the advice that the files of containers.conf give rise to."""
    hooks = directories.hooked(obs) if policy.cdi != "disabled" else ()
    return (*directories.advice(obs, version, used), *hooks, *directories.find_undefined_runtime(obs))


def counts(policy: Policy, others: Iterable[Instance]) -> bool:
    """Tell whether Podman is an engine of its own here: `engines` names it, or no other engine can be managed.

    If another engine is only stopped or silent, Podman counts by its name alone.
    """
    found = tuple(others)
    return NAME in policy.engines or (all(i.refusal for i in found) and not refusals.open_ones(policy, found))


def plan(policy: Policy, obs: Observation, instance: Instance, decision: Decision) -> Plan:
    """Return an empty plan: Podman needs the CDI spec alone, which belongs to the host."""
    return Plan()


def plan_absent(policy: Policy, obs: Observation, instance: Instance) -> Plan:
    return Plan()
