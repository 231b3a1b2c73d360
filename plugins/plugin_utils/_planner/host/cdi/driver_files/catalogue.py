# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of the files that NVIDIA's driver brings to a host, with their places.

The driver capability of each library is the one that the legacy injection uses
(libnvidia-container, src/nvc_info.c), completed from the categories of the driver's own file list.
"""

from __future__ import annotations

import dataclasses as dc

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
)

FEATURES = ("compute", "utility", "video", "graphics", "display", "ngx")

# Folders of 64-bit libraries, in the order in which they are believed. Folders that lead to the
# same place count once.
CPUS = ("x86_64", "aarch64")
FOLDERS = (
    "/usr/lib64",
    *(f"/usr/lib/{cpu}-linux-gnu" for cpu in CPUS),
    # Debian's own packages: current, tesla, tesla-470
    *(f"/usr/lib/{cpu}-linux-gnu/nvidia/*" for cpu in CPUS),
    "/usr/lib64/nvidia",  # older RPM Fusion
    "/lib64",  # driver trees that are not a whole system
    *(f"/lib/{cpu}-linux-gnu" for cpu in CPUS),
    *(f"/lib/{cpu}-linux-gnu/nvidia/*" for cpu in CPUS),
    "/run/opengl-driver/lib",  # NixOS
)
FOLDERS_32 = (
    "/usr/lib/i386-linux-gnu",
    "/usr/lib/i386-linux-gnu/nvidia/*",
    "/usr/lib32",
    "/usr/lib",
)
# Every library of the driver is called so; names of the CUDA toolkit and others that match carry
# another version.
LIBRARY_NAMES = ("libcuda*.so*", "libnv*.so*", "lib*_nvidia.so*")
VDPAU = "vdpau"

# Modules of the X server, by the folders that servers and distributions look in.
XORG_IN_LIBRARIES = ("nvidia/xorg", "xorg/modules/drivers", "xorg/modules/extensions", "xorg/modules/updates/drivers",
                     "xorg/modules/updates/extensions")  # fmt: skip
XORG_ROOTS = ("/usr/lib/xorg", "/usr/lib64/xorg", "/usr/X11R6/lib", "/usr/X11R6/lib64")
XORG_FOLDERS = (
    "modules/drivers",
    "modules/extensions",
    "modules/updates/drivers",
    "modules/updates/extensions",
)
XORG_DRIVER, XORG_SERVER = "nvidia_drv.so", "libglxserver_nvidia.so"

# Folders of programs beside the usual ones: Gentoo's package has them in the last one, which is on
# PATH there, so nvidia-ctk finds them.
PROGRAM_FOLDERS = (*STANDARD_PATH, "/opt/bin")
# Programs by capability; the order is upstream's.
BINARIES = {
    "nvidia-smi": "utility",
    "nvidia-debugdump": "utility",
    "nvidia-persistenced": "utility",
    "nvidia-cuda-mps-control": "compute",
    "nvidia-cuda-mps-server": "compute",
    "nvidia-imex": "compute",
    "nvidia-imex-ctl": "compute",
    "nvidia-xconfig": "display",
}

FIRMWARE_ROOTS = (
    "/lib/firmware/updates/*",
    "/lib/firmware/updates",
    "/lib/firmware/*",
    "/lib/firmware",
)
FIRMWARE_NAMES = ("gsp*.bin", "ucodes*.bin")
# Below /sys: the folder that the kernel's command line or a program has put before these, and the
# most bytes of its name (drivers/base/firmware_loader/main.c). nvidia-ctk reads it as well
# (pkg/nvcdi/driver-nvml.go).
FIRMWARE_FOLDER = "module/firmware_class/parameters/path"
LONGEST_FOLDER = 256

# Configuration that loaders of vendor libraries read. They look in these folders of the container;
# the folder on the host does not matter.
CONFIG_ROOTS = ("/etc", "/usr/local/share", "/usr/share")
CONFIGS = {
    "glvnd/egl_vendor.d/10_nvidia.json": ("/usr/share", "graphics"),
    "egl/egl_external_platform.d/15_nvidia_gbm.json": ("/usr/share", "graphics"),
    "egl/egl_external_platform.d/10_nvidia_wayland.json": ("/usr/share", "graphics"),
    "egl/egl_external_platform.d/09_nvidia_wayland2.json": ("/usr/share", "graphics"),
    "egl/egl_external_platform.d/20_nvidia_xcb.json": ("/usr/share", "graphics"),
    "egl/egl_external_platform.d/20_nvidia_xlib.json": ("/usr/share", "graphics"),
    "nvidia/nvoptix.bin": ("/usr/share", "graphics"),
    "X11/xorg.conf.d/10-nvidia.conf": ("/usr/share", "display"),
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf": ("/usr/share", "display"),
    "OpenCL/vendors/nvidia.icd": ("/etc", "compute"),
    "vulkan/icd.d/nvidia_icd.json": ("/etc", "graphics"),
    "vulkan/icd.d/nvidia_layers.json": ("/etc", "graphics"),
    "vulkan/implicit_layer.d/nvidia_layers.json": ("/etc", "graphics"),
    "vulkan/icd.d/nvidia_icd.x86_64.json": ("/etc", "graphics"),
    "vulkan/icd.d/nvidia_icd.aarch64.json": ("/etc", "graphics"),
}

# Sockets of daemons. One that is not there when a container starts keeps it from starting, so they
# are mounted on request only.
SOCKETS = ("/nvidia-persistenced/socket", "/nvidia-fabricmanager/socket")
SOCKET_ROOTS = ("/run", "/var/run")
MPS = "/tmp/nvidia-mps"  # noqa: S108  (where nvidia-cuda-mps-control puts it)


@dc.dataclass(frozen=True)
class Known:
    """A library of the driver: what it is for, and the name that programs load it by.

    soname: '' if that name is its file name.
    """

    features: frozenset[str]
    soname: str = ""
    core: bool = False  # without it the capability does not work at all, so its absence is reported


def _describe_library(
    features: str, suffix: str = "", *, core: bool = False
) -> tuple[frozenset[str], str, bool]:
    return frozenset(features.split()), suffix, core


_LIBRARIES = {
    "libcuda": _describe_library("compute", "1", core=True),
    "libcudadebugger": _describe_library("compute", "1"),
    "libnvidia-ml": _describe_library("utility", "1", core=True),
    "libnvidia-cfg": _describe_library("utility", "1"),
    "libnvidia-nscq": _describe_library("utility", "2"),
    "libnvsdm": _describe_library("utility", "1"),
    "libnvidia-opencl": _describe_library("compute", "1"),
    "libnvidia-ptxjitcompiler": _describe_library("compute", "1", core=True),
    "libnvidia-nvvm": _describe_library("compute", "4"),
    "libnvidia-nvvm70": _describe_library("compute", "4"),
    "libnvidia-gpucomp": _describe_library("compute graphics"),
    "libnvidia-tileiras": _describe_library("compute"),
    "libnvidia-compiler": _describe_library("compute"),
    "libnvidia-compiler-next": _describe_library("compute"),
    "libnvidia-fatbinaryloader": _describe_library("compute"),
    "libnvidia-pkcs11": _describe_library("compute"),
    "libnvidia-pkcs11-openssl3": _describe_library("compute"),
    "libnvidia-allocator": _describe_library("compute graphics", "1"),
    "libnvcuvid": _describe_library("video", "1", core=True),
    "libnvidia-encode": _describe_library("video", "1"),
    "libnvidia-opticalflow": _describe_library("video graphics", "1"),
    "libvdpau_nvidia": _describe_library("video", "1"),
    "libnvidia-eglcore": _describe_library("graphics"),
    "libnvidia-glcore": _describe_library("graphics display"),
    "libnvidia-glsi": _describe_library("graphics"),
    "libnvidia-tls": _describe_library("graphics display"),
    "libGLX_nvidia": _describe_library("graphics", "0", core=True),
    "libEGL_nvidia": _describe_library("graphics", "0"),
    "libGLESv1_CM_nvidia": _describe_library("graphics", "1"),
    "libGLESv2_nvidia": _describe_library("graphics", "2"),
    "libnvidia-glvkspirv": _describe_library("graphics"),
    "libnvidia-cbl": _describe_library("graphics"),
    "libnvidia-rtcore": _describe_library("graphics"),
    "libnvoptix": _describe_library("graphics", "1"),
    "libnvidia-fbc": _describe_library("graphics display", "1"),
    "libnvidia-ifr": _describe_library("graphics display", "1"),
    "libnvidia-ngx": _describe_library("ngx", "1", core=True),
    "libnvidia-vksc-core": _describe_library("graphics", "1"),
    "libnvidia-vulkan-producer": _describe_library("graphics"),
    "libnvidia-present": _describe_library("graphics display"),
    "libnvidia-wayland-client": _describe_library("graphics display"),
    "libnvidia-gtk2": _describe_library("display"),
    "libnvidia-gtk3": _describe_library("display"),
    "libnvidia-sandboxutils": _describe_library("utility", "1"),
    "libnvidia-egl-gbm": _describe_library("graphics", "1"),
    "libnvidia-egl-wayland": _describe_library("graphics", "1"),
    "libnvidia-egl-wayland2": _describe_library("graphics", "1"),
    "libnvidia-egl-xcb": _describe_library("graphics", "1"),
    "libnvidia-egl-xlib": _describe_library("graphics", "1"),
    "libglxserver_nvidia": _describe_library("display"),
    "nvidia_drv": _describe_library("display"),
}
LIBRARIES = {
    stem: Known(features, f"{stem}.so.{suffix}" if suffix else "", core)
    for stem, (features, suffix, core) in _LIBRARIES.items()
}
# Libraries that carry a version of their own instead of the driver's.
OWN_VERSION = (
    "libnvidia-egl-gbm",
    "libnvidia-egl-wayland",
    "libnvidia-egl-wayland2",
    "libnvidia-egl-xcb",
    "libnvidia-egl-xlib",
)
NVVM70 = "libnvidia-nvvm70"
