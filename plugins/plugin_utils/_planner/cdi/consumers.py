# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reads the host's CDI spec besides the engines that are managed: Podman, which has no daemon, and the NVIDIA runtime itself."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines import cdi_versions, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Instance, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import packages

PODMAN = traits.PODMAN
QUESTION = queries.which([PODMAN])
# Of a Podman that no package brought. Everything since 4.7 reads it.
UNKNOWN = "0.6.0"
# The first toolkit whose runtime reads 0.7.0 (1.15: 0.7.0, 1.16: 0.8.0, 1.18: 1.0.0, 1.19: 1.1.0), and what the older ones read.
READS_ALL, OLD_TOOLKIT = (1, 15, 0), "0.5.0"


@dc.dataclass(frozen=True)
class Consumer:
    """One reader of CDI specs, and the newest version that it reads."""

    name: str
    version: str
    newest: str


def questions(policy: Policy) -> list[queries.Question]:
    return [QUESTION, queries.package([PODMAN])]


def others(policy: Policy, obs: Observation, instances: Iterable[Instance]) -> tuple[Consumer, ...]:
    return (*podman(obs), *runtime(policy, obs, instances))


def podman(obs: Observation) -> tuple[Consumer, ...]:
    """Podman makes its cache again for every command, and a spec that is too new for it is an `unresolvable` device, no more is said."""
    version = obs.package(PODMAN) or ""
    there = version or (obs.raw(QUESTION).get("found") or {}).get(PODMAN)
    if not there:
        return ()
    newest = cdi_versions.max_cdi(PODMAN, version) if version else UNKNOWN
    return (Consumer(PODMAN, version, newest),) if newest else ()


def runtime(policy: Policy, obs: Observation, instances: Iterable[Instance]) -> tuple[Consumer, ...]:
    """The NVIDIA runtime reads the spec where an engine cannot. A recent one reads all that we ever write, so only an old one counts."""
    served = [i for i in instances if not i.cdi.able and not i.refusal]
    version = policy.toolkit_version or obs.package(packages.BASE) or ""
    found = versions.parse(version)
    if not served or found is None or found.release >= READS_ALL:
        return ()
    return (Consumer("the NVIDIA runtime of toolkit", version, OLD_TOOLKIT),)
