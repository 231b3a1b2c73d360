# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the parts of the output of engines and processes that may leave a host, place by place with
the shape of the value.

Nothing else leaves a host. The host applies these lists (_host/projection/selection.py explains
paths and shapes). A planner that needs one value more adds a line here. A test requires that each
value that a planner reads of an answer is listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Keep = Sequence[tuple[tuple[str, ...], str]]

# Options of a runc-like runtime (containerd's runtime/v2/runc/options/oci.proto) that may travel.
RUNC_OPTIONS: Mapping[str, str] = {
    "BinaryName": "program", "SystemdCgroup": "bool", "Root": "path", "NoPivotRoot": "bool", "NoNewKeyring": "bool",
    "ShimCgroup": "cgroup", "IoUid": "int", "IoGid": "int", "CriuPath": "path", "CriuImagePath": "path", "CriuWorkPath": "path",
}  # fmt: skip
# Fields of a handler as containerd's status names them, the same in 1.6 to 2.4.
_CONTAINERD_RUNTIME: Mapping[tuple[str, ...], str] = {
    ("runtimeType",): "name",
    ("ContainerAnnotations",): "annotations",
    ("PodAnnotations",): "annotations",
    ("baseRuntimeSpec",): "path",
    ("privileged_without_host_devices",): "bool",
    **{("options", name): shape for name, shape in RUNC_OPTIONS.items()},
}
# Fields of a handler as CRI-O's status names them: all that a copy of it takes over.
CRIO_RUNTIME: Mapping[tuple[str, ...], str] = {
    ("RuntimePath",): "program", ("RuntimeType",): "name", ("RuntimeRoot",): "path", ("RuntimeConfigPath",): "path",
    ("PrivilegedWithoutHostDevices",): "bool", ("AllowedAnnotations",): "annotations", ("MonitorPath",): "program",
    ("MonitorCgroup",): "cgroup", ("MonitorEnv",): "search paths", ("MonitorExecCgroup",): "cgroup",
    ("PlatformRuntimePaths", "*"): "path", ("RuntimePullImage",): "bool", ("ContainerMinMemory",): "name", ("NoSyncLog",): "bool",
    ("InheritDefaultRuntime",): "bool", ("DefaultAnnotations", "*"): "annotation", ("SeccompProfile",): "path",
    ("ContainerCreateTimeout",): "int", ("StreamWebsockets",): "bool", ("ExecCPUAffinity",): "name",
}  # fmt: skip

# The verbose half of CRI's Status.
STATUS: Keep = (
    (("config", "enableCDI"), "bool"),
    (("config", "cdiSpecDirs"), "paths"),
    (("config", "systemdCgroup"), "bool"),
    (("config", "containerd", "defaultRuntimeName"), "name"),
    *(
        (("config", "containerd", "runtimes", "*", *field), shape)
        for field, shape in _CONTAINERD_RUNTIME.items()
    ),
    (("config", "crio", "DefaultRuntime"), "name"),
    (("config", "crio", "HooksDir"), "paths"),
    (("config", "crio", "CDISpecDirs"), "paths"),
    *(
        (("config", "crio", "Runtimes", "*", *field), shape)
        for field, shape in CRIO_RUNTIME.items()
    ),
)

# Answers to GET over an engine's socket, by path.
HTTP: Mapping[str, Keep] = {
    "/info": (
        (("ServerVersion",), "version"),
        (("DefaultRuntime",), "name"),
        (("Runtimes", "*", "path"), "program"),
        (("CDISpecDirs",), "paths"),
        (("ContainersRunning",), "int"),
        (("LiveRestoreEnabled",), "bool"),
        (("Swarm", "LocalNodeState"), "name"),
    ),
    "/containers/json": (
        (("[]", "Names"), "paths"),
        (("[]", "Id"), "name"),
    ),
}
