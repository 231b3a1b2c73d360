# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the whole host: one list of questions, its engines, GPUs and other writers, and the decision.

One pass makes typed facts of the observation. Plans take those.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    QueryFailed,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
    Decision,
    Driver,
    HostDecision,
    Instance,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decide,
    decision_file,
    earlier_runs,
    host_messages,
    installation,
    low_level,
    protocols,
    refusals,
    restore,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_refresh,
    gpu_operator,
    other_writers,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    consumers,
    files,
    placement,
    resource,
    spec_facts,
    spec_verdicts,
    staleness,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    gpus,
    keeping,
    kept_driver,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    detect as docker_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    detect as podman_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    host_health,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    planned_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    cgroup_driver,
    device_plugin,
    dra,
    kubelet_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet as kubernetes_kubelet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import (
    known as managers_known,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    host_platform,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    device_nodes,
    metrics,
    oci_hook,
    packages,
    persistence,
    repository,
    swarm,
    toolkit_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    resource as sharing_resource,
)

# A new engine is one more file and one more row: here if it has a configuration of handlers, in
# READERS if it reads CDI specs alone.
CONFIGURED: restore.Engines = {
    traits.CONTAINERD: containerd_detect,
    traits.CRIO: crio_detect,
    traits.DOCKER: docker_detect,
}
READERS: Mapping[str, protocols.ReadingEngine] = {traits.PODMAN: podman_detect}
ENGINES: Mapping[str, protocols.Engine] = {**CONFIGURED, **READERS}
LEFTOVERS = {traits.CRIO: crio_detect.list_left_alone_leftovers}
# Engines whose decisions have further reasons, since each of their handlers has a cgroup driver.
REASONED = {traits.CONTAINERD: containerd_detect}
# Programs that render an engine's configuration on hosts of Kubernetes alone.
KUBERNETES = (
    *managers_known.list_kubernetes_managers(),
    gpu_operator.TOOL,
)
MODE_BINARIES = ["nvidia-container-runtime.cdi", "nvidia-container-runtime.legacy"]
# CRI-O's own packages put its runtimes outside PATH.
LOW_LEVEL_PATHS = [*STANDARD_PATH, "/usr/libexec/crio"]


@dc.dataclass(frozen=True)
class SeenHost:
    """The result of one look at a host, in the domain's words.

    engines: the facts of each engine, by its name.
    """

    instances: tuple[Instance, ...]
    driver: Driver
    kubelet: Kubelet
    record: HostDecision
    freshness: tuple[staleness.SpecVerdict, ...] = ()
    specs: placement.Placement = placement.USUAL
    engines: Mapping[str, Any] = dc.field(default_factory=dict)


def list_low_level_questions() -> list[queries.Question]:
    return [queries.ask_for_program(list(low_level.KNOWN), LOW_LEVEL_PATHS)]


def list_host_low_level_runtimes(obs: Observation) -> tuple[str, ...]:
    """Return the low-level runtimes of a host, without a decision."""
    return low_level.list_low_level_runtimes(
        [], obs.get_answer(list_low_level_questions()[0]).get("found") or {}
    )


def list_host_questions(policy: Policy) -> list[queries.Question]:
    """Return all questions that a normal host needs, for one look."""
    own = [
        *list_low_level_questions(),
        queries.ask_for_program(MODE_BINARIES),
        earlier_runs.ORIGINALS,
    ]
    engines = [
        q
        for name, engine in ENGINES.items()
        for q in engine.list_questions(refusals.narrow_policy_to_engine(policy, name))
    ]
    every: tuple[protocols.AskingRoom, ...] = (
        gpus,
        keeping,
        kept_driver,
        device_nodes,
        persistence,
        consumers,
        other_writers,
        device_plugin,
        dra,
        packages,
        toolkit_config,
        oci_hook,
        resource,
        decision_file,
        metrics,
        gpu_operator,
        programs,
        sharing_resource,
    )
    rooms = [q for room in every for q in room.list_questions(policy)]
    return [*own, *engines, *rooms, *repository.list_host_repository_questions(policy)]


def see(policy: Policy, obs: Observation) -> SeenHost:
    """Find the engines, the GPUs and the other writers, and decide. With state: absent, an
    undecidable host gets an empty record.

    A query that failed leaves no such record: its answer might have named a kubelet or a program
    that needs what is taken back.
    """
    engines = read_engine_facts(policy, obs)
    try:
        return decide_seen_host(policy, obs, engines)
    except QueryFailed:
        raise
    except PlanError:
        if policy.state != "absent":
            raise
        nothing = resource.record_of_options("none", "")
        instances = restore.find_every_engine(policy, engines, CONFIGURED).instances
        here = tuple(i for i in instances if i.binary)
        unseen = Driver("none", "", (), "not inspected")
        return SeenHost(here, unseen, Kubelet(), nothing, engines=engines)


def decide_seen_host(policy: Policy, obs: Observation, engines: Mapping[str, Any]) -> SeenHost:
    """Find what the decision rests on, and decide. engines: the facts of each engine, by its name."""
    instances = find_host_instances(policy, engines)
    kubelet = kubernetes_kubelet.find_kubelet(policy, kubelet_facts.read_kubelet_facts(obs))
    instances = tuple(
        dc.replace(i, used_by_kubelet=is_kubelets_engine(i, kubelet)) for i in instances
    )
    instances = tuple(refuse_without_kubelet(policy, i, kubelet, instances) for i in instances)
    instances = gpu_operator.refuse_operator_instances(
        policy, gpu_operator.read_operator_facts(policy, obs), instances
    )
    driver = driver_state.read_driver(policy, obs)
    readers = list_host_readers(policy, obs, instances, engines)
    cap, _reason = decide.find_version_cap(instances, readers)
    specs = placement.choose_spec_directory(
        policy,
        instances,
        readers,
        earlier_runs.read_earlier_runs(obs).spec_place,
    )
    owner, owner_reason = cdi_refresh.choose_cdi_owner(
        policy, cdi_refresh.read_refresh_facts(obs), cap, None if specs.usual else specs.common
    )
    record = decide.decide_host(
        policy,
        instances,
        driver,
        kubelet,
        low_level=obs.get_answer(list_low_level_questions()[0]).get("found") or {},
        mode_binaries=obs.get_answer(queries.ask_for_program(MODE_BINARIES)).get("found") or {},
        cdi_owner=owner,
        cdi_owner_reason=owner_reason,
        consumers=readers,
        plugin=device_plugin.find_plugin_strategies(
            policy, device_plugin.read_plugin_facts(obs), kubelet
        ),
    )
    record = dc.replace(
        record,
        decisions=tuple(
            add_engine_reasons(policy, engines[d.engine], instances, d) for d in record.decisions
        ),
    )
    record = specs.place_record(record)
    return SeenHost(
        instances,
        driver,
        kubelet,
        record,
        judge_host_specs(policy, obs, record, driver),
        specs,
        engines,
    )


def read_engine_facts(policy: Policy, obs: Observation) -> Mapping[str, Any]:
    """Return the facts of each engine, by its name. Each engine has a type of its own for them."""
    return {
        name: engine.read_facts(refusals.narrow_policy_to_engine(policy, name), obs)
        for name, engine in ENGINES.items()
    }


def find_host_instances(policy: Policy, engines: Mapping[str, Any]) -> tuple[Instance, ...]:
    """Find the instances of all engines. One that reads specs alone is among them if it counts as
    an engine here.

    engines: the facts of each engine, by its name.
    """
    every = tuple(
        i
        for name, engine in ENGINES.items()
        for i in engine.find_instances(
            refusals.narrow_policy_to_engine(policy, name), engines[name]
        )
    )
    configured = tuple(i for i in every if i.engine in CONFIGURED)
    return tuple(
        i
        for i in every
        if i.engine in CONFIGURED or READERS[i.engine].counts_as_engine(policy, configured)
    )


def list_host_readers(
    policy: Policy,
    obs: Observation,
    instances: tuple[Instance, ...],
    engines: Mapping[str, Any],
) -> tuple[consumers.Consumer, ...]:
    """List what reads the host's specs besides its engines, each with its own directories.

    engines: the facts of each engine, by its name.
    """
    readers = consumers.list_other_consumers(policy, consumers.read_consumer_facts(obs), instances)
    return tuple(
        dc.replace(r, directories=READERS[r.name].list_spec_directories(engines[r.name], r.version))
        if r.name in READERS
        else r
        for r in readers
    )


def judge_host_specs(
    policy: Policy, obs: Observation, record: HostDecision, driver: Driver
) -> tuple[staleness.SpecVerdict, ...]:
    """Judge whether the host's specs are still true, in the place that the record has for them."""
    placed = placement.place_specs_in_policy(policy, record)
    facts = spec_facts.read_spec_facts(placed, obs, record, driver)
    return spec_verdicts.judge_specs(placed, facts)


def is_kubelets_engine(instance: Instance, kubelet: Kubelet) -> bool:
    """Tell whether the kubelet of the host starts its pods in this engine, in Docker by
    cri-dockerd.
    """
    if instance.engine == traits.DOCKER and cgroup_driver.is_cri_dockerd(kubelet.endpoint):
        return True
    return bool(kubelet.endpoint) and cgroup_driver.is_same_socket(
        kubelet.endpoint, instance.socket
    )


def add_engine_reasons(
    policy: Policy, facts: Any, instances: tuple[Instance, ...], decision: Decision
) -> Decision:
    """Return a decision with the further reasons that only its engine's configuration shows.

    facts: of its engine.
    """
    asked = REASONED.get(decision.engine)
    instance = next(i for i in instances if i.key == decision.instance)
    return (
        dc.replace(
            decision,
            reasons=(*decision.reasons, *asked.explain_decision(policy, facts, instance, decision)),
        )
        if asked
        else decision
    )


def refuse_without_kubelet(
    policy: Policy, instance: Instance, kubelet: Kubelet, instances: tuple[Instance, ...]
) -> Instance:
    """Refuse an engine that no kubelet can use on a host of Kubernetes, unless the policy names it."""
    kubernetes = kubelet.present or any(i.manager in KUBERNETES for i in instances)
    engine = traits.get_traits(instance.engine)
    open_ = not instance.refusal or instance.refusal.kind in ("stopped", "silent")
    asked = instance.used_by_kubelet or instance.engine in policy.engines
    if engine.kubernetes or not engine.handlers or not open_ or asked or not kubernetes:
        return instance
    values = {"title": engine.title, "version": instance.version, "engine": instance.engine}
    beside = host_messages.BESIDE_KUBERNETES.fill(**values)
    return dc.replace(instance, refusal=Refusal(beside, kind="unasked"))


@dc.dataclass(frozen=True)
class ForeignFacts:
    """The facts that tell which files of other tools a host has, and whether these tools still
    work.
    """

    programs: programs.ProgramFacts
    operator: gpu_operator.OperatorFacts
    spec_files: files.SpecFileFacts


def read_foreign_facts(policy: Policy, obs: Observation) -> ForeignFacts:
    return ForeignFacts(
        programs=programs.read_program_facts(obs),
        operator=gpu_operator.read_operator_facts(policy, obs),
        spec_files=files.read_spec_file_facts(obs),
    )


@dc.dataclass(frozen=True)
class HostFacts:
    """All that the plan of a whole host is made from: the look, and what each room reads of it.

    specs: the host's specs as they are once its device nodes are right. places: where a file of
    another tool is, by its path. other_processes: how many processes other users have, by name.
    """

    seen: SeenHost
    engines_back: restore.TakeBackFacts
    earlier: earlier_runs.EarlierRuns
    decision: decision_file.DecisionFacts
    installation: installation.InstallationFacts
    nodes: device_nodes.DeviceNodeFacts
    runtime: toolkit_config.ToolkitConfigFacts
    hooks: oci_hook.HookFacts
    writers: other_writers.WriterFacts
    foreign: ForeignFacts
    plugin: device_plugin.PluginFacts
    dra: dra.DraFacts
    keeping: keeping.KeepingFacts
    driver_change: Fact[kept_driver.DriverChange]
    consumers: consumers.ConsumerFacts
    swarm: Fact[swarm.SwarmFacts]
    sharing: sharing_resource.SharingFacts
    specs: Fact[spec_facts.SpecFacts]
    taken_back: spec_facts.SpecRemovalFacts
    metrics: metrics.MetricsFacts
    known_bad: planned_host.KnownBadFacts
    health: host_health.HealthFacts
    platform: host_platform.PlatformFacts
    persistence: persistence.PersistenceFacts
    places: Lookup[str, str]
    other_processes: Fact[Mapping[str, int]]


def read_host_facts(
    policy: Policy, obs: Observation, seen: SeenHost, probe_source: str
) -> HostFacts:
    """Return the facts of all rooms in one pass. A room that lacks an answer raises NeedMore when
    its plan needs it, so that one more look answers all rooms.
    """
    record, driver = seen.record, seen.driver
    placed = placement.place_specs_in_policy(policy, record)

    def read_specs() -> spec_facts.SpecFacts:
        after = device_nodes.predict_device_nodes(policy, obs, driver)
        return spec_facts.read_spec_facts(placed, after, record, driver, probe_source)

    offers = Fact(lambda: swarm.read_swarm_facts(policy, obs, seen.instances, seen.engines))
    return HostFacts(
        seen=seen,
        engines_back=restore.read_take_back_facts(obs, seen.engines),
        earlier=earlier_runs.read_earlier_runs(obs),
        decision=decision_file.read_decision_facts(policy, obs),
        installation=installation.read_installation_facts(policy, obs),
        nodes=device_nodes.read_device_node_facts(policy, obs),
        runtime=toolkit_config.read_toolkit_config_facts(policy, obs),
        hooks=oci_hook.read_hook_facts(policy, obs, record, seen.engines),
        writers=other_writers.read_writer_facts(obs),
        foreign=read_foreign_facts(placed, obs),
        plugin=device_plugin.read_plugin_facts(obs),
        dra=dra.read_dra_facts(obs),
        keeping=keeping.read_keeping_facts(policy, obs),
        driver_change=kept_driver.read_change_fact(policy, obs),
        consumers=consumers.read_consumer_facts(obs),
        swarm=offers,
        sharing=sharing_resource.read_sharing_facts(policy, obs),
        specs=Fact(read_specs),
        taken_back=spec_facts.read_spec_removal_facts(obs),
        metrics=metrics.read_metrics_facts(policy, obs),
        known_bad=planned_host.read_known_bad_facts(policy, obs, offers),
        health=host_health.read_health_facts(policy, obs),
        platform=host_platform.read_platform_facts(policy, obs),
        persistence=persistence.read_persistence_facts(obs),
        places=Lookup(lambda path: obs.get_file(path).place),
        other_processes=Fact(obs.count_others),
    )
