# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of host that the lab can boot, as one table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What a host of this kind is made of, lowest layer first: suite, Debian packages, programs built with Go, files of ours."""

    suite: str
    packages: tuple[str, ...]
    tree: str  # directory under tree/: the files that the packager of this engine would have put there
    service: str
    state: tuple[str, ...]  # directories that must not lie on the hosts' overlay: engines mount overlays there themselves
    programs: str = ""  # name in artefacts.GO_TOOLS
    places: tuple[tuple[str, str], ...] = ()  # (program, directory in the host)
    package: str = ""  # the Debian package whose files the programs replace ...
    version: str = ""  # ... and the version that the host's package database then names, so the two agree
    default_config: tuple[str, ...] = ()  # the program and arguments that print its default configuration ...
    config: str = ""  # ... and the file that it is kept in


# Debian's own, with what containers of an account without rights need: uidmap for the account's ids.
PODMAN = ("podman", "crun", "runc", "uidmap")
CONTAINERD = ("containerd", "runc", "containernetworking-plugins")
CONTAINERD_STATE = ("/var/lib/containerd",)
CRIO = ("conmon", "crun", "runc", "skopeo", "containernetworking-plugins", "libsqlite3-0", "libseccomp2")
# Slurm's controller, node daemon and commands, and what they trust each other by.
SLURM = ("slurmctld", "slurmd", "slurm-client", "munge")
CRIO_STATE = ("/var/lib/containers",)
DOCKER_STATE = ("/var/lib/docker", "/var/lib/containerd")


def _newer_containerd(release: str, version: str) -> Kind:
    return Kind(
        suite="trixie",
        packages=CONTAINERD,
        tree="containerd",
        service="containerd.service",
        state=CONTAINERD_STATE,
        programs=f"containerd-{release}",
        places=(("containerd", "/usr/bin"), ("containerd-shim-runc-v2", "/usr/bin"), ("ctr", "/usr/bin")),
        package="containerd",
        version=f"{version}-1",
        default_config=("containerd", "config", "default"),
        config="/etc/containerd/config.toml",
    )


def _crio(packages: tuple[str, ...] = CRIO, state: tuple[str, ...] = CRIO_STATE) -> Kind:
    return Kind("trixie", packages, "crio", "crio.service", state, programs="crio-1.34", places=(("crio", "/usr/bin"),))


KINDS: dict[str, Kind] = {
    "containerd-1.6": Kind("bookworm", CONTAINERD, "containerd", "containerd.service", CONTAINERD_STATE),
    "containerd-1.7": Kind("trixie", CONTAINERD, "containerd", "containerd.service", CONTAINERD_STATE),
    "containerd-2.1": _newer_containerd("2.1", "2.1.9"),
    "containerd-2.1-forky": Kind("forky", CONTAINERD, "containerd", "containerd.service", CONTAINERD_STATE),
    "containerd-2.3": _newer_containerd("2.3", "2.3.7"),
    "containerd-2.4": _newer_containerd("2.4", "2.4.2"),
    "crio-1.34": _crio(),
    # A host that is being moved from one engine to the other: Debian's containerd 1.7 runs beside CRI-O.
    "crio-1.34-containerd-1.7": _crio((*CRIO, "containerd"), (*CRIO_STATE, *CONTAINERD_STATE)),
    # A node of a Slurm cluster; the host that has slurm.conf's SlurmctldHost as its name runs the controller, too.
    "slurm-22.05": Kind("bookworm", ("docker.io", *SLURM), "docker", "docker.service", DOCKER_STATE),
    "docker-20.10": Kind("bookworm", ("docker.io",), "docker", "docker.service", DOCKER_STATE),
    "docker": Kind("trixie", ("docker.io", "docker-cli"), "docker", "docker.service", DOCKER_STATE),
    "docker-28": Kind("forky", ("docker.io", "docker-cli"), "docker", "docker.service", DOCKER_STATE),
    # No daemon: the socket unit stands for the engine, and the images come with it.
    "podman-4.3": Kind("bookworm", PODMAN, "podman", "podman.socket", ("/var/lib/containers",)),
    "podman-5.4": Kind("trixie", PODMAN, "podman", "podman.socket", ("/var/lib/containers",)),
}
