# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the keys of a containerd's files that an upgrade to 2.4 loses.

RELEASES.md of containerd 2.4.2 lists them under "Deprecated config properties". `registry.mirrors`,
`registry.configs` and `registry.auths` are not among them: their removal was put off to 2.7.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)

# Where containerd looks for CNI's plugins if no file says another place (internal/cri/config).
USUAL_DIRECTORIES = ("", "/opt/cni/bin")


def names_cni_directory(files: FileSet) -> bool:
    """Tell whether pods find CNI's plugins by a `bin_dir` alone that 2.4 ignores.

    Of versions 1 and 2 it still moves the key to `bin_dirs` (plugins/cri/runtime, migrateConfig).
    """
    values = _list_values(files, containerd_places.CNI_DIRECTORY)
    others = _list_values(files, containerd_places.CNI_DIRECTORIES)
    return not others and bool(values) and values[-1] not in USUAL_DIRECTORIES


def switches_cdi_off(files: FileSet) -> bool:
    """Tell whether the last file that has `enable_cdi` sets it to false."""
    values = [
        value
        for file in files.files
        for names in containerd_places.TABLES
        if (value := toml.look_up_toml(file.doc.data, (*names, "enable_cdi"))) is not None
    ]
    return bool(values) and values[-1] is False


def configures_tracing(files: FileSet) -> bool:
    """Tell whether a file says where traces go, or how many are kept."""
    return any(_list_values(files, key) for key in containerd_places.TRACING)


def _list_values(files: FileSet, key: Path) -> list[object]:
    """Return what the files set a key to, in the order in which the daemon applies them."""
    values = [toml.look_up_toml(file.doc.data, key) for file in files.files]
    return [value for value in values if value is not None]
