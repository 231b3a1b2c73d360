# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read specs of other writers into values, as engines read them."""

from __future__ import annotations

import functools
from collections import Counter
from operator import itemgetter

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    put_line_before,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    messages,
    plain_yaml,
    releases,
    schema,
    yaml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.lookup import (
    SUFFIXES,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
    read_spec_of_document,
)

__all__ = ["SUFFIXES", "is_equal_spec", "parse_spec"]


@functools.lru_cache(maxsize=512)
def parse_spec(text: str) -> Spec:
    """Read a spec.

    Raise ValueError with one sentence if the text is not a CDI spec in any release. The rules of
    its content are the validator's.
    """
    document = plain_yaml.read_plain_spec(text)
    return parse_spec_as_engines(text) if document is None else read_spec_of_document(document)


def parse_spec_as_engines(text: str) -> Spec:
    """Read a spec as `parse_spec` does, without the short way for what generators write."""
    try:
        document = schema.fit_spec_document(
            yaml.read_yaml_document(text.encode("utf-8", "surrogateescape"))
        )
    except yaml.UnreadableYaml as error:
        raise ValueError(stand_ins.describe_without_tags(read_error_message(error))) from error
    for problem in document.problems:
        if problem.rule not in releases.HARMLESS:
            raise ValueError(
                put_line_before(stand_ins.describe_without_tags(problem.message), problem.line)
            )
    if document.value is None:
        raise ValueError(messages.SPEC_EMPTY.fill())
    return read_spec_of_document(document.value)


def is_equal_spec(one: Spec, other: Spec) -> bool:
    """Tell whether two specs are equal by content.

    Engines do not see the order of devices, nodes and mounts, so it does not count.
    """
    return _normalise_spec(one) == _normalise_spec(other)


def _normalise_spec(spec: Spec) -> tuple[object, ...]:
    devices = [
        (d.name, sorted(d.annotations.items()), _normalise_edits(d.edits.__dict__))
        for d in spec.devices
    ]
    alike = len({name for name, _annotations, _edits in devices}) < len(devices)
    devices.sort(key=repr if alike else itemgetter(0))
    return (
        spec.version,
        spec.kind,
        sorted(spec.annotations.items()),
        _normalise_edits(spec.edits.__dict__),
        devices,
    )


def _normalise_edits(edits: dict[str, object]) -> dict[str, object]:
    """Return the edits without the order that does not count.

    Hooks run in their order, and the last one of equal env keys wins, so hooks and env keep their
    order.
    """
    loose = ("device_nodes", "mounts", "net_devices", "additional_gids")
    return {
        k: _sort_entries(v) if k in loose and isinstance(v, tuple) else v for k, v in edits.items()
    }


def _sort_entries(entries: tuple[object, ...]) -> object:
    try:
        return Counter(entries)
    except TypeError:  # a value within is a table or an array, and must not be
        return sorted(map(repr, entries))
