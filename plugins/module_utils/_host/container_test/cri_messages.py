# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the messages of CRI that a container of a verification needs.

Host side: standard library only, Python 3.6.
"""

# The messages of runtime.v1 (k8s.io/cri-api 0.36, pkg/apis/runtime/v1/api.proto), as far as they
# are used: field -> (number, type). A type in brackets is repeated; "map" is map<string, string>;
# "number" is every kind of integer, enum and bool.
MESSAGES = {
    "ImageSpec": {"image": (1, "string"), "user_specified_image": (18, "string")},
    "ImageStatusRequest": {"image": (1, "ImageSpec")},
    "ImageStatusResponse": {"image": (1, "Image")},
    "Image": {"id": (1, "string")},
    "NamespaceOption": {"network": (1, "number"), "pid": (2, "number"), "ipc": (3, "number")},
    "Int64Value": {"value": (1, "number")},
    "Capability": {"add_capabilities": (1, ["string"])},
    "PodSandboxMetadata": {
        "name": (1, "string"),
        "uid": (2, "string"),
        "namespace": (3, "string"),
        "attempt": (4, "number"),
    },
    "LinuxSandboxSecurityContext": {"namespace_options": (1, "NamespaceOption")},
    "LinuxPodSandboxConfig": {
        "cgroup_parent": (1, "string"),
        "security_context": (2, "LinuxSandboxSecurityContext"),
    },
    "PodSandboxConfig": {
        "metadata": (1, "PodSandboxMetadata"),
        "hostname": (2, "string"),
        "log_directory": (3, "string"),
        "labels": (6, "map"),
        "annotations": (7, "map"),
        "linux": (8, "LinuxPodSandboxConfig"),
    },
    "RunPodSandboxRequest": {"config": (1, "PodSandboxConfig"), "runtime_handler": (2, "string")},
    "RunPodSandboxResponse": {"pod_sandbox_id": (1, "string")},
    "ContainerMetadata": {"name": (1, "string"), "attempt": (2, "number")},
    "KeyValue": {"key": (1, "string"), "value": (2, "string")},
    "Mount": {
        "container_path": (1, "string"),
        "host_path": (2, "string"),
        "readonly": (3, "number"),
    },
    "DeviceName": {"name": (1, "string")},
    "LinuxContainerSecurityContext": {
        "capabilities": (1, "Capability"),
        "namespace_options": (3, "NamespaceOption"),
        "run_as_user": (5, "Int64Value"),
    },
    "LinuxContainerConfig": {"security_context": (2, "LinuxContainerSecurityContext")},
    "ContainerConfig": {
        "metadata": (1, "ContainerMetadata"),
        "image": (2, "ImageSpec"),
        "command": (3, ["string"]),
        "envs": (6, ["KeyValue"]),
        "mounts": (7, ["Mount"]),
        "labels": (9, "map"),
        "annotations": (10, "map"),
        "log_path": (11, "string"),
        "linux": (15, "LinuxContainerConfig"),
        "device_names": (17, ["DeviceName"]),
    },
    "CreateContainerRequest": {
        "pod_sandbox_id": (1, "string"),
        "config": (2, "ContainerConfig"),
        "sandbox_config": (3, "PodSandboxConfig"),
    },
    "CreateContainerResponse": {"container_id": (1, "string")},
    "StartContainerRequest": {"container_id": (1, "string")},
    "StartContainerResponse": {},
    "ExecSyncRequest": {
        "container_id": (1, "string"),
        "cmd": (2, ["string"]),
        "timeout": (3, "number"),
    },
    "ExecSyncResponse": {
        "stdout": (1, "bytes"),
        "stderr": (2, "bytes"),
        "exit_code": (3, "number"),
    },
    "StopContainerRequest": {"container_id": (1, "string"), "timeout": (2, "number")},
    "StopContainerResponse": {},
    "StopPodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "StopPodSandboxResponse": {},
    "RemovePodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "RemovePodSandboxResponse": {},
    "PodSandboxFilter": {"id": (1, "string"), "label_selector": (3, "map")},
    "ListPodSandboxRequest": {"filter": (1, "PodSandboxFilter")},
    "ListPodSandboxResponse": {"items": (1, ["PodSandbox"])},
    "PodSandbox": {"id": (1, "string"), "state": (3, "number"), "created_at": (4, "number")},
}
