# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts are of one cluster, and how many of it are changed at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    progress,
    rollout,
    room,
    settings,
    waves,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import work
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rollout_looks import CHANGE, looked


def test_the_query_is_the_one_that_the_node_answers() -> None:
    assert (work.CLUSTER["id"], work.CLUSTER["kind"]) == ("certificates:cluster", "certificates")


def test_each_cluster_has_its_own_limit_and_the_name_in_the_inventory_counts_first() -> None:
    hosts = {f"g{n}": looked(CHANGE, work={"cluster": f"ca-{n % 2}"}) for n in range(4)}
    wanted = settings.build_rollout_settings({"max_unavailable": 1, "waves": "100%", "canaries": 0})
    assert [len(b.hosts) for b in rollout.plan_rollout(rollout.Fleet(hosts), wanted).batches] == [
        2,
        2,
    ]
    named = {name: {"gpufleet_cluster": "one"} for name in hosts}
    assert [
        len(b.hosts) for b in rollout.plan_rollout(rollout.Fleet(hosts, named), wanted).batches
    ] == [1, 1, 1, 1]


CLUSTERS = [
    # each host as (what the inventory says, its CA), the clusters that each counts in
    ([("", "ca-1"), ("", "ca-1"), ("", "ca-2")], ["ca-1", "ca-1", "ca-2"]),
    ([("", ""), ("", "")], ["", ""]),
    ([("prod", "ca-1"), ("prod", ""), ("", "ca-2")], ["prod", "prod", "ca-2"]),
    # named for one of them only: the CA says that the other is of the same
    ([("prod", "ca-1"), ("", "ca-1")], ["prod ca-1", "ca-1"]),
    ([("prod", ""), ("", "")], ["prod", ""]),
    # one CA for two clusters, which is what the inventory says
    ([("prod", "ca-1"), ("test", "ca-1")], ["prod", "test"]),
    # nobody knows which of them the third host is of
    ([("prod", "ca-1"), ("test", "ca-1"), ("", "ca-1")], ["prod ca-1", "test ca-1", "ca-1"]),
]


@pytest.mark.parametrize(("hosts", "found"), CLUSTERS)
def test_the_cluster_of_a_host_is_what_the_inventory_says_of_its_like(
    hosts: list[tuple[str, str]], found: list[str]
) -> None:
    results = {f"n{n}": {"work": {"cluster": digest}} for n, (_name, digest) in enumerate(hosts)}
    named = {f"n{n}": {"gpufleet_cluster": name} for n, (name, _digest) in enumerate(hosts)}
    assert [
        " ".join(of) for of in rollout.map_hosts_to_clusters(rollout.Fleet(results, named)).values()
    ] == found


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "prod", "test"]), st.sampled_from(["", "ca-1", "ca-2"])),
        min_size=2,
        max_size=8,
    ),
    st.sampled_from(["ca-1", "ca-2", "ca-3"]),
    st.sampled_from(["prod", "test", ""]),
)
def test_no_host_lets_two_others_go_at_the_same_time_by_the_ca_that_it_tells(
    hosts: list[tuple[str, str]], lie: str, name: str
) -> None:
    def together(own: str) -> set[tuple[int, int]]:
        """Pairs of other hosts that are of no common cluster."""
        every = [*hosts, (name, own)]
        results = {f"n{n}": {"work": {"cluster": ca}} for n, (_name, ca) in enumerate(every)}
        named = {f"n{n}": {"gpufleet_cluster": of} for n, (of, _ca) in enumerate(every)}
        of = [
            set(one)
            for one in rollout.map_hosts_to_clusters(rollout.Fleet(results, named)).values()
        ]
        return {(a, b) for a in range(len(hosts)) for b in range(a) if not of[a] & of[b]}

    assert together(lie) <= together("")


# ---------------------------------------------------------------- servers


def restarting(unit: str, cluster: str) -> dict[str, Any]:
    """The look at a host whose change restarts this unit."""
    return {**looked(CHANGE), "would_restart": [unit], "work": {"cluster": cluster}}


FLEETS = [
    # what restarts, on how many hosts, in how many clusters; the sizes of the batches
    ("k3s.service", 3, 1, [1, 1, 1]),
    ("rke2-server.service", 3, 1, [1, 1, 1]),
    ("k0scontroller.service", 3, 1, [1, 1, 1]),
    ("k3s-agent.service", 3, 1, [3]),
    ("rke2-agent.service", 3, 1, [3]),
    ("containerd.service", 3, 1, [3]),
    ("k3s.service", 500, 500, [500]),  # the single nodes of an edge
    ("k3s.service", 6, 2, [2, 2, 2]),
]


@pytest.mark.parametrize(("unit", "hosts", "clusters", "sizes"), FLEETS)
def test_servers_of_one_cluster_go_one_after_another_and_nobody_else_waits(
    unit: str, hosts: int, clusters: int, sizes: list[int]
) -> None:
    fleet = rollout.Fleet({f"n{n}": restarting(unit, f"ca-{n % clusters}") for n in range(hosts)})
    found = rollout.plan_rollout(
        fleet, settings.build_rollout_settings({"waves": "100%", "canaries": 0})
    )
    assert [len(batch.hosts) for batch in found.batches] == sizes


def test_each_server_unit_is_a_unit_of_its_manager() -> None:
    assert all(set(m.servers) <= set(m.units) for m in known.MANAGERS)
    assert known.list_server_units() == [
        "k3s.service",
        "rke2-server.service",
        "k0scontroller.service",
    ]


def test_servers_whose_cluster_nobody_knows_count_as_one_cluster() -> None:
    fleet = rollout.Fleet({f"n{n}": restarting("k3s.service", "") for n in range(3)})
    assert [
        len(b.hosts)
        for b in rollout.plan_rollout(
            fleet, settings.build_rollout_settings({"waves": "100%", "canaries": 0})
        ).batches
    ] == [1, 1, 1]


def test_a_server_without_a_name_waits_for_all_that_the_inventory_names_with_its_ca() -> None:
    """Also for the one whose CA could not be read: two of three members of etcd that restart at
    once have no quorum.
    """
    fleet = rollout.Fleet(
        {
            "n0": restarting("k3s.service", "ca-1"),
            "n1": restarting("k3s.service", ""),
            "n2": restarting("k3s.service", "ca-1"),
        },
        {"n0": {"gpufleet_cluster": "prod"}, "n1": {"gpufleet_cluster": "prod"}},
    )
    assert [
        len(b.hosts)
        for b in rollout.plan_rollout(
            fleet, settings.build_rollout_settings({"waves": "100%", "canaries": 0})
        ).batches
    ] == [1, 1, 1]


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans()), min_size=1, max_size=20),
    st.sampled_from([None, 1, 3, "50%"]),
)
def test_whatever_the_setting_no_two_servers_of_a_cluster_are_in_one_batch(
    hosts: list[tuple[str, bool]], most: Any
) -> None:
    units = {True: "k3s.service", False: "k3s-agent.service"}
    fleet = rollout.Fleet(
        {f"n{n}": restarting(units[server], cluster) for n, (cluster, server) in enumerate(hosts)}
    )
    found = rollout.plan_rollout(fleet, settings.build_rollout_settings({"max_unavailable": most}))
    for batch in found.batches:
        servers = Counter(
            hosts[int(name[1:])][0] for name in batch.hosts if hosts[int(name[1:])][1]
        )
        assert max(servers.values(), default=0) <= 1


BROKEN = [
    # what became of the first server, whether the second one of its cluster waits
    ("failed", True),
    ("lost", True),
    ("rolled back", True),
    ("", False),
]


@pytest.mark.parametrize(("word", "waits"), BROKEN)
def test_a_server_that_did_not_come_through_keeps_the_others_of_its_cluster_waiting(
    word: str, waits: bool
) -> None:
    limits = waves.Limit(
        {"s1": ["servers of cluster a"], "s2": ["servers of cluster a"]},
        {"servers of cluster a": 1},
    )
    reached = progress.Progress(bad={"s1": word} if word else {})
    rest = [{"s2": "x", "other": "x"}]
    held = progress.map_held_hosts(room.begin_batch(reached, [], rest, limits), rest[0])
    why = "s1 has not come through, and the servers of cluster a are changed one after another"
    assert held == ({"s2": why} if waits else {})
