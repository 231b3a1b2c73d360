# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find Podman, which reads the CDI specs again for every command, and give advice about it.

It has no daemon, needs no socket, and gets no configuration of this collection.

It counts as an engine of its own if no other engine on the host can be managed, or if `engines`
names it. Otherwise it is one more reader of the spec that the others get (consumers.py).
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Cdi,
    Decision,
    Evidence,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import refusals, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import consumers
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    confinement,
    directories,
    messages,
)

NAME = consumers.PODMAN
BINARY = "/usr/bin/podman"
# where its key cdi_spec_dirs would stand; nothing is written there
CONFIG = "/etc/containers/containers.conf"


def list_questions(policy: Policy) -> list[queries.Question]:
    return [
        *consumers.list_questions(policy),
        *directories.list_podman_questions(),
        *confinement.QUESTIONS,
    ]


@dc.dataclass(frozen=True)
class PodmanEngineFacts:
    """A host's facts about readers of CDI specs, Podman among them, about containers.conf, and
    about SELinux.
    """

    readers: consumers.ConsumerFacts
    settings: directories.PodmanFacts
    confinement: confinement.ConfinementFacts


def read_facts(policy: Policy, obs: Observation) -> PodmanEngineFacts:  # noqa: ARG001
    return PodmanEngineFacts(
        consumers.read_consumer_facts(obs),
        directories.read_podman_facts(obs),
        confinement.read_confinement_facts(obs),
    )


def find_instances(policy: Policy, facts: PodmanEngineFacts) -> tuple[Instance, ...]:
    """Find the Podman of this host. One that reads no CDI spec is left alone, since CDI is all that
    this collection does for it.
    """
    readers = facts.readers
    said = consumers.read_podmans_version(policy, readers)
    if said is None:
        return ()
    program = readers.programs.value.get(NAME) or BINARY
    packaged = messages.PODMAN_PACKAGE.fill(name=NAME, version=said)
    source = (
        packaged
        if readers.packages.get_version(NAME)
        else messages.PODMAN_PROGRAM.fill(program=program)
    )
    evidence = Evidence("version", source)
    version = said.rpartition(":")[2].partition("-")[0].partition("+")[0]
    newest = next(
        (reader.newest for reader in consumers.find_podman_consumer(policy, readers)),
        "",
    )
    cdi = Cdi(
        able=bool(newest),
        enabled=bool(newest),
        dirs=looks_into(facts.settings, said) if newest else (),
        max_version=newest,
        evidence=evidence,
    )
    refusal, place = (Refusal(), CONFIG) if newest else (refuse_old(version), program)
    return (
        Instance(
            NAME,
            version,
            program,
            "",
            place,
            "",
            "package",
            running=False,
            cdi=cdi,
            cri=False,
            refusal=refusal,
        ),
    )


def refuse_old(version: str) -> Refusal:
    """Refuse a Podman that reads no CDI specs."""
    needed = traits.get_traits(NAME).first_cdi
    return Refusal(messages.PODMAN_NO_CDI.fill(version=version, needed=needed), kind="unfit")


def looks_into(facts: directories.PodmanFacts, version: str) -> tuple[str, ...]:
    settings = directories.get_podman_directories(facts, version)
    return (
        host_paths.clean_directories(settings.names)
        if settings and settings.names
        else directories.get_default_directories(version)
    )


def list_spec_directories(facts: PodmanEngineFacts, version: str) -> tuple[str, ...]:
    """List the directories in which a release of Podman looks for CDI specs."""
    return looks_into(facts.settings, version)


def advise_on_reading(policy: Policy, facts: PodmanEngineFacts) -> tuple[str, ...]:
    """Advise on the Podman of this host, whichever other engines are configured on it."""
    used = (policy.cdi_place,) if policy.cdi_place else policy.cdi_spec_dirs or CDI_DIRS
    return tuple(
        text
        for reader in consumers.find_podman_consumer(policy, facts.readers)
        for text in (
            *list_advice(policy, facts.settings, reader.version, used),
            *_warn_of_confinement(facts, reader.version),
        )
    )


def _warn_of_confinement(facts: PodmanEngineFacts, version: str) -> tuple[str, ...]:
    return (
        confinement.warn_of_confinement(facts.confinement)
        if directories.confines_containers(facts.settings, version)
        else ()
    )


def list_advice(
    policy: Policy, facts: directories.PodmanFacts, version: str, used: tuple[str, ...]
) -> tuple[str, ...]:
    """Collect the advice that the files of containers.conf give rise to."""
    hooks = directories.warn_of_podman_hook(facts, version) if policy.cdi != "disabled" else ()
    return (
        *directories.advise_on_podman_directories(facts, version, used),
        *hooks,
        *directories.find_undefined_runtime(facts, version),
    )


def counts_as_engine(policy: Policy, others: Iterable[Instance]) -> bool:
    """Tell whether Podman is an engine of its own here: `engines` names it, or no other engine can
    be managed.

    If another engine is only stopped or silent, Podman counts by its name alone.
    """
    engines = tuple(others)
    return NAME in policy.engines or (
        all(i.refusal for i in engines) and not refusals.open_ones(policy, engines)
    )


def plan_instance(
    policy: Policy,  # noqa: ARG001
    facts: PodmanEngineFacts,  # noqa: ARG001
    instance: Instance,  # noqa: ARG001
    decision: Decision,  # noqa: ARG001
) -> Plan:
    """Return an empty plan: Podman needs the CDI spec alone, which belongs to the host."""
    return Plan()


def plan_absent(policy: Policy, facts: PodmanEngineFacts, instance: Instance) -> Plan:  # noqa: ARG001
    return Plan()
