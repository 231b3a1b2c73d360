# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole host as the sum of its resources: one list of questions, one decision, one plan."""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cause,
    Decision,
    Instance,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    earlier_runs,
    host_messages,
    installation,
    lowering,
    processes,
    refusals,
    restore,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_refresh,
    gpu_operator,
    other_writers,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    consumers,
    contested,
    files,
    placement,
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    detect as podman_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    host as known_bad_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    rules as known_bad_rules,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import verdict
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    device_plugin,
    dra,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    device_nodes,
    metrics,
    oci_hook,
    repository,
    swarm,
    toolkit_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    resource as sharing_resource,
)


def judge_host_combinations(
    policy: Policy, obs: Observation, seen: seen_host.SeenHost, plan: Plan | None
) -> known_bad_rules.JudgedRows:
    """Judge the host by the table of known-bad combinations: as the plan would leave it, or as it
    is if there is no plan.
    """
    return verdict.judge_known_bad(
        known_bad_host.KnownBadLook(
            policy, obs, seen.instances, seen.driver, seen.record, seen.freshness, plan
        )
    )


def plan_host(
    policy: Policy,
    obs: Observation,
    seen: seen_host.SeenHost,
    probe_source: str,
    residents: Mapping[str, str] | None = None,
) -> Plan:
    """Plan the host, and check the plan against the table of known-bad combinations.

    residents: sources of the programs that stay on the host. Raise PlanError if no plan can be made
    or the table stops it.
    """
    try:
        found = plan_resources(policy, obs, seen, probe_source, residents)
    except QueryFailed:
        raise
    except PlanError as error:
        try:
            more = judge_host_combinations(policy, obs, seen, None)
        except (
            PlanError
        ):  # what the table needs could not be learned, and the plan is refused as it is
            raise error from None
        raise verdict.explain_refused_plan(policy, more, error) from None
    return verdict.add_known_bad_advice(
        policy, judge_host_combinations(policy, obs, seen, found), found
    )


def report_known_bad(
    policy: Policy,
    obs: Observation,
    seen: seen_host.SeenHost,
    plan: Plan | None,
    error: PlanError | None = None,
) -> list[dict[str, Any]]:
    """Return what a result reports of the table of known-bad combinations. error: the reason why
    there is no plan.
    """
    stopped = error.judged if isinstance(error, verdict.Stopped) else None
    return verdict.convert_rows(stopped or judge_host_combinations(policy, obs, seen, plan))


def plan_resources(
    policy: Policy,
    obs: Observation,
    seen: seen_host.SeenHost,
    probe_source: str,
    residents: Mapping[str, str] | None,
) -> Plan:
    """Return the sum of the resources' plans as one transaction."""
    if policy.state == "absent":
        return plan_host_removal(policy, obs)
    record = seen.record
    if record.skipped:
        return Plan(advice=(record.skipped,))
    refusals.require_engine(policy, seen.instances)
    if not record.decisions and refusals.open_ones(policy, seen.instances):
        return Plan(advice=tuple(sentence for _key, sentence in record.refused))
    by_key = {i.key: i for i in seen.instances}
    packaged = installation.read_installation_facts(policy, obs)
    pinned, installing = installation.plan_installation(policy, packaged, record)
    placed = placement.place_specs_in_policy(policy, record)
    nodes = functools.cache(
        lambda: device_nodes.plan_device_nodes(
            policy,
            device_nodes.read_device_node_facts(policy, obs),
            seen.driver,
            (residents or {}).get("device_nodes", ""),
        )
    )
    others = functools.cache(
        lambda: other_writers.plan_other_writers(
            policy, other_writers.read_writer_facts(obs), record
        )
    )
    config = functools.partial(
        toolkit_config.plan_toolkit_config,
        policy,
        toolkit_config.read_toolkit_config_facts(policy, obs),
        record,
        installing=bool(installing.commands),
    )
    decides = functools.partial(get_decision_cause, policy, obs, seen)
    parts = order_resource_plans(
        [
            lambda: plan_left_by_others(placed, obs, seen.instances, record.decisions),
            lambda: installation.plan_first_stages(pinned, packaged, record, installing, others()),
            nodes,
            lambda: mark_package_file(config()) if installing.commands else config(),
            *(
                functools.partial(
                    seen_host.ENGINES[d.engine].plan_instance, policy, obs, by_key[d.instance], d
                )
                for d in record.decisions
            ),
            lambda: programs.require_default(
                policy, programs.read_program_facts(obs), seen.instances, record.decisions
            ),
            lambda: oci_hook.plan_hook_file(
                policy, oci_hook.read_hook_facts(policy, obs, record), record, decides
            ),
            lambda: plan_host_specs(
                policy, obs, seen, probe_source, nodes(), (residents or {}).get("cdi_guard", "")
            ),
            lambda: Plan() if installing.commands else others(),
            lambda: device_plugin.advise_on_device_plugin(policy, record),
            lambda: Plan(advice=dra.advise_on_dra(judge_claims(policy, obs, seen, after=True))),
            lambda: Plan(
                advice=(
                    *consumers.advise_on_enroot(consumers.read_consumer_facts(obs)),
                    *podman_detect.advise_on_podman(placed, obs),
                )
            ),
            lambda: Plan(
                advice=swarm.advise_on_swarm(
                    policy, swarm.read_swarm_facts(policy, obs, seen.instances), record, seen.driver
                )
            ),
            lambda: sharing_resource.plan_sharing(
                policy,
                sharing_resource.read_sharing_facts(policy, obs),
                seen.driver,
                seen.kubelet,
                *((residents or {}).get(name, "") for name in sharing_resource.PROGRAM_NAMES),
            ),
        ]
    )
    recorded = decision_file.plan_decision_files(
        decision_file.read_decision_facts(policy, obs),
        record,
        seen.driver,
        list_host_takeovers(obs, parts),
        decides,
    )
    stale = [verdict.path for verdict in seen.freshness if verdict.state == "stale"]
    measured = metrics.plan_metrics(
        policy,
        metrics.read_metrics_facts(policy, obs),
        record,
        seen.driver,
        stale,
        merge_plans([*parts, recorded]),
    )
    alone = (
        *(sentence for _key, sentence in record.refused),
        *processes.advise_on_other_processes(obs),
        *seen.driver.notes,
    )
    return sum_plans([*parts, recorded, measured, Plan(advice=alone)], decides)


def sum_plans(parts: list[Plan], decides: lowering.Decided) -> Plan:
    """Merge the plans of resources. Raise PlanError if a part takes something away without a cause."""
    whole = lowering.resolve_lowerings(merge_plans(parts), decides)
    lowering.require_causes(whole)
    return whole


def get_decision_cause(policy: Policy, obs: Observation, seen: seen_host.SeenHost) -> Cause:
    """Return the cause for what goes by the host's decision. Raise PlanError if it rests on a
    component that does not answer.
    """
    refusals.require_heard_engines(policy, seen.instances)
    device_plugin.require_serving_plugin(
        device_plugin.read_plugin_facts(obs),
        seen.record,
        earlier_runs.read_earlier_runs(obs).plugin_source,
    )
    return (
        "uninstalled"
        if earlier_runs.read_earlier_runs(obs).engines - {i.engine for i in seen.instances}
        else "policy"
    )


def order_resource_plans(rooms: Iterable[Callable[[], Plan]]) -> list[Plan]:
    """Return the plans of resources that do not wait for one another.

    If several of them have more questions, raise one NeedMore with all of them, so one look answers
    them. An error counts only once everything before it is planned, so the same error is reported
    however much was asked at once.
    """
    plans: list[Plan] = []
    unanswered: list[queries.Question] = []
    for room in rooms:
        try:
            plans.append(room())
        except NeedMore as need:
            unanswered += need.questions
        except PlanError:
            if unanswered:
                break
            raise
    if unanswered:
        raise NeedMore(unanswered)
    return plans


def list_host_takeovers(obs: Observation, parts: list[Plan]) -> list[str]:
    """List the files of other tools that this run removes, or that preceded a file that goes now,
    by their names in the journal.
    """
    removed = {
        str(change["path"]) for part in parts for change in part.changes if change["op"] == "remove"
    }
    adopted = [
        left.path
        for part in parts
        for left in part.leftovers
        if left.fate == "adopted" and left.path in removed
    ]
    before = [
        path
        for path, kept in earlier_runs.read_earlier_runs(obs).originals.items()
        if path in removed and kept.get("existed")
    ]
    return [*(obs.get_file(path).place for path in adopted), *before]


def plan_left_by_others(
    policy: Policy,
    obs: Observation,
    instances: tuple[Instance, ...],
    decisions: tuple[Decision, ...],
) -> Plan:
    """Return what other tools left outside the engines' configurations, and in those of engines
    that are left alone.

    Most often, what was left there is why an engine is left alone. Pods that cannot start are
    reported first.
    """
    first = programs.plan_missing_programs(
        policy, programs.read_program_facts(obs), instances, decisions
    )
    operator = gpu_operator.read_operator_facts(policy, obs)
    its_state = functools.partial(gpu_operator.judge_operator_state, policy, operator, instances)
    watching = (
        ()
        if policy.single
        else contested.list_management_specs(
            policy, files.read_spec_file_facts(obs), lambda path: its_state((path,))
        )
    )
    alone = [
        left
        for i in instances
        if i.refusal and i.engine in seen_host.LEFTOVERS
        for left in seen_host.LEFTOVERS[i.engine](policy, obs, i)
    ]
    return dc.replace(
        first,
        leftovers=(
            *gpu_operator.list_operator_leftovers(policy, operator, instances),
            *alone,
            *watching,
        ),
    )


def judge_claims(
    policy: Policy, obs: Observation, seen: seen_host.SeenHost, *, after: bool
) -> dra.Dra:
    """Tell whether pods get GPUs by claims here. after: judge the host as the plan leaves it, else
    as it is.
    """
    return dra.judge_dra(
        policy,
        dra.read_dra_facts(obs),
        seen.record,
        seen.instances,
        seen.driver,
        seen.kubelet,
        after=after,
    )


def plan_host_specs(
    policy: Policy,
    obs: Observation,
    seen: seen_host.SeenHost,
    probe_source: str,
    nodes: Plan,
    program: str,
) -> Plan:
    """Plan the spec of the host as it is once its device nodes are right.

    A driver that this same run loads shows its GPUs only afterwards, so the next run writes its
    spec.
    """
    if seen.driver.state == "not-loaded" and nodes.restarts:
        return Plan(advice=(host_messages.DRIVER_LOADS.fill(),))
    said = Plan(advice=seen.specs.advise_on_placement(seen.record, kubelet=seen.kubelet.expected))
    placed, after = (
        placement.place_specs_in_policy(policy, seen.record),
        device_nodes.predict_device_nodes(policy, obs, seen.driver),
    )
    facts = spec_facts.read_spec_facts(placed, after, seen.record, seen.driver, probe_source)
    done = resource.plan_specs_and_outcome(
        placed,
        facts,
        seen.record,
        seen.driver,
        functools.partial(get_decision_cause, policy, obs, seen),
    )
    return merge_plans(
        [done[0], resource.plan_spec_watch(placed, facts, seen.record, done, program), said]
    )


def mark_package_file(plan: Plan) -> Plan:
    """Return a plan whose diff tells that a package brings the file: its other lines stay, and are
    not known yet.
    """
    note = "# (the package installs the file, and its other lines stay)\n"
    return dc.replace(
        plan, diffs=tuple((path, old, new if old else note + new) for path, old, new in plan.diffs)
    )


def plan_host_removal(policy: Policy, obs: Observation) -> Plan:
    """Plan to give back what was there before. Packages stay, since other programs on the host may
    need them.
    """
    removed = [
        toolkit_config.plan_absent(policy, toolkit_config.read_toolkit_config_facts(policy, obs)),
        oci_hook.plan_absent(policy, oci_hook.read_hook_facts(policy, obs, None)),
        resource.plan_absent(policy, spec_facts.read_spec_removal_facts(obs)),
        device_nodes.plan_absent(policy, device_nodes.read_device_node_facts(policy, obs)),
        sharing_resource.plan_absent(policy, sharing_resource.read_sharing_facts(policy, obs)),
        cdi_refresh.plan_absent(policy, cdi_refresh.read_refresh_facts(obs)),
        decision_file.plan_absent(policy, decision_file.read_decision_facts(policy, obs)),
        metrics.plan_absent(policy, metrics.read_metrics_facts(policy, obs)),
        repository.plan_absent(policy, repository.read_repository_facts(obs)),
    ]
    return lowering.add_cause(
        restore.plan_take_back(policy, obs, seen_host.CONFIGURED, removed), "policy"
    )
