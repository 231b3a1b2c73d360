# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe the shape of the objects of Kubernetes' API, as far as the planner reads them.

A proxy before the API may answer anything. A mapping gives the shape of each part. (shape,) stands
for a list whose items have this shape. TEXT stands for text. A part that an object does not have
passes as any shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TEXT = ""
TEXTS = {"*": TEXT}  # of any name
FIELDS: Mapping[str, Any] = {"f:metadata": {"f:labels": {}, "f:annotations": {}}}
CONTAINER: Mapping[str, Any] = {"resources": {}, "securityContext": {}}
POD: Mapping[str, Any] = {
    "containers": (CONTAINER,),
    "initContainers": (CONTAINER,),
    "volumes": ({},),
}
OBJECT: Mapping[str, Any] = {
    "metadata": {
        "name": TEXT,
        "namespace": TEXT,
        "labels": TEXTS,
        "annotations": TEXTS,
        "managedFields": ({"fieldsV1": FIELDS},),
        "ownerReferences": ({"kind": TEXT},),
        "finalizers": (TEXT,),
    },
    "spec": {
        **POD,
        "taints": ({"key": TEXT, "value": TEXT, "effect": TEXT},),
        "template": {"spec": POD},
    },
    "status": {"conditions": ({},), "nodeInfo": {"bootID": TEXT}},
    "data": {},
}


def find_wrong_part(thing: Any) -> str:
    """Return the path of the first part that has another type than OBJECT gives it, as
    `spec.taints`.

    Return '' if all parts fit, and `value` if the thing itself is not a mapping.
    """
    return _find_wrong(thing, OBJECT, "") if isinstance(thing, Mapping) else "value"


def _find_wrong(value: Any, shape: Any, path: str) -> str:
    if shape == TEXT:
        return "" if isinstance(value, str) else path
    if isinstance(shape, tuple):
        return _find_first(value, shape[0], path) if isinstance(value, list | tuple) else path
    if not isinstance(value, Mapping):
        return path
    parts = {**dict.fromkeys(value, shape["*"]), **shape} if "*" in shape else shape
    values = ((key, value.get(key)) for key in parts if key != "*")
    return next(
        filter(
            None,
            (
                _find_wrong(of, parts[key], f"{path}.{key}".lstrip("."))
                for key, of in values
                if of is not None
            ),
        ),
        "",
    )


def _find_first(values: Any, shape: Any, path: str) -> str:
    return next(filter(None, (_find_wrong(one, shape, path) for one in values)), "")
