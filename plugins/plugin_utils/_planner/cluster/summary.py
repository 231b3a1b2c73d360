# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a cluster for people and programs: its groups, and the hosts that are in none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.groups import Group
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.members import Host, LeftOut
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import Rendered
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Difference
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import names, outcomes

SHOWN = 10


def lines(rendered: Rendered) -> list[str]:
    found = [f"cluster {rendered.name}: {outcomes.plural(len(rendered.members))} in {names.counted(len(rendered.groups), 'group')}"]
    for group in rendered.groups:
        strategy = ",".join(group.setting.strategies)
        found.append(f"  {group.name}: {group.hosts}: {strategy}{shared(group)}; {group.members[0].why}")
    return found + left_out(rendered.out)


def shared(group: Group) -> str:
    of = group.setting.replicas
    return f"; each GPU for {of.number} pods ({of.policy})" if of else ""


def of_no_cluster(hosts: Iterable[Host]) -> list[str]:
    found = left_out(one for one in hosts if isinstance(one, LeftOut))
    return ["in no known cluster (gpufleet_cluster names it):", *found] if found else []


def left_out(hosts: Iterable[LeftOut]) -> list[str]:
    why: dict[str, list[str]] = {}
    for one in hosts:
        why.setdefault(one.why, []).append(one.host)
    return [f"  in no group: {names.some(of)}: {text}" for text, of in why.items()]


def stays(nodes: Iterable[str]) -> list[str]:
    """Return the line about nodes that stay as an earlier run wrote them; [] if there are none.

    Without this line, a host that has left the inventory would be forgotten, and its node would
    keep its label.
    """
    of = sorted(nodes, key=names.natural)
    return [f"left as an earlier run wrote it, since no host of this run could say otherwise: {names.some(of)}"] if of else []


def drift(differences: Iterable[Difference], *, check: bool = True) -> list[str]:
    """Return lines about what differs from the rendered state, each with its reason.

    Many of one kind share a line.

    check: the run changes nothing.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for d in differences:
        kind, _space, name = d.path.partition(" ")
        found.setdefault((kind if name else "file", d.why), []).append(name or d.path)
    word = "would change" if check else "changed"
    return [f"  {word}: {kind} {names.few(of, SHOWN)}: {why}" for (kind, why), of in found.items()]


def plain(rendered: Rendered) -> dict[str, Any]:
    groups = [
        {"name": g.name, "hosts": [m.host for m in g.members], "nodes": [m.node for m in g.members], "config": g.text}
        for g in rendered.groups
    ]
    out = [{"host": one.host, "node": one.node, "why": one.why, "gone": one.gone} for one in rendered.out]
    made = [rendered.config_map] if rendered.config_map else []
    return {
        "name": rendered.name,
        "groups": groups,
        "left_out": out,
        "objects": [*made, *rendered.classes, *rendered.nodes],
        "values": dict(rendered.values.values),
    }
