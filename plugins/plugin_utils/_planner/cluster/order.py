# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what changes first if a host and the device plugin's way both change: the engine or the
plugin.

A pod gets its GPU if its host understands one of the plugin's strategies. Between the two changes
either the host is new and the plugin old, or the host is old and the plugin new. One of these two
has to work, or the plugin has to use both ways meanwhile.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Collection, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.members import (
    ClusterMember,
    Host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names

First = Literal["any", "engine", "plugin", "both"]
STEPS: Mapping[str, Sentence] = {
    "engine": messages.HOSTS_FIRST,
    "plugin": messages.PLUGIN_FIRST,
    "": messages.PLUGIN_FIRST_UNKNOWN,
    "both": messages.PLUGIN_TWICE,
}


def decide_first_change(
    now: Collection[str], after: Collection[str], old: Collection[str], new: Collection[str]
) -> First:
    """Decide what changes first: the engine, the plugin, both ways at once, or any of them.

    now, after: the strategies that a host understands before and after its change.
    old, new: the strategies of the plugin before and after its change.
    """
    if gets_gpu(now, new) and gets_gpu(after, old):
        return "any"
    if gets_gpu(now, new):
        return "plugin"
    if gets_gpu(after, old) or not gets_gpu(now, old):  # if pods get no GPU now, none is lost
        return "engine"
    return "both"


def gets_gpu(host: Collection[str], plugin: Collection[str]) -> bool:
    """Tell whether a pod gets its GPU.

    The plugin answers by all its strategies, so one that the host understands is enough.
    """
    return not set(host).isdisjoint(plugin)


@dc.dataclass(frozen=True)
class Ordered:
    """The hosts as they may be applied now.

    held: nodes whose hosts change first.
    ahead: nodes whose plugin changes first.
    steps: the steps that a person takes, in words.
    """

    hosts: tuple[Host, ...]
    held: frozenset[str]
    steps: tuple[str, ...]
    ahead: frozenset[str] = frozenset()


def order_hosts(
    hosts: Collection[Host], before: Mapping[str, Collection[str]], fixed: tuple[str, ...] = ()
) -> Ordered:
    """Decide for each pending host what changes first.

    before: the plugin's strategies on each node now. For a node that is not in it, the strategies
    that the look at the host has found count.
    fixed: the strategies that the GPU Operator sets for all nodes, regardless of the host.
    """
    ordered: list[Host] = []
    held: set[str] = set()
    ahead: set[str] = set()
    said: dict[tuple[Sentence, str], list[str]] = {}
    for one in hosts:
        if not isinstance(one, ClusterMember) or not one.pending:
            ordered.append(one)
            continue
        old, new = (
            (fixed, fixed)
            if fixed
            else (tuple(before.get(one.node, one.plugin)), one.setting.strategies)
        )
        both = tuple(dict.fromkeys([*old, *new]))
        which = decide_first_change(one.understands_now, one.understands_after, old, new)
        if which in STEPS:
            strategies = {"plugin": old, "engine": new, "both": both}[which]
            step = STEPS["" if which == "plugin" and not old else which]
            said.setdefault((step, ",".join(strategies)), []).append(one.host)
            (held if which == "engine" else ahead).add(one.node)
        ordered.append(build_interim_member(one, both) if which == "both" else one)
    steps = tuple(
        end_with_code(row.fill(hosts=names.show_some_runs(of), strategies=strategies))
        for (row, strategies), of in said.items()
    )
    return Ordered(tuple(ordered), frozenset(held), steps, frozenset(ahead))


def build_interim_member(m: ClusterMember, strategies: tuple[str, ...]) -> ClusterMember:
    """Return a member that understands these strategies for the time of its change."""
    return dc.replace(m, setting=dc.replace(m.setting, strategies=strategies))
