# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees of drivers in layouts that cannot be had here, built from the documented lists of files of
distributions and branches.

These are not real drivers: names, links and SONAMEs are, contents are not. NVIDIA's own tools take
them for drivers all the same, since the lab's NVML answers. The real ones (Debian's) are in
userland.py.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .artefacts import cached, digest, run
from .fakegpu import device_nodes, driver_libraries, host_tree, inventories, packaged, tree_entries

Gpus = int | list[dict[str, object]]  # how many, or what is special about each, as in a fleet file
UBUNTU, RHEL, ARM = "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib/aarch64-linux-gnu"

# Library -> (suffix of its SONAME, programmers' link, first branch, first branch without it);
# README of each branch's .run file.
LIBRARIES: dict[str, tuple[str, bool, int, int]] = {
    "libcuda": ("1", True, 0, 999),
    "libcudadebugger": ("1", False, 515, 999),
    "libnvidia-cfg": ("1", True, 0, 999),
    "libnvidia-opencl": ("1", False, 0, 999),
    "libnvidia-compiler": ("", False, 0, 520),
    "libnvidia-ptxjitcompiler": ("1", True, 0, 999),
    "libnvidia-nvvm": ("4", True, 495, 999),
    "libnvidia-gpucomp": ("", False, 545, 999),
    "libnvidia-tileiras": ("", False, 580, 999),
    "libnvidia-pkcs11": ("", False, 535, 580),
    "libnvidia-pkcs11-openssl3": ("", False, 545, 999),
    "libnvidia-allocator": ("1", True, 0, 999),
    "libnvcuvid": ("1", True, 0, 999),
    "libnvidia-encode": ("1", True, 0, 999),
    "libnvidia-opticalflow": ("1", True, 0, 999),
    "vdpau/libvdpau_nvidia": ("1", False, 0, 999),
    "libnvidia-eglcore": ("", False, 0, 999),
    "libnvidia-glcore": ("", False, 0, 999),
    "libnvidia-glsi": ("", False, 0, 999),
    "libnvidia-tls": ("", False, 0, 999),
    "libGLX_nvidia": ("0", False, 0, 999),
    "libEGL_nvidia": ("0", False, 0, 999),
    "libGLESv1_CM_nvidia": ("1", False, 0, 999),
    "libGLESv2_nvidia": ("2", False, 0, 999),
    "libnvidia-glvkspirv": ("", False, 0, 999),
    "libnvidia-cbl": ("", False, 0, 495),
    "libnvidia-rtcore": ("", False, 0, 999),
    "libnvoptix": ("1", False, 0, 999),
    "libnvidia-fbc": ("1", True, 0, 999),
    "libnvidia-ifr": ("1", True, 0, 495),
    "libnvidia-ngx": ("1", False, 0, 999),
    "libnvidia-vksc-core": ("1", False, 550, 999),
    "libnvidia-vulkan-producer": ("", True, 0, 545),
    "libnvidia-wayland-client": ("", False, 525, 999),
    "libnvidia-gtk2": ("", False, 0, 580),
    "libnvidia-gtk3": ("", False, 0, 999),
    "libnvidia-sandboxutils": ("1", True, 560, 999),
    "libnvidia-present": ("", False, 575, 999),
}
# The same with the version of its own.
PLATFORMS = {
    "libnvidia-egl-gbm": ("1.1.1", 495, 999),
    "libnvidia-egl-wayland": ("1.1.13", 0, 999),
    "libnvidia-egl-wayland2": ("1.0.0", 590, 999),
    "libnvidia-egl-xcb": ("1.0.0", 570, 999),
    "libnvidia-egl-xlib": ("1.0.0", 570, 999),
}
CONFIGS = (
    "etc/OpenCL/vendors/nvidia.icd",
    "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "usr/share/nvidia/nvoptix.bin",
    "usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json",
    "usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
)
PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-xconfig",
)


@dataclass(frozen=True)
class Layout:
    """The places at which one packager puts the files of one branch."""

    name: str
    version: str
    folder: str = RHEL
    # with drivers/ and extensions/, or flat where it ends in nvidia/xorg
    xorg: str = "usr/lib64/xorg/modules"
    configs: tuple[str, ...] = CONFIGS
    vulkan: tuple[str, ...] = (
        "usr/share/vulkan/icd.d/nvidia_icd.json",
        "usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
    )
    programs: str = "usr/bin"
    firmware: str = "usr/lib/firmware"
    links: tuple[tuple[str, str], ...] = ()  # folders that are links: (path, target)
    cache: bool = False  # only the loader's cache tells where the libraries are
    compat32: str = ""
    only: tuple[str, ...] = ()  # libraries, where not all are installed
    server: str = "libglxserver_nvidia.so.{version}"
    more: tuple[
        tuple[str, str], ...
    ] = ()  # further libraries and their SONAMEs, whose names carry no version of the driver

    @property
    def branch(self) -> int:
        return int(self.version.split(".")[0])


MERGED = (("lib", "usr/lib"), ("lib64", "usr/lib64"))
ARM_ICD = ("usr/share/vulkan/icd.d/nvidia_icd.aarch64.json",)
ETC_ICD = ("etc/vulkan/icd.d/nvidia_icd.x86_64.json",)
ONE_FOLDER = (("lib", "usr/lib"), ("lib64", "usr/lib"), ("usr/lib64", "lib"))
# What a host without a screen has of NVIDIA's packages for Red Hat's family: nvidia-driver-cuda,
# nvidia-driver-cuda-libs, libnvidia-ml, libnvidia-cfg and what these need
# (NVIDIA/yum-packaging-nvidia-driver, nvidia-driver.spec at d06f50a; negativo17's for Fedora at
# f769f88).
COMPUTE = (
    "libcuda", "libcudadebugger", "libnvcuvid", "libnvidia-cfg", "libnvidia-encode", "libnvidia-gpucomp", "libnvidia-nvvm",
    "libnvidia-opencl", "libnvidia-opticalflow", "libnvidia-pkcs11-openssl3", "libnvidia-ptxjitcompiler", "libnvidia-sandboxutils",
    "libnvidia-tileiras",
)  # fmt: skip
NVVM70 = (("libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4"),)
X86_ICD = (
    "usr/share/vulkan/icd.d/nvidia_icd.x86_64.json",
    "usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
)
LAYOUTS = (
    Layout(
        "run-470-rhel",
        "470.256.02",
        vulkan=(
            "etc/vulkan/icd.d/nvidia_icd.json",
            "etc/vulkan/implicit_layer.d/nvidia_layers.json",
        ),
    ),
    Layout("run-515-debian", "515.105.01", UBUNTU, "usr/lib/xorg/modules"),
    Layout("ubuntu-535", "535.274.02", UBUNTU, f"{UBUNTU}/nvidia/xorg", links=MERGED),
    Layout(
        "ubuntu-570",
        "570.195.03",
        UBUNTU,
        f"{UBUNTU}/nvidia/xorg",
        links=MERGED,
        compat32="usr/lib/i386-linux-gnu",
    ),
    Layout(
        "ubuntu-590-arm64", "590.44.01", ARM, f"{ARM}/nvidia/xorg", vulkan=ARM_ICD, links=MERGED
    ),
    Layout("rhel-550", "550.163.01", vulkan=X86_ICD, links=MERGED),
    Layout("rhel-580", "580.95.05", vulkan=X86_ICD, links=MERGED, compat32="usr/lib"),
    Layout(
        "rhel-9-575", "575.57.08", vulkan=X86_ICD, links=MERGED, server="libglxserver_nvidia.so"
    ),
    Layout(
        "rhel-10-580-compute",
        "580.95.05",
        xorg="",
        configs=CONFIGS[:1],
        vulkan=(),
        links=MERGED,
        only=COMPUTE,
        more=NVVM70,
    ),
    Layout(
        "sles-15-575",
        "575.57.08",
        xorg="usr/lib64/xorg/modules",
        vulkan=ETC_ICD,
        links=MERGED,
        more=NVVM70,
    ),
    Layout(
        "suse-550",
        "550.163.01",
        xorg="usr/lib64/xorg/modules/updates",
        vulkan=ETC_ICD,
        links=MERGED,
    ),
    Layout("arch-590", "590.44.01", "usr/lib", "usr/lib/xorg/modules", links=ONE_FOLDER),
    Layout(
        "tree-535",
        "535.274.02",
        "lib64",
        "",
        (),
        ("vulkan/icd.d/nvidia_icd.json",),
        "bin",
        "lib/firmware",
    ),
    Layout("prefix-550", "550.163.01", "opt/nvidia/lib64", "", links=MERGED, cache=True),
)


def build(
    root: Path, layout: Layout, gpus: Gpus = 2, *, switches: int = 0, channels: int = 0
) -> None:
    """Build the tree of a host with this driver and so many GPUs, NVSwitches and IMEX channels."""
    inv = inventories.inventory("tree", {"gpus": gpus, "switches": switches, "channels": channels})
    build_for(root, dataclasses.replace(inv, version=layout.version, loaded=layout.version), layout)


def build_for(root: Path, inv: inventories.Inventory, layout: Layout) -> None:
    """Build the tree of a host with these GPUs and the files of this driver."""
    for path, target in layout.links:
        (root / target if path.count("/") == 0 else root / path).parent.mkdir(
            parents=True, exist_ok=True
        )
        if path.count("/") == 0:
            (root / target).mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    for path, content in files(layout):
        write(root / path, content)
    for path, target in links(layout):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    hardware(root, inv)
    if layout.cache:
        write(root / "etc/ld.so.conf", f"/{layout.folder}\n".encode())
        subprocess.run(["/sbin/ldconfig", "-r", str(root)], check=True)


def hardware(root: Path, inv: inventories.Inventory) -> None:
    """Put GPUs, their device nodes, and the answers of NVML about them into a tree."""
    for name, entry in host_tree.tree(inv, os.uname().release).items():
        if name.startswith(packaged.TOP) or name == "etc/fake-nvml.conf":
            tree_entries.put(root / name, entry)
    for path, major, minor in device_nodes.nodes(inv):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(root / path[1:], stat.S_IFCHR, os.makedev(major, minor))
        (root / path[1:]).chmod(device_nodes.get_node_mode(path))
    for path, target in device_nodes.drm_links(inv):
        tree_entries.put(root / path[1:], tree_entries.Entry(link=target))


def list_libraries_of_branch(layout: Layout) -> Iterator[tuple[str, str, str, bool]]:
    """Yield each library of the branch: name, version, SONAME, and whether it has a programmers'
    link.
    """
    for name, (suffix, programmers, first, last) in LIBRARIES.items():
        base = name.rpartition("/")[2]
        if first <= layout.branch < last and name in (layout.only or LIBRARIES):
            yield (
                name,
                layout.version,
                f"{base}.so.{suffix}" if suffix else f"{base}.so.{layout.version}",
                programmers,
            )
    for name, (version, first, last) in PLATFORMS.items():
        if first <= layout.branch < last and not layout.only:
            yield name, version, f"{name}.so.1", False


def files(layout: Layout) -> Iterator[tuple[str, bytes]]:
    for folder in (layout.folder, *([layout.compat32] if layout.compat32 else [])):
        for name, version, soname, _link in list_libraries_of_branch(layout):
            yield f"{folder}/{name}.so.{version}", stub(soname)
    yield f"{layout.folder}/libnvidia-ml.so.{layout.version}", driver_libraries.nvml_bytes()
    yield from ((f"{layout.folder}/{name}", stub(soname)) for name, soname in layout.more)
    modules = (
        [("nvidia_drv.so", "drivers"), (layout.server.format(version=layout.version), "extensions")]
        if layout.xorg
        else []
    )
    for name, place in modules:
        yield (
            f"{layout.xorg}/{name}"
            if layout.xorg.endswith("nvidia/xorg")
            else f"{layout.xorg}/{place}/{name}",
            b"module",
        )
    yield from ((path, b"{}\n") for path in (*layout.configs, *layout.vulkan))
    yield from ((f"{layout.programs}/{name}", b"#!/bin/sh\n") for name in PROGRAMS)
    if layout.branch >= 510:
        yield from (
            (f"{layout.firmware}/nvidia/{layout.version}/{name}", b"")
            for name in ("gsp_ga10x.bin", "gsp_tu10x.bin")
        )


def links(layout: Layout) -> Iterator[tuple[str, str]]:
    for folder in (layout.folder, *([layout.compat32] if layout.compat32 else [])):
        for name, version, soname, programmers in list_libraries_of_branch(layout):
            home, _slash, base = f"{folder}/{name}".rpartition("/")
            if soname != f"{base}.so.{version}":
                yield f"{home}/{soname}", f"{base}.so.{version}"
            if programmers:
                yield f"{home}/{base}.so", soname
    yield f"{layout.folder}/libnvidia-ml.so.1", f"libnvidia-ml.so.{layout.version}"
    if not layout.only:
        yield f"{layout.folder}/libGLX_indirect.so.0", f"libGLX_nvidia.so.{layout.version}"
        yield f"{layout.folder}/gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if content.startswith(b"#!") else 0o644)


def library(path: Path, stem: str) -> None:
    """Write a library and the link by which it is loaded, as ldconfig makes it.

    stem: its name without a suffix, as LIBRARIES has it.
    """
    base = stem.rpartition("/")[2]
    suffix = path.name.removeprefix(f"{base}.so").removeprefix(".")
    known = LIBRARIES.get(stem)
    short = known[0] if known else "1" if stem in PLATFORMS or base == "libnvidia-ml" else suffix
    soname = f"{base}.so.{short or suffix}".rstrip(".")
    write(path, driver_libraries.nvml_bytes() if base == "libnvidia-ml" else stub(soname))
    if soname != path.name:
        (path.parent / soname).symlink_to(path.name)


PLACE = "x" * 60


def stub(soname: str) -> bytes:
    """Return a library that is empty but for its SONAME."""
    return template().replace(PLACE.encode(), soname.encode().ljust(len(PLACE), b"\0"))


@functools.cache
def template() -> bytes:
    def compile_it(out: Path) -> None:
        run(
            [
                "gcc",
                "-shared",
                "-nostdlib",
                "-s",
                f"-Wl,-soname,{PLACE}",
                "-o",
                str(out / "stub"),
                "-x",
                "c",
                "/dev/null",
            ]
        )

    return (cached("fakegpu", "stub", digest(PLACE), compile_it) / "stub").read_bytes()
