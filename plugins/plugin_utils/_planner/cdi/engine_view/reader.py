# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Specs that someone else wrote, as values, read as engines read them."""

from __future__ import annotations

import dataclasses as dc
import functools
import re
from collections import Counter
from operator import itemgetter

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view import releases, schema, yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view.lookup import SUFFIXES
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec import own_reader, stand_ins
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec.model import Spec, from_document

__all__ = ["SUFFIXES", "equal", "parse"]
UUID = re.compile(r"[GM][PI][UG]-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")  # begins as Python's re finds it fastest


@functools.lru_cache(maxsize=512)
def parse(text: str) -> Spec:
    """Raises ValueError with one sentence where the text is no CDI spec in any release. The rules of its content are the validator's.

    The specs of a fleet differ by the UUIDs that devices are named by, and by little else. So a text is read with others in their place,
    the first, the second and so on, and most hosts' texts have been read before.
    """
    there = UUID.findall(text)
    others = {uuid: f"{uuid[:4]}{number:08x}-0000-0000-0000-000000000000" for number, uuid in enumerate(dict.fromkeys(there))}
    try:
        spec = _read(UUID.sub(lambda found: others[found.group()], text) if there else text)
    except ValueError:
        return _read(text)  # whose error is about the text as it is
    uuids = {other: uuid for uuid, other in others.items()}
    if sum(device.name in uuids for device in spec.devices) != len(there):
        return _read(text)  # they do not only stand for names here
    return dc.replace(spec, devices=tuple(dc.replace(d, name=uuids[d.name]) if d.name in uuids else d for d in spec.devices))


@functools.lru_cache(maxsize=512)
def _read(text: str) -> Spec:
    return own_reader.own(text) or as_engines(text)


def as_engines(text: str) -> Spec:
    """The same without the short way for what we wrote ourselves."""
    try:
        document = schema.fit(yaml.read(text.encode("utf-8", "surrogateescape"))[0])
    except yaml.Unreadable as error:
        raise ValueError(stand_ins.spoken(str(error))) from error
    for problem in document.problems:
        if problem.rule not in releases.HARMLESS:
            raise ValueError(f"line {problem.line}: {stand_ins.spoken(problem.message)}")
    if document.value is None:
        raise ValueError("it is empty")
    return from_document(document.value)


def equal(one: Spec, other: Spec) -> bool:
    """Equal by content: engines do not see the order of devices, nodes and mounts, so neither do we."""
    return _normal(one) == _normal(other)


def _normal(spec: Spec) -> tuple[object, ...]:
    devices = [(d.name, sorted(d.annotations.items()), _normal_edits(d.edits.__dict__)) for d in spec.devices]
    alike = len({name for name, _annotations, _edits in devices}) < len(devices)
    devices.sort(key=repr if alike else itemgetter(0))
    return spec.version, spec.kind, sorted(spec.annotations.items()), _normal_edits(spec.edits.__dict__), devices


def _normal_edits(edits: dict[str, object]) -> dict[str, object]:
    """Hooks run in their order and the last one of equal env keys wins, so those keep it."""
    loose = ("device_nodes", "mounts", "net_devices", "additional_gids")
    return {k: _unordered(v) if k in loose and isinstance(v, tuple) else v for k, v in edits.items()}


def _unordered(entries: tuple[object, ...]) -> object:
    try:
        return Counter(entries)
    except TypeError:  # a value within is a table or an array, where none belongs
        return sorted(map(repr, entries))
