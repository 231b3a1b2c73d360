# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of containerd's releases: what each reads, the places of its tables, and its defaults."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml_types,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    TABLES,
    V1_NAMES,
    V2_NAMES,
    V3_NAMES,
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version

CONFIG = "/etc/containerd/config.toml"
SOCKET = "/run/containerd/containerd.sock"
UNIT = "containerd.service"
PACKAGES = ("containerd", "containerd.io", "moby-containerd")
DROP_IN = "90-gpufleet.toml"

RUNTIMES: Path = ("containerd", "runtimes")  # below each of them
DEFAULT: Path = ("containerd", "default_runtime_name")
# A version 4 file has the CRI tables of version 3; it only moves the server's sockets to plugins.
NATURAL_NAMES: Mapping[int, Path] = {1: V1_NAMES, 2: V2_NAMES, 3: V3_NAMES, 4: V3_NAMES}

# Types that the daemon decodes these into; a file with another one is refused as a whole, or its
# plugin does not start.
_CRI_SHAPES: Mapping[Path, str] = {
    (): toml_types.TABLE,
    ("containerd",): toml_types.TABLE,
    ("containerd", "runtimes"): toml_types.TABLE,
    ("containerd", "runtimes", "*"): toml_types.TABLE,
    ("containerd", "runtimes", "*", "runtime_type"): toml_types.STRING,
    ("containerd", "runtimes", "*", "container_annotations"): toml_types.STRINGS,
    ("containerd", "runtimes", "*", "options"): toml_types.TABLE,
    ("containerd", "runtimes", "*", "options", "BinaryName"): toml_types.STRING,
    ("containerd", "default_runtime_name"): toml_types.STRING,
    ("enable_cdi",): toml_types.BOOLEAN,
    ("cdi_spec_dirs",): toml_types.STRINGS,
}
SHAPES: Mapping[Path, str] = {
    ("disabled_plugins",): toml_types.STRINGS,
    ("plugins",): toml_types.TABLE,
    ("grpc",): toml_types.TABLE,
    ("grpc", "address"): toml_types.STRING,
    **{(*names, *path): wanted for names in TABLES for path, wanted in _CRI_SHAPES.items()},
}

# Names by which `disabled_plugins` switches CRI off.
CRI_PLUGINS = frozenset(("cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"))

# Plugins without which CRI does not load, with the first release that needs each and the first that
# does no more. One per minor release was asked (tests/integration/test_containerd_rules_judge.py).
# The snapshotter in use is another one, which these files need not name.
_SERVICES = (
    "containers",
    "content",
    "diff",
    "images",
    "introspection",
    "namespaces",
    "snapshots",
    "tasks",
)
CRI_NEEDS: Mapping[str, tuple[tuple[int, int], tuple[int, int] | None]] = {
    **dict.fromkeys(
        (
            "io.containerd.content.v1.content", "io.containerd.differ.v1.walking", "io.containerd.event.v1.exchange",
            "io.containerd.gc.v1.scheduler", "io.containerd.metadata.v1.bolt", "io.containerd.runtime.v2.task",
            *(f"io.containerd.service.v1.{name}-service" for name in _SERVICES),
        ),
        ((1, 6), None),
    ),
    "io.containerd.service.v1.leases-service": ((1, 6), (1, 7)),
    "io.containerd.runtime.v1.linux": ((1, 6), (2, 0)),
    **dict.fromkeys(("io.containerd.runtime.v2.shim", "io.containerd.sandbox.controller.v1.local"), ((1, 7), (2, 0))),
    **dict.fromkeys(
        ("io.containerd.lease.v1.manager", "io.containerd.sandbox.store.v1.local", "io.containerd.warning.v1.deprecations"),
        ((1, 7), None),
    ),
    **dict.fromkeys(
        (
            "io.containerd.cri.v1.images", "io.containerd.podsandbox.controller.v1.podsandbox", "io.containerd.sandbox.controller.v1.shim",
            "io.containerd.shim.v1.manager", "io.containerd.transfer.v1.local",
        ),
        ((2, 0), None),
    ),
    "io.containerd.image-verifier.v1.bindir": ((2, 1), (2, 3)),
    "io.containerd.mount-manager.v1.bolt": ((2, 2), None),
    "io.containerd.server.v1.grpc": ((2, 3), None),
}  # fmt: skip

RUNC_TYPE = "io.containerd.runc.v2"
LINUX_TYPE = "io.containerd.runtime.v1.linux"  # of 1.x, and gone in 2.0
OF_LINUX = ("runtime_engine", "runtime_root")  # keys of a handler that no other type may have
# The built-in runc entry: its values that are not zero, as `config default` prints them.
BUILTIN_RUNC: Mapping[str, Any] = {"runtime_type": RUNC_TYPE, "options": {"SystemdCgroup": False}}
BUILTIN_RUNTIMES: Mapping[str, Mapping[str, Any]] = {"runc": BUILTIN_RUNC}

Switch = Literal["none", "off", "on", "always"]


@dc.dataclass(frozen=True)
class ContainerdRelease:
    """The facts of the minor releases from `first` on, until the next entry.

    cdi: none (no CDI), off (a switch, off by default), on (a switch, on by default), or always (no
    switch, always on).
    """

    first: tuple[int, int]
    schemas: tuple[int, ...]
    # version of a file that we make; also read by the next minor, so a rollback finds it readable
    new_file: int
    merge: Literal["replace", "deep"]  # what `imports` does to a plugin's table
    keeps_runc: bool  # the built-in runc stays when a file names other runtimes
    cdi: Switch
    v1_lost: bool = False  # the CRI part of a file without `version` is dropped without an error
    v2_names_in_v3_lost: bool = False  # v2 table names in a version 3 file are ignored


FACTS = (
    ContainerdRelease((1, 3), (1, 2), 2, "replace", True, "none"),
    ContainerdRelease((1, 5), (1, 2), 2, "replace", False, "none"),
    ContainerdRelease((1, 7), (1, 2), 2, "replace", False, "off"),
    ContainerdRelease(
        (2, 0), (1, 2, 3), 3, "deep", True, "on", v1_lost=True, v2_names_in_v3_lost=True
    ),
    ContainerdRelease((2, 3), (1, 2, 3, 4), 3, "deep", True, "on"),
    ContainerdRelease((2, 4), (1, 2, 3, 4), 3, "deep", True, "always"),
)
OLDEST = (1, 4)


def get_release_facts(version: Version) -> ContainerdRelease:
    return [f for f in FACTS if f.first <= version.series or f is FACTS[0]][-1]


def can_use_relative_glob(version: Version) -> bool:
    """Tell whether a relative glob in `imports` works.

    Older releases look it up in the daemon's working directory and load nothing.
    """
    if version.series == (1, 6):
        return version.is_at_least(1, 6, 29)
    return version.is_at_least(1, 7, 16)


def has_cri_devices_field(version: Version) -> bool:
    """Tell whether the CRI field CDIDevices is answered. Before 1.7.2 only annotations are."""
    return version.is_at_least(1, 7, 2)
