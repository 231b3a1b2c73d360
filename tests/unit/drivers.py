# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a driver as distributions lay them out, for observations. By path, each is '' for a
file, or {"real": ...} for a link.
"""

from __future__ import annotations

import posixpath
from typing import Any

UBUNTU, RHEL, DEBIAN = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
)
HOOK = {"/usr/bin/nvidia-cdi-hook": ""}


def library(folder: str, stem: str, version: str, *links: str) -> dict[str, Any]:
    """Return the files of a library such as `libcuda`: its version, and the links beside it
    (`.so.1`, `.so`).
    """
    real = f"{folder}/{stem}.so.{version}"
    return {real: "", **{f"{folder}/{stem}{link}": {"real": real} for link in links}}


def compute(folder: str, version: str) -> dict[str, Any]:
    """Return the files that a container needs to compute."""
    return {
        **library(folder, "libcuda", version, ".so.1", ".so"),
        **library(folder, "libnvidia-ml", version, ".so.1"),
        **library(folder, "libnvidia-ptxjitcompiler", version, ".so.1"),
        "/usr/bin/nvidia-smi": "",
    }


def core(folder: str, version: str) -> dict[str, Any]:
    """Return the files that no capability can do without."""
    more = {"libnvcuvid": ".so.1", "libGLX_nvidia": ".so.0", "libnvidia-ngx": ".so.1"}
    found = compute(folder, version)
    for stem, link in more.items():
        found.update(library(folder, stem, version, link))
    return found


def through(files: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return links in another folder, as alternatives make them."""
    return {
        f"{folder}/{posixpath.basename(p)}": {"real": f["real"] if f else p}
        for p, f in files.items()
        if f and p.endswith(".so.1")
    }
