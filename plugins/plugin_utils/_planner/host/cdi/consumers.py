# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the programs that read the host's CDI spec besides the managed engines.

These are programs without a daemon, and the NVIDIA runtime itself. Programs without a daemon are
Podman, and on nodes of Slurm Apptainer and SingularityCE. enroot (and pyxis, which starts it) reads
no spec: it has nvidia-container-cli put the driver into its containers.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    base_package,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

PODMAN = traits.PODMAN
APPTAINER, SINGULARITY, ENROOT, CLI = "apptainer", "singularity", "enroot", "nvidia-container-cli"
QUESTION = queries.ask_for_program([PODMAN, APPTAINER, SINGULARITY, ENROOT, CLI])
# The newest version for a program that no package brought. Every Podman since 4.7 reads it, and
# every SingularityCE with CDI.
UNKNOWN = "0.6.0"
# The packages of each, as their projects and distributions name them.
PACKAGES = {
    PODMAN: (PODMAN,),
    APPTAINER: (APPTAINER,),
    SINGULARITY: ("singularity-ce", "singularity-container"),
}
TITLES = {PODMAN: PODMAN, APPTAINER: "Apptainer", SINGULARITY: "SingularityCE"}
# The first toolkit whose runtime reads 0.7.0 (1.15: 0.7.0, 1.16: 0.8.0, 1.18: 1.0.0, 1.19: 1.1.0),
# and what the older ones read.
READS_ALL, OLD_TOOLKIT = (1, 15, 0), "0.5.0"


@dc.dataclass(frozen=True)
class Consumer:
    """A program that reads CDI specs, and the newest CDI version that it reads."""

    name: str
    version: str
    newest: str
    directories: tuple[str, ...] = CDI_DIRS  # () if it is told which ones to read


def list_questions(policy: Policy) -> list[queries.Question]:  # noqa: ARG001
    return [
        QUESTION,
        queries.ask_for_packages([name for names in PACKAGES.values() for name in names]),
    ]


@dc.dataclass(frozen=True)
class ConsumerFacts:
    """A host's facts about programs that read CDI specs: their files, by name, and packages."""

    programs: Fact[Mapping[str, str]]
    packages: base_package.PackageFacts


def read_consumer_facts(obs: Observation) -> ConsumerFacts:
    return obs.compute_once("readers of CDI specs", lambda: _read_consumer_facts(obs))


def _read_consumer_facts(obs: Observation) -> ConsumerFacts:
    return ConsumerFacts(
        Fact(
            lambda: {
                str(name): str(path)
                for name, path in (obs.get_answer(QUESTION).get("found") or {}).items()
                if path
            }
        ),
        base_package.read_package_facts(obs),
    )


def list_other_consumers(
    policy: Policy, facts: ConsumerFacts, instances: Iterable[Instance]
) -> tuple[Consumer, ...]:
    return (
        *find_podman_consumer(policy, facts),
        *find_slurm_consumer(facts),
        *find_runtime_consumer(policy, facts, instances),
    )


def find_podman_consumer(policy: Policy, facts: ConsumerFacts) -> tuple[Consumer, ...]:
    """Return this host's Podman as a consumer; () if there is none, or if it reads no specs.

    Podman makes its cache again for every command. It reports a spec that is too new for it only as
    an `unresolvable` device.
    """
    version = read_podmans_version(policy, facts)
    return () if version is None else make_reader(PODMAN, version, UNKNOWN)


def read_podmans_version(policy: Policy, facts: ConsumerFacts) -> str | None:
    """Return the version of this host's Podman, "" if no package brought it, None if there is none.

    In a tree without its package, the option engine_version gives it if no other engine is asked
    for whose version that could be.
    """
    alone = policy.root != "/" and policy.engines == (PODMAN,)
    version = find_packaged(facts, PODMAN) or (policy.engine_version if alone else "")
    return version if version or PODMAN in facts.programs.value else None


def find_slurm_consumer(facts: ConsumerFacts) -> tuple[Consumer, ...]:
    """Return Apptainer, else SingularityCE, as a consumer; () if neither reads specs here.

    Both take CDI devices by --device: Apptainer since 1.5, SingularityCE since 4.0. An Apptainer
    that no package brought may be of any release, and does not count: every release that reads
    specs is new enough for what this collection writes. Its program is also called singularity.
    """
    apptainer = APPTAINER in facts.programs.value or facts.packages.get_version(APPTAINER)
    return (
        find_program_consumer(facts, APPTAINER, "")
        if apptainer
        else find_program_consumer(facts, SINGULARITY, UNKNOWN)
    )


def find_program_consumer(facts: ConsumerFacts, name: str, unknown: str) -> tuple[Consumer, ...]:
    """Return one program as a consumer, found by its package or its file; () if it reads no specs.

    unknown: the newest CDI version of a program that no package brought.
    """
    version = find_packaged(facts, name)
    return make_reader(name, version, unknown) if version or name in facts.programs.value else ()


def find_packaged(facts: ConsumerFacts, name: str) -> str:
    """Return the version of the first of a program's packages that is installed, "" for none."""
    return next(filter(None, map(facts.packages.get_version, PACKAGES[name])), "")


def make_reader(name: str, version: str, unknown: str) -> tuple[Consumer, ...]:
    """Return a release of a program as a consumer, () if the release reads no specs."""
    newest = cdi_versions.get_max_cdi_version(name, version) if version else unknown
    return (Consumer(TITLES[name], version, newest),) if newest else ()


def advise_on_enroot(facts: ConsumerFacts) -> tuple[str, ...]:
    """Advise to install nvidia-container-cli if enroot is on the host without it.

    enroot ends with an error if a container asks for GPUs and the program is missing (98-nvidia.sh
    in its conf/hooks).
    """
    programs = facts.programs.value
    if ENROOT not in programs or CLI in programs:
        return ()
    return (messages.NO_ENROOT_CLI.fill(program=CLI),)


def find_runtime_consumer(
    policy: Policy, facts: ConsumerFacts, instances: Iterable[Instance]
) -> tuple[Consumer, ...]:
    """Return the NVIDIA runtime as a consumer if it is old and serves an engine that cannot read
    specs.

    A recent runtime reads everything that this collection writes, so it does not count.
    """
    served = [i for i in instances if not i.cdi.able and not i.refusal]
    version = policy.toolkit_version or facts.packages.get_version(packages.BASE) or ""
    parsed = versions.parse_engine_version(version)
    if not served or parsed is None or parsed.release >= READS_ALL:
        return ()
    return (Consumer("the NVIDIA runtime of toolkit", version, OLD_TOOLKIT, ()),)
