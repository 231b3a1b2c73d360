# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read specs of other writers into values, as engines read them."""

from __future__ import annotations

import functools
from collections import Counter
from operator import itemgetter

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view import plain_yaml, releases, schema, yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view.lookup import SUFFIXES
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec import stand_ins
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec.model import Spec, from_document

__all__ = ["SUFFIXES", "equal", "parse"]


@functools.lru_cache(maxsize=512)
def parse(text: str) -> Spec:
    """Read a spec.

    Raise ValueError with one sentence if the text is not a CDI spec in any release. The rules of
    its content are the validator's.
    """
    document = plain_yaml.read(text)
    return as_engines(text) if document is None else from_document(document)


def as_engines(text: str) -> Spec:
    """Read a spec as `parse` does, without the short way for what generators write."""
    try:
        document = schema.fit(yaml.read(text.encode("utf-8", "surrogateescape")))
    except yaml.Unreadable as error:
        raise ValueError(stand_ins.spoken(str(error))) from error
    for problem in document.problems:
        if problem.rule not in releases.HARMLESS:
            raise ValueError(f"line {problem.line}: {stand_ins.spoken(problem.message)}")
    if document.value is None:
        raise ValueError("it is empty")
    return from_document(document.value)


def equal(one: Spec, other: Spec) -> bool:
    """Tell whether two specs are equal by content.

    Engines do not see the order of devices, nodes and mounts, so it does not count.
    """
    return _normal(one) == _normal(other)


def _normal(spec: Spec) -> tuple[object, ...]:
    devices = [(d.name, sorted(d.annotations.items()), _normal_edits(d.edits.__dict__)) for d in spec.devices]
    alike = len({name for name, _annotations, _edits in devices}) < len(devices)
    devices.sort(key=repr if alike else itemgetter(0))
    return spec.version, spec.kind, sorted(spec.annotations.items()), _normal_edits(spec.edits.__dict__), devices


def _normal_edits(edits: dict[str, object]) -> dict[str, object]:
    """Return the edits without the order that does not count.

    Hooks run in their order, and the last one of equal env keys wins, so hooks and env keep their
    order.
    """
    loose = ("device_nodes", "mounts", "net_devices", "additional_gids")
    return {k: _unordered(v) if k in loose and isinstance(v, tuple) else v for k, v in edits.items()}


def _unordered(entries: tuple[object, ...]) -> object:
    try:
        return Counter(entries)
    except TypeError:  # a value within is a table or an array, and must not be
        return sorted(map(repr, entries))
