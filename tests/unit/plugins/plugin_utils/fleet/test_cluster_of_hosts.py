# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts are of one cluster, and how many of it are changed at once."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import rollout, settings, work

from tests.unit.plugins.plugin_utils.fleet.test_rollout import CHANGE, looked


def test_the_query_is_the_one_that_the_node_answers() -> None:
    assert (work.CLUSTER["id"], work.CLUSTER["kind"]) == ("certificates:cluster", "certificates")


def test_each_cluster_has_its_own_limit_and_the_name_in_the_inventory_counts_first() -> None:
    hosts = {f"g{n}": looked(CHANGE, work={"cluster": f"ca-{n % 2}"}) for n in range(4)}
    wanted = settings.of({"max_unavailable": 1, "waves": "100%", "canaries": 0})
    assert [len(b.hosts) for b in rollout.plan(rollout.Fleet(hosts), wanted).batches] == [2, 2]
    named = {name: {"gpufleet_cluster": "one"} for name in hosts}
    assert [len(b.hosts) for b in rollout.plan(rollout.Fleet(hosts, named), wanted).batches] == [1, 1, 1, 1]
