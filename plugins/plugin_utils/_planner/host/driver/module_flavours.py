# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell which of NVIDIA's two kinds of kernel modules serves a GPU, open or proprietary.

The open modules need the GPU System Processor, which Turing was the first to have. "Blackwell and
later are only supported by the open kernel modules" (the driver's own README, of 560.28.03 and all
later releases: https://download.nvidia.com/XFree86/Linux-x86_64/560.28.03/README/kernel_open.html),
and so is Grace Hopper:
https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html,
https://developer.nvidia.com/blog/nvidia-transitions-fully-towards-open-source-gpu-kernel-modules/.
Branch 580 is the last one for Maxwell, Pascal and Volta: https://wiki.nixos.org/wiki/NVIDIA
(legacy_580), https://glfs-book.github.io/glfs/shareddeps/nvidia-rev.html (what r590 serves).
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.driver_packages import (
    DriverSet,
)

Flavour = Literal["open", "proprietary", ""]
# PCI device ids (https://github.com/pciutils/pciids/blob/master/pci.ids, vendor 10de). NVIDIA gives
# them in blocks, one chip after the other: GV100 ends at 1dff, TU102 begins at 1e00.
FIRST_TURING = 0x1E00
# Blackwell and Rubin: GB100, GB102, GB10B, GB202 to GB207, GB205, GR100, GB110.
OPEN_BLOCKS = (
    (0x2900, 0x29FF),
    (0x2B00, 0x2DFF),
    (0x2F00, 0x307F),
    (0x3180, 0x31FF),
)
# GB20B, the GPU of GB10 (DGX Spark). NVIDIA's README supports it by the open modules alone, yet the
# proprietary ones of 580.159.03 start it. Those of 580.173.02 do not, and the log has Xid 169 and
# RmInitAdapter failed: https://github.com/Start9Labs/start-technologies/pull/3693
FIRST_GB20B, LAST_GB20B = 0x2E00, 0x2E7F
# Grace Hopper, in the block of GH100: GH200 in
# https://github.com/NVIDIA/gpu-admin-tools/blob/main/gpu/devid_names.py
GRACE = frozenset({0x2342, 0x2343, 0x2345, 0x2348})
LAST_WITH_OLD_GPUS = 580  # branch
_DEVICE_ID = re.compile(r"0x[0-9a-fA-F]{4}")
OPEN_NAME = "Open Kernel Module"  # in /proc/driver/nvidia/version
# Packages that build or bring the modules, by NVIDIA's, Debian's, Ubuntu's and SUSE's names
OPEN_PACKAGES = re.compile(
    r"kmod-nvidia-open.*|nvidia-(?:kernel-)?open(?:-kernel)?-dkms|nvidia-open-kernel-.*"
    r"|nvidia-(?:dkms|headless|headless-no-dkms)-\d+(?:-server)?-open"
    r"|linux-modules-nvidia-\d+(?:-server)?-open-.*"
    r"|nvidia-open-driver-.*-kmp.*|nvidia-kernel-open-dkms"
)
PROPRIETARY_PACKAGES = re.compile(
    r"kmod-nvidia-latest-dkms|nvidia-kernel-dkms|nvidia-dkms"
    r"|nvidia-(?:dkms|headless|headless-no-dkms)-\d+(?:-server)?"
    r"|linux-modules-nvidia-\d+-(?!(?:server-)?open-).*|nvidia-driver-G\d+-kmp.*"
    r"|nvidia-tesla(?:-\d+)?-kernel-dkms"
)


@dc.dataclass(frozen=True)
class GpuKind:
    """A GPU on PCI by its device id."""

    bus: str
    device: int

    @property
    def before_turing(self) -> bool:
        return self.device < FIRST_TURING

    @property
    def open_only(self) -> bool:
        return self.device in GRACE or any(a <= self.device <= b for a, b in OPEN_BLOCKS)

    @property
    def in_gb10(self) -> bool:
        return FIRST_GB20B <= self.device <= LAST_GB20B


def ask_for_devices(policy: Policy) -> queries.Question:
    """Ask for the device ids of all PCI devices, which a platform is known by as well."""
    return queries.ask_for_glob(
        f"{policy.sys_root.rstrip('/')}/bus/pci/devices/*/device", max=64, keep=WHOLE
    )


def read_gpu_kinds(policy: Policy, obs: Observation) -> tuple[GpuKind, ...]:
    """Return the NVIDIA GPUs on PCI whose device id can be read."""
    pattern = ask_for_devices(policy)["pattern"]
    ids = {f.path.rsplit("/", 2)[1]: gpus.read_proc_text(f) for f in obs.list_glob_files(pattern)}
    buses = gpus.list_pci_gpus(obs, gpus.get_gpu_paths(policy))
    return tuple(
        GpuKind(bus, int(ids[bus], 16)) for bus in buses if _DEVICE_ID.fullmatch(ids.get(bus, ""))
    )


def read_loaded_flavour(policy: Policy, obs: Observation) -> Flavour:
    """Return which modules are loaded; '' if that is not known."""
    text = gpus.read_proc_text(obs.get_file(gpus.get_gpu_paths(policy).proc_version))
    return "" if not text else "open" if OPEN_NAME in text else "proprietary"


def find_installed_flavour(found: DriverSet) -> Flavour:
    """Return which modules the packages bring; '' if they bring both, or none that is known."""
    kinds: set[Flavour] = {
        kind
        for kind, rule in _RULES.items()
        if any(rule.fullmatch(package.name) for package in found.packages)
    }
    return kinds.pop() if len(kinds) == 1 else ""


_RULES: Mapping[Flavour, re.Pattern[str]] = {
    "open": OPEN_PACKAGES,
    "proprietary": PROPRIETARY_PACKAGES,
}


def get_branch(release: str) -> int:
    """Return the branch of a driver's release; 0 if it is not known."""
    return int(release.partition(".")[0]) if release else 0


def name_gpus(kinds: Iterable[GpuKind]) -> str:
    return ", ".join(f"{kind.bus} (10de:{kind.device:04x})" for kind in kinds)
