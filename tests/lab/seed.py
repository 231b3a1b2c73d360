# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory that makes a Debian root one certain lab host. It lies over the shared layers and
holds this host's own files.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from . import images
from .artefacts import LabError, cached, digest, go_tool
from .doctor import has_go
from .fakegpu import host_tree
from .fleet import Spec
from .inventory import KERNEL_LOG
from .kinds import Kind
from .network import GATEWAY

TREES = Path(__file__).with_name("tree")
OPERATOR = "ops"  # an account that becomes root by sudo, as many fleets have it
# links to /usr in the roots; a directory of that name would hide everything below it
MERGED = (
    "bin",
    "lib",
    "lib64",
    "sbin",
)

# Units that make no sense without hardware, udev or a network of their own, or that would work at
# unwanted times.
MASKED = (
    "getty@tty1.service", "console-getty.service", "systemd-logind.service", "systemd-networkd.service", "systemd-timesyncd.service",
    "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-udevd-kernel.socket", "systemd-udevd-control.socket",
    "systemd-modules-load.service", "systemd-sysctl.service", "systemd-remount-fs.service", "systemd-firstboot.service",
    "systemd-tmpfiles-clean.timer", "dev-hugepages.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
    "sys-kernel-config.mount", "sys-fs-fuse-connections.mount", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
    "fstrim.timer", "e2scrub_all.timer", "e2scrub_reap.service", "motd-news.timer",
)  # fmt: skip

# Debian has Podman run these at boot. Two first runs of Podman at once set up one storage.
AT_BOOT = ("podman.service", "podman-restart.service", "podman-auto-update.service")


def build_client_layer(kind_name: str, *, with_client: bool = True) -> Path:
    """Return the layer with the images and the test client of one kind, under /opt/lab."""
    wanted = [
        images.probe(),
        *([images.pause(kind_name)] if kind_name in images.PAUSE_NAMES else []),
    ]
    archives = {image.name: images.archives(image) for image in wanted}
    client = (
        go_tool("crictl") if with_client and has_go() and kind_name in images.PAUSE_NAMES else None
    )
    key = digest(
        repr(sorted((name, *map(str, paths)) for name, paths in archives.items())),
        client.name if client else "",
    )

    def build(out: Path) -> None:
        for name, paths in archives.items():
            home = out / "opt/lab/images" / paths[0].parent.name
            home.mkdir(parents=True)
            for path in paths:
                shutil.copy2(path, home)
            (home / "name").write_text(name + "\n")
        if client:
            (out / "opt/lab/bin").mkdir(parents=True)
            shutil.copy2(client / "crictl", out / "opt/lab/bin")

    return cached("layers", f"client-{kind_name}", key, build)


def write(
    tree: Path, spec: Spec, kind: Kind, address: str, public_key: str, lower: list[Path]
) -> None:
    """Fill `tree` with the host's own files; `lower` are the layers that it will lie on, uppermost
    first.
    """
    for name in ("host", kind.tree):
        shutil.copytree(TREES / name, tree, symlinks=True, dirs_exist_ok=True)
    _put(tree, "etc/hostname", f"{spec.name}\n")
    _put(tree, "etc/hosts", f"127.0.0.1 localhost\n{address} {spec.name}\n")
    # engines copy it into containers and fail where there is none
    _put(tree, "etc/resolv.conf", "")
    _put(tree, "etc/machine-id", "")
    _put(tree, "etc/lab-host", f"ADDRESS={address}\nGATEWAY={GATEWAY}\n")
    _put(
        tree,
        "etc/apt/sources.list",
        "# The hosts of the lab reach no mirror, only the lab's own repository.\n",
    )
    _write_accounts(tree, lower, public_key)
    for path, text in kind.files:
        _put(tree, path.lstrip("/"), text)
    for path, target in kind.links:
        _link(tree / path.lstrip("/"), target)
    _write_units(tree, kind)
    host_tree.install(tree, spec.gpus)
    _put(tree, KERNEL_LOG.lstrip("/"), "")
    for path, text in spec.files.items():
        _put(tree, path.lstrip("/"), text)
    _align_directories(tree, lower)


def _put(tree: Path, path: str, text: str | None, mode: int = 0o644) -> None:
    target = tree / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if text is None:
        # overlayfs: the lower layers' file is gone
        os.mknod(target, stat.S_IFCHR, os.makedev(0, 0))
    else:
        target.write_text(text)
        target.chmod(mode)


def _write_accounts(tree: Path, lower: list[Path], public_key: str) -> None:
    entries = {
        "etc/passwd": f"{OPERATOR}:x:1000:1000::/home/{OPERATOR}:/bin/bash\n",
        "etc/group": f"{OPERATOR}:x:1000:\n",
        "etc/shadow": f"{OPERATOR}:*:20000::::::\n",
    }
    for path, line in entries.items():
        found = next(layer / path for layer in lower if (layer / path).exists())
        _put(tree, path, found.read_text() + line, stat.S_IMODE(found.stat().st_mode))
        os.chown(tree / path, found.stat().st_uid, found.stat().st_gid)
    for home, owner in (("root", 0), (f"home/{OPERATOR}", 1000)):
        _put(tree, f"{home}/.ssh/authorized_keys", public_key, 0o600)
        for private in (tree / home, tree / home / ".ssh", tree / home / ".ssh/authorized_keys"):
            os.chown(private, owner, owner)
        (tree / home / ".ssh").chmod(0o700)


def _write_units(tree: Path, kind: Kind) -> None:
    units = tree / "etc/systemd/system"
    for name in MASKED:
        _link(units / name, "/dev/null")
    _link(units / "default.target", "/usr/lib/systemd/system/multi-user.target")
    _link(units / "sysinit.target.wants/lab-net.service", "/etc/systemd/system/lab-net.service")
    _link(
        units / "multi-user.target.wants" / kind.service, f"/usr/lib/systemd/system/{kind.service}"
    )
    # Each start of the engine brings its images with it, also after a first start that failed.
    _link(
        units / f"{kind.service}.wants/lab-images.service", "/etc/systemd/system/lab-images.service"
    )
    _put(
        tree,
        "etc/systemd/system/lab-images.service.d/engine.conf",
        f"[Unit]\nAfter={kind.service} {' '.join(AT_BOOT)}\n",
    )


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _align_directories(tree: Path, lower: list[Path]) -> None:
    """Give each directory the owner and mode that it has in the layers below, since those of the
    uppermost layer count.
    """
    for name in MERGED:
        if (tree / name).exists():
            raise LabError(
                f"The files of a lab host hold a directory /{name}, which would hide the link of that name: use /usr/{name}."
            )
    for path in _make_directories(tree):
        for layer in lower:
            below = layer / path.relative_to(tree)
            if below.is_dir():
                state = below.stat()
                os.chown(path, state.st_uid, state.st_gid)
                path.chmod(stat.S_IMODE(state.st_mode))
                break


def _make_directories(tree: Path) -> Iterator[Path]:
    for visit in os.walk(tree):
        yield from (
            path for path in (Path(visit[0], name) for name in visit[1]) if not path.is_symlink()
        )
