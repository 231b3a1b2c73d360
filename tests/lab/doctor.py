# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what the lab needs from the machine that it runs on, and the installation of what is
missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from . import progress
from .artefacts import LabError, run
from .kinds import KINDS, Kind

DEBIAN = 12


@dataclass(frozen=True)
class Need:
    """A Debian package, and the sign that it is installed: a program in PATH, or a file."""

    package: str
    sign: str

    def met(self) -> bool:
        return (
            Path(self.sign).exists()
            if self.sign.startswith("/")
            else shutil.which(self.sign) is not None
        )


NEEDS = (
    Need("mmdebstrap", "mmdebstrap"),
    Need("systemd-container", "systemd-nspawn"),
    Need("busybox-static", "/bin/busybox"),
    Need("iproute2", "ip"),
    Need("util-linux", "nsenter"),
    Need("openssh-client", "ssh"),
    Need("ca-certificates", "/etc/ssl/certs/ca-certificates.crt"),
    Need("gcc", "gcc"),
    Need("libc6-dev", "/usr/include/stdio.h"),
)
NEEDS_FOR_GO = (
    Need("pkg-config", "pkg-config"),
    Need("libseccomp-dev", "/usr/include/seccomp.h"),
    Need("libsqlite3-dev", "/usr/include/sqlite3.h"),
    Need("gnupg", "gpg"),
)


def has_go() -> bool:
    return shutil.which("go") is not None


def obstacle(kind: Kind) -> str:
    """Return why this machine cannot carry hosts of this kind, or '' if it can."""
    if kind.programs and not has_go():
        return f"needs {kind.programs} built from source, and there is no 'go' in PATH (Go 1.26 or newer)"
    return ""


def machine_obstacle() -> str:
    """Return why this machine cannot carry the lab at all, or '' if it can."""
    if os.geteuid() != 0:
        return "the lab mounts file systems and boots hosts: it must be run as root"
    release = _read_release_of_machine()
    if (
        release.get("ID") != "debian"
        or int(release.get("VERSION_ID", "0").split(".")[0] or 0) < DEBIAN
    ):
        return f"the lab is made for Debian {DEBIAN} or newer, this is {release.get('PRETTY_NAME', 'an unknown system')}"
    return ""


def missing() -> list[str]:
    """Return the names of the needed Debian packages that are not installed yet."""
    return [
        need.package for need in (*NEEDS, *(NEEDS_FOR_GO if has_go() else ())) if not need.met()
    ]


def prepare() -> None:
    """Install what the lab needs on this machine. LabError explains why a machine cannot carry the
    lab.
    """
    why = machine_obstacle()
    if why:
        raise LabError(f"This machine cannot carry the lab: {why}.")
    packages = missing()
    if packages:
        install(packages)


def install(packages: list[str]) -> None:
    """Install Debian packages on this machine. If a person is at the terminal, ask for consent
    first.
    """
    _require_consent(packages)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with progress.building(f"installing {' '.join(packages)}"):
        run(["apt-get", "-q", "update"], env=environment)
        run(
            ["apt-get", "-q", "install", "-y", "--no-install-recommends", *packages],
            env=environment,
        )


def _require_consent(packages: list[str]) -> None:
    """Ask the person at the terminal, and raise LabError if the answer is no.

    Without a terminal (CI), or with YES=1, only announce what is installed.
    """
    what = f"The lab needs Debian packages that this machine does not have: {' '.join(packages)}."
    if os.environ.get("YES") == "1" or not sys.stdin.isatty():
        progress.say(f"{what} They are installed now.")
        return
    print(
        f"{what}\nInstall them now, with apt-get? (YES=1 does so without a question) [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise LabError(
            f"Nothing was installed. To go on, install them yourself: apt-get install {' '.join(packages)}"
        )


def report() -> list[str]:
    """Return one line for each thing to know about this machine, for `lab doctor`."""
    why = machine_obstacle()
    lines = [f"machine: {why or 'fit'}"]
    lines += [
        f"missing package, installed by the next 'up': {name}"
        for name in ([] if why else missing())
    ]
    lines += [f"{name}: {obstacle(kind) or 'can be carried'}" for name, kind in KINDS.items()]
    return lines


def _read_release_of_machine() -> dict[str, str]:
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return {}
    return {
        key: value.strip('"')
        for key, separator, value in (line.partition("=") for line in lines)
        if separator
    }
