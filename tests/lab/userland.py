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
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from . import roots, trees
from .artefacts import cached, digest, go_tool, run
from .fakegpu import driver_libraries, inventories
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

# Two branches of one driver, as a host has them that goes from Debian 12 to 13: the parts that are
# one release, one that is none, and the program that moves packages by itself.
BRANCHES = ("535", "550")
PARTS = (
    "libcuda1", "libnvidia-cfg1", "libnvidia-ml1", "libnvidia-pkcs11-openssl3", "libnvidia-ptxjitcompiler1", "nvidia-alternative",
    "nvidia-legacy-check", "nvidia-smi",
)  # fmt: skip
PERSISTENCED, MOVER = "nvidia-persistenced", "unattended-upgrades"
MODULE = "nvidia-kernel-dkms"
PROGRAM_SIZE = 100_000  # bytes: other files of that name are texts
OLDER_SUITE = (
    "sed 's/ trixie / bookworm /' etc/apt/sources.list >etc/apt/sources.list.d/older.list\n"
)
DOWNLOAD_BRANCHES = (
    SCRIPT.partition("chroot . apt-get -q -o Dpkg")[0].replace(
        "chroot . apt-get -q update\n", f"{OLDER_SUITE}chroot . apt-get -q update\n"
    )
    + """
parts=$1 beside=$2; shift 2
for branch in "$@"; do
    wanted=$(for part in $parts; do echo "$part=$branch.*"; done)
    chroot . apt-get -q install -y --no-install-recommends --download-only $wanted $beside
    mkdir "$out/$branch"
    for deb in var/cache/apt/archives/*.deb; do
        [ -e "$out/$1/${deb##*/}" ] || mv "$deb" "$out/$branch/"
    done
done
cd /
"""
)
# As Debian's own scripts call DKMS (dh_dkms): without the kernel's headers nothing is built, and
# the package is installed all the same.
MODULE_CONTROL = """\
Package: {name}
Version: {version}
Architecture: amd64
Maintainer: Debian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>
Provides: nvidia-kernel-{release}
Description: NVIDIA binary kernel module DKMS source (imitated)
"""
MODULE_BUILT = """\
#!/bin/sh
dkms install -m nvidia-current -v {release} ||
    echo "Module build for kernel $(uname -r) was skipped since the kernel headers for this kernel do not seem to be installed."
"""
MODULE_REMOVED = """\
#!/bin/sh
dkms remove -m nvidia-current -v {release}
"""


def branches() -> Path:
    """Return a directory with a directory of packages for each branch.

    They are Debian's own of both branches, with two changes: the library of NVML and nvidia-smi are
    the lab's, since the real ones need their kernel module, and the package of the module is
    imitated (fakegpu/packaged.py).
    """
    root = roots.base_root("trixie")
    recipe = (DOWNLOAD_BRANCHES, MODULE_CONTROL, MODULE_BUILT, MODULE_REMOVED)
    key = digest(
        root.name,
        repr((PARTS, PERSISTENCED, MOVER, BRANCHES, recipe)),
        *driver_libraries.list_own_programs(),
    )
    what = "Debian: downloading packages of two branches of NVIDIA's driver"
    return cached("layers", "driver-branches", key, functools.partial(_bring_branches, root), what)


def find_version(branch: str) -> str:
    """Return the version of a branch's packages, as Debian writes it."""
    (found,) = (branches() / branch).glob(f"{MODULE}_*.deb")
    return found.name.split("_")[1]


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
        real.write_bytes(driver_libraries.nvml_bytes())
        version = real.name.removeprefix("libnvidia-ml.so.")
        trees.hardware(
            root,
            dataclasses.replace(
                inventories.inventory("tree", {"gpus": gpus}), version=version, loaded=version
            ),
        )
        shutil.copy2(go_tool("nvidia-toolkit") / "nvidia-ctk", root / "tmp/nvidia-ctk")
        yield root


def _build(root: Path, out: Path) -> None:
    roots.isolated(SCRIPT, str(root), str(out), *PACKAGES)


def _download(root: Path, out: Path) -> None:
    roots.isolated(DOWNLOAD, str(root), str(out), *DEBS)


def _bring_branches(root: Path, out: Path) -> None:
    beside = f"{PERSISTENCED}={BRANCHES[0]}.* {MOVER}"
    given = (str(root), str(out), " ".join(PARTS), beside, *BRANCHES)
    roots.isolated(DOWNLOAD_BRANCHES, *given)
    for branch in BRANCHES:
        (library,) = (out / branch).glob("libnvidia-ml1_*.deb")
        version = library.name.split("_")[1]
        release = version.partition("-")[0]
        with tempfile.TemporaryDirectory() as place:
            driver_libraries.compile_nvml(Path(place), release)
            nvml = Path(place, "libnvidia-ml.so.1").read_bytes()
        _repack(library, f"libnvidia-ml.so.{release}", nvml)
        (program,) = (out / branch).glob("nvidia-smi_*.deb")
        _repack(program, "nvidia-smi", driver_libraries.NVIDIA_SMI.read_bytes())
        _imitate_module(out / branch, version, release)


def _repack(deb: Path, name: str, content: bytes) -> None:
    """Put another content into the one program or library of this name."""
    with tempfile.TemporaryDirectory() as place:
        run(["dpkg-deb", "--raw-extract", str(deb), place])
        (found,) = (
            path
            for path in Path(place).rglob(name)
            if path.is_file() and not path.is_symlink() and path.stat().st_size > PROGRAM_SIZE
        )
        found.write_bytes(content)
        Path(place, "DEBIAN/md5sums").unlink()
        _build_deb(Path(place), deb)


def _imitate_module(out: Path, version: str, release: str) -> None:
    values = {"name": MODULE, "version": version, "release": release}
    with tempfile.TemporaryDirectory() as place:
        home = Path(place, "DEBIAN")
        home.mkdir()
        scripts = {"control": MODULE_CONTROL, "postinst": MODULE_BUILT, "prerm": MODULE_REMOVED}
        for name, text in scripts.items():
            (home / name).write_text(text.format(**values))
            (home / name).chmod(0o644 if name == "control" else 0o755)
        _build_deb(Path(place), out / f"{MODULE}_{version}_amd64.deb")


def _build_deb(tree: Path, deb: Path) -> None:
    tree.chmod(0o755)
    run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(tree), str(deb)])
