# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a cluster for people and programs: its groups, and the hosts that are in none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.groups import Group
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.members import (
    Host,
    LeftOut,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import (
    RenderedCluster,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Difference
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names

SHOWN = 10


def list_cluster_lines(rendered: RenderedCluster) -> list[str]:
    """Return the lines about a cluster: its groups, and the hosts that are in none."""
    lines = [
        f"cluster {rendered.name}: {outcomes.format_host_count(len(rendered.members))} in {names.count_noun(len(rendered.groups), 'group')}"
    ]
    for group in rendered.groups:
        strategy = ",".join(group.setting.strategies)
        lines.append(
            f"  {group.name}: {group.hosts}: {strategy}{describe_group_sharing(group)}; {group.members[0].why}"
        )
    return lines + list_left_out_lines(rendered.out)


def describe_group_sharing(group: Group) -> str:
    """Return how pods share the GPUs of a group, in words; '' if they do not."""
    of = group.setting.replicas
    return f"; each GPU for {of.number} pods ({of.policy})" if of else ""


def list_clusterless_lines(hosts: Iterable[Host]) -> list[str]:
    """Return the lines about hosts that are in no known cluster."""
    lines = list_left_out_lines(one for one in hosts if isinstance(one, LeftOut))
    return ["in no known cluster (gpufleet_cluster names it):", *lines] if lines else []


def list_left_out_lines(hosts: Iterable[LeftOut]) -> list[str]:
    """Return a line for each reason why hosts are in no group."""
    why: dict[str, list[str]] = {}
    for one in hosts:
        why.setdefault(one.why, []).append(one.host)
    return [f"  in no group: {names.show_some_runs(of)}: {text}" for text, of in why.items()]


def list_staying_lines(nodes: Iterable[str]) -> list[str]:
    """Return the line about nodes that stay as an earlier run wrote them; [] if there are none.

    Without this line, a host that has left the inventory would be forgotten, and its node would
    keep its label.
    """
    of = sorted(nodes, key=names.build_natural_key)
    return (
        [
            f"left as an earlier run wrote it, since no host of this run could say otherwise: {names.show_some_runs(of)}"
        ]
        if of
        else []
    )


def list_drift_lines(differences: Iterable[Difference], *, check: bool = True) -> list[str]:
    """Return lines about what differs from the rendered state, each with its reason.

    Many of one kind share a line.

    check: the run changes nothing.
    """
    drifts: dict[tuple[str, str], list[str]] = {}
    for d in differences:
        kind, _space, name = d.path.partition(" ")
        drifts.setdefault((kind if name else "file", d.why), []).append(name or d.path)
    word = "would change" if check else "changed"
    return [
        f"  {word}: {kind} {names.show_few_texts(of, SHOWN)}: {why}"
        for (kind, why), of in drifts.items()
    ]


def convert_rendered(rendered: RenderedCluster) -> dict[str, Any]:
    """Return what was rendered for a cluster, as the result has it."""
    groups = [
        {
            "name": g.name,
            "hosts": [m.host for m in g.members],
            "nodes": [m.node for m in g.members],
            "config": g.text,
        }
        for g in rendered.groups
    ]
    out = [
        {"host": one.host, "node": one.node, "why": one.why, "gone": one.gone}
        for one in rendered.out
    ]
    made = [rendered.config_map] if rendered.config_map else []
    return {
        "name": rendered.name,
        "groups": groups,
        "left_out": out,
        "objects": [*made, *rendered.classes, *rendered.nodes],
        "values": dict(rendered.values.values),
    }
