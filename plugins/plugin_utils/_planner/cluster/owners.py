# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the owner of an object of the API, and of each of its parts.

The managed fields show it, and the marks of the tools that bring objects there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.objects import (
    MANAGED_BY,
    MANAGER,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape

# Label or annotation -> the tool that sets it on its objects. The tool undoes every change to them.
MARKS = {
    "meta.helm.sh/release-name": "Helm",
    "argocd.argoproj.io/instance": "Argo CD",
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
    "objectset.rio.cattle.io/id": "k3s or RKE2",
}
# Name of a field manager -> the tool that writes under it.
MANAGERS = {
    "helm": "Helm",
    "argocd-controller": "Argo CD",
    "argocd-application-controller": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
    "gpu-operator": "the GPU Operator",
    "k3s": "k3s",
    "rke2": "RKE2",
}
KEEPERS = frozenset({"Helm", "Argo CD", "Flux"})


def get_metadata_part(thing: Mapping[str, Any], part: str) -> dict[str, str]:
    """Return the labels or the annotations of an object. part: "labels" or "annotations"."""
    values = (thing.get("metadata") or {}).get(part) or {}
    return {str(key): str(value) for key, value in values.items()}


def list_managed_fields(thing: Mapping[str, Any]) -> Iterator[tuple[str, bool, Mapping[str, Any]]]:
    """Yield (manager, whether by server-side apply, fields) for each manager that has written a
    part of the object.

    Entries for the object's status are left out.
    """
    for entry in (thing.get("metadata") or {}).get("managedFields") or ():
        if not entry.get("subresource"):
            yield (
                str(entry.get("manager") or ""),
                entry.get("operation") == "Apply",
                entry.get("fieldsV1") or {},
            )


def is_own_object(thing: Mapping[str, Any]) -> bool:
    """Tell whether this collection has made the object and no other tool keeps it.

    If another tool applies this collection's files, the objects belong to that tool.
    """
    return any(
        manager == MANAGER and applied for manager, applied, _fields in list_managed_fields(thing)
    ) and not has_keeper(thing)


def has_keeper(thing: Mapping[str, Any]) -> bool:
    """Tell whether a tool keeps the object as its source has it.

    The tool is recognized by its marks on the object, or by the fields that it has written.
    """
    marked = {**get_metadata_part(thing, "labels"), **get_metadata_part(thing, "annotations")}
    managers = {name_manager(manager) for manager, _applied, _fields in list_managed_fields(thing)}
    return (
        marked.get(MANAGED_BY) in KEEPERS
        or any(mark in marked for mark in MARKS)
        or not managers.isdisjoint(KEEPERS)
    )


def list_managed_keys(fields: Mapping[str, Any], part: str) -> set[str]:
    """Return the labels or annotations among the fields of one manager."""
    keys = (fields.get("f:metadata") or {}).get(f"f:{part}") or {}
    return {key.removeprefix("f:") for key in keys if key.startswith("f:")}


def own_keys(thing: Mapping[str, Any], part: str) -> set[str]:
    """Return the keys of a part of an object that we have applied."""
    return {
        key
        for manager, applied, fields in list_managed_fields(thing)
        if manager == MANAGER and applied
        for key in list_managed_keys(fields, part)
    }


def list_other_owners(thing: Mapping[str, Any], part: str, key: str) -> list[str]:
    """Return the other managers that have written this label or annotation."""
    return [
        name_manager(manager)
        for manager, applied, fields in list_managed_fields(thing)
        if not (manager == MANAGER and applied) and key in list_managed_keys(fields, part)
    ]


def name_object_owner(thing: Mapping[str, Any]) -> str:
    """Name the owner of an object that is not this collection's."""
    marked = {**get_metadata_part(thing, "labels"), **get_metadata_part(thing, "annotations")}
    if marked.get(MANAGED_BY) in KEEPERS:
        return marked[MANAGED_BY]
    owner = next((who for mark, who in MARKS.items() if mark in marked), "")
    return owner or next(
        (name_manager(manager) for manager, _applied, _fields in list_managed_fields(thing)),
        "another person or program",
    )


def name_manager(manager: str) -> str:
    """Return the name of a field manager for people."""
    return MANAGERS.get(manager, escape.escape_line(manager) or "another person or program")
