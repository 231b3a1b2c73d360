# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the whole host as the sum of its resources, in one transaction."""

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
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    host_messages,
    installation,
    lowering,
    newer_releases,
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
    placement,
    resource,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    holding,
    keeping,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    findings,
    host_health,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    planned_host,
    verdict,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    rules as known_bad_rules,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    device_plugin,
    dra,
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


def judge_host_combinations(
    policy: Policy, facts: seen_host.HostFacts, plan: Plan | None
) -> known_bad_rules.JudgedRows:
    """Judge the host by the table of known-bad combinations: as the plan would leave it, or as it
    is if there is no plan.
    """
    host = facts.seen
    return verdict.judge_known_bad(
        planned_host.KnownBadLook(
            policy,
            facts.known_bad,
            host.instances,
            host.driver,
            host.record,
            host.freshness,
            plan,
        )
    )


def plan_host(
    policy: Policy, facts: seen_host.HostFacts, residents: Mapping[str, str] | None = None
) -> Plan:
    """Plan the host, and check the plan against the table of known-bad combinations.

    residents: sources of the programs that stay on the host. Raise PlanError if no plan can be made
    or the table stops it.
    """
    try:
        plan = plan_resources(policy, facts, residents)
    except QueryFailed:
        raise
    except PlanError as refusal:
        error = keeping.explain_refused_plan(policy, facts.keeping, facts.seen.driver, refusal)
        try:
            more = judge_host_combinations(policy, facts, None)
        except PlanError:
            # the table could not learn what it needs, and the plan is refused as it is
            raise error from None
        raise verdict.explain_refused_plan(policy, more, error) from None
    return verdict.add_known_bad_advice(policy, judge_host_combinations(policy, facts, plan), plan)


def report_known_bad(
    policy: Policy,
    facts: seen_host.HostFacts,
    plan: Plan | None,
    error: PlanError | None = None,
) -> list[dict[str, Any]]:
    """Return what a result reports of the table of known-bad combinations. error: the reason why
    there is no plan.
    """
    stopped = error.judged if isinstance(error, verdict.Stopped) else None
    return verdict.convert_rows(stopped or judge_host_combinations(policy, facts, plan))


def plan_resources(
    policy: Policy, facts: seen_host.HostFacts, residents: Mapping[str, str] | None
) -> Plan:
    """Return the sum of the resources' plans as one transaction."""
    if policy.state == "absent":
        return plan_host_removal(policy, facts)
    host, record = facts.seen, facts.seen.record
    if record.skipped:
        return Plan(advice=(record.skipped, *advise_on_health(policy, facts)))
    refusals.require_engine(policy, host.instances)
    if not record.decisions and refusals.open_ones(policy, host.instances):
        return Plan(advice=tuple(sentence for _key, sentence in record.refused))
    decides = functools.partial(get_decision_cause, policy, facts)
    parts = order_resource_plans(list_room_plans(policy, facts, residents or {}, decides))
    return sum_plans([*parts, *plan_host_records(policy, facts, parts, decides)], decides)


def list_room_plans(
    policy: Policy,
    facts: seen_host.HostFacts,
    residents: Mapping[str, str],
    decides: lowering.Decided,
) -> list[Callable[[], Plan]]:
    """List what makes the plan of each resource, in the order in which their errors count.

    residents: sources of the programs that stay on the host.
    """
    host, record = facts.seen, facts.seen.record
    by_key = {i.key: i for i in host.instances}
    packaged = facts.installation
    pinned, installing = installation.plan_installation(policy, packaged, record)
    goes = installation.is_taken_back(installing)
    placed = placement.place_specs_in_policy(policy, record)
    nodes = functools.cache(
        lambda: device_nodes.plan_device_nodes(
            policy,
            facts.nodes,
            host.driver,
            residents.get("device_nodes", ""),
        )
    )
    others = functools.cache(
        lambda: other_writers.plan_other_writers(
            policy, facts.writers, record, installing=bool(installing.commands), goes=goes
        )
    )
    config = functools.partial(
        toolkit_config.plan_toolkit_config,
        policy,
        facts.runtime,
        record,
        installing=bool(installing.commands),
    )
    return [
        lambda: plan_left_by_others(
            placed, facts.foreign, host.engines, host.instances, record.decisions
        ),
        lambda: installation.plan_first_stages(
            pinned,
            packaged,
            record,
            installing,
            others(),
            other_writers.clear_behind_installation(facts.writers, record) if goes else Plan(),
        ),
        nodes,
        lambda: persistence.plan_persistence(policy, facts.persistence, host.driver),
        lambda: mark_package_file(config()) if installing.commands else config(),
        *(
            functools.partial(
                seen_host.ENGINES[d.engine].plan_instance,
                policy,
                host.engines[d.engine],
                by_key[d.instance],
                d,
            )
            for d in record.decisions
        ),
        lambda: programs.require_default(
            policy, facts.foreign.programs, host.instances, record.decisions
        ),
        lambda: oci_hook.plan_hook_file(policy, facts.hooks, record, decides),
        lambda: plan_host_specs(policy, facts, nodes(), residents.get("cdi_guard", "")),
        lambda: Plan() if installing.commands else others(),
        lambda: device_plugin.advise_on_device_plugin(policy, record),
        lambda: Plan(advice=dra.advise_on_dra(judge_claims(policy, facts.dra, host, after=True))),
        lambda: Plan(
            advice=(
                *consumers.advise_on_enroot(facts.consumers),
                *(
                    text
                    for name, engine in seen_host.READERS.items()
                    for text in engine.advise_on_reading(placed, host.engines[name])
                ),
            )
        ),
        lambda: keeping.plan_keeping(policy, facts.keeping, host.driver),
        lambda: Plan(advice=swarm.advise_on_swarm(policy, facts.swarm.value, record, host.driver)),
        lambda: sharing_resource.plan_sharing(
            policy,
            facts.sharing,
            host.driver,
            host.kubelet,
            *(residents.get(name, "") for name in sharing_resource.PROGRAM_NAMES),
        ),
    ]


def plan_host_records(
    policy: Policy,
    facts: seen_host.HostFacts,
    parts: list[Plan],
    decides: lowering.Decided,
) -> list[Plan]:
    """Plan the files that tell of the host and of this run's parts, with the advice about the host
    itself.
    """
    host, record = facts.seen, facts.seen.record
    recorded = decision_file.plan_decision_files(
        facts.decision,
        record,
        host.driver,
        list_host_takeovers(facts, parts),
        decides,
    )
    stale = [verdict.path for verdict in host.freshness if verdict.state == "stale"]
    measured = metrics.plan_metrics(
        policy,
        facts.metrics,
        record,
        host.driver,
        stale,
        merge_plans([*parts, recorded]),
    )
    alone = (
        *(sentence for _key, sentence in record.refused),
        *newer_releases.advise_on_newer_releases(
            host.instances, packages.get_installed_toolkit(facts.installation.toolkit), host.driver
        ),
        *processes.advise_on_other_processes(facts.other_processes.value),
        *host.driver.notes,
        *advise_on_health(policy, facts),
    )
    return [recorded, measured, Plan(advice=alone)]


def advise_on_health(policy: Policy, facts: seen_host.HostFacts) -> tuple[str, ...]:
    """Return what is wrong with the GPUs of a host, and with the units that they need, as advice."""
    sick = host_health.judge_health(policy, facts.health, facts.seen.driver)
    return (
        *findings.advise_on_findings(sick),
        *host_platform.advise_on_platform(policy, judge_platform(facts)),
    )


def judge_platform(facts: seen_host.HostFacts) -> host_platform.Platform:
    """Return the kind of machine that a host is, and what it needs besides the driver."""
    return host_platform.judge_platform(facts.platform, facts.seen.driver, facts.seen.kubelet)


def sum_plans(parts: list[Plan], decides: lowering.Decided) -> Plan:
    """Merge the plans of resources. Raise PlanError if a part takes something away without a cause."""
    merged = programs.explain_retired_handlers(merge_plans(parts))
    whole = lowering.resolve_lowerings(merged, decides)
    lowering.require_causes(whole)
    return whole


def get_decision_cause(policy: Policy, facts: seen_host.HostFacts) -> Cause:
    """Return the cause for what goes by the host's decision. Raise PlanError if it rests on a
    component that does not answer.
    """
    host, earlier = facts.seen, facts.earlier
    refusals.require_heard_engines(policy, host.instances)
    device_plugin.require_serving_plugin(facts.plugin, host.record, earlier.plugin_source)
    return "uninstalled" if earlier.engines - {i.engine for i in host.instances} else "policy"


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


def list_host_takeovers(facts: seen_host.HostFacts, parts: list[Plan]) -> list[str]:
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
        for path, kept in facts.earlier.originals.items()
        if path in removed and kept.get("existed")
    ]
    return [*(facts.places.get(path) for path in adopted), *before]


def plan_left_by_others(
    policy: Policy,
    facts: seen_host.ForeignFacts,
    engines: Mapping[str, Any],
    instances: tuple[Instance, ...],
    decisions: tuple[Decision, ...],
) -> Plan:
    """Return what other tools left outside the engines' configurations, and in those of engines
    that are left alone.

    Most often, what was left there is why an engine is left alone. Pods that cannot start are
    reported first. engines: the facts of each engine, by its name.
    """
    first = programs.plan_missing_programs(policy, facts.programs, instances, decisions)
    its_state = functools.partial(
        gpu_operator.judge_operator_state, policy, facts.operator, instances
    )
    watching = (
        ()
        if policy.single
        else contested.list_management_specs(
            policy, facts.spec_files, lambda path: its_state((path,))
        )
    )
    alone = [
        left
        for i in instances
        if i.refusal and i.engine in seen_host.LEFTOVERS
        for left in seen_host.LEFTOVERS[i.engine](policy, engines[i.engine], i)
    ]
    return dc.replace(
        first,
        leftovers=(
            *gpu_operator.list_operator_leftovers(policy, facts.operator, instances),
            *alone,
            *watching,
        ),
    )


def judge_claims(
    policy: Policy, facts: dra.DraFacts, seen: seen_host.SeenHost, *, after: bool
) -> dra.Dra:
    """Tell whether pods get GPUs by claims here. after: judge the host as the plan leaves it, else
    as it is.
    """
    return dra.judge_dra(
        policy,
        facts,
        seen.record,
        seen.instances,
        seen.driver,
        seen.kubelet,
        after=after,
    )


def plan_host_specs(
    policy: Policy,
    facts: seen_host.HostFacts,
    nodes: Plan,
    program: str,
) -> Plan:
    """Plan the spec of the host as it is once its device nodes are right.

    A driver that this same run loads shows its GPUs only afterwards, so the next run writes its
    spec.
    """
    host = facts.seen
    if host.driver.state == "not-loaded" and nodes.restarts:
        return Plan(advice=(host_messages.DRIVER_LOADS.fill(),))
    said = Plan(advice=host.specs.advise_on_placement(host.record, kubelet=host.kubelet.expected))
    placed, specs = placement.place_specs_in_policy(policy, host.record), facts.specs.value
    done = resource.plan_specs_and_outcome(
        placed,
        specs,
        host.record,
        host.driver,
        functools.partial(get_decision_cause, policy, facts),
    )
    return merge_plans(
        [done[0], resource.plan_spec_watch(placed, specs, host.record, done, program), said]
    )


def mark_package_file(plan: Plan) -> Plan:
    """Return a plan whose diff tells that a package brings the file: its other lines stay, and are
    not known yet.
    """
    note = "# (the package installs the file, and its other lines stay)\n"
    return dc.replace(
        plan, diffs=tuple((path, old, new if old else note + new) for path, old, new in plan.diffs)
    )


def plan_host_removal(policy: Policy, facts: seen_host.HostFacts) -> Plan:
    """Plan to give back what was there before. Packages stay, since other programs on the host may
    need them.
    """
    removed = [
        toolkit_config.plan_absent(policy, facts.runtime),
        oci_hook.plan_absent(policy, facts.hooks),
        resource.plan_absent(policy, facts.taken_back),
        device_nodes.plan_absent(policy, facts.nodes),
        persistence.plan_absent(facts.persistence),
        sharing_resource.plan_absent(policy, facts.sharing),
        holding.plan_absent(facts.keeping.hold),
        cdi_refresh.plan_absent(policy, facts.writers.refresh),
        decision_file.plan_absent(policy, facts.decision),
        metrics.plan_absent(policy, facts.metrics),
        repository.plan_absent(policy, facts.installation.repository),
    ]
    return lowering.add_cause(
        restore.plan_take_back(policy, facts.engines_back, seen_host.CONFIGURED, removed), "policy"
    )
