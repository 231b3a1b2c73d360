# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device nodes that a working driver has in /dev: paths, numbers and modes."""

from __future__ import annotations

from collections.abc import Iterator

from .inventories import Gpu, Inventory

NVIDIA_MAJOR, DRM_MAJOR = 195, 226
UVM_MAJOR, CAPS_MAJOR, CHANNEL_MAJOR, SWITCH_MAJOR, LINK_MAJOR = 511, 510, 509, 508, 507


def mig_minor(gpu: int, instance: int, compute: int | None) -> int:
    """Return the minor number of a MIG instance, as in the kernel's static table.

    There 1 and 2 are config and monitor. Then each GPU has 15 instances with 8 compute instances
    each.
    """
    return 3 + (gpu * 15 + instance) * 9 + (0 if compute is None else 1 + compute)


def list_mig_access(inv: Inventory) -> Iterator[tuple[str, int]]:
    """Yield each instance that exists: its name under capabilities, and the minor of its node."""
    for gpu in inv.served:
        for instance, compute, _uuid in gpu.migs:
            yield f"gpu{gpu.minor}/gi{instance}/access", mig_minor(gpu.minor, instance, None)
            yield (
                f"gpu{gpu.minor}/gi{instance}/ci{compute}/access",
                mig_minor(gpu.minor, instance, compute),
            )


def drm_nodes(gpu: Gpu) -> list[tuple[str, int, int]]:
    """Return the DRM nodes of a GPU: path, major, minor."""
    card, render = gpu.drm_numbers or (gpu.minor, 128 + gpu.minor)
    found = [
        (f"/dev/dri/card{card}", DRM_MAJOR, card),
        (f"/dev/dri/renderD{render}", DRM_MAJOR, render),
    ]
    return found if gpu.drm else []


def drm_links(inv: Inventory) -> Iterator[tuple[str, str]]:
    """Yield the links by which udev names the DRM nodes by their place on the bus: path, target."""
    for gpu in inv.served:
        for (path, _major, _minor), kind in zip(drm_nodes(gpu), ("card", "render"), strict=False):
            yield f"/dev/dri/by-path/pci-{gpu.bus}-{kind}", f"../{path.rpartition('/')[2]}"


def _fabric_nodes(inv: Inventory) -> list[tuple[str, int, int]]:
    control = [("/dev/nvidia-nvswitchctl", SWITCH_MAJOR, 255)] if inv.switches else []
    switches = [
        (f"/dev/nvidia-nvswitch{number}", SWITCH_MAJOR, number) for number in range(inv.switches)
    ]
    channels = [
        (f"/dev/nvidia-caps-imex-channels/channel{number}", CHANNEL_MAJOR, number)
        for number in range(inv.channels)
    ]
    return [*control, *switches, *channels]


def nodes(inv: Inventory) -> list[tuple[str, int, int]]:
    """Return the device nodes that a working driver has in /dev: path, major, minor."""
    if not inv.installed:
        return []
    control = [
        ("/dev/nvidiactl", NVIDIA_MAJOR, 255),
        ("/dev/nvidia-modeset", NVIDIA_MAJOR, 254),
        ("/dev/nvidia-uvm", UVM_MAJOR, 0),
        ("/dev/nvidia-uvm-tools", UVM_MAJOR, 1),
    ]
    gpus = [(f"/dev/nvidia{gpu.minor}", NVIDIA_MAJOR, gpu.minor) for gpu in inv.served]
    # the nodes of MIG's configuration and monitor
    capable = (1, 2) if any(gpu.mig != "-" for gpu in inv.served) else ()
    caps = [
        (f"/dev/nvidia-caps/nvidia-cap{minor}", CAPS_MAJOR, minor)
        for minor in (*capable, *(access[1] for access in list_mig_access(inv)))
    ]
    return [
        *control,
        *gpus,
        *dict.fromkeys(caps),
        *(node for gpu in inv.served for node in drm_nodes(gpu)),
        *_fabric_nodes(inv),
    ]


def get_node_mode(path: str) -> int:
    """Return the mode that the driver gives a node: of capabilities, what their file in /proc says."""
    folder, _slash, name = path.rpartition("/")
    if folder != "/dev/nvidia-caps":
        return 0o666
    return 0o400 if name == "nvidia-cap1" else 0o444
