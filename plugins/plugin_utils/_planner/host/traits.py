# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The properties of engines that the planner asks for without knowing which engine it is. A new
engine is one more row.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Instance

CONTAINERD = "containerd"
CRIO = "crio"
DOCKER = "docker"
PODMAN = "podman"

# Seconds for an engine to answer after its restart. It recovers its containers first: seconds on an
# idle host, more on a full one.
SERVES_WITHIN = 90


@dc.dataclass(frozen=True)
class OperatorVariables:
    """The environment variables that the GPU Operator's toolkit reads for an engine, and their
    defaults (operator v26.7).
    """

    config: str
    default_config: str
    socket: str
    default_socket: str
    set_as_default: str


@dc.dataclass(frozen=True)
class Traits:
    """The properties of one engine.

    title: as its own project writes it. verification: what starts a container for a verification.
    """

    title: str
    kubernetes: bool  # serves CRI, so a kubelet can use it
    # has a configuration with handlers; one without reads CDI specs, and that is all
    handlers: bool
    hooks: bool  # runs the files of its hooks directories by itself
    verification: Literal["cri", "api", "command"]
    asks_handler: str = ""  # the command line by which a person asks for a handler
    asks_device: str = ""  # the one by which a person asks for a CDI device
    # its words for NVIDIA_VISIBLE_DEVICES, for which it calls the prestart hook by itself
    asks_variable: str = ""
    variable_by_cdi: str = ""  # the first release that takes CDI for that instead of the hook
    first_cdi: str = ""  # its first release that resolves CDI devices, for people
    # its first release that takes CDI devices from a kubelet (the CRI field CDIDevices)
    first_field: str = ""
    # the annotation in which it keeps a pod's handler, which its list of pods leaves empty
    pod_note: str = ""
    load_image: str = ""
    # it does not start without the program of its default handler (CRI-O, ValidateRuntimes)
    checks_default: bool = False
    # its configuration files declare versions, which may differ from one to the other
    file_versions: bool = False
    # None: the operator's toolkit needs no setting for it, or does not configure it
    operator: OperatorVariables | None = None


TRAITS = {
    CONTAINERD: Traits(
        "containerd", kubernetes=True, handlers=True, hooks=False, verification="cri", first_cdi="1.7", first_field="1.7.2",
        load_image="ctr -n k8s.io images import FILE.tar, or crictl pull IMAGE", file_versions=True,
        operator=OperatorVariables(
            "CONTAINERD_CONFIG", "/etc/containerd/config.toml", "CONTAINERD_SOCKET", "/run/containerd/containerd.sock",
            "CONTAINERD_SET_AS_DEFAULT",
        ),
    ),
    CRIO: Traits(
        "CRI-O", kubernetes=True, handlers=True, hooks=True, verification="cri", first_cdi="1.24", first_field="1.28.0",
        pod_note="io.kubernetes.cri-o.RuntimeHandler",  # seen with 1.34
        checks_default=True,
        load_image="skopeo copy oci-archive:FILE.tar containers-storage:IMAGE, or crictl pull IMAGE",
    ),
    DOCKER: Traits(
        "Docker", kubernetes=False, handlers=True, hooks=False, verification="api", first_cdi="25.0",
        asks_handler="docker run --runtime", asks_variable="docker run --gpus and --runtime", variable_by_cdi="29.2",
        load_image="docker load --input FILE.tar",
    ),
    PODMAN: Traits(
        "Podman", kubernetes=False, handlers=False, hooks=True, verification="command", first_cdi="4.1", asks_device="podman run --device",
        load_image="podman load --input FILE.tar",
    ),
}  # fmt: skip


def get_traits(engine: str) -> Traits:
    return TRAITS[engine]


def name_engine_release(instance: Instance) -> str:
    """Return an engine's title as its own project writes it, followed by the version if that is
    known.
    """
    return f"{get_traits(instance.engine).title} {instance.version}".strip()


def name_engines_with_hooks() -> str:
    """Name the engines that run OCI hook files, for a sentence."""
    return " and ".join(t.title for t in TRAITS.values() if t.hooks)


def name_field_releases() -> str:
    """Name the first releases that take CDI devices from a kubelet, for a sentence."""
    return " and ".join(f"{t.title} {t.first_field}" for t in TRAITS.values() if t.first_field)


def name_cdi_releases() -> str:
    """Name the first releases with CDI of engines with handlers, for a sentence."""
    *most, last = [f"{t.title} {t.first_cdi}" for t in TRAITS.values() if t.handlers]
    return f"{', '.join(most)} or {last}"
