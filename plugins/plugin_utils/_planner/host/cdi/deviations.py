# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The intended differences between our CDI specs and those of `nvidia-ctk cdi generate`.

The page docs/cdi.md is written from here.

A difference that is found and is not in this list is a mistake, in the generator or in the list.
"""

from __future__ import annotations

import dataclasses as dc


@dc.dataclass(frozen=True)
class Deviation:
    """An intended difference; `issues` come from users whom the way of nvidia-ctk hurt."""

    topic: str
    nvidia_ctk: str
    collection: str
    why: str
    issues: tuple[str, ...] = ()


TOOLKIT = "NVIDIA/nvidia-container-toolkit"
DEVIATIONS = (
    Deviation(
        "version",
        "the lowest that the content needs, whatever the engine next to it reads",
        "the lowest that the content needs, and never above what the oldest consumer on the host reads",
        "an engine that does not know the version drops the whole file and says no more than `unresolvable CDI devices`",
        (f"{TOOLKIT}#38", f"{TOOLKIT}#1860", f"{TOOLKIT}#1940"),
    ),
    Deviation(
        "group ids",
        "`additionalGids` for nodes that not everyone may open, since 1.19.1, which takes version 0.7.0",
        "none, unless `cdi_group_ids` asks for them",
        "most hosts open CUDA's nodes to everyone, and a host that does not, as SUSE, gets advice; Podman 4, containerd before 1.7.16 and "
        "Docker before 26.1 lose the file, and rootless Podman warns of ids that it cannot map",
        (f"{TOOLKIT}#1860", f"{TOOLKIT}#1909"),
    ),
    Deviation(
        "node numbers",
        "type, major, minor, mode and owner of every node, since 1.19",
        "major and minor of nodes with NVIDIA's own major 195 only; `cdi_node_attributes` changes it",
        "the kernel hands out the majors of nvidia-uvm and nvidia-caps again at every boot, and a recorded number wins over the live node",
        (f"{TOOLKIT}#1934",),
    ),
    Deviation(
        "memory limits",
        "since 1.20.1 a `createRuntime` hook per GPU, `apply-cuda-memory-limits`",
        "none",
        "it runs for every container and does nothing unless the container's variables ask for a limit, which takes branch 615; "
        "where it cannot read the engine's state, the container does not start",
        (f"{TOOLKIT}#2075", f"{TOOLKIT}#2103"),
    ),
    Deviation(
        "sockets",
        "the sockets of nvidia-persistenced and nvidia-fabricmanager and the folder of MPS, where they are there when the spec is made",
        "none, unless `cdi_sockets` asks for them; the result lists them as `left_out`",
        "a container does not start while one of them is gone, after a boot or while its daemon restarts. `/tmp/nvidia-mps` is judged when "
        "the spec is made (a directory of root's); a boot may empty `/tmp`, and whoever then makes the folder first, be it a user without "
        "privileges, has it in containers until the next run: on a host with local users start MPS before they can log in, or leave "
        "`cdi_sockets` off",
    ),
    Deviation(
        "absolute links",
        "files behind an absolute link in a driver root of its own are followed on the host, and missed or mistaken",
        "links are followed inside the driver root, and what they lead to is mounted",
        "Debian's alternatives are such links: nvidia-smi and the X driver are missing otherwise",
        (f"{TOOLKIT}#735",),
    ),
    Deviation(
        "links by bus",
        "where /dev has a root of its own, the links of `/dev/dri/by-path` are made in the container below that root's path on the host",
        "they are made in `/dev/dri/by-path`, whatever root the host has for them",
        "programs look for a GPU's nodes by bus nowhere else",
    ),
    Deviation(
        "missing files",
        "a line in the log",
        "the list `missing` in the result, and a word of advice",
        "a container without the library that it needs starts, and its program fails",
        (f"{TOOLKIT}#682", f"{TOOLKIT}#1875", f"{TOOLKIT}#1908"),
    ),
    Deviation(
        "missing nodes",
        "a line in the log, and a spec without them",
        "an error that names them, or the list `missing` in the result where `cdi_missing_nodes` allows it",
        "a container with a GPU and without nvidia-uvm starts, and CUDA fails in it",
        (f"{TOOLKIT}#1611", f"{TOOLKIT}#1982"),
    ),
    Deviation(
        "place",
        "`/var/run/cdi/nvidia.yaml`, made again by a unit after each boot",
        "`/etc/cdi/nvidia.yaml`",
        "/var/run is empty after a boot, and an engine that starts containers before the unit has run does not find the devices",
        ("NixOS/nixpkgs#420638",),
    ),
    Deviation(
        "order",
        "devices in plain order of their names, so `10` before `2`",
        "indices as numbers, then the other names, `all` last",
        "people read the file; engines do not see the order",
    ),
    Deviation(
        "management",
        "one device `all`",
        "`all`, and one device per GPU",
        "an agent that watches one GPU needs no other",
        (f"{TOOLKIT}#1239", f"{TOOLKIT}#1895"),
    ),
    Deviation(
        "the mount that says no devices",
        "in every spec, since 1.20.2",
        "the same, but not where the host's NVIDIA runtime accepts requests by mounts and its toolkit is older than 1.20.2, or of unknown "
        "release",
        "such a runtime takes the mount for a device called `void`, and the container does not start",
        (f"{TOOLKIT}#2184",),
    ),
    # CHANGELOG.md of 1.18.0 to 1.20.0, pkg/nvcdi/lib-nvml.go at their tags;
    # tests/integration/test_cdi_older_judges.py runs 1.17.8 and 1.19.1
    Deviation(
        "earlier releases",
        "up to 1.19: neither `nvidia.icd` of OpenCL nor `nvidia-xconfig`, `libnvidia-nvvm70` and EGL's libraries for X11, and no "
        "`enable-cuda-compat` in the management spec. Up to 1.17: mounts without `rprivate`, no links to the driver's libraries, no "
        "`NVIDIA_CTK_LIBCUDA_DIR`, a device for a GPU in MIG mode, and in the management spec a hook `chmod` for MIG's folder of nodes",
        "what 1.20 writes, whichever release the host has; hooks alone go by the release, since they run its program",
        "engines read a spec, and the toolkit does not; a container cannot use a GPU in MIG mode as a whole; `chmod` was for low-level "
        "runtimes that made the folder without permissions",
    ),
    Deviation(
        "libraries of NVSwitch management",
        "`libnvsdm.so.1`, `libibumad.so.3` and `libibmad.so.5` in the management spec, since 1.20.2",
        "`libnvsdm` where it carries the driver's version, and none of InfiniBand's",
        "they do not belong to the driver; an agent that reads switches brings them in its image",
    ),
    Deviation(
        "kinds of the fabric",
        "modes `imex` and `nvswitch`, each by a command of its own; with channels a device `all`, unless `--no-all-device` is given",
        "options `cdi_imex_channels` and `cdi_nvswitch`, files of their own beside the GPUs' spec, and no device for all channels; no "
        "class `mig-caps`",
        "each channel is another tenant's; the management spec has the capabilities that `mig-caps` names, and nothing else needs them "
        "by CDI",
    ),
    Deviation(
        "names for engines below 0.5.0",
        "`0`, which such an engine refuses, and the whole file with it",
        "`gpu0`",
        "a name that begins with a digit takes version 0.5.0",
        (f"{TOOLKIT}#38",),
    ),
)
