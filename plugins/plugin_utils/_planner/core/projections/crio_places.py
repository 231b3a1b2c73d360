# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of CRI-O's settings in its files, and the settings that may leave a host."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
    output_places,
)

Path = tuple[str, ...]
HANDLERS: Path = ("crio", "runtime", "runtimes")

# Key in the TOML table of a handler -> field of the Go struct, which is what CRI Status prints
# (server/runtime_status.go).
HANDLER_FIELDS: Mapping[str, str] = {
    "runtime_path": "RuntimePath",
    "runtime_type": "RuntimeType",
    "runtime_root": "RuntimeRoot",
    "runtime_config_path": "RuntimeConfigPath",
    "privileged_without_host_devices": "PrivilegedWithoutHostDevices",
    "allowed_annotations": "AllowedAnnotations",
    "monitor_path": "MonitorPath",
    "monitor_cgroup": "MonitorCgroup",
    "monitor_env": "MonitorEnv",
    "monitor_exec_cgroup": "MonitorExecCgroup",
    "platform_runtime_paths": "PlatformRuntimePaths",
    "runtime_pull_image": "RuntimePullImage",
    "container_min_memory": "ContainerMinMemory",
    "no_sync_log": "NoSyncLog",
    "inherit_default_runtime": "InheritDefaultRuntime",
    "default_annotations": "DefaultAnnotations",
    "seccomp_profile": "SeccompProfile",
    "container_create_timeout": "ContainerCreateTimeout",
    "stream_websockets": "StreamWebsockets",
    "exec_cpu_affinity": "ExecCPUAffinity",
}

# Deprecated settings for all handlers at once, and the field of each handler that they replace.
GLOBAL_MONITOR: Mapping[str, str] = {"conmon": "monitor_path", "conmon_env": "monitor_env"}

BEGINNING = "# Written by the Ansible collection gpufleet.nvidia"
FIRST_LINE = f"{BEGINNING}; changes are overwritten."
# The parts of CRI-O's files that may leave a host.
_FIELDS = dict(output_places.CRIO_RUNTIME)
PLACES: Mapping[Path, str] = {
    ("crio", "runtime", "default_runtime"): "name",
    ("crio", "runtime", "hooks_dir"): "paths",
    ("crio", "runtime", "cdi_spec_dirs"): "paths",
    **{
        ("crio", "runtime", key): _FIELDS[(HANDLER_FIELDS[field],)]
        for key, field in GLOBAL_MONITOR.items()
    },
    **{
        (*HANDLERS, "*", key, *path[1:]): shape
        for key, go in HANDLER_FIELDS.items()
        for path, shape in _FIELDS.items()
        if path[0] == go
    },
}
# A handler's own properties count only if it is copied.
OF_HANDLERS = ((*HANDLERS, "*", "**"),)


def keep_crio_places(handlers: Iterable[Handler] = ()) -> file_places.Keep:
    """List what of CRI-O's files may travel.

    This includes the values that a playbook gives for its handlers, since the playbook has them.
    """
    return _keep_values(file_places.pack_handlers(handlers))


@functools.lru_cache(maxsize=64)  # a policy's handlers are the same for many hosts
def _keep_values(handlers: str) -> file_places.Keep:
    values = {
        (*HANDLERS, name, *path): value
        for name, binary, options in json.loads(handlers)
        for path, value in [(("runtime_path",), binary), *(((k,), v) for k, v in options.items())]
    }
    return file_places.keep_places(
        "toml", file_places.add_given_values(PLACES, values), [FIRST_LINE]
    )
