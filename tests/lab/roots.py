# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Root file systems: one Debian root per suite, and on top of it one layer of packages per set of
packages.

Both are plain directories, kept under a hash of what they were made from. They are made on a tmpfs
that only the building process sees, since dpkg's syncs on a disk cost more than the download (a
minute against half of one), and because such a tmpfs is gone when the build is stopped.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path

from .artefacts import LabError, cached, digest, go_tool, run
from .kinds import KINDS, Kind

BASE_PACKAGES = (
    "systemd-sysv", "dbus", "openssh-server", "sudo", "python3", "python3-apt", "iproute2", "procps", "kmod", "iptables", "nftables",
    "ca-certificates", "gpg", "gpgv", "libcap2", "libseccomp2",
)  # fmt: skip
# Packages that single tests put on a root, beside what the kinds of host have; built before the
# tests like those.
STRACE, UDEV, DOAS, VENV = ("strace",), ("udev",), ("opendoas",), ("python3-venv",)
FISH = ("fish",)
SELINUX = ("selinux-policy-default", "selinux-utils")
MORE_LAYERS = {"bookworm": (STRACE,), "trixie": (STRACE, UDEV, SELINUX, DOAS, FISH, VENV)}
MMDEBSTRAP_OPTIONS = (
    "--variant=minbase",
    '--aptopt=Apt::Install-Recommends "false"',
    '--aptopt=Acquire::Languages "none"',
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
)
APT_OVERRIDES = (
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
    "Acquire::http::Proxy",
    "Acquire::https::Proxy",
)

# Runs as the first process of its own PID and mount namespace: when it ends, however it ends, its
# mounts and children are gone.
BUILD_ROOT = """
set -eu
out=$1; shift
mount -t tmpfs -o mode=755,size=6g lab-build /mnt
export TMPDIR=/mnt
"$@" >&2
tar -xf /mnt/root.tar -C "$out" --numeric-owner --xattrs --xattrs-include='*' --exclude=./dev/*
"""
BUILD_LAYER = """
set -eu
root=$1 out=$2; shift 2
mount -t tmpfs -o mode=755,size=6g lab-build /mnt
mkdir /mnt/upper /mnt/work /mnt/merged
mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" lab-build /mnt/merged
cd /mnt/merged
mount -t proc proc proc
mount --bind /dev dev
mount -t tmpfs lists var/lib/apt/lists
mount -t tmpfs cache var/cache/apt
mount -t tmpfs tmp tmp
cp /etc/resolv.conf etc/resolv.conf
printf '#!/bin/sh\\nexit 101\\n' > usr/sbin/policy-rc.d
chmod 755 usr/sbin/policy-rc.d
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
chroot . apt-get -q update
chroot . apt-get -q -o Dpkg::Options::=--force-unsafe-io install -y --no-install-recommends "$@"
rm -rf usr/sbin/policy-rc.d etc/resolv.conf var/log/apt var/log/dpkg.log var/cache/debconf/*-old
cd /
umount /mnt/merged/proc /mnt/merged/dev /mnt/merged/var/lib/apt/lists /mnt/merged/var/cache/apt /mnt/merged/tmp /mnt/merged
cp -a /mnt/upper/. "$out/"
"""


def layers(kind: Kind) -> list[Path]:
    """Return the read-only directories of a host of this kind, uppermost first, and build what is
    missing.
    """
    root = base_root(kind.suite)
    found = [package_layer(root, kind.packages), root]
    return [build_program_layer(kind, found), *found] if kind.programs or kind.lends else found


def base_root(suite: str) -> Path:
    """Return a bootable Debian root with what Ansible needs, and without an engine."""
    mirror = find_debian_mirror()
    key = digest(json.dumps([suite, mirror, BASE_PACKAGES, MMDEBSTRAP_OPTIONS]), BUILD_ROOT)
    return cached(
        "roots",
        suite,
        key,
        functools.partial(_build_root, suite, mirror),
        f"Debian {suite}: downloading and unpacking a root",
    )


def package_layer(root: Path, packages: tuple[str, ...]) -> Path:
    """Return the changes that an installation of these packages makes on that root, as a directory
    to stack on it.
    """
    key = digest(json.dumps([root.name, packages]), BUILD_LAYER)
    suite = root.name.split("-")[0]
    what = f"Debian {suite}: downloading and installing {packages[0]} and what it needs"
    return cached(
        "layers",
        f"{suite}-{packages[0]}",
        key,
        functools.partial(_build_layer, root, packages),
        what,
    )


def build_program_layer(kind: Kind, lower: list[Path]) -> Path:
    """Return the layer with programs that are built with Go or lent, and the package database that
    lists them.
    """
    programs = go_tool(kind.programs) if kind.programs else Path("/nonexistent")
    lent = list_lender_layers(kind)
    made_of = [
        programs.name,
        [path.name for path in lower],
        kind.places,
        kind.package,
        kind.version,
        kind.default_config,
    ]
    key = digest(
        json.dumps([*made_of, *([kind.renamed, [path.name for path in lent]] if lent else [])])
    )
    return cached(
        "layers",
        kind.programs or kind.tree,
        key,
        functools.partial(_build_programs, kind, programs, lower, lent),
    )


def list_lender_layers(kind: Kind) -> list[Path]:
    """Return the layers of the kind whose engine this one runs, [] if it runs its own."""
    return layers(KINDS[kind.lends]) if kind.lends else []


def isolated(script: str, *arguments: str) -> None:
    namespaces = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--propagation",
        "slave",
    ]
    run([*namespaces, "sh", "-c", script, "lab-build", *arguments])


def _build_root(suite: str, mirror: str, out: Path) -> None:
    options = [
        *MMDEBSTRAP_OPTIONS,
        *(f"--aptopt={line}" for line in _list_apt_overrides()),
        f"--include={','.join(BASE_PACKAGES)}",
    ]
    isolated(BUILD_ROOT, str(out), "mmdebstrap", *options, suite, "/mnt/root.tar", mirror)


def _build_layer(root: Path, packages: tuple[str, ...], out: Path) -> None:
    isolated(BUILD_LAYER, str(root), str(out), *packages)


def _build_programs(
    kind: Kind, programs: Path, lower: list[Path], lent: list[Path], out: Path
) -> None:
    wanted = [(programs / name, f"{directory}/{name}") for name, directory in kind.places]
    wanted += [
        (
            programs / name if (programs / name).exists() else _first(lent, Path("usr/bin", name)),
            file,
        )
        for name, file in kind.renamed
    ]
    for source, file in wanted:
        target = out / file.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    if kind.config:
        target = out / kind.config.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        program, *arguments = kind.default_config
        target.write_text(
            subprocess.run(
                [str(programs / program), *arguments], capture_output=True, text=True, check=True
            ).stdout
        )
    if kind.package:
        database = Path("var/lib/dpkg/status")
        (out / database).parent.mkdir(parents=True)
        (out / database).write_text(
            replace_version((_first(lower, database)).read_text(), kind.package, kind.version)
        )


def replace_version(status: str, package: str, version: str) -> str:
    """Return the text of dpkg's status file with another version of one installed package."""
    stanzas = status.split("\n\n")
    for number, stanza in enumerate(stanzas):
        lines = stanza.split("\n")
        if f"Package: {package}" in lines:
            stanzas[number] = "\n".join(
                f"Version: {version}" if line.startswith("Version: ") else line for line in lines
            )
            return "\n\n".join(stanzas)
    raise LabError(
        f"The package {package} is not in the host's package database, so its version cannot be set to {version}."
    )


def _first(layers_: list[Path], path: Path) -> Path:
    return next(layer / path for layer in layers_ if (layer / path).exists())


@functools.cache
def find_debian_mirror() -> str:
    """Return the mirror that this machine itself installs Debian packages from."""
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages",
    ]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    for uri, release, component in (line.split() for line in lines if line):
        if component == "main" and release in ("bookworm", "stable", "oldstable"):
            return uri.rstrip("/")
    raise LabError(
        "No Debian mirror found: this machine's apt sources have no 'bookworm main' (apt-get indextargets); add one."
    )


def _list_apt_overrides() -> list[str]:
    """Return this machine's own settings on how a mirror is reached, which hold inside the roots as
    well.
    """
    config = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, check=True
    ).stdout
    return [
        line.rstrip(";")
        for line in config.splitlines()
        if line.split(" ")[0] in APT_OVERRIDES and '""' not in line
    ]
