# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the calls of kubernetes.core's modules that change a cluster, each with its changes as
people read them.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    objects,
    owners,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import Object
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Difference

VERBS = {"labels": "label", "annotations": "annotate"}  # verbs of kubectl
PARTS = tuple(VERBS)  # the parts of a node's metadata that are written
TAINTS = "taints"  # the part of the ConfigMap that is its note of taints
BATCH = 100  # objects in one call


@dc.dataclass(frozen=True)
class Call:
    """A call of one module, and its changes."""

    doing: str
    module: str
    arguments: Mapping[str, Any]
    differences: tuple[Difference, ...]
    changes: tuple[tuple[str, Any, Any], ...] = ()  # (object, before, after) for --diff
    # builds the calls for the node as it is now, if another writer was faster
    again: Callable[[Object], list[Call]] | None = None
    makes: bool = False  # it creates the object


def build_object_calls(
    doing: str, wanted: Object, there: Object | None, why: str, *parts: str
) -> list[Call]:
    """List the call that makes an object in the API as it is wanted; [] if it is so already.

    doing: what the call does, for people. there: the object in the API, None if it is missing.
    parts: the fields that are compared.
    """
    before = {part: own_value(there, part) for part in parts} if there is not None else None
    after = {part: own_value(wanted, part) for part in parts}
    if before == after:
        return []
    differ = [part for part in parts if after[part] != (before or {}).get(part)]
    what = Difference(
        "object",
        name_object(wanted),
        ",".join(differ),
        summarise_object_part(before),
        summarise_object_part(after),
        why,
    )
    return [
        Call(
            doing,
            "k8s",
            build_ssa_arguments([wanted]),
            (what,),
            ((name_object(wanted), before, after),),
            makes=there is None,
        )
    ]


def own_value(thing: Object, part: str) -> Any:
    """Return the part of an object that is compared. Of taints that is our own annotation."""
    return (
        owners.get_metadata_part(thing, "annotations").get(objects.TAINTS)
        if part == TAINTS
        else thing.get(part)
    )


def build_delete_call(thing: Object, why: str) -> Call:
    """Return the call that deletes an object."""
    metadata = thing["metadata"]
    where = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
    arguments = {
        "api_version": thing["apiVersion"],
        "kind": thing["kind"],
        "name": metadata["name"],
        "state": "absent",
        **where,
    }
    what = Difference("object", name_object(thing), "", "present", None, why)
    return Call(
        f"remove the {name_object(thing)}",
        "k8s",
        arguments,
        (what,),
        ((name_object(thing), show_object(thing), None),),
    )


def build_apply_calls(
    doing: str, pairs: Sequence[tuple[Object, Object]], why: str, *, force: bool = False
) -> list[Call]:
    """Build the calls that apply nodes, at most BATCH of them in one call.

    pairs: each wanted node, with the node in the cluster. A wanted node carries the uid of the node
    in the cluster, so a call does not create a node that was deleted meanwhile.
    """
    calls = []
    for start in range(0, len(pairs), BATCH):
        some = pairs[start : start + BATCH]
        wanted = [
            {**node, "metadata": {**node["metadata"], "uid": there["metadata"].get("uid")}}
            for node, there in some
        ]
        changes = tuple(
            (name_object(node), get_present_marks(there), get_wanted_marks(node))
            for node, there in some
        )
        differences = tuple(
            Difference("object", path, *list_part_changes(before, after), why)
            for path, before, after in changes
        )
        calls.append(
            Call(doing, "k8s", build_ssa_arguments(wanted, force=force), differences, changes)
        )
    return calls


def build_ssa_arguments(wanted: Sequence[Object], *, force: bool = False) -> dict[str, Any]:
    """Return the arguments of kubernetes.core.k8s for a server-side apply in our name.

    force: whether fields of other managers are taken over.
    """
    manager = {"field_manager": objects.MANAGER, "force_conflicts": force}
    return {"resource_definition": list(wanted), "apply": True, "server_side_apply": manager}


# ---------------------------------------------------------------- as people read it


def name_object(thing: Object) -> str:
    """Return an object's kind and name, with its namespace if it has one."""
    metadata = thing["metadata"]
    return f"{thing['kind']} {metadata['namespace'] + '/' if metadata.get('namespace') else ''}{metadata['name']}"


def get_present_marks(node: Object) -> dict[str, Any]:
    """Return the labels and annotations that this collection owns on a node of the cluster.

    The result maps a part to key and value.
    """
    return {
        part: {
            k: v
            for k, v in sorted(owners.get_metadata_part(node, part).items())
            if k in owners.own_keys(node, part)
        }
        for part in PARTS
    }


def get_wanted_marks(node: Object) -> dict[str, Any]:
    """Return the labels and annotations of a wanted node, in the same form."""
    return {part: dict(sorted((node["metadata"].get(part) or {}).items())) for part in PARTS}


def list_part_changes(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[str, str | None, str | None]:
    """Describe how labels or annotations change: (name of the part, before, after).

    If the labels change, describe the labels alone. Otherwise describe the annotations. An
    annotation holds a whole decision, so its value is not shown: "(another value)" marks one that
    changes.
    """
    if format_label_part(before) != format_label_part(after):
        return "labels", format_label_part(before), format_label_part(after)
    was, will = before["annotations"], after["annotations"]
    there = [
        f"{key} (another value)" if key in will else key for key in was if will.get(key) != was[key]
    ]
    return (
        "annotations",
        ", ".join(there) or None,
        ", ".join(key for key in will if was.get(key) != will[key]) or None,
    )


def format_label_part(part: Mapping[str, Any]) -> str | None:
    """Return labels as text; None if there are none."""
    return ", ".join(f"{key}={value}" for key, value in part["labels"].items()) or None


def show_object(thing: Object) -> dict[str, Any]:
    """Return an object without its metadata and status, for a difference."""
    return {key: value for key, value in thing.items() if key not in ("metadata", "status")}


def summarise_object_part(part: Mapping[str, Any] | None) -> Any:
    """Return the keys of a ConfigMap and its note of taints, or the values of any other object;
    None for None.
    """
    if part is None:
        return None
    if "data" in part:
        return ", ".join(
            [*(part["data"] or ()), *([f"{TAINTS} {part[TAINTS]}"] if part.get(TAINTS) else [])]
        )
    return {key: value for key, value in part.items() if value is not None}
