# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of host that the lab can boot, as one table."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fixtures.containerd_releases import BY_NIGHT, PATCH


@dataclass(frozen=True)
class Kind:
    """A kind of host, by what it is made of.

    The lowest layer comes first: suite, Debian packages, programs built with Go, files of the lab's
    own.
    """

    suite: str
    packages: tuple[str, ...]
    # directory under tree/: the files that the packager of this engine would have put there
    tree: str
    service: str
    # Directories that must not lie on the hosts' overlay: engines mount overlays there themselves.
    state: tuple[str, ...]
    programs: str = ""  # name in artefacts.GO_TOOLS
    places: tuple[tuple[str, str], ...] = ()  # (program, directory in the host)
    lends: str = ""  # the kind whose engine's programs in /usr/bin are taken as well
    renamed: tuple[tuple[str, str], ...] = ()  # (program, file in the host): of those built or lent
    files: tuple[tuple[str, str], ...] = ()  # (path, text): what differs between kinds of one tree
    links: tuple[tuple[str, str], ...] = ()  # (path, what it points to)
    package: str = ""  # the Debian package whose files the programs replace ...
    # ... and the version that the host's package database then names, so the two agree
    version: str = ""
    default_config: tuple[
        str, ...
    ] = ()  # the program and arguments that print its default configuration ...
    config: str = ""  # ... and the file that it is kept in


# Debian's own, with what containers of an account without rights need: uidmap for the account's
# ids.
PODMAN = ("podman", "crun", "runc", "uidmap")
CONTAINERD = ("containerd", "runc", "containernetworking-plugins")
CONTAINERD_STATE = ("/var/lib/containerd",)
CRIO = (
    "conmon",
    "crun",
    "runc",
    "skopeo",
    "containernetworking-plugins",
    "libsqlite3-0",
    "libseccomp2",
)
# Slurm's controller, node daemon and commands, and what they trust each other by.
SLURM = ("slurmctld", "slurmd", "slurm-client", "munge")
CRIO_STATE = ("/var/lib/containers",)
# Package managers of other distributions, as Debian packages them; rpmrepo.py has what makes a host
# take itself for one of those.
DNF = ("rpm", "dnf", "dnf-plugins-core", "createrepo-c")
DNF5 = ("rpm", "dnf5")
ZYPPER = ("rpm", "zypper")
DOCKER_STATE = ("/var/lib/docker", "/var/lib/containerd")


VERSIONS = {**BY_NIGHT, **PATCH}


def _describe_newer_containerd(release: str) -> Kind:
    return Kind(
        suite="trixie",
        packages=CONTAINERD,
        tree="containerd",
        service="containerd.service",
        state=CONTAINERD_STATE,
        programs=f"containerd-{release}",
        places=(
            ("containerd", "/usr/bin"),
            ("containerd-shim-runc-v2", "/usr/bin"),
            ("ctr", "/usr/bin"),
        ),
        package="containerd",
        version=f"{VERSIONS[release]}-1",
        default_config=("containerd", "config", "default"),
        config="/etc/containerd/config.toml",
    )


def _describe_crio_kind(
    packages: tuple[str, ...] = CRIO, state: tuple[str, ...] = CRIO_STATE
) -> Kind:
    return Kind(
        "trixie",
        packages,
        "crio",
        "crio.service",
        state,
        programs="crio-1.34",
        places=(("crio", "/usr/bin"),),
    )


def _describe_rancher_kind(
    program: str, role: str, engine: str, release: str, home: str, unit: str
) -> Kind:
    """Return the kind of a k3s or RKE2 host.

    A stand-in renders the configuration and starts the containerd of another kind as its child.

    role: server or agent. release: decides which files of a user it reads
    (gomods/rancher/render.go). home: of the bundled programs.
    """
    service = unit.rpartition("/")[2]
    data = f"/var/lib/rancher/{program}"
    programs = f"{data}/data/{home}/bin"
    # k3s: one file of all its programs, chosen by name. RKE2: each its own.
    daemon = "k3s" if program == "k3s" else "containerd"
    return Kind(
        suite="trixie",
        packages=("runc", "containernetworking-plugins"),
        tree="rancher",
        service=service,
        state=(f"{data}/agent/containerd",),
        programs="rancher",
        lends=engine,
        renamed=(
            ("rancher", f"/usr/local/bin/{program}"),
            ("containerd", f"{programs}/{daemon}"),
            *((name, f"{programs}/{name}") for name in ("containerd-shim-runc-v2", "ctr")),
        ),
        files=(
            ("/etc/lab-rancher", f"{release}\n"),
            ("/etc/lab-program", f"{program}\n"),
            (f"/etc/rancher/{program}/config.yaml", "# settings of this node\n"),
            (
                unit,
                RANCHER_UNIT.format(
                    program=program,
                    role=role,
                    env=f"{unit}.env"
                    if program == "k3s"
                    else f"{unit.removesuffix('.service')}.env",
                ),
            ),
        ),
        links=(
            (f"{programs}/runc", "/usr/local/sbin/runc"),
            *(
                [(f"{programs}/containerd", daemon), (f"{data}/data/current", home)]
                if daemon != "containerd"
                else [(f"{data}/bin", programs)]
            ),
        ),
    )


# As the projects' own installers write them, as far as a service is concerned.
RANCHER_UNIT = """[Unit]
Description={program} {role}
Wants=network-online.target
After=network-online.target

[Install]
WantedBy=multi-user.target

[Service]
Type=notify
EnvironmentFile=-/etc/default/%N
EnvironmentFile=-/etc/sysconfig/%N
EnvironmentFile=-{env}
KillMode=process
Delegate=yes
LimitNOFILE=1048576
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStart=/usr/local/bin/{program} {role}
"""
K3S_UNIT = "/etc/systemd/system/{0}.service"
RKE2_UNIT = "/usr/local/lib/systemd/system/{0}.service"
K3S_HOME = "5f4ac3bd1cbb5b8a4e7d2a1b0c9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7"
RKE2_HOME = "v1.35.4-rke2r1-3f8d2c1b0a9e"


def _describe_k0s_kind() -> Kind:
    """Return the kind of a host with k0s 1.36 or later.

    A stand-in checks drop-ins, watches them, and runs the containerd of another kind as its child.
    """
    return Kind(
        suite="trixie",
        packages=("runc", "containernetworking-plugins"),
        tree="k0s",
        service="k0sworker.service",
        state=("/var/lib/k0s/containerd",),
        lends="containerd-2.3",
        renamed=tuple(
            (name, f"/var/lib/k0s/bin/{name}")
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        files=(("/etc/systemd/system/k0sworker.service", K0S_UNIT),),
        links=(("/var/lib/k0s/bin/runc", "/usr/local/sbin/runc"),),
    )


# As `k0s install worker` writes it, as far as a service is concerned.
K0S_UNIT = """[Unit]
Description=k0s - Zero Friction Kubernetes
ConditionFileIsExecutable=/usr/local/bin/k0s
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=5
StartLimitBurst=10

[Service]
ExecStart=/usr/local/bin/k0s worker
RestartSec=10
Delegate=yes
KillMode=process
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
LimitNOFILE=999999
Restart=always

[Install]
WantedBy=multi-user.target
"""


def _describe_microk8s_kind() -> Kind:
    """Return the kind of a host with MicroK8s in classic confinement.

    A stand-in for its launcher renders the template and becomes the containerd of another kind.
    """
    snap, data = "/snap/microk8s", "/var/snap/microk8s"
    return Kind(
        suite="trixie",
        packages=("runc", "containernetworking-plugins"),
        tree="microk8s",
        service="snap.microk8s.daemon-containerd.service",
        state=(f"{data}/common/var/lib/containerd",),
        lends="containerd-2.1",
        renamed=tuple(
            (name, f"{snap}/7234/bin/{name}")
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        files=(("/etc/systemd/system/snap.microk8s.daemon-containerd.service", MICROK8S_UNIT),),
        links=(
            (f"{snap}/current", "7234"),
            (f"{data}/current", "7234"),
            (f"{snap}/7234/bin/runc", "/usr/local/sbin/runc"),
            (f"{data}/7234/opt/cni/bin", "/opt/cni/bin"),
        ),
    )


# As snapd writes it for a daemon with `stop-mode: sigterm`, as far as a service is concerned; and
# the hooks of the snap before it.
MICROK8S_UNIT = """[Unit]
Description=Service for snap application microk8s.daemon-containerd
After=network.target

[Service]
Environment=SNAP=/snap/microk8s/7234 SNAP_DATA=/var/snap/microk8s/7234 SNAP_COMMON=/var/snap/microk8s/common
ExecStartPre=/usr/local/sbin/lab-snap-configure
ExecStart=/snap/microk8s/7234/run-containerd-with-args
SyslogIdentifier=microk8s.daemon-containerd
Restart=always
WorkingDirectory=/var/snap/microk8s/7234
KillMode=process
KillSignal=SIGTERM
TimeoutStartSec=300
Type=notify
NotifyAccess=all

[Install]
WantedBy=multi-user.target
"""


KINDS: dict[str, Kind] = {
    "containerd-1.6": Kind(
        "bookworm", CONTAINERD, "containerd", "containerd.service", CONTAINERD_STATE
    ),
    "containerd-1.6-dnf": Kind(
        "bookworm", (*CONTAINERD, *DNF), "containerd", "containerd.service", CONTAINERD_STATE
    ),
    "containerd-1.6-zypper": Kind(
        "bookworm", (*CONTAINERD, *ZYPPER), "containerd", "containerd.service", CONTAINERD_STATE
    ),
    "containerd-1.7": Kind(
        "trixie", CONTAINERD, "containerd", "containerd.service", CONTAINERD_STATE
    ),
    "containerd-2.0": _describe_newer_containerd("2.0"),
    "containerd-2.1": _describe_newer_containerd("2.1"),
    "containerd-2.1-forky": Kind(
        "forky", CONTAINERD, "containerd", "containerd.service", CONTAINERD_STATE
    ),
    # As Fedora from 41 on, where the program dnf is dnf5.
    "containerd-2.1-dnf5": Kind(
        "forky",
        (*CONTAINERD, *DNF5),
        "containerd",
        "containerd.service",
        CONTAINERD_STATE,
        links=(("/usr/bin/dnf", "dnf5"),),
    ),
    "containerd-2.2": _describe_newer_containerd("2.2"),
    "containerd-2.3": _describe_newer_containerd("2.3"),
    "containerd-2.4": _describe_newer_containerd("2.4"),
    "crio-1.34": _describe_crio_kind(),
    # A host that is being moved from one engine to the other: Debian's containerd 1.7 runs beside
    # CRI-O.
    "crio-1.34-containerd-1.7": _describe_crio_kind(
        (*CRIO, "containerd"), (*CRIO_STATE, *CONTAINERD_STATE)
    ),
    # A node of a Slurm cluster; the host that has slurm.conf's SlurmctldHost as its name runs the
    # controller, too.
    "slurm-22.05": Kind(
        "bookworm", ("docker.io", *SLURM), "docker", "docker.service", DOCKER_STATE
    ),
    "docker-20.10": Kind("bookworm", ("docker.io",), "docker", "docker.service", DOCKER_STATE),
    "docker": Kind("trixie", ("docker.io", "docker-cli"), "docker", "docker.service", DOCKER_STATE),
    "docker-28": Kind(
        "forky", ("docker.io", "docker-cli"), "docker", "docker.service", DOCKER_STATE
    ),
    # `--gpus` by CDI, and containerd's image store.
    "docker-29": Kind(
        "forky",
        ("docker.io", "docker-cli"),
        "docker",
        "docker.service",
        DOCKER_STATE,
        programs="docker-29",
        places=(
            ("docker", "/usr/bin"),
            ("dockerd", "/usr/sbin"),
            ("docker-proxy", "/usr/sbin"),
        ),
        package="docker.io",
        version="29.8.1-1",
    ),
    # Releases of k3s and RKE2 from spring 2026 on read drop-ins; those before 2025 have containerd
    # 1.7 and one template.
    "k3s-like": _describe_rancher_kind(
        "k3s", "server", "containerd-2.3", "drop-ins", K3S_HOME, K3S_UNIT.format("k3s")
    ),
    "k3s-like-1.7": _describe_rancher_kind(
        "k3s", "agent", "containerd-1.7", "old-template", K3S_HOME, K3S_UNIT.format("k3s-agent")
    ),
    "rke2-like": _describe_rancher_kind(
        "rke2", "agent", "containerd-2.3", "drop-ins", RKE2_HOME, RKE2_UNIT.format("rke2-agent")
    ),
    "k0s-like": _describe_k0s_kind(),
    "microk8s-like": _describe_microk8s_kind(),
    # No daemon: the socket unit stands for the engine, and the images come with it.
    "podman-4.3": Kind("bookworm", PODMAN, "podman", "podman.socket", ("/var/lib/containers",)),
    "podman-5.4": Kind("trixie", PODMAN, "podman", "podman.socket", ("/var/lib/containers",)),
    "podman-5.8": Kind("forky", PODMAN, "podman", "podman.socket", ("/var/lib/containers",)),
}
