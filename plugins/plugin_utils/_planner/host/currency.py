# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Date the facts that age: up to which release of each project the tables of this collection go.

`make currency` prints these rows with their age and asks package indexes for newer releases. A test
fails when a row is older than MAX_AGE_DAYS at the time of a release.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import xids

MAX_AGE_DAYS = 120


@dc.dataclass(frozen=True)
class KnownProject:
    """The newest release of a project that the tables take into account.

    newest: a version, as the project writes it. checked: the date of the last comparison with
    `source`, as YYYY-MM-DD. tables: modules below `_planner` that go by this project's releases.
    ask: where an ordinary client can ask for newer releases: `go:<module>`, `pypi:<project>` or
    `debian:<package>`; '' if only a person can, at `source`.
    """

    title: str
    newest: str
    checked: str
    source: str
    tables: tuple[str, ...]
    ask: str = ""


# A row's date may be set again only after its tables were compared with the source, and `newest`
# is the release that they were compared with, not the newest one that exists.
KNOWN: Mapping[str, KnownProject] = {
    traits.CONTAINERD: KnownProject(
        traits.TRAITS[traits.CONTAINERD].title,
        "2.4.2",
        "2026-11-26",
        "https://github.com/containerd/containerd/releases",
        (
            "host.engines.containerd.releases",
            "host.engines.containerd.engine_rules",
            "host.engines.containerd.ignored_keys",
            "host.engines.containerd.cgroup_choice",
            "host.engines.containerd.template",
            "host.engines.cdi_versions",
            "host.known_bad.table",
        ),
        "go:github.com/containerd/containerd/v2",
    ),
    traits.CRIO: KnownProject(
        traits.TRAITS[traits.CRIO].title,
        "1.37.0",
        "2026-11-26",
        "https://github.com/cri-o/cri-o/releases",
        ("host.engines.crio.releases", "host.engines.cdi_versions"),
    ),
    traits.DOCKER: KnownProject(
        traits.TRAITS[traits.DOCKER].title,
        "29.9.3",
        "2026-11-26",
        "https://docs.docker.com/engine/release-notes/",
        (
            "host.engines.docker.desired_config",
            "host.engines.docker.plan",
            "host.engines.docker.config",
            "host.engines.docker.gpus_flag",
            "host.engines.cdi_versions",
            "host.known_bad.table",
        ),
        "go:github.com/docker/cli",
    ),
    # 6.1.2 is out. Its source could not be read: the proxy of Go's modules has none of Podman 6,
    # and the copies that were found end with the main branch of 2026-06-11. That is 6.0 with the
    # libraries of its release, common 0.68.0 and storage 1.63.0, and the CDI library 1.1.0.
    traits.PODMAN: KnownProject(
        traits.TRAITS[traits.PODMAN].title,
        "6.0.0",
        "2026-11-29",
        "https://github.com/podman-container-tools/podman/releases",
        ("host.engines.podman.directories", "host.engines.cdi_versions"),
        "debian:podman",
    ),
    "toolkit": KnownProject(
        "NVIDIA Container Toolkit",
        "1.20.2",
        "2026-11-26",
        "https://github.com/NVIDIA/nvidia-container-toolkit/releases",
        (
            "host.resources.packages",
            "host.adoption.nvidia_ctk",
            "cluster.operator_toolkit",
            "host.cdi.deviations",
            "host.cdi.generate.hooks",
            "host.cdi.staleness",
            "host.cdi.void_mount",
            "host.known_bad.table",
        ),
        "go:github.com/NVIDIA/nvidia-container-toolkit",
    ),
    "cdi": KnownProject(
        "Container Device Interface",
        "1.1.1",
        "2026-11-26",
        "https://github.com/cncf-tags/container-device-interface/releases",
        (
            "host.cdi.spec.version",
            "host.cdi.engine_view.releases",
            "host.engines.cdi_versions",
        ),
        "go:tags.cncf.io/container-device-interface",
    ),
    "kubernetes": KnownProject(
        "Kubernetes",
        "1.37.2",
        "2026-11-26",
        "https://kubernetes.io/releases/",
        (
            "host.kubelet.settings",
            "host.kubelet.cgroup_driver",
            "host.kubelet.device_plugin",
            "host.kubelet.dra",
        ),
        "go:k8s.io/kubernetes",
    ),
    # RKE2 renders with the templates of the k3s that its go.mod names.
    "k3s": KnownProject(
        "k3s and RKE2",
        "1.36.2",
        "2026-11-23",
        "https://github.com/k3s-io/k3s/releases",
        ("host.managers.rancher",),
    ),
    "k0s": KnownProject(
        "k0s",
        "1.36",
        "2026-11-22",
        "https://github.com/k0sproject/k0s/releases",
        ("host.managers.k0s",),
    ),
    "microk8s": KnownProject(
        "MicroK8s",
        "1.36",
        "2026-11-23",
        "https://github.com/canonical/microk8s/tags",
        ("host.managers.microk8s",),
    ),
    "apptainer": KnownProject(
        "Apptainer",
        "1.5.0",
        "2026-11-23",
        "https://github.com/apptainer/apptainer/releases",
        ("host.engines.cdi_versions",),
    ),
    "singularity": KnownProject(
        "SingularityCE",
        "4.3.7",
        "2026-11-23",
        "https://github.com/sylabs/singularity/releases",
        ("host.engines.cdi_versions",),
    ),
    "driver": KnownProject(
        "NVIDIA driver",
        # the files of its packages, by a spec that was published
        # (tests/fixtures/replayed_specs.yml)
        "615.71.09",
        "2026-11-26",
        "https://docs.nvidia.com/datacenter/tesla/drivers/releases.json",
        ("host.cdi.driver_files.catalogue", "host.known_bad.table", "host.platform.host_platform"),
    ),
    "xids": KnownProject(
        "NVIDIA's catalogue of Xid errors",
        "2025.10",  # the page has no number of its own
        "2026-11-26",
        xids.CATALOGUE,
        ("host.health.xids",),
    ),
    "cuda": KnownProject(
        "CUDA",
        "13.5",
        "2026-11-26",
        "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html",
        ("workloads.images.cuda",),
        "pypi:nvidia-cuda-runtime",
    ),
    "chips": KnownProject(
        "GPUs by PCI device id",
        "2026.11.23",
        "2026-11-23",
        "https://github.com/pciutils/pciids/blob/master/pci.ids",
        ("workloads.images.chips",),
    ),
    "cpu": KnownProject(
        "CPU microarchitectures",
        "0.2.7",
        "2026-11-26",
        "https://github.com/archspec/archspec-json",
        ("workloads.images.cpu",),
        "pypi:archspec",
    ),
}
