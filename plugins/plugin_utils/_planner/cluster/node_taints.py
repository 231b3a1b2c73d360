# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set and remove the taints of nodes, in a list that this collection shares with other owners.

A note on the node names this collection's taints. A kubelet may write annotations of its own node,
and no taints (NodeRestriction). So a note counts only for taints that the ConfigMap or the run
names as this collection's. Otherwise root of a node could have its taints removed by a note of its
own.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain_kubernetes,
    messages,
    objects,
    owners,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.api_calls import Call
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import Object
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Difference
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape

Taints = Sequence[Mapping[str, str]]


def add_taints(
    wanted: Object, node: Object, taints: Taints, known: Taints
) -> tuple[Object, list[Call], list[Call]]:
    """Return the node with its note, the patches before the note, and the patches after it.

    The note on the node lists the taints that are this collection's. Taints are removed before the
    note is written, and added after it: a taint that no note names any more is never taken back.
    known: the taints that this collection sets on nodes of this cluster.
    """
    # as noted now: the note may be another one when a patch is made again
    own = own_taints(node, known)
    share = split_taints(node, taints, own)
    note = {objects.TAINTS: objects.write_taint_note(share.own)} if share.own else {}
    metadata = {
        **wanted["metadata"],
        "annotations": {**wanted["metadata"].get("annotations", {}), **note},
    }

    def going(now: Object) -> list[Call]:
        return build_taint_patch(now, split_taints(now, taints, own).without, going)

    def coming(now: Object) -> list[Call]:
        return build_taint_patch(now, split_taints(now, taints, own).after, coming)

    left = {**node, "spec": {**(node.get("spec") or {}), "taints": share.without or None}}
    return {**wanted, "metadata": metadata}, going(node), coming(left if going(node) else node)


@dc.dataclass(frozen=True)
class Shares:
    """A node's list of taints, divided.

    own: the taints that this collection is to have on the node.
    without: the list without the taints that are removed.
    after: the list with all wanted taints.
    """

    own: Taints
    without: Sequence[Mapping[str, Any]]
    after: Sequence[Mapping[str, Any]]


def split_taints(node: Object, taints: Taints, own: Taints) -> Shares:
    """Return the shares of a node's taints.

    taints: the wanted ones. own: our taints on the node.
    """
    before = drain_kubernetes.list_node_taints(node)
    others = [t for t in before if not any(is_same_taint(t, o) for o in own)]
    mine = [dict(t) for t in taints if not any(is_same_taint(t, other) for other in others)]
    without = [t for t in before if t in others or any(is_same_taint(t, m) for m in mine)]
    return Shares(mine, without, [*others, *mine])


def list_kept_taints(node: Object, taints: Taints, known: Taints) -> list[str]:
    """Return a sentence for each wanted taint that cannot be set, since another owner has set
    another value.

    A taint of another owner that has the wanted value needs no sentence.
    """
    own = own_taints(node, known)
    others = [
        t
        for t in drain_kubernetes.list_node_taints(node)
        if not any(is_same_taint(t, o) for o in own)
    ]
    pairs = (
        (t, o)
        for t in taints
        for o in others
        if is_same_taint(t, o) and (t.get("value") or "") != (o.get("value") or "")
    )
    return [
        messages.TAINT_OF_OTHERS.fill(
            node=drain_kubernetes.name_of(node),
            other=escape.escape_line(write_taint(other)),
            wanted=write_taint(wanted),
        )
        for wanted, other in pairs
    ]


def write_taint(taint: Mapping[str, Any]) -> str:
    """Return a taint as `kubectl taint` takes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def list_doubted_taints(nodes: Iterable[Object], known: Taints) -> list[str]:
    """Return a sentence for each taint that only a node's note attributes to this collection.

    Such a taint stays.
    """
    doubted = [
        (drain_kubernetes.name_of(node), taint)
        for node in nodes
        for taint in drain_kubernetes.list_node_taints(node)
        if is_taint_in_doubt(taint, node, known)
    ]
    # Show the taint as the node has it: the kubelet may have written the note, and people run what
    # is shown here.
    return [
        messages.TAINT_IN_DOUBT.fill(
            node=name,
            taint=escape.escape_line(write_taint(taint)),
            key=taint.get("key"),
            effect=taint.get("effect"),
        )
        for name, taint in doubted
    ]


def is_taint_in_doubt(taint: Mapping[str, Any], node: Object, known: Taints) -> bool:
    """Tell whether only an annotation of the node says that a taint is ours."""
    return any(is_same_taint(one, taint) for one in read_noted_taints(node) if one not in known)


def own_taints(node: Object, known: Taints) -> list[dict[str, str]]:
    """Return the taints of a node that are ours, by an annotation that we have written."""
    return (
        [t for t in read_noted_taints(node) if t in known]
        if objects.TAINTS in owners.own_keys(node, "annotations")
        else []
    )


def list_cluster_taints(config_map: Object | None) -> list[dict[str, str]]:
    """Return the taints that this collection sets on nodes, as an earlier run has noted them."""
    return read_noted_taints(config_map or {})


def merge_taints(some: Taints, more: Taints) -> list[Mapping[str, str]]:
    """Return the taints of both lists, each once."""
    return [*some, *(one for one in more if one not in some)]


def list_still_noted_taints(nodes: Iterable[Object], known: Taints) -> list[dict[str, str]]:
    """Return the taints of the cluster that nodes still have a note of."""
    notes = [t for node in nodes for t in read_noted_taints(node)]
    return [dict(t) for t in known if t in notes]


def read_noted_taints(thing: Object) -> list[dict[str, str]]:
    """Return the taints in the note of a node or of the ConfigMap; [] if the note is missing or
    cannot be read.
    """
    try:
        noted = json_bounds.load_bounded_json(
            owners.get_metadata_part(thing, "annotations").get(objects.TAINTS, "")
        )
    except ValueError:
        return []
    return [t for t in noted if isinstance(t, dict)] if isinstance(noted, list) else []


def is_same_taint(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two taints have the same key and effect.

    A node has at most one taint of a key and an effect.
    """
    return (one.get("key"), one.get("effect")) == (other.get("key"), other.get("effect"))


def build_taint_patch(
    node: Object, after: Sequence[Mapping[str, Any]], again: Callable[[Object], list[Call]]
) -> list[Call]:
    """List the call that gives a node these taints; [] if it has them.

    again: makes the calls again if the node has changed since.
    """
    name, before = drain_kubernetes.name_of(node), drain_kubernetes.list_node_taints(node)
    if sorted(map(str, before)) == sorted(map(str, after)):
        return []
    value = [dict(t) for t in after] or None
    patch = [
        {"op": "test", "path": "/spec/taints", "value": (node.get("spec") or {}).get("taints")},
        {"op": "add", "path": "/spec/taints", "value": value},
    ]
    why = messages.WANTED_TAINTS.fill()
    what = Difference(
        "object",
        f"Node {name}",
        "spec.taints",
        list(map(dict, before)),
        list(map(dict, after)),
        why,
    )
    arguments = {"api_version": "v1", "kind": "Node", "name": name, "patch": patch}
    change = (
        f"Node {name}",
        {"taints": [dict(t) for t in before]},
        {"taints": [dict(t) for t in after]},
    )
    return [Call(f"taint the node {name}", "k8s_json_patch", arguments, (what,), (change,), again)]
