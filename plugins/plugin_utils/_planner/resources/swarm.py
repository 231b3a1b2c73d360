# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read which GPUs Docker Swarm assigns to services, and judge whether the NVIDIA runtime reads the assignment.

A node offers `NAME=GPU` pairs (node-generic-resources of dockerd). A service that gets one has the variable DOCKER_RESOURCE_NAME, which the
NVIDIA runtime reads if `swarm-resource` in its configuration lists it: in legacy mode always, in others since toolkit 1.19
(nvidia-container-toolkit pull request 1600).
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.docker import config
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import json_text, toml, toml_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Driver, HostDecision, Instance, PlanError, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import toolkit_config

_VARIABLE = "DOCKER_RESOURCE_"  # swarmkit, genericresource.EnvFormat
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LIKE_UUID = re.compile(r"(?:GPU|MIG)-", re.IGNORECASE)
_MOST = 4  # GPUs that are named in a sentence


@dc.dataclass(frozen=True)
class Offered:
    """The GPUs that a host offers to Swarm, as it names them. where, line: the place that does."""

    gpus: tuple[str, ...]
    where: str
    line: int | None = None

    @property
    def place(self) -> str:
        return f"{self.where}:{self.line}" if self.line else self.where


def read_offered(policy: Policy, obs: Observation, instances: Sequence[Instance]) -> Offered | None:
    """Read which GPUs the host offers under names that the NVIDIA runtime is set to read; None if there are none."""
    found = next((i for i in instances if i.engine == traits.DOCKER and not i.refusal), None)
    variables = _read_variables(obs) if found else ()
    if found is None or not variables:
        return None
    try:
        document = config.document(obs, found.config_path, policy.handlers)[1]
    except PlanError:  # the plan for Docker says what is wrong with its file
        return None
    flags = config.flags_given(policy, obs)
    by_flag = config.values(flags, config.ADD_RESOURCE)
    in_file = json_text.lookup(document, config.RESOURCES)
    pairs = [str(item).partition("=")[::2] for item in by_flag or (in_file if isinstance(in_file, list) else ())]
    gpus = tuple(value for name, value in pairs if f"{_VARIABLE}{name}".upper() in variables)
    if not gpus:
        return None
    if by_flag:
        return Offered(gpus, flags.where or found.unit, flags.line)
    return Offered(gpus, document.path, json_text.line_of(document, config.RESOURCES))


def _read_variables(obs: Observation) -> tuple[str, ...]:
    """Read the variables that the NVIDIA runtime looks for."""
    value = _read_setting(obs, toolkit_config.SWARM)
    return tuple(word.strip().upper() for word in value.split(",") if word.strip())


def _read_setting(obs: Observation, key: tuple[str, ...]) -> str:
    """Read a setting of the NVIDIA runtime, '' where the file does not set it. The plan for that file says if it is broken."""
    if not obs.asked(queries.file(toolkit_config.PATH, toolkit_config.KEEP)):
        return ""
    file = obs.file(toolkit_config.PATH, toolkit_config.KEEP)
    try:
        value = toml.lookup(toml_file.read(file).data, key) if file.exists else None
    except PlanError:
        return ""
    return value if isinstance(value, str) else ""


def loses_assignment(offered: Offered | None, record: HostDecision) -> bool:
    """Tell whether only a toolkit from 1.19 on reads the assignment, in the mode that the host gets."""
    return offered is not None and toolkit_config.concerns(record) and record.runtime_mode != "legacy"


def advise(policy: Policy, obs: Observation, instances: Sequence[Instance], record: HostDecision, driver: Driver) -> tuple[str, ...]:
    """Say which names of Swarm lead to no GPU, and what a new mode means for its services."""
    offered = read_offered(policy, obs, instances)
    if offered is None:
        return ()
    return (*_advise_names(policy, offered, record, driver), *_advise_mode(obs, offered, record))


def _advise_names(policy: Policy, offered: Offered, record: HostDecision, driver: Driver) -> tuple[str, ...]:
    """Judge the names that look like UUIDs. The beginning of one was enough for early releases of the toolkit."""
    known = {gpu.uuid.lower() for gpu in driver.gpus if gpu.uuid}
    like = [gpu for gpu in dict.fromkeys(offered.gpus) if _LIKE_UUID.match(gpu)]
    wrong = [gpu for gpu in like if not _UUID.fullmatch(gpu) or (known and gpu[:3].upper() == "GPU" and gpu.lower() not in known)]
    found = []
    if wrong:
        what = f"{offered.place}: Docker Swarm offers {names.few(wrong, _MOST)}, which is not the UUID of a GPU of this host"
        found.append(f"{what}. Write the whole UUIDs that `nvidia-smi -L` prints")
    if like and loses_assignment(offered, record) and "uuid" not in policy.cdi_device_names:
        what = f"{offered.place}: Docker Swarm offers GPUs by UUID, and the CDI spec has no such names"
        found.append(f"{what}. Add uuid to gpufleet_cdi_device_names")
    return tuple(found)


def _advise_mode(obs: Observation, offered: Offered, record: HostDecision) -> tuple[str, ...]:
    """Say what a new mode means. The table of known-bad combinations judges the toolkit's release where it is known."""
    if not loses_assignment(offered, record) or _read_setting(obs, (*toolkit_config.RUNTIME, "mode")) == record.runtime_mode:
        return ()
    what = f"{offered.place}: Docker Swarm assigns GPUs to services, which the NVIDIA runtime reads in the mode {record.runtime_mode}"
    return (f"{what} from toolkit 1.19 on. If an older one stays on this host, set gpufleet_injection: legacy",)
