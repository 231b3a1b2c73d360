# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a host has because of its GPUs and its driver, by their paths in the host."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from . import driver, packaged
from .device_nodes import get_node_mode, nodes
from .driver_libraries import HERE, NVIDIA_SMI, NVML, install_libraries
from .inventories import Inventory
from .kernel_files import list_procfs, list_sysfs, render_proc_devices
from .nvml_answers import nvml_conf
from .packaged import TOP
from .tree_entries import Entry, put

LIBRARIES = "usr/lib/x86_64-linux-gnu"


def tree(inv: Inventory, kernel: str) -> dict[str, Entry]:
    """Return every file of the fake but the compiled libraries, by its path in the host."""
    if inv.driver == "packaged":
        return _packaged(inv, kernel)
    found = dict(list_sysfs(inv))
    found[f"{TOP}/proc/devices"] = Entry(render_proc_devices(inv))
    if inv.installed:
        found.update(list_procfs(inv))
        found.update(_host_files(inv, kernel))
    return found


def _packaged(inv: Inventory, kernel: str) -> dict[str, Entry]:
    """Return what a host without a driver has, and beside it what a loaded module would add, of any
    version.
    """
    of_any = dataclasses.replace(inv, version=packaged.ANY, loaded=packaged.ANY)
    served, bare = (
        tree(dataclasses.replace(of_any, driver=driver), kernel) for driver in ("ok", "none")
    )
    found = dict(bare)
    for path, entry in bare.items():
        found[f"{packaged.BARE}{path.removeprefix(TOP)}"] = entry
    for path, entry in served.items():
        if path.startswith((f"{TOP}/proc/", f"{TOP}/sys/")) and bare.get(path) != entry:
            found[f"{packaged.MODULE}{path.removeprefix(TOP)}"] = entry
    found[packaged.CONF] = served["etc/fake-nvml.conf"]
    found[packaged.NODES] = served[f"{TOP}/start"]
    for path, text, mode in packaged.texts(kernel, "\n".join(MOUNTS)):
        found[path] = Entry(text, mode=mode)
    units = (path for path in served if path.startswith("etc/systemd/"))
    return {**found, **{path: served[path] for path in units}}


# NVIDIA's own tools know no other root for these: nvidia-ctk reads majors and MIG minors there. The
# parameters say there that nothing is to be made in containers: a hook of NVIDIA's mounts such a
# file over the one in the container's own /proc, and that has none here.
SHOWN = {"devices": "devices", "driver": "driver", "driver/nvidia/params": "params-in-proc"}
MOUNT = "[ ! -e {source} ] || mountpoint -q {place} || mount --bind {source} {place}"
MOUNTS = tuple(
    MOUNT.format(source=f"/{TOP}/proc/{real}", place=f"/proc/{name}")
    for name, real in SHOWN.items()
)
# Debian 13 and later rebuild the library cache by a unit of systemd's at the first boot, and two
# ldconfig take each other's new file away.
UNIT = """\
[Unit]
Description=Device nodes and library cache of the lab's GPUs
DefaultDependencies=no
After=local-fs.target ldconfig.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh /opt/fakegpu/start
"""


def _host_files(inv: Inventory, kernel: str) -> Iterator[tuple[str, Entry]]:
    yield "etc/fake-nvml.conf", Entry(nvml_conf(inv))
    yield "usr/bin/nvidia-smi", Entry(NVIDIA_SMI.read_text(), mode=0o755)
    yield from ((path, Entry(text, mode=mode)) for path, text, mode in driver.texts(inv.version))
    yield (
        "usr/bin/nvidia-cuda-mps-control",
        Entry((HERE / "nvidia-cuda-mps-control").read_text(), mode=0o755),
    )
    yield from ((path, Entry(link=target)) for path, target in driver.links(LIBRARIES, inv.version))
    yield f"{LIBRARIES}/{NVML}.so.1", Entry(link=f"{NVML}.so.{inv.version}")
    # What nvidia-cdi-refresh.service looks at to see whether a driver is installed for this kernel.
    yield (
        f"usr/lib/modules/{kernel}/modules.dep",
        Entry("updates/dkms/nvidia.ko:\nupdates/dkms/nvidia-uvm.ko: updates/dkms/nvidia.ko\n"),
    )
    made = [
        f"[ -e {path} ] || mknod -m {get_node_mode(path):o} {path} c {major} {minor}"
        for path, major, minor in nodes(inv)
    ]
    folders = " ".join(
        sorted(
            {path.rpartition("/")[0] for path, _major, _minor in nodes(inv)} | {"/dev/nvidia-caps"}
        )
    )
    yield (
        f"{TOP}/start",
        Entry("\n".join([f"mkdir -p {folders}", *made, *MOUNTS, "/sbin/ldconfig", ""])),
    )
    yield "etc/systemd/system/fakegpu.service", Entry(UNIT)
    yield (
        "etc/systemd/system/sysinit.target.wants/fakegpu.service",
        Entry(link="../fakegpu.service"),
    )


def install(root: Path, inv: Inventory) -> None:
    """Put the fake into a host's root directory."""
    for name, entry in tree(inv, os.uname().release).items():
        put(root / name, entry)
    if inv.installed:
        install_libraries(root / LIBRARIES, inv.version)
