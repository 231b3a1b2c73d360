# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Specs that somebody else wrote, as values. The one place that reads YAML; the reader comes with ansible-core."""

from __future__ import annotations

import functools

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi.model import Spec, from_document

# The C reader is ten times as fast and comes with every wheel; a source build may lack it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Engines read these, and nothing else, not in sub-folders (pkg/cdi/spec-dirs.go); `.yml` is a frequent surprise.
SUFFIXES = (".json", ".yaml")


@functools.lru_cache(maxsize=512)
def parse(text: str) -> Spec:
    """Raises ValueError with one sentence where the text is no CDI spec."""
    try:
        document = yaml.load(text, Loader=LOADER)  # noqa: S506  (a safe loader, see above)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{place}{getattr(error, 'problem', None) or 'it is no YAML'}") from error
    if document is None:
        raise ValueError("it is empty")
    return from_document(document)


def equal(one: Spec, other: Spec) -> bool:
    """Equal by content: engines do not see the order of devices, nodes and mounts, so neither do we."""
    return _normal(one) == _normal(other)


def _normal(spec: Spec) -> tuple[object, ...]:
    devices = sorted(((d.name, sorted(d.annotations.items()), _normal_edits(d.edits.__dict__)) for d in spec.devices), key=repr)
    return spec.version, spec.kind, sorted(spec.annotations.items()), _normal_edits(spec.edits.__dict__), devices


def _normal_edits(edits: dict[str, object]) -> dict[str, object]:
    """Hooks run in their order and the last one of equal env keys wins, so those keep it."""
    loose = ("device_nodes", "mounts", "net_devices", "additional_gids")
    return {k: sorted(map(repr, v)) if k in loose and isinstance(v, tuple) else v for k, v in edits.items()}
