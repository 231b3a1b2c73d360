# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the driver's own list of its files, with the purpose of each, which it ships since branch
570.

The list is an array of objects with `name` (sometimes with a folder in front), `type`, `category`
and `optional`; a file of several categories has several. Links named by SONAMEs are not in it. It
knows the libraries of drivers that are newer than our own table.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    messages,
)

PATH = "/usr/share/nvidia/files.d/sandboxutils-filelist.json"
LARGEST = 1 << 18  # some 30 kB
# Category -> driver capabilities. Categories that are not here are for the host: kernel modules,
# nvidia-modprobe, nvidia-settings.
FEATURES: Mapping[str, frozenset[str]] = {
    "cuda": frozenset(("compute",)),
    "opencl": frozenset(("compute",)),
    "nvml": frozenset(("utility",)),
    "utils": frozenset(("utility",)),
    "video": frozenset(("video",)),
    "xdriver": frozenset(("display",)),
    **dict.fromkeys(
        (
            "optix",
            "vulkan",
            "egl",
            "egl_headless",
            "egl_wayland",
            "egl_gbm",
            "egl_x11",
            "glx",
            "gbm",
        ),
        frozenset(("graphics",)),
    ),
}
# Loaders of any vendor. Images bring their own, which this collection's would hide.
LOADERS = (
    "libEGL.so",
    "libGL.so",
    "libGLESv1_CM.so",
    "libGLESv2.so",
    "libGLX.so",
    "libGLdispatch.so",
    "libOpenCL.so",
    "libOpenGL.so",
)
LIBRARY, FIRMWARE = "LIB", "FIRMWARE"


@dc.dataclass(frozen=True)
class ListedDriverFile:
    """A file of the list, its categories taken together."""

    name: str
    type: str
    features: frozenset[str]
    optional: bool

    @property
    def is_loader(self) -> bool:
        return self.name.partition(".so")[0] + ".so" in LOADERS


def parse_driver_manifest(text: str) -> tuple[ListedDriverFile, ...]:
    """Read the list.

    Raise ValueError with one sentence if the text is not such a list. Entries of an unknown form
    are passed over.
    """
    try:
        data = json_bounds.load_bounded_json(text)
    except ValueError as error:
        raise ValueError(
            messages.FILE_LIST_NOT_JSON.fill(problem=read_error_message(error))
        ) from error
    if not isinstance(data, list):
        raise ValueError(messages.FILE_LIST_NO_LIST.fill())
    manifest: dict[str, ListedDriverFile] = {}
    for entry in data:
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"]:
            name = posixpath.basename(entry["name"])
            manifest[name] = combine_listed_files(
                manifest.get(name), build_listed_file(name, entry)
            )
    return tuple(manifest.values())


def build_listed_file(name: str, entry: Mapping[str, Any]) -> ListedDriverFile:
    features = FEATURES.get(str(entry.get("category")), frozenset())
    return ListedDriverFile(
        name, str(entry.get("type") or ""), features, entry.get("optional") is not False
    )


def combine_listed_files(
    known: ListedDriverFile | None, more: ListedDriverFile
) -> ListedDriverFile:
    """Combine two entries of one file. A file that one category cannot do without is not optional."""
    if known is None:
        return more
    return ListedDriverFile(
        known.name, known.type, known.features | more.features, known.optional and more.optional
    )


def map_library_features(listed: Iterable[ListedDriverFile]) -> dict[str, frozenset[str]]:
    """Map the name of each library, without its version, to the features that it is for."""
    return {
        e.name.partition(".so")[0]: e.features for e in listed if e.type == LIBRARY and e.features
    }


def list_lacking_libraries(
    listed: Iterable[ListedDriverFile], features: frozenset[str], there: Iterable[str]
) -> list[str]:
    """List the libraries that the list calls necessary for a wanted capability and that are not
    there.

    Only libraries that are looked for count, so loaders do not.
    """
    names = set(there)
    wanted = [
        e
        for e in listed
        if e.type == LIBRARY and e.features & features and not e.optional and not e.is_loader
    ]
    return [e.name for e in wanted if e.name not in names]


def list_unmounted_files(
    listed: Iterable[ListedDriverFile], features: frozenset[str], mounted: Iterable[str]
) -> list[str]:
    """List what the list has for a wanted capability and containers do not get.

    These are loaders, which images have, and files that this collection does not look for.
    """
    names = set(mounted)
    return [e.name for e in listed if e.features & features and e.name not in names]
