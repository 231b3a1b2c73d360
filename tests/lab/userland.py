# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's real userland driver as Debian packages it (non-free): 535 in bookworm, 550 in trixie,
two layouts with alternatives.

Installed by apt into a layer over the suite's root, as the lab's engines are: downloaded on first
use and cached.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

from . import fakegpu, roots, trees
from .artefacts import cached, digest, go_tool
from .lab import Lab

SUITES = ("bookworm", "trixie")
PACKAGES = (
    "libcuda1", "libcudadebugger1", "libnvidia-ml1", "nvidia-smi", "libnvidia-cfg1", "libnvcuvid1", "libnvidia-encode1", "libnvidia-fbc1",
    "libnvidia-ptxjitcompiler1", "libnvidia-nvvm4", "libnvidia-allocator1", "libnvidia-opticalflow1", "libnvoptix1", "libnvidia-ngx1",
    "nvidia-opencl-icd", "libegl-nvidia0", "libgles-nvidia1", "libgles-nvidia2", "libglx-nvidia0", "nvidia-egl-icd", "nvidia-vulkan-icd",
    "nvidia-vdpau-driver", "xserver-xorg-video-nvidia", "nvidia-persistenced", "nvidia-cuda-mps", "firmware-nvidia-gsp",
)  # fmt: skip
# What lies beside the driver's files and is of no interest here.
UNUSED = "usr/share/doc usr/share/man usr/share/locale usr/share/icons usr/share/fonts usr/share/mime var/lib/dpkg/info"
SCRIPT = roots.BUILD_LAYER.replace(
    "chroot . apt-get -q update\n",
    "sed -i 's/ main$/ main contrib non-free non-free-firmware/' etc/apt/sources.list\nchroot . apt-get -q update\n",
).replace(
    'cp -a /mnt/upper/. "$out/"\n', f'cd /mnt/upper\nrm -rf {UNUSED}\ncp -a /mnt/upper/. "$out/"\n'
)
# What a host installs by its package manager, where the driver is to move: some of the packages,
# with what they need, and the program that moves packages by itself.
MOVING = "bookworm"
MOVED = ("libnvidia-ml1", "nvidia-smi", "nvidia-persistenced")
DEBS = ("unattended-upgrades", *MOVED)
DOWNLOAD = SCRIPT.partition("chroot . apt-get -q -o Dpkg")[0] + (
    'chroot . apt-get -q install -y --no-install-recommends --download-only "$@"\n'
    'cp var/cache/apt/archives/*.deb "$out/"\ncd /\n'
)


def debs(suite: str) -> Path:
    """Return a directory with these packages as Debian has them, and all that they need."""
    root = roots.base_root(suite)
    key = digest(root.name, repr(DEBS), DOWNLOAD)
    what = f"Debian {suite}: downloading packages of NVIDIA's driver and unattended-upgrades"
    build = functools.partial(_download, root)
    return cached("layers", f"{suite}-driver-debs", key, build, what)


def layers(suite: str) -> list[Path]:
    """Return the read-only directories of a Debian with this driver, uppermost first."""
    root = roots.base_root(suite)
    key = digest(root.name, repr(PACKAGES), SCRIPT)
    what = f"Debian {suite}: downloading and installing NVIDIA's driver without its kernel module"
    return [cached("layers", f"{suite}-driver", key, functools.partial(_build, root), what), root]


@contextlib.contextmanager
def tree(suite: str, gpus: int = 2) -> Iterator[Path]:
    """Yield the root of such a Debian with GPUs, nvidia-ctk, and an NVML that answers.

    The lab's NVML takes the place of the real one, which lacks its kernel module.
    """
    with Lab(
        f"tree-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    ) as lab:  # a lab without hosts, so a killed test's mount is found
        lab.hold()
        here = lab.runtime
        for name in ("upper", "work", "root"):
            (here / name).mkdir()
        lower = ":".join(map(str, layers(suite)))
        options = f"lowerdir={lower},upperdir={here}/upper,workdir={here}/work"
        subprocess.run(
            ["mount", "-t", "overlay", "-o", options, "gpufleet-driver", here / "root"], check=True
        )
        root = here / "root"
        (real,) = (root / "usr/lib/x86_64-linux-gnu/nvidia/current").glob("libnvidia-ml.so.*.*")
        real.write_bytes(fakegpu.nvml_bytes())
        version = real.name.removeprefix("libnvidia-ml.so.")
        trees.hardware(
            root,
            dataclasses.replace(
                fakegpu.inventory("tree", {"gpus": gpus}), version=version, loaded=version
            ),
        )
        shutil.copy2(go_tool("nvidia-toolkit") / "nvidia-ctk", root / "tmp/nvidia-ctk")
        yield root


def _build(root: Path, out: Path) -> None:
    roots.isolated(SCRIPT, str(root), str(out), *PACKAGES)


def _download(root: Path, out: Path) -> None:
    roots.isolated(DOWNLOAD, str(root), str(out), *DEBS)
