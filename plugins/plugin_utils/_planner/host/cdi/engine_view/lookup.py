# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the file from which an engine gets a device, as the reference library does.

Source: pkg/cdi/cache.go and spec-dirs.go in container-device-interface.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.schema import (
    SpecDocument,
)

# Engines read no other files of a CDI directory.
SUFFIXES = (".json", ".yaml")


@dc.dataclass(frozen=True)
class Loaded:
    """A file that the library takes. priority: the index of its directory in the engine's list."""

    path: str
    priority: int
    document: SpecDocument

    @property
    def kind(self) -> str:
        return str(self.document.value.get("kind", ""))

    def map_devices(self) -> Mapping[str, tuple[int, Mapping[str, Any]]]:
        """Map each qualified name to the place in the list and the device."""
        numbered = enumerate(self.document.value.get("devices") or ())
        return {
            f"{self.kind}={device.get('name', '')}": (index, device) for index, device in numbered
        }


@dc.dataclass(frozen=True)
class Resolved:
    """The devices that engines get from all files.

    devices: qualified name -> its file. conflicts: a name that no file gives any more -> the files.
    hidden: device, file that loses, file that wins.
    """

    devices: Mapping[str, Loaded]
    conflicts: Mapping[str, tuple[Loaded, ...]]
    hidden: tuple[tuple[str, Loaded, Loaded], ...]


def is_read(path: str) -> bool:
    """Tell whether the library reads a file, by what follows the last dot.

    Only lower case counts. A file called `.yaml` is read as well.
    """
    return posixpath.basename(path).endswith(SUFFIXES)


def resolve_spec_devices(files: Iterable[Loaded]) -> Resolved:
    """Find the file that gives each device.

    files: in the order in which the library reads them, by directory, then by name.
    """
    devices: dict[str, Loaded] = {}
    conflicts: dict[str, tuple[Loaded, ...]] = {}
    hidden: list[tuple[str, Loaded, Loaded]] = []
    for file in files:
        for name in file.map_devices():
            other = devices.get(name)
            if other and other.priority == file.priority:
                conflicts[name] = (
                    *(f for f in conflicts.get(name, ()) if f is not other),
                    other,
                    file,
                )
                continue
            if other:
                hidden.append((name, other, file))
            devices[name] = file
    # A conflict in a lower directory takes the device away, even if a higher one has it once: the
    # library deletes it by name at the end.
    left = {name: file for name, file in devices.items() if name not in conflicts}
    return Resolved(left, conflicts, tuple(h for h in hidden if h[0] in left))
