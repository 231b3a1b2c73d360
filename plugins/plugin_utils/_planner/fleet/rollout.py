# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a rollout: which hosts have something to do, what each changes, who goes first, and in which
batches.

The plan depends only on the looks and the settings. So a rollout that was cut short is planned
again from the hosts. Hosts that are done take no slot, and one that already is as desired stands
for its class as a canary does. If a verification is configured, such a host has to be verified
first. A run that ended before the verification may have converged it, and nothing on the host
tells.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    approval,
    change,
    driver_change,
    hardware,
    left_out,
    messages,
    order,
    room,
    waves,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.settings import (
    RolloutSettings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

DO, DONE, LEFT_OUT = "do", "done", "left out"
CANARY = 0  # the number of the canaries' wave


@dc.dataclass(frozen=True)
class Fleet:
    """The data from which a rollout is planned.

    results: the look at each host.
    variables: the variables that key paths may read.
    drained: the hosts that have to be drained.
    """

    results: Mapping[str, Mapping[str, Any]]
    variables: Mapping[str, Mapping[str, Any]] = dc.field(default_factory=dict)
    drained: frozenset[str] = frozenset()
    first: frozenset[str] = frozenset()  # hosts that an earlier run took out of service
    verification: frozenset[str] = frozenset()  # hosts for which a verification is configured
    # hosts that an earlier run of this controller has verified before it died
    verified: frozenset[str] = frozenset()
    # hosts that such a run had, and did not come to the end of
    unverified: frozenset[str] = frozenset()
    # host -> why it is left out, by what its look does not tell
    others: Mapping[str, str] = dc.field(default_factory=dict)
    changes: bool = False  # whether a file of the user's may change drivers


@dc.dataclass(frozen=True)
class RolloutHost:
    """A host in a rollout. change: the digest of what it plans, '' for nothing. unjudged: an earlier
    run has begun to change its driver, and none has judged it since. moves: why its driver has to
    be moved, '' if it has not.
    """

    name: str
    state: str
    why: str  # of one that is left out
    hardware: str
    domain: str
    change: str
    gpus: int = 0
    running: tuple[str, ...] = ()  # the engines that were configured and ran
    unjudged: bool = False
    moves: str = ""

    @property
    def is_changed(self) -> bool:
        """Tell whether something is changed, by this collection or by the user's tasks."""
        return bool(self.change or self.moves)


@dc.dataclass(frozen=True)
class Batch:
    """The hosts that are changed at the same time. wave: its number, 0 for canaries."""

    wave: int
    hosts: tuple[str, ...]


@dc.dataclass(frozen=True)
class Rollout:
    """The plan of a rollout. changes: digest -> what equal hosts change."""

    hosts: Mapping[str, RolloutHost]
    batches: tuple[Batch, ...]
    changes: Mapping[str, Mapping[str, Any]]
    limits: waves.Limit = waves.Limit({}, {})
    ended: str = ""  # why no host is changed at all; then there is no batch

    @property
    def order(self) -> list[str]:
        return [host for batch in self.batches for host in batch.hosts]

    @property
    def canaries(self) -> list[str]:
        return [host for batch in self.batches if batch.wave == CANARY for host in batch.hosts]

    @property
    def has_unjudged_hosts(self) -> bool:
        """Tell whether a host that is changed has a change of its driver that was not judged."""
        return any(host.unjudged and host.state == DO for host in self.hosts.values())

    def list_hosts_in_state(self, state: str) -> list[str]:
        """List the hosts in a state, in their natural order."""
        return sorted(
            (h.name for h in self.hosts.values() if h.state == state), key=names.build_natural_key
        )


def plan_rollout(fleet: Fleet, settings: RolloutSettings) -> Rollout:
    """Plan a rollout: which hosts are changed, in which batches, with which limits.

    Raise PlanError if there are no hosts, or if too many are left out.
    """
    if not fleet.results:
        raise PlanError(messages.NO_HOSTS.fill())
    hosts = add_verifications(judge_rollout_hosts(fleet, settings), fleet, settings.canaries)
    ended = left_out.explain_too_many_left_out(
        [h.name for h in hosts.values() if h.state == LEFT_OUT], len(hosts), settings.max_left_out
    )
    if ended:
        return Rollout(hosts, (), {}, ended=ended)
    line = order.order_by_domain(
        [h.name for h in hosts.values() if h.state == DO],
        {h.name: h.domain for h in hosts.values()},
        settings.seed,
    )
    # stable: else the order is as it was
    line.sort(key=lambda h: (h not in fleet.first and not hosts[h].unjudged, hosts[h].is_changed))
    first = list_canaries(line, hosts, settings.canaries, fleet)
    canaries = frozenset(first)
    hosts_of_waves = [
        first,
        *waves.cut_waves([h for h in line if h not in canaries], settings.waves),
    ]
    limits = waves.limit(
        settings.max_unavailable,
        map_hosts_to_groups(hosts, fleet),
        fleet.drained,
        map_server_groups(hosts, fleet),
    )
    batches = [
        Batch(n, tuple(batch))
        for n, wave in enumerate(hosts_of_waves)
        for batch in waves.cut_batches(wave, limits)
    ]
    shown: dict[str, Mapping[str, Any]] = {}
    for name in sorted(hosts, key=names.build_natural_key):
        if hosts[name].change:
            shown.setdefault(
                hosts[name].change, change.build_shared_change(fleet.results[name], name)
            )
    return Rollout(hosts, tuple(batches), shown, limits)


def judge_rollout_hosts(fleet: Fleet, settings: RolloutSettings) -> dict[str, RolloutHost]:
    """Return each host with its state, class, domain and change."""
    why = {
        host: left_out.explain_left_out(result, changes=fleet.changes)
        or explain_left_out_elsewhere(fleet, host, result, settings.driver)
        for host, result in fleet.results.items()
    }
    views = {
        host: hardware.build_class_view(result)
        for host, result in fleet.results.items()
        if not why[host]
    }
    classes = hardware.map_class_labels(
        "gpufleet_rollout_class", settings.hardware_class, views, fleet.variables
    )
    domains = (
        hardware.map_class_labels(
            "gpufleet_rollout_domain", settings.domain, views, fleet.variables
        )
        if settings.domain
        else {}
    )
    judged = {}
    for name, result in fleet.results.items():
        digest = "" if why[name] else change.digest_change(result, name)
        unapproved = approval.explain_unapproved_change(
            settings.approved_changes, classes.get(name, ""), digest, result, name
        )
        if unapproved:
            why[name], digest = unapproved, ""
        # A host that an earlier run left out of service has to be put back, even if it is as
        # desired.
        unjudged = left_out.is_change_unjudged(result)
        moves = "" if why[name] else driver_change.explain_driver_to_move(result, settings.driver)
        again = name in fleet.first or unjudged or bool(moves)
        state = LEFT_OUT if why[name] else DO if digest or again else DONE
        gpus = len((result.get("driver") or {}).get("gpus") or ())
        runs = hardware.list_running_engines(result)
        judged[name] = RolloutHost(
            name,
            state,
            why[name],
            classes.get(name, ""),
            domains.get(name, ""),
            digest,
            gpus,
            runs,
            unjudged,
            moves,
        )
    return judged


def add_verifications(
    hosts: Mapping[str, RolloutHost], fleet: Fleet, canaries: int
) -> dict[str, RolloutHost]:
    """Return the hosts, with state DO for each one that is as desired and is verified again.

    These are hosts that an earlier run left unverified, and hosts that have to stand for a canary
    of their class.
    """
    done = [h for name, h in hosts.items() if h.state == DONE and h.hardware != hardware.NONE]
    again = {h.name for h in done if h.name in fleet.unverified}
    wanted = dict.fromkeys((h.hardware for h in hosts.values() if h.state == DO), canaries)
    for host in done:
        if host.name in again or can_stand_for_class(host.name, fleet):
            wanted[host.hardware] = wanted.get(host.hardware, 0) - 1
    for name in order.order_by_domain([h.name for h in done], {}, ""):
        if (
            name not in again
            and wanted.get(hosts[name].hardware, 0) > 0
            and not can_stand_for_class(name, fleet)
        ):
            wanted[hosts[name].hardware] -= 1
            again.add(name)
    return {name: dc.replace(h, state=DO) if name in again else h for name, h in hosts.items()}


def can_stand_for_class(name: str, fleet: Fleet) -> bool:
    """Tell whether a host that is as desired stands for its class as a canary does.

    It does if it came through, with its verification if it needs one.
    """
    return name not in fleet.unverified and (
        name not in fleet.verification or name in fleet.verified
    )


def explain_left_out_elsewhere(
    fleet: Fleet, host: str, result: Mapping[str, Any], driver: str = ""
) -> str:
    """Explain why a host is left out by what its look does not tell, '' if it is not.

    A host that has nothing to do is done, whoever holds it. driver: the release that it shall have.
    """
    has_work = host in fleet.first or bool(
        change.digest_change(result, host) or driver_change.list_other_releases(result, driver)
    )
    return fleet.others.get(host, "") if has_work else ""


def list_canaries(
    line: Sequence[str], hosts: Mapping[str, RolloutHost], number: int, fleet: Fleet
) -> list[str]:
    """List the first hosts of each class, fewer if hosts of the class are as desired already.

    A host that is not managed shows nothing.
    """
    wanted: dict[str, int] = {}
    for host in hosts.values():
        wanted.setdefault(host.hardware, number)
        if (
            host.state == DONE
            and host.hardware != hardware.NONE
            and can_stand_for_class(host.name, fleet)
        ):
            wanted[host.hardware] = max(0, wanted[host.hardware] - 1)
    canaries = []
    for name in line:
        if wanted[hosts[name].hardware] > 0:
            wanted[hosts[name].hardware] -= 1
            canaries.append(name)
    return canaries


def map_hosts_to_groups(hosts: Mapping[str, RolloutHost], fleet: Fleet) -> dict[str, list[str]]:
    """Map each host to the groups that limit how many of their hosts are out of service at once.

    These are its cluster, its partitions and its failure domain.
    """
    groups, cluster = {}, map_hosts_to_clusters(fleet)
    for name, host in hosts.items():
        partitions = (fleet.variables.get(name) or {}).get("gpufleet_slurm_partition") or ()
        of_one = [f"cluster {of}" for of in cluster[name]]
        of_one += [
            f"partition {p}" for p in ([partitions] if isinstance(partitions, str) else partitions)
        ]
        groups[name] = [*of_one, *([f"domain {host.domain}"] if host.domain else [])]
    return groups


def map_hosts_to_clusters(fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """Map each host to the clusters that it counts in: by the inventory, else by its CA, else
    ('',).

    Hosts without a cluster and a CA count as one cluster. A CA is a host's own word. If a host
    without a cluster in the inventory has a CA, all hosts with that CA count in it as well. So a
    host's word can keep other hosts waiting, and never lets them go at the same time.
    """
    known = {
        host: get_host_cluster(fleet.variables.get(host) or {}, result)
        for host, result in fleet.results.items()
    }
    by_authority = {authority for name, authority in known.values() if not name}
    clusters: dict[str, tuple[str, ...]] = {}
    for host, (name, authority) in known.items():
        both = authority and authority in by_authority
        clusters[host] = ((name, authority) if both else (name,)) if name else (authority,)
    return clusters


def get_host_cluster(variables: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[str, str]:
    """Return the cluster that the inventory names for a host, and the CA that the host shows; ''
    for each that is not known.
    """
    return str(variables.get("gpufleet_cluster") or ""), str(
        (result.get("work") or {}).get("cluster") or ""
    )


def map_server_groups(hosts: Mapping[str, RolloutHost], fleet: Fleet) -> dict[str, list[str]]:
    """Map each host whose change restarts a program of the cluster's API or its database to the
    groups of such hosts.

    If two of three members of etcd restart at once they lose their quorum. So these hosts go one
    after another, and the restart of one ends when its API serves again. A cluster of a single node
    is a group of its own: a thousand such hosts do not wait for each other. A host without a
    cluster in the inventory also waits for the named hosts with the same CA, since some of these
    may not have shown theirs.
    """
    units, cluster = set(known.list_server_units()), map_hosts_to_clusters(fleet)
    like: dict[str, dict[str, None]] = {}
    for name, *authority in cluster.values():
        for one in authority:
            like.setdefault(one, {})[name] = None
    restarts = {
        name: change.build_shared_change(fleet.results[name], name)["restarts"]
        for name, host in hosts.items()
        if host.state == DO
    }
    groups = [name for name, of_one in restarts.items() if units & set(of_one)]
    every = {
        name: dict.fromkeys(
            (*cluster[name], *(of for one in cluster[name] for of in like.get(one, ())))
        )
        for name in groups
    }
    return {
        name: [f"{room.SERVERS} of cluster {of}".strip() for of in of_one]
        for name, of_one in every.items()
    }


def list_rollout_lines(rollout: Rollout, *, batches: bool = True) -> list[str]:
    """Build the lines that a person reads before the first host is changed.

    batches: False if the batches would not be those of the rollout that follows.
    """
    counts = {state: rollout.list_hosts_in_state(state) for state in (DO, DONE, LEFT_OUT)}
    verifications = [name for name in counts[DO] if not rollout.hosts[name].is_changed]
    again = (
        f" and {len(verifications)} to be verified or put back into service"
        if verifications
        else ""
    )
    number = (
        f" in {len(rollout.batches)} batch{'' if len(rollout.batches) == 1 else 'es'}"
        if batches
        else ""
    )
    todo = f"{len(counts[DO]) - len(verifications)} to change{again}{number}"
    rest = f"{len(counts[DONE])} already as desired, {len(counts[LEFT_OUT])} left out"
    lines = [f"{outcomes.format_host_count(len(rollout.hosts))}: {todo}, {rest}"]
    lines += [
        f"  left out: {name}: {why}"
        for name, why in fleet_hosts.fold_equal_rows(
            [(name, (rollout.hosts[name].why,)) for name in counts[LEFT_OUT]]
        )
    ]
    for text in sorted({rollout.hosts[name].hardware for name in counts[DO]}):
        of_one = [name for name in counts[DO] if rollout.hosts[name].hardware == text]
        lines.append(f"  class {text}: {names.show_some_runs(of_one)}")
    lines += (
        [
            f"  as desired, to be verified or put back into service: {names.show_some_runs(verifications)}"
        ]
        if verifications
        else []
    )
    lines += list_driver_lines(rollout, "")
    for n, batch in enumerate(rollout.batches if batches else (), 1):
        wave = "canaries" if batch.wave == CANARY else f"wave {batch.wave}"
        lines.append(f"  batch {n}, {wave}: {names.show_some_runs(batch.hosts)}")
    return lines


def list_driver_lines(rollout: Rollout, wanted: str) -> list[str]:
    """Build the lines about hosts whose driver the user's tasks are to move, with the reason.

    wanted: the release that the hosts shall have. Then there is a line also if no host is moved.
    """
    moved = [name for name in rollout.list_hosts_in_state(DO) if rollout.hosts[name].moves]
    if wanted and not moved:
        return [f"  driver to be moved by your tasks: on no host, and the release is {wanted}"]
    return [
        f"  driver to be moved by your tasks: {name}: {why}"
        for name, why in fleet_hosts.fold_equal_rows(
            [(name, (rollout.hosts[name].moves,)) for name in moved]
        )
    ]


def may_fail(rollout: Rollout, most: waves.Amount) -> list[str]:
    """List the line with the number of hosts that a percentage allows to fail, which may be 0.

    Return [] if none is set.
    """
    total = sum(len(batch.hosts) for batch in rollout.batches)
    said = f"  may fail: {most.compute_number(total)} of {outcomes.format_host_count(total)} (gpufleet_rollout_max_failed: {most.text})"
    return [said] if most.percent and total else []


def digests(rollout: Rollout) -> list[tuple[str, str]]:
    """List (class, change) of all hosts that have something to change.

    An approval passes them on between jobs that share no files.
    """
    return sorted(
        {(h.hardware, h.change) for h in rollout.hosts.values() if h.state == DO and h.change}
    )
