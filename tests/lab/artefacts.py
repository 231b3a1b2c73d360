# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Artefacts that the lab builds once and keeps, each in the cache under a hash of what it was made
from.

A changed input makes a new directory, an interrupted build leaves none, and two callers at once
build only once.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fixtures import containerd_releases

from . import progress

# A run whose time limits count tests alone sets this to `never`; `make build` has built everything
# before.
BUILD = "GPUFLEET_LAB_BUILD"
HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent


class LabError(Exception):
    """An error that the person at the keyboard can act on. It contains what failed, why, and what
    to do next.
    """


def lab_dir() -> Path:
    """Return the directory of everything that the lab builds and runs. Git never tracks it."""
    return Path(os.environ.get("GPUFLEET_LAB_DIR") or REPO / ".cache" / "lab").absolute()


def digest(*parts: str | bytes | Path) -> str:
    """Return a short hash over texts and files. A path stands for its content."""
    whole = hashlib.sha256()
    for part in parts:
        data = (
            part.read_bytes()
            if isinstance(part, Path)
            else part
            if isinstance(part, bytes)
            else part.encode()
        )
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:16]


@contextlib.contextmanager
def _hold_build_lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def cached(area: str, name: str, key: str, build: Callable[[Path], None], what: str = "") -> Path:
    """Return the directory <lab>/<area>/<name>-<key>, which `build` fills if it is missing.

    what: describes the build to the person who waits. With it, LabError is raised if
    GPUFLEET_LAB_BUILD=never forbids the build.
    """
    home = lab_dir() / area
    final = home / f"{name}-{key}"
    if final.is_dir():
        return final
    if what and os.environ.get(BUILD) == "never":
        raise LabError(
            f"{name} is not built, and this run builds nothing ({BUILD}=never): run `make build` first"
        )
    with _hold_build_lock(home / f".{name}.lock"):
        if not final.is_dir():
            staging = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home))
            try:
                with progress.building(what) if what else contextlib.nullcontext():
                    build(staging)
                staging.chmod(0o755)
                staging.rename(final)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return final


def run(command: list[str], **kwargs: object) -> str:
    """Run a build command and return its output. LabError contains the output if the command fails.

    The progress display shows the output's last line meanwhile.
    """
    lines = []
    both = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
        "errors": "replace",
    }
    with subprocess.Popen(command, **both, **kwargs) as process:  # type: ignore[call-overload]
        for line in process.stdout:
            lines.append(line)
            progress.note(line)
    if process.returncode:
        raise LabError(
            f"{' '.join(command)} failed with status {process.returncode}:\n{''.join(lines)[-4000:]}"
        )
    return "".join(lines)


@dataclass(frozen=True)
class GoTool:
    """Programs built from one module of gomods/, whose go.mod and go.sum pin every source by hash."""

    tags: tuple[str, ...] = ()
    stamps: tuple[
        tuple[str, str], ...
    ] = ()  # what -ldflags -X sets, so that the programs report their version
    # without cgo, as upstream builds them; in the key only if true
    static: bool = field(default=False, repr=False)


def _choose_kubernetes_build(version: str) -> GoTool:
    """Return the build of a Kubernetes release, with its version set.

    Without the version, the API server does not know which of its features are of age.
    """
    major, minor, _patch = version.removeprefix("v").split(".")
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "gpufleet-lab",
        "gitTreeState": "clean",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return GoTool(
        stamps=tuple(
            (f"{package}.{name}", value) for package in packages for name, value in values.items()
        ),
        static=True,
    )


def _choose_containerd_build(version: str) -> GoTool:
    package = "github.com/containerd/containerd/v2/version"
    return GoTool(stamps=((f"{package}.Version", version), (f"{package}.Revision", "gpufleet-lab")))


GO_TOOLS: dict[str, GoTool] = {
    **{
        f"containerd-{release}": _choose_containerd_build(f"v{version}")
        for release, version in {
            **containerd_releases.BY_NIGHT,
            **containerd_releases.PATCH,
        }.items()
        if containerd_releases.is_at_least(release, "2.0")
    },
    "crio-1.34": GoTool(
        tags=(
            "containers_image_openpgp",
            "exclude_graphdriver_btrfs",
            "exclude_graphdriver_devicemapper",
            "seccomp",
            "libsqlite3",
        ),
    ),
    # The engine's releases are not modules; v2.0.0-beta.24 is of the day of 29.8.1. The client is
    # the newest that compiles as a module: later ones do not state their release of Go.
    "docker-29": GoTool(
        stamps=(
            ("github.com/moby/moby/v2/dockerversion.Version", "29.8.1"),
            ("github.com/docker/cli/cli/version.Version", "29.7.2"),
        ),
        static=True,
    ),
    "crictl": GoTool(stamps=(("sigs.k8s.io/cri-tools/pkg/version.Version", "v1.36.0"),)),
    # Hosts have it. It is also what the promise that no container gets more than upstream gives is
    # held against (test_cdi_grants.py).
    "nvidia-toolkit": GoTool(
        stamps=(("github.com/NVIDIA/nvidia-container-toolkit/internal/info.version", "1.20.2"),)
    ),
    # Judges of our specs, as the newest is.
    "nvidia-toolkit-1.19": GoTool(
        stamps=(("github.com/NVIDIA/nvidia-container-toolkit/internal/info.version", "1.19.1"),)
    ),
    # etcd, the API server, the controllers, the scheduler, the kubelet and kubectl.
    "kubernetes-1.34": _choose_kubernetes_build("v1.34.4"),
    "kubernetes-1.37": _choose_kubernetes_build("v1.37.2"),
    # The last of the releases that edit configurations in place.
    "nvidia-toolkit-1.17": GoTool(
        stamps=(("github.com/NVIDIA/nvidia-container-toolkit/internal/info.version", "1.17.8"),)
    ),
    # Of `make nodeadm` alone: the newest that there is as a module, of February 2024.
    "nodeadm": GoTool(static=True),
    # Our own stand-in for k3s and RKE2, of nothing but Go's standard library.
    "rancher": GoTool(static=True),
    # Our own stand-in for NVIDIA's device plugin, of modules that the kubelet is made of, in the
    # same versions.
    "device-plugin": GoTool(static=True),
    # Our own, which prints what go-nvml's mocks of boards say of MIG.
    "mig-boards": GoTool(),
}


@functools.cache
def go_version() -> str:
    """Return the version of the Go compiler, which is part of the key of every build with Go.

    LabError is raised if there is no Go.
    """
    if not shutil.which("go"):
        raise LabError(
            "'go' is not in PATH, and containerd 2.x, CRI-O and NVIDIA's tools are built with it: install Go 1.26 or newer."
        )
    return subprocess.run(
        ["go", "env", "GOVERSION"], capture_output=True, text=True, check=True
    ).stdout.strip()


def go_tool(name: str) -> Path:
    """Return the directory with the programs of one entry of GO_TOOLS, built on first use."""
    tool, module = GO_TOOLS[name], HERE / "gomods" / name
    # of modules that are our own
    own = sorted(path for path in module.iterdir() if path.suffix in (".go", ".tmpl"))
    key = digest(
        module / "go.mod",
        module / "go.sum",
        repr(tool),
        go_version(),
        *(["static"] if tool.static else []),
        *own,
    )
    what = f"{name}: downloading its sources and compiling them with Go"
    return cached("bin", name, key, functools.partial(_build_go, tool, module), what)


def go_environment(*, static: bool = False) -> dict[str, str]:
    """Return the environment of builds that fetch exactly what go.mod and go.sum pin, or fail."""
    return {
        **os.environ,
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "CGO_ENABLED": "0" if static else "1",
    }


def _build_go(tool: GoTool, module: Path, out: Path) -> None:
    stamps = " ".join(f"-X {name}={value}" for name, value in tool.stamps)
    command = [
        "go",
        "build",
        "-v",
        "-tags",
        " ".join(tool.tags),
        "-ldflags",
        f"-s -w {stamps}".strip(),
        "-o",
        f"{out}/",
        "tool",
    ]
    run(command, cwd=module, env=go_environment(static=tool.static))


def nvidia_debs() -> Path:
    """Return the directory of the signed apt repository with NVIDIA's packages (aptrepo.py)."""
    from . import aptrepo

    return aptrepo.nvidia_debs()
