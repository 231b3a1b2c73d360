# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read which GPUs Docker Swarm assigns to services, and judge whether the NVIDIA runtime reads the
assignment.

A node offers `NAME=GPU` pairs (node-generic-resources of dockerd). A service that gets one has the
variable DOCKER_RESOURCE_NAME, which the NVIDIA runtime reads if `swarm-resource` in its
configuration lists it: in legacy mode always, in others since toolkit 1.19
(nvidia-container-toolkit pull request 1600).
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    facts as docker_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
    toolkit_config,
)

_VARIABLE = "DOCKER_RESOURCE_"  # swarmkit, genericresource.EnvFormat
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LIKE_UUID = re.compile(r"(?:GPU|MIG)-", re.IGNORECASE)
_MOST = 4  # GPUs that are named in a sentence
_NOT_SENT = ("", "")  # in the place of a name and its value whose form does not leave the host


@dc.dataclass(frozen=True)
class Offered:
    """The GPUs that a host offers to Swarm, as it names them. where, line: the place that does.

    known: False if the host has not sent their names, or the setting by which the NVIDIA runtime
    reads them.
    """

    gpus: tuple[str, ...]
    where: str
    line: int | None = None
    known: bool = True

    @property
    def place(self) -> str:
        return f"{self.where}:{self.line}" if self.line else self.where


def find_offered(
    facts: docker_facts.DockerFacts, setting: object, docker: Instance
) -> Offered | None:
    """Return which GPUs the host offers under names that the NVIDIA runtime is set to read; None if
    there are none.

    setting: the variables that the runtime is set to read.
    """
    if not isinstance(setting, str) or not setting:
        return None
    pairs, where, line = _list_pairs(facts, docker)
    if file_places.is_hidden_value(setting):
        return Offered((), where, line, known=False) if pairs else None
    variables = [word.strip().upper() for word in setting.split(",")]
    gpus = tuple(gpu for name, gpu in pairs if f"{_VARIABLE}{name}".upper() in variables)
    if not gpus and _NOT_SENT not in pairs:
        return None
    return Offered(gpus, where, line, known=bool(gpus))


def _list_pairs(
    facts: docker_facts.DockerFacts, docker: Instance
) -> tuple[list[tuple[str, str]], str, int | None]:
    """Return the names and values of a Docker's resources, with the place that sets them.

    Its flag outranks its file.
    """
    flags = facts.flags.value
    by_flag = config.list_docker_flag_values(flags, config.ADD_RESOURCE)
    if by_flag:
        return [_split_pair(item) for item in by_flag], flags.where or docker.unit, flags.line
    try:
        document = facts.documents.get(docker.config_path)[1]
    except PlanError:  # the plan for Docker reports what is wrong with its file
        return [], docker.config_path, None
    listed = json_text.look_up_json(document, config.RESOURCES)
    pairs = (
        [_NOT_SENT]
        if file_places.is_hidden_value(listed)
        else [_split_pair(str(item)) for item in listed or ()]
    )
    return (
        pairs,
        document.path,
        json_text.find_member_line(document, config.RESOURCES) if pairs else None,
    )


def _split_pair(item: str) -> tuple[str, str]:
    name, _equals, value = item.partition("=")
    return _NOT_SENT if selection.HIDDEN in item else (name, value)


def may_lose_assignment(offered: Offered | None, record: HostDecision) -> bool | None:
    """Tell whether only a toolkit from 1.19 on reads the assignment, in the mode that the host
    gets; None if it is not known.
    """
    if (
        offered is None
        or not toolkit_config.needs_toolkit_config(record)
        or record.runtime_mode == "legacy"
    ):
        return False
    return True if offered.known else None


@dc.dataclass(frozen=True)
class SwarmFacts:
    """A host's facts for Swarm, None if it offers nothing, and the NVIDIA runtime's mode now."""

    offered: Offered | None
    mode: Fact[Any]


def read_swarm_facts(
    policy: Policy,
    obs: Observation,
    instances: Sequence[Instance],
    engines: Mapping[str, Any],
) -> SwarmFacts:
    """Return the facts of this room. engines: the facts of each engine, by its name."""
    runtime = toolkit_config.read_toolkit_config_facts(policy, obs)
    docker = next((i for i in instances if i.engine == traits.DOCKER and not i.refusal), None)
    offered = (
        find_offered(engines[traits.DOCKER], runtime.read_setting(toolkit_config.SWARM), docker)
        if docker
        else None
    )
    return SwarmFacts(
        offered,
        Fact(lambda: runtime.read_setting((*toolkit_config.RUNTIME, "mode"))),
    )


def advise_on_swarm(
    policy: Policy,
    facts: SwarmFacts,
    record: HostDecision,
    driver: Driver,
) -> tuple[str, ...]:
    """Return advice about Swarm's names that lead to no GPU, and about what a new mode means for
    its services.
    """
    offered = facts.offered
    if offered is None:
        return ()
    return (
        *_advise_names(policy, offered, record, driver),
        *_advise_mode(facts.mode.value, offered, record),
    )


def _advise_names(
    policy: Policy, offered: Offered, record: HostDecision, driver: Driver
) -> tuple[str, ...]:
    """Return advice about names that look like UUIDs and are not the UUID of a GPU of this host, or
    are not in the CDI spec.

    Early releases of the toolkit accepted the beginning of a UUID.
    """
    known = {gpu.uuid.lower() for gpu in driver.gpus if gpu.uuid}
    like = [gpu for gpu in dict.fromkeys(offered.gpus) if _LIKE_UUID.match(gpu)]
    wrong = [
        gpu
        for gpu in like
        if not _UUID.fullmatch(gpu)
        or (known and gpu[:3].upper() == "GPU" and gpu.lower() not in known)
    ]
    advice = []
    if wrong:
        advice.append(
            messages.SWARM_NOT_A_UUID.fill(
                place=offered.place, gpus=names.show_few_texts(wrong, _MOST)
            )
        )
    if like and may_lose_assignment(offered, record) and "uuid" not in policy.cdi_device_names:
        advice.append(messages.SWARM_WITHOUT_UUIDS.fill(place=offered.place))
    return tuple(advice)


def _advise_mode(now: Any, offered: Offered, record: HostDecision) -> tuple[str, ...]:
    """Return advice about a new mode. now: the one in the file.

    The table of known-bad combinations judges the toolkit's release if it is known.
    """
    if may_lose_assignment(offered, record) is False or now == record.runtime_mode:
        return ()
    row = messages.SWARM_ASSIGNS if offered.known else messages.SWARM_MAY_ASSIGN
    return (row.fill(place=offered.place, mode=record.runtime_mode),)
