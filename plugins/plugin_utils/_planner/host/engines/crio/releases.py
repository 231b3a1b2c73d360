# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables about CRI-O: its names, its defaults, and the version since which a thing exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml_types,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.crio_places import (
    HANDLERS,
    Path,
)

UNIT = "crio.service"
SOCKET = "/var/run/crio/crio.sock"
CONFIG = "/etc/crio/crio.conf"
DROP_IN = "90-gpufleet.conf"
PACKAGES = ("cri-o",)

# Keys that a handler of NVIDIA's runtime must not take over from the low-level runtime: these say
# which program is run.
NOT_COPIED = (
    "runtime_path",
    "runtime_type",
    "runtime_config_path",
    "inherit_default_runtime",
    "platform_runtime_paths",
)

# Types that CRI-O decodes these into; it does not start with any other.
_STRING_FIELDS = ("runtime_path", "runtime_type", "runtime_root", "monitor_path", "monitor_cgroup")
SHAPES: Mapping[Path, str] = {
    ("crio",): toml_types.TABLE,
    ("crio", "runtime"): toml_types.TABLE,
    ("crio", "runtime", "default_runtime"): toml_types.STRING,
    ("crio", "runtime", "hooks_dir"): toml_types.STRINGS,
    ("crio", "runtime", "cdi_spec_dirs"): toml_types.STRINGS,
    ("crio", "runtime", "conmon"): toml_types.STRING,
    ("crio", "runtime", "conmon_env"): toml_types.STRINGS,
    HANDLERS: toml_types.TABLE,
    (*HANDLERS, "*"): toml_types.TABLE,
    **{(*HANDLERS, "*", field): toml_types.STRING for field in _STRING_FIELDS},
    **{
        (*HANDLERS, "*", field): toml_types.STRINGS
        for field in ("monitor_env", "allowed_annotations")
    },
}

# The files named here are CRI-O's own, as they are in its tags. CDI came with cri-o/cri-o#5571,
# whose first release is 1.24.0; the 1.23 of CDI's own README is a mistake.
CDI_SINCE = (1, 24)
# Before 1.28 CRI-O reads the annotations `cdi.k8s.io/...` only (specInjectCDIDevices in
# internal/factory/container/device.go).
CRI_FIELD_SINCE = (1, 28)
# Since when the CRI Status lists the handlers (`runtimeHandlers`; server/runtime_status.go).
HANDLER_LIST_SINCE = (1, 30)
# Since when the CRI Status carries the configuration (`config.crio`; createRuntimeInfo in
# server/runtime_status.go, commit dd38a18058, in no patch release before). To require it of an
# older one would roll back every change.
STATUS_CONFIG_SINCE = (1, 33)

HOOKS_DIRS = ("/usr/share/containers/oci/hooks.d",)

PATH_ENV = "PATH=" + ":".join(STANDARD_PATH)


def get_default_crio_runtime(version: tuple[int, int]) -> str:
    """Return the handler that CRI-O uses if no file names one: crun since 1.31 (DefaultRuntime in
    pkg/config/config_linux.go).
    """
    return "crun" if version >= (1, 31) else "runc"


def get_devices_annotation(version: tuple[int, int]) -> str:
    """Return the annotation for device nodes, by its new name since 1.35 (pkg/annotations/v2).

    An older release does not start with that name in a handler's list.
    """
    return "devices.crio.io" if version >= (1, 35) else "io.kubernetes.cri-o.Devices"


def get_built_in_crio_handler(version: tuple[int, int]) -> dict[str, Any]:
    """Return the handler that CRI-O has if no file declares any (defaultRuntimeHandler in
    pkg/config/config.go).
    """
    name = get_default_crio_runtime(version)
    table: dict[str, Any] = {
        "runtime_root": f"/run/{name}",
        "allowed_annotations": ["io.containers.trace-syscall"],
    }
    # So has 1.28 from its patch release 3 on (commit 7c1d5f56fc). A pod asks for device nodes by
    # it.
    if version >= (1, 29):
        table["allowed_annotations"].append(get_devices_annotation(version))
    if version >= (1, 24):
        table["monitor_cgroup"] = "system.slice"
        table["monitor_env"] = [PATH_ENV]
    if version >= (1, 31):
        # crun needs less than the 12 MiB of a handler that does not say
        table["container_min_memory"] = "500KiB"
    return table
