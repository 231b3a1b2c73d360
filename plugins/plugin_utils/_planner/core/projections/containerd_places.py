# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of containerd's settings in its files, and the settings that may leave a host."""

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

V1_NAMES: Path = ("plugins", "cri")
V2_NAMES: Path = ("plugins", "io.containerd.grpc.v1.cri")
V3_NAMES: Path = ("plugins", "io.containerd.cri.v1.runtime")
TABLES = (V1_NAMES, V2_NAMES, V3_NAMES)
# of version 3: what of CRI is about images
IMAGES_V3: Path = (
    "plugins",
    "io.containerd.cri.v1.images",
)
GRPC_V4: Path = ("plugins", "io.containerd.server.v1.grpc", "address")

# Keys that stay in io.containerd.grpc.v1.cri when its runtime part has moved to
# io.containerd.cri.v1.runtime (version 3).
SERVER_KEYS = frozenset((
    "disable_tcp_service", "stream_server_address", "stream_server_port", "stream_idle_timeout", "enable_tls_streaming",
    "x509_key_pair_streaming",
))  # fmt: skip

FIRST_LINE = (
    "# Written by the Ansible collection gpufleet.nvidia; changes made by hand are overwritten."
)
K0S_MANAGED = (
    "# k0s_managed=true"  # k0s renders a main file that begins with it (isK0sManagedConfig)
)
# A handler's properties (pkg/cri/config), each with the shape in which it may leave a host. No
# other is copied into our handler: containerd ignores keys that it does not know.
HANDLER: Mapping[Path, str] = {
    ("runtime_type",): "name", ("runtime_path",): "path", ("runtime_engine",): "program", ("runtime_root",): "path",
    ("pod_annotations",): "annotations", ("container_annotations",): "annotations", ("privileged_without_host_devices",): "bool",
    ("privileged_without_host_devices_all_devices_allowed",): "bool", ("cgroup_writable",): "bool", ("base_runtime_spec",): "path",
    ("cni_conf_dir",): "path", ("cni_max_conf_num",): "int", ("snapshotter",): "name", ("sandboxer",): "name", ("sandbox_mode",): "name",
    ("io_type",): "name", ("options", "ConfigPath"): "path", ("options", "TypeUrl"): "program", ("options", "RuntimeRoot"): "path",
    ("options", "Runtime"): "program",
    **{("options", name): shape for name, shape in output_places.RUNC_OPTIONS.items()},
}  # fmt: skip
_CRI_PLACES: Mapping[Path, str] = {
    ("enable_cdi",): "bool",
    ("cdi_spec_dirs",): "paths",
    ("systemd_cgroup",): "bool",
    ("containerd", "default_runtime_name"): "name",
    **{("containerd", "runtimes", "*", *path): shape for path, shape in HANDLER.items()},
}
# Other plugins as version 1 names them (cmd/containerd/server/config, v1MigratePluginName): 1.x
# takes none of them in version 2.
NAMES_OF_V1 = (
    "aufs", "bolt", "btrfs", "cgroups", "devmapper", "diff-service", "linux", "native", "opt", "overlayfs", "restart", "scheduler", "zfs",
)  # fmt: skip
# Tables of 1.x beside those of handlers, which become the handlers `default` and `untrusted`, and
# keys that can stop its CRI (pkg/cri/config/config.go). A "key" is known to exist, and its value is
# not known.
DEFAULT_RUNTIME: Path = ("containerd", "default_runtime")
UNTRUSTED_RUNTIME: Path = ("containerd", "untrusted_workload_runtime")
# by the handler that each becomes
OLDER_TABLES: Mapping[str, Path] = {
    "untrusted": UNTRUSTED_RUNTIME,
    "default": DEFAULT_RUNTIME,
}
_OLDER_HANDLER: tuple[Path, ...] = (
    ("runtime_type",), ("runtime_engine",), ("runtime_root",), ("options", "BinaryName"), ("options", "Runtime"),
    ("options", "SystemdCgroup"),
)  # fmt: skip
_OLDER_PLACES: Mapping[Path, str] = {
    ("containerd", "no_pivot"): "bool",
    ("registry", "config_path"): "key",
    ("registry", "mirrors"): "key",
    **{
        (*table, *path): HANDLER[path] for table in OLDER_TABLES.values() for path in _OLDER_HANDLER
    },
}
# Keys that containerd reads before 2.4 and no more from there on (RELEASES.md of 2.4.2, "Deprecated
# config properties"). It moves the first from the tables of versions 1 and 2, and says of the
# others in its log that it ignores them.
CNI_DIRECTORY: Path = (*V3_NAMES, "cni", "bin_dir")
CNI_DIRECTORIES: Path = (*V3_NAMES, "cni", "bin_dirs")
TRACING: tuple[Path, ...] = tuple(
    ("plugins", plugin, key)
    for plugin, keys in (
        ("io.containerd.tracing.processor.v1.otlp", ("endpoint", "protocol", "insecure")),
        ("io.containerd.internal.v1.tracing", ("service_name", "sampling_ratio")),
    )
    for key in keys
)
PLACES: Mapping[Path, str] = {
    ("version",): "int",
    CNI_DIRECTORY: "path",
    **dict.fromkeys((CNI_DIRECTORIES, *TRACING), "key"),
    **{("plugins", name): "key" for name in NAMES_OF_V1},
    ("imports",): "patterns",
    ("disabled_plugins",): "names",
    ("required_plugins",): "names",
    ("grpc", "address"): "address",
    GRPC_V4: "address",
    **{(*names, *path): shape for names in TABLES for path, shape in _CRI_PLACES.items()},
    **{
        (*names, *path): shape
        for names in (V1_NAMES, V2_NAMES)
        for path, shape in _OLDER_PLACES.items()
    },
    **{(*IMAGES_V3, "registry", key): "key" for key in ("config_path", "mirrors")},
    **{(*V2_NAMES, key): "key" for key in SERVER_KEYS},
    # In a template they are ${RUNTIME} and ${RUNTIME_TYPE} until it is filled in.
    (*V2_NAMES, "containerd", "default_runtime_name"): "name or variable",
    (*V2_NAMES, "containerd", "runtimes", "*", "runtime_type"): "name or variable",
}
# A handler's own properties count only if it is copied.
OF_HANDLERS = tuple((*names, "containerd", "runtimes", "*", "**") for names in TABLES)


def keep_containerd_places(handlers: Iterable[Handler] = ()) -> file_places.Keep:
    """List what of containerd's files may travel.

    This includes the values that a playbook gives for its handlers, since the playbook has them.
    """
    return _keep_values(file_places.pack_handlers(handlers))


@functools.lru_cache(maxsize=64)  # a policy's handlers are the same for many hosts
def _keep_values(handlers: str) -> file_places.Keep:
    values = {
        (*table, "containerd", "runtimes", name, *path): value
        for table in TABLES
        for name, binary, options in json.loads(handlers)
        for path, value in [
            (("options", "BinaryName"), binary),
            *((("options", k), v) for k, v in options.items()),
        ]
    }
    return file_places.keep_places(
        "toml", file_places.add_given_values(PLACES, values), [FIRST_LINE, K0S_MANAGED]
    )
