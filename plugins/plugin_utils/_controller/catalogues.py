# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the controller's own sources for the choice of an image: the catalogue's file and archspec's
data.
"""

from __future__ import annotations

import functools
import importlib
import os
import stat
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages,
    named_paths,
    outside_messages,
    registry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    messages as format_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    catalogue,
    cpu,
    document,
    inspected,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.requires import (
    Image,
)

LARGEST = 4 << 20  # bytes of a file
# Kind of a file -> the next step if the file is not of that kind.
CATALOGUE, DESCRIPTION = "catalogue", "description of an image"
STEPS = {
    CATALOGUE: outside_messages.NAME_CATALOGUE,
    DESCRIPTION: outside_messages.WRITE_DESCRIPTION,
}


def read_catalogue_images(given: Any, access: registry.Access | None = None) -> tuple[Image, ...]:
    """Return the images of a catalogue. Raise PlanError if anything in it is wrong.

    given: the name of a file, or the value of a variable.
    access: if given, registries are asked about the images that no file describes.
    """
    beside = named_paths.expand_named_path(given).parent if isinstance(given, str) else Path()
    images = [
        image
        for entry in list_catalogue_entries(given)
        for image in _list_tagged_images(entry, access)
    ]
    catalogue.require_unique_names(images)
    return tuple(_complete_image(image, beside, access) for image in images)


def _list_tagged_images(entry: Image, access: registry.Access | None) -> tuple[Image, ...]:
    if not entry.tags:
        return (entry,)
    if access is None:
        raise PlanError(messages.TAGS_UNKNOWN.fill(tags=entry.tags), where=entry.reference)
    return catalogue.expand_image(entry, registry.list_registry_tags(entry.reference, access))


def _complete_image(image: Image, beside: Path, access: registry.Access | None) -> Image:
    if image.inspected:
        return inspected.complete_image(
            image,
            read_own_description(str(beside / named_paths.expand_named_path(image.inspected))),
        )
    return (
        inspected.complete_image(
            image, registry.read_registry_image(image.reference, image.digest, access)
        )
        if access
        else image
    )


def list_catalogue_entries(given: Any) -> tuple[Image, ...]:
    """Return the images of a catalogue, which is given as its value or as the name of its file.

    Raise PlanError for the first thing that is wrong with it.
    """
    return catalogue.parse_catalogue(
        document.read_yaml_file(read_written_text(given, CATALOGUE), given)
        if isinstance(given, str)
        else document.YamlFile(given),
        read_archspec_targets(),
    )


def read_own_description(given: Any) -> inspected.Inspected:
    """Return the description that an image has of itself: from its environment, or from a file that
    a tool has printed.
    """
    try:
        if not isinstance(given, str):
            return inspected.Inspected(inspected.parse_image_environment(given))
        return inspected.read_inspected(
            json_bounds.load_bounded_json(read_written_text(given, DESCRIPTION))
        )
    except (ValueError, RecursionError) as error:
        why = (
            read_error_message(error)
            if isinstance(error, (inspected.UnreadableImage, json_bounds.TooLargeJson))
            else format_messages.NOT_JSON.fill()
        )
        where = given if isinstance(given, str) else "gpufleet_verify_image_environment"
        raise PlanError(messages.NO_DESCRIPTION.fill(cause=why), where=where) from None


def read_written_text(name: str, kind: str) -> str:
    """Return the text of a file that people write.

    Raise PlanError unless it is a regular file: reading a pipe would never end.
    """
    try:
        handle = os.open(
            named_paths.expand_named_path(name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with open(handle, "rb") as opened:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
                row, limit = messages.NOT_A_KIND, LARGEST >> 20
                raise PlanError(row.fill(kind=kind, limit=limit, step=STEPS[kind]), where=name)
            return opened.read().decode("utf-8")
    except (
        OSError,
        ValueError,
    ) as error:  # ValueError: bytes that are not text, or a zero byte in the name
        why = getattr(error, "strerror", "") or outside_messages.FILE_NOT_UTF8.fill()
        message = messages.KIND_UNREADABLE.fill(kind=kind, cause=why, step=STEPS[kind])
        raise PlanError(message, where=name) from None


@functools.cache
def read_archspec_targets() -> cpu.Targets:
    """Return archspec's microarchitectures; {} if archspec is not installed.

    Without them, nothing is known about names such as `broadwell`.
    """
    try:
        known = importlib.import_module("archspec.cpu").TARGETS
    except ImportError:
        return {}
    return {
        name: cpu.CpuTarget(
            target.vendor,
            frozenset(target.features),
            tuple(parent.name for parent in target.ancestors),
        )
        for name, target in known.items()
    }
