# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about the verification that containers get GPUs."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# what a case verifies
ONE_GPU = Sentence(
    "verify.one-gpu", "a container that requests one GPU gets exactly the device nodes of that GPU"
)
MIG_DEVICE_ALONE = Sentence(
    "verify.mig-device",
    "a container that requests one MIG device gets the device nodes of its GPU and of no other",
)
ALL_GPUS = Sentence("verify.all-gpus", "a container that requests all GPUs gets all of them")
NONE_REQUESTED = Sentence("verify.none-requested", "a container that requests no GPU gets none")
MANAGEMENT_CONTAINER = Sentence(
    "verify.management-container",
    "a management container gets all GPUs through the handler {handler}",
)
BY_RUNTIME = Sentence(
    "verify.by-runtime", "a container that uses the runtime {handler} gets all GPUs"
)
BY_PLUGIN = Sentence(
    "verify.by-plugin",
    "a pod that a device plugin gives one GPU by {strategy} gets it through the handler {handler}",
)
ISOLATION = Sentence(
    "verify.isolation", "strict isolation: the variable gives an unprivileged container no GPU"
)
BY_MPS = Sentence(
    "verify.by-mps",
    "a container that shares a GPU by MPS gets the device nodes of that GPU and the way to its daemon",
)

# the result
NOTHING_TO_VERIFY = Sentence(
    "verify.nothing-to-verify",
    "this host has no engine that can start containers for the verification",
)
CHECKS_FAILED = Sentence("verify.checks-failed", "{failed} of {total} checks failed. {details}")
STARTED_AGAIN = Sentence(
    "verify.started-again",
    "verified only after a further start: {cases}. Before, the runtime's process ended early, or another program removed the pod. "
    "The causes are in checks[].again of the result; read the journals of the engine and the kernel if this returns",
)

# what to do about a failure
LOAD_IMAGE = Sentence(
    "verify.load-image", "load it: {way}; or set gpufleet_verify_image to another one"
)
DOCKER_WITHOUT_CDI = Sentence(
    "verify.docker-without-cdi",
    "Docker has CDI switched off: run site or the module host, and restart Docker if the result says that a restart is due",
)
DOCKER_WITHOUT_RUNTIME = Sentence(
    "verify.docker-without-runtime",
    "the running Docker does not have this runtime: run site or the module host",
)
DEVICE_UNRESOLVABLE = Sentence(
    "verify.device-unresolvable",
    "the CDI spec lacks this device or is outside the engine's directories: run site or the module host, then check gpufleet_cdi_spec_dirs",
)
CDI_OFF = Sentence(
    "verify.cdi-off",
    "CDI is switched off in the engine: run site or the module host, which switches it on, and restart the engine if its restart is due",
)
HANDLER_UNKNOWN = Sentence(
    "verify.handler-unknown",
    "the running engine does not have this handler: run site or the module host, or restart the engine "
    "if its configuration already has the handler",
)
ENGINE_WITHOUT_CRI = Sentence(
    "verify.no-cri",
    "the engine serves no CRI: look for its CRI plugin's error in the unit's journal, and for cri in disabled_plugins",
)
READ_JOURNAL = Sentence(
    "verify.read-journal",
    "the engine has told the host why: read the journal of its unit there (journalctl -u containerd, crio or docker)",
)
DOCKER_BY_HAND = Sentence(
    "verify.docker-by-hand",
    "Docker's own words stay on the host. To read them there, run `docker run --rm --pull=never --network=none IMAGE true` "
    "with the name of the image",
)
PODMAN_BY_HAND = Sentence(
    "verify.podman-by-hand",
    "Podman's own words stay on the host. To read them there, run `podman run --rm --pull=never --network=none IMAGE true` "
    "with the name of the image",
)
RUNTIME_ENDED_EARLY = Sentence(
    "verify.runtime-ended-early",
    "each time the runtime's process ended before it had read the container's configuration. "
    "Look for the cause in the kernel's log (journalctl -k), then at free memory, kernel.pid_max and user.max_user_namespaces",
)
CGROUP_NOT_MADE = Sentence(
    "verify.cgroup-not-made",
    "the runtime could not set up the container's cgroup: compare the engine's cgroup driver with the kubelet's, "
    "and read what systemd says (journalctl _PID=1)",
)
OUT_OF_MEMORY = Sentence(
    "verify.out-of-memory",
    "the kernel ended the container's first process for lack of memory: free memory on the host, or raise the limit of the "
    "cgroup that the containers are in",
)
KEY_QUOTA = Sentence(
    "verify.key-quota",
    "root's keys are used up, and each container needs one: raise kernel.keys.root_maxkeys and kernel.keys.root_maxbytes",
)
BPF_ROOM = Sentence(
    "verify.bpf-room",
    "the kernel has no room left for compiled BPF programs, which seccomp filters are: raise net.core.bpf_jit_limit",
)
NOT_MOUNTED = Sentence(
    "verify.not-mounted",
    "the runtime did not find a file that the container is to get. If only cases that request GPUs fail, "
    "the CDI spec names a file that is gone: run site or the module host to write the spec again",
)
NO_SANDBOX_IMAGE = Sentence(
    "verify.no-sandbox-image",
    "the sandbox (pause) image is not on this host and could not be pulled: load it as well, or set the engine's sandbox image",
)
HOOK_FAILED = Sentence(
    "verify.hook-failed",
    "the prestart hook failed: see whether nvidia-smi works here, and the log named in /etc/nvidia-container-runtime/config.toml",
)
NO_HANDLER_PROGRAM = Sentence(
    "verify.no-handler-program",
    "the handler's binary is missing: install the package nvidia-container-toolkit-base",
)
SPEC_FILE_GONE = Sentence(
    "verify.spec-file-gone",
    "the CDI spec names a file that is gone, most often since the driver or the toolkit was updated: run site or the module host, "
    "which writes the spec again",
)
NO_SHELL = Sentence(
    "verify.no-shell",
    "the image needs a shell, sleep, rm and mknod: any busybox or distribution image has them",
)
SOCKET_SILENT = Sentence(
    "verify.socket-silent", "the engine's socket does not answer: see systemctl status of its unit"
)
CDI_IGNORED = Sentence(
    "verify.cdi-ignored",
    "no injection took place. Up to containerd 2.2, CDI requests are ignored silently while enable_cdi is false. "
    "Run site or the module host, and restart containerd if its restart is due",
)
NOT_INJECTED = Sentence(
    "verify.not-injected",
    "no injection took place: compare the decision for this host with the CDI spec's device nodes, and run site or the module host",
)
ACCESS_DENIED = Sentence(
    "verify.access-denied",
    "the node is visible but access is denied: systemctl daemon-reload removes the device rule that legacy injection set, "
    "or SELinux refuses (its boolean container_use_xserver_devices, or container_use_devices, allows containers these nodes)",
)
MORE_THAN_REQUESTED = Sentence(
    "verify.more-than-requested",
    "a container gets more than it requested: check NVIDIA_VISIBLE_DEVICES in the image, hook files in addition to CDI, and isolation",
)
HOOK_NOT_CALLED = Sentence(
    "verify.hook-not-called",
    "the prestart hook did not call nvidia-container-cli: look at mode in /etc/nvidia-container-runtime/config.toml and the hook file",
)
