# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a host, as one look saw it and as a plan would leave it, for comparison with the table's
rows.

If the plan was refused, the host is judged as it is.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    consumers,
    staleness,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import mismatch
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    ignored_keys,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad.rules import (
    DRIVER,
    TOOLKIT,
    HostView,
    State,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
    repository,
    repository_key,
    swarm,
    toolkit_config,
)

# the two whose programs rows are about; the family moves together
OF_TOOLKIT = (
    packages.BASE,
    "nvidia-container-toolkit",
)
COMPRESSED = (".gz", ".xz", ".zst")
BY_CDI = ("native-cdi", "nvidia-runtime")
ALL_GIDS = versions.Version(0, 7)  # of CDI, the first with additionalGids
# The states of an engine's own files, in the order in which `map_file_states` finds them.
OF_FILES: tuple[State, ...] = (
    "drop-in-above-root",
    "config-version-3",
    "cni-bin-dir",
    "cdi-switched-off",
    "tracing-in-files",
)


@dc.dataclass(frozen=True)
class KnownBadFacts:
    """A host's facts about the things that rows of the table are about.

    modules: the driver's kernel modules on disk. swarm: what Docker Swarm is offered.
    configurations: the files of a containerd, by the path of its main file and its version.
    """

    toolkit: packages.ToolkitFacts
    runtime: toolkit_config.ToolkitConfigFacts
    consumers: consumers.ConsumerFacts
    modules: Fact[list[str]]
    swarm: Fact[swarm.SwarmFacts]
    configurations: Lookup[tuple[str, versions.Version], config.FileSet]


def read_known_bad_facts(
    policy: Policy, obs: Observation, offers: Fact[swarm.SwarmFacts]
) -> KnownBadFacts:
    """Return the facts that rows of the table are about. offers: what Docker Swarm is offered."""
    files = config.read_config_facts(obs, policy.handlers)
    return KnownBadFacts(
        packages.read_toolkit_facts(obs),
        toolkit_config.read_toolkit_config_facts(policy, obs),
        consumers.read_consumer_facts(obs),
        Fact(lambda: list_disk_modules(obs)),
        offers,
        Lookup(lambda at: config.load_containerd_files(files, *at)),
    )


@dc.dataclass(frozen=True)
class KnownBadLook:
    """A look at a host, with what would be done there. plan: None if it was refused."""

    policy: Policy
    facts: KnownBadFacts
    instances: Sequence[Instance]
    driver: Driver
    record: HostDecision
    freshness: Sequence[staleness.SpecVerdict] = ()
    plan: Plan | None = None


def views(look: KnownBadLook) -> list[HostView]:
    """Return the host as seen by each engine that this collection manages there. Empty if it
    manages none.
    """
    chosen = {decision.instance: decision for decision in look.record.decisions}
    shared, programs = (
        map_host_states(look),
        {TOOLKIT: list_toolkit_releases(look), DRIVER: list_driver_releases(look.driver)},
    )
    return [
        HostView(
            {**programs, instance.engine: (versions.parse_engine_version(instance.version),)},
            {
                **shared,
                "cdi-injection": chosen[instance.key].injection in BY_CDI,
                **map_file_states(look, instance),
            },
        )
        for instance in look.instances
        if instance.key in chosen
    ]


def list_toolkit_releases(look: KnownBadLook) -> tuple[Version | None, ...]:
    """Return the releases of the toolkit after the plan, from the packages, otherwise from the
    program itself.

    None stands for an unknown release. Empty if the toolkit is not on the host.
    """
    coming = (
        {d.path: d.after for d in look.plan.whole.differences if d.what == "package"}
        if look.plan
        else {}
    )
    try:
        there = {
            name: coming.get(name) or look.facts.toolkit.get_version(name) for name in OF_TOOLKIT
        }
    except QueryFailed:  # packages of a tree with an rpm database, for one
        return (None,)
    releases = [
        versions.parse_engine_version(str(version)) for version in there.values() if version
    ]
    if releases:
        return tuple(dict.fromkeys(releases))
    said = look.facts.toolkit.program.value
    if said.version:
        return (versions.parse_engine_version(said.version),)
    return (None,) if said.there else ()


def list_driver_releases(found: Driver) -> tuple[Version | None, ...]:
    return () if found.state == "none" else (versions.parse_engine_version(found.version),)


def map_host_states(look: KnownBadLook) -> dict[State, bool | None]:
    """Return the states of the host as a whole. None for a state that is unknown."""
    names = look.facts.modules.value
    refreshed = look.record.cdi_owner == "toolkit"
    return {
        "refresh-owns-spec": refreshed,
        "mig": any(gpu.migs for gpu in look.driver.gpus),
        "module-compressed": any(name.endswith(COMPRESSED) for name in names) if names else None,
        "module-nvidia-current": any("/nvidia-current.ko" in name for name in names)
        if names
        else None,
        "reader-below-0.7.0": has_old_reader(look),
        "stale-spec": leaves_stale_spec(look),
        "toolkit-drop-in": drop_in_stays(look),
        "adds-nvidia-repository": adds_repository(look),
        "swarm-gpus": swarm.may_lose_assignment(look.facts.swarm.value.offered, look.record),
        "enroot": consumers.ENROOT in look.facts.consumers.programs.value,
        "mode-jit-cdi": any(
            decision.runtime_mode == "jit-cdi" for decision in look.record.decisions
        ),
        "mounts-accepted": toolkit_config.may_ask_by_mounts(
            look.facts.runtime,
            look.plan.whole.differences if look.plan else (),
        ),
    }


def list_disk_modules(obs: Observation) -> list[str]:
    """List the driver's kernel modules on disk, only those of the running kernel if it has one."""
    question = mismatch.list_mismatch_questions()[0]
    listed = (
        [str(f.get("path")) for f in obs.get_answer_or_error(question).get("files") or ()]
        if obs.was_asked(question)
        else []
    )
    installed = [path for path in listed if path.startswith("/lib/modules/")]
    return [
        path
        for path in installed
        if path.startswith(f"/lib/modules/{obs.host.get('kernel') or ''}/")
    ] or installed


def has_old_reader(look: KnownBadLook) -> bool | None:
    able = [i.cdi.max_version for i in look.instances if i.cdi.able]
    others = consumers.list_other_consumers(look.policy, look.facts.consumers, look.instances)
    known = [
        versions.parse_engine_version(v)
        for v in (*able, *(c.newest for c in others if c.version))
        if v
    ]
    if any(v is not None and v < ALL_GIDS for v in known):
        return True
    return None if "" in able or any(not c.version for c in others) else False


def leaves_stale_spec(look: KnownBadLook) -> bool:
    """Tell whether the plan leaves a stale spec. A plan that writes the spec, or has its owner
    write it, names it.
    """
    left = {verdict.path for verdict in look.freshness if verdict.state == "stale"}
    if look.plan is None:
        return bool(left)
    return bool(
        left
        - {str(c["path"]) for c in look.plan.whole.changes}
        - {d.key for d in look.plan.whole.differences}
    )


def drop_in_stays(look: KnownBadLook) -> bool | None:
    if look.plan is None:
        return None
    tools = (nvidia_ctk.TOOL, gpu_operator.TOOL)
    return any(
        left.tool in tools and left.fate != "adopted" and left.path.endswith(".toml")
        for left in look.plan.leftovers
    )


def adds_repository(look: KnownBadLook) -> bool:
    """Tell whether the plan adds NVIDIA's repository with NVIDIA's key.

    The repository can also come out of an archive, which takes the place of an address.
    """
    policy = look.policy
    own_key = repository_key.normalise_fingerprint(policy.toolkit_key_fingerprint) not in (
        "",
        repository.FINGERPRINT,
    )
    if look.plan is None or (
        own_key if policy.bundle_file else policy.toolkit_repository != repository.NVIDIA
    ):
        return False
    return bool(repository.PATHS & {str(change["path"]) for change in look.plan.whole.changes})


def map_file_states(look: KnownBadLook, instance: Instance) -> dict[State, bool | None]:
    """Return the states of the engine's own files, if their versions can differ from one file to
    the next.
    """
    if not traits.get_traits(instance.engine).file_versions:
        return {}
    version = versions.parse_engine_version(instance.version)
    if version is None:
        return dict.fromkeys(OF_FILES)
    try:
        files = look.facts.configurations.get((instance.config_path, version))
    except PlanError:
        return dict.fromkeys(OF_FILES)
    gone = (
        {str(c["path"]) for c in look.plan.whole.changes if c["op"] == "remove"}
        if look.plan
        else set()
    )
    root = files.root.declared if files.root else 0
    above = (
        any(f.declared > root for f in files.files[1:] if not {f.path, f.real} & gone)
        if root
        else False
    )
    states: tuple[bool, ...] = (
        above,
        files.schema >= 3,
        ignored_keys.names_cni_directory(files),
        ignored_keys.switches_cdi_off(files),
        ignored_keys.configures_tracing(files),
    )
    return dict(zip(OF_FILES, states, strict=True))
