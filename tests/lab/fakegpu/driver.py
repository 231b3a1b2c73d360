# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a driver besides NVML, as Ubuntu's packages of branch 550 lay them out: names and
links are real, contents are not.

Each library is an empty one with the SONAME of the real one, so ldconfig and programs that read ELF
files take it for what it is.
"""

from __future__ import annotations

from collections.abc import Iterator

# Name -> suffix of the SONAME, '' where that is the file name, and whether programmers' link
# without any suffix is there as well.
LIBRARIES: dict[str, tuple[str, bool]] = {
    "libcuda": ("1", True),
    "libcudadebugger": ("1", False),
    "libnvcuvid": ("1", True),
    "libnvidia-allocator": ("1", True),
    "libnvidia-cfg": ("1", True),
    "libnvidia-eglcore": ("", False),
    "libnvidia-encode": ("1", True),
    "libnvidia-fbc": ("1", True),
    "libnvidia-glcore": ("", False),
    "libnvidia-glsi": ("", False),
    "libnvidia-glvkspirv": ("", False),
    "libnvidia-gpucomp": ("", False),
    "libnvidia-ngx": ("1", False),
    "libnvidia-nvvm": ("4", True),
    "libnvidia-opencl": ("1", False),
    "libnvidia-opticalflow": ("1", True),
    "libnvidia-pkcs11": ("", False),
    "libnvidia-pkcs11-openssl3": ("", False),
    "libnvidia-ptxjitcompiler": ("1", True),
    "libnvidia-rtcore": ("", False),
    "libnvidia-tls": ("", False),
    "libnvoptix": ("1", False),
    "libEGL_nvidia": ("0", False),
    "libGLESv1_CM_nvidia": ("1", False),
    "libGLESv2_nvidia": ("2", False),
    "libGLX_nvidia": ("0", False),
    "vdpau/libvdpau_nvidia": ("1", False),
}
# Libraries of EGL's platforms, which have versions of their own.
PLATFORMS = {"libnvidia-egl-gbm": ("1", "1.1.1"), "libnvidia-egl-wayland": ("1", "1.1.13")}
PROGRAMS = (
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-xconfig",
)
XORG = "usr/lib/x86_64-linux-gnu/nvidia/xorg"
TEXTS = {
    "etc/OpenCL/vendors/nvidia.icd": "libnvidia-opencl.so.1\n",
    "usr/share/glvnd/egl_vendor.d/10_nvidia.json": '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0"}}\n',
    "usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json": '{"ICD": {"library_path": "libnvidia-egl-gbm.so.1"}}\n',
    "usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json": '{"ICD": {"library_path": "libnvidia-egl-wayland.so.1"}}\n',
    "usr/share/vulkan/icd.d/nvidia_icd.json": '{"ICD": {"library_path": "libGLX_nvidia.so.0", "api_version": "1.3.277"}}\n',
    "usr/share/vulkan/implicit_layer.d/nvidia_layers.json": '{"file_format_version": "1.0.0", "layers": []}\n',
    "usr/share/nvidia/nvoptix.bin": "data\n",
    "usr/share/X11/xorg.conf.d/nvidia-drm-outputclass.conf": 'Section "OutputClass"\nEndSection\n',
}


def texts(version: str) -> Iterator[tuple[str, str, int]]:
    """Yield path, content and mode of every file that is not a library."""
    yield from ((path, text, 0o644) for path, text in TEXTS.items())
    yield from ((f"usr/bin/{name}", "#!/bin/sh\nexit 0\n", 0o755) for name in PROGRAMS)
    yield from (
        (f"usr/lib/firmware/nvidia/{version}/{name}", "firmware\n", 0o644)
        for name in ("gsp_ga10x.bin", "gsp_tu10x.bin")
    )
    yield f"{XORG}/nvidia_drv.so", "module\n", 0o644
    yield f"{XORG}/libglxserver_nvidia.so.{version}", "module\n", 0o644


def links(folder: str, version: str) -> Iterator[tuple[str, str]]:
    """Yield path and target of every symbolic link."""
    for name, (suffix, programmers) in LIBRARIES.items():
        home, _slash, base = f"{folder}/{name}".rpartition("/")
        soname = f"{base}.so.{suffix}" if suffix else f"{base}.so.{version}"
        if suffix:
            yield f"{home}/{soname}", f"{base}.so.{version}"
        if programmers:
            yield f"{home}/{base}.so", soname
    for name, (suffix, own) in PLATFORMS.items():
        yield f"{folder}/{name}.so.{suffix}", f"{name}.so.{own}"
    yield f"{folder}/libGLX_indirect.so.0", f"libGLX_nvidia.so.{version}"
    yield f"{folder}/gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"
    yield f"{XORG}/libglxserver_nvidia.so", f"libglxserver_nvidia.so.{version}"
