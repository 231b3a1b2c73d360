# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container images made from one static busybox: small, offline, and the same bytes each time.

Two archive formats carry the same image: an OCI layout (ctr, podman, skopeo) and docker's own
(`docker load` before 25 reads nothing else).
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

from .artefacts import LabError, cached, digest

PROBE = "localhost/gpufleet/probe:lab"
# As the first process of a pod's PID namespace it must handle SIGTERM, or CRI-O waits until the
# client's patience is almost over.
PAUSE_COMMAND = ("/bin/sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait")
# The names that the engines look for by default, so no test has to touch `sandbox_image`.
PAUSE_NAMES = {
    "containerd-1.6": "registry.k8s.io/pause:3.6",
    **dict.fromkeys(("containerd-1.6-dnf", "containerd-1.6-zypper"), "registry.k8s.io/pause:3.6"),
    "containerd-1.7": "registry.k8s.io/pause:3.8",
    "containerd-2.0": "registry.k8s.io/pause:3.10",
    "containerd-2.1": "registry.k8s.io/pause:3.10",
    "containerd-2.1-forky": "registry.k8s.io/pause:3.10",
    "containerd-2.1-dnf5": "registry.k8s.io/pause:3.10",
    "containerd-2.2": "registry.k8s.io/pause:3.10.1",
    "containerd-2.3": "registry.k8s.io/pause:3.10.2",
    "containerd-2.4": "registry.k8s.io/pause:3.10.2",
    "k3s-like": "registry.k8s.io/pause:3.10",
    "k3s-like-1.7": "registry.k8s.io/pause:3.10",
    "rke2-like": "registry.k8s.io/pause:3.10",
    "microk8s-like": "registry.k8s.io/pause:3.10",
    "k0s-like": "registry.k8s.io/pause:3.10",
    "crio-1.34": "registry.k8s.io/pause:3.10",
    "crio-1.34-containerd-1.7": "registry.k8s.io/pause:3.10",
}
APPLETS = (
    "sh", "ash", "cat", "chmod", "cp", "cut", "dd", "echo", "env", "false", "find", "grep", "head", "hexdump", "id", "ln", "ls",
    "mkdir", "mknod", "mount", "mv", "printenv", "ps", "readlink", "rm", "sed", "sleep", "sort", "stat", "tail", "test", "touch",
    "true", "tr", "uname", "wc",
)  # fmt: skip


@dataclass(frozen=True)
class Image:
    """One image: its full name, and the command that runs when none is given."""

    name: str
    command: tuple[str, ...]


def probe() -> Image:
    """The image of the workloads that verify a host."""
    return Image(PROBE, ("/bin/sh",))


def pause(kind: str) -> Image:
    """The sandbox image under the name that this host kind's engine pulls by default."""
    return Image(PAUSE_NAMES[kind], PAUSE_COMMAND)


def archives(image: Image, busybox: Path = Path("/bin/busybox")) -> tuple[Path, Path]:
    """Paths of the image as OCI archive and as docker archive."""
    if not busybox.is_file():
        raise LabError(
            f"{busybox} is missing, and every lab image is made from it: apt-get install busybox-static"
        )
    build = functools.partial(_write_both, image, busybox)
    slug = image.name.replace("/", "_").replace(":", "_")
    home = cached("images", slug, digest(busybox, Path(__file__), repr(image)), build)
    return home / "oci.tar", home / "docker.tar"


def _write_both(image: Image, busybox: Path, out: Path) -> None:
    layer = _layer(busybox.read_bytes())
    (out / "oci.tar").write_bytes(oci_archive(image, layer))
    (out / "docker.tar").write_bytes(docker_archive(image, layer))


def _tar(entries: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for info, data in entries:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return whole.getvalue()


def _entry(
    name: str, data: bytes = b"", mode: int = 0o644, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.linkname = mode, kind, link
    return info, data


def _layer(busybox: bytes) -> bytes:
    folders = ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "usr/lib", "var")
    return _tar(
        [
            *(_entry(name, mode=0o755, kind=tarfile.DIRTYPE) for name in folders),
            _entry("bin/busybox", busybox, mode=0o755),
            *(
                _entry(f"bin/{name}", mode=0o777, kind=tarfile.SYMTYPE, link="busybox")
                for name in APPLETS
            ),
            _entry("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"),
            _entry("etc/group", b"root:x:0:\n"),
        ]
    )


def _sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _config(image: Image, layer: bytes) -> bytes:
    config = {"Env": ["PATH=/bin"], "Cmd": list(image.command)}
    rootfs = {"type": "layers", "diff_ids": [_sha(layer)]}
    return json.dumps(
        {"architecture": "amd64", "os": "linux", "config": config, "rootfs": rootfs}
    ).encode()


def _descriptor(media: str, data: bytes, **more: object) -> dict[str, object]:
    return {
        "mediaType": f"application/vnd.oci.image.{media}",
        "digest": _sha(data),
        "size": len(data),
        **more,
    }


def oci_archive(image: Image, layer: bytes) -> bytes:
    """The image as a tar of an OCI layout; containerd takes the name from its own annotation."""
    config = _config(image, layer)
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [_descriptor("layer.v1.tar", layer)],
        }
    ).encode()
    names = {
        "io.containerd.image.name": image.name,
        "org.opencontainers.image.ref.name": image.name,
    }
    index = json.dumps(
        {
            "schemaVersion": 2,
            "manifests": [_descriptor("manifest.v1+json", manifest, annotations=names)],
        }
    ).encode()
    blobs = [_entry(f"blobs/sha256/{_sha(data)[7:]}", data) for data in (layer, config, manifest)]
    return _tar(
        [
            _entry("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'),
            _entry("index.json", index),
            *blobs,
        ]
    )


def docker_archive(image: Image, layer: bytes) -> bytes:
    """The image as `docker save` writes it."""
    config = _config(image, layer)
    name = f"{_sha(config)[7:]}.json"
    manifest = json.dumps(
        [{"Config": name, "RepoTags": [image.name], "Layers": ["layer.tar"]}]
    ).encode()
    return _tar(
        [_entry(name, config), _entry("layer.tar", layer), _entry("manifest.json", manifest)]
    )
