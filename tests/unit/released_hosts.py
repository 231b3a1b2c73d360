# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as a release has left them, kept as files of JSON, and the same hosts again from these.

A kept host has the files that the release changed: as they were before it, and as it left them, its
journal among them. Everything else of the host is built as for other tests.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.unit import running_hosts
from tests.unit.running_host import Host, HostProcess

# Each with a GPU. The file of a repository that bears this collection's name is left out: it is
# there for tests of what others wrote.
ENGINES = {"containerd": "containerd, GPU", "crio": "crio", "docker": "docker"}
OPTIONS: Mapping[str, Any] = {"packages": "ignore"}
OF_ANOTHER = "/etc/apt/sources.list.d/gpufleet-nvidia.sources"
# What the kernel and the engines have there, and what is only ever a short cut.
LEFT_OUT = ("proc", "run", "dev", "var/run", "var/lib/gpufleet/compiled")
RELEASES = Path(__file__).resolve().parents[1] / "fixtures/releases"
Kept = Mapping[str, Any]


def build_released_host(process: HostProcess, engine: str) -> Host:
    """Build the host of an engine, as it is before the collection."""
    spec = running_hosts.ENGINES[ENGINES[engine]].copy()
    spec.devices = True
    spec.files.pop(OF_ANOTHER)
    return running_hosts.build(process, spec, 0o644)


def list_host_files(host: Host) -> Iterator[str]:
    for folder, _folders, names in os.walk(host.root):
        for name in names:
            place = Path(folder) / name
            inner = str(place.relative_to(host.root))
            if not inner.startswith(tuple(f"{part}/" for part in LEFT_OUT)) and stat.S_ISREG(
                place.lstat().st_mode
            ):
                yield inner


def read_host_files(host: Host) -> dict[str, Kept]:
    """Return each file with its mode and its content."""
    return {name: read_kept_file(host.root / name) for name in sorted(list_host_files(host))}


def read_kept_file(place: Path) -> Kept:
    data, mode = place.read_bytes(), f"{stat.S_IMODE(place.lstat().st_mode):04o}"
    try:
        return {"mode": mode, "text": data.decode()}
    except UnicodeDecodeError:
        return {"mode": mode, "base64": base64.b64encode(data).decode()}


def keep_host(host: Host, options: Mapping[str, Any]) -> dict[str, dict[str, Kept | None]]:
    """Converge a host, and return the files that differ: `before` and `after`, None for none.

    Raise SystemExit if nothing was changed.
    """
    before = read_host_files(host)
    result = host.task("host", **options)
    if result.get("failed") or not result.get("changed"):
        raise SystemExit(f"released_hosts.py: the host was not changed: {result.get('msg')}")
    after = read_host_files(host)
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return {
        "before": {name: before.get(name) for name in changed},
        "after": {name: after.get(name) for name in changed},
    }


def lay_files(host: Host, files: Mapping[str, Kept | None]) -> None:
    """Put files on a host as they were kept. The journal's directories are root's alone."""
    for name, kept in files.items():
        place = host.root / name
        if kept is None:
            place.unlink(missing_ok=True)
            continue
        private = int(kept["mode"], 8) == 0o600
        for folder in reversed(place.relative_to(host.root).parents):
            if not (host.root / folder).exists():
                deep = private and len(folder.parts) > len(Path("var/lib/gpufleet").parts)
                (host.root / folder).mkdir(mode=0o700 if deep else 0o755)
        data = base64.b64decode(kept["base64"]) if "base64" in kept else kept["text"].encode()
        place.write_bytes(data)
        place.chmod(int(kept["mode"], 8))


def list_releases() -> list[str]:
    """Return the releases whose hosts are kept."""
    return sorted({path.parent.name for path in RELEASES.glob("*/host-*.json")})


def read_kept_host(release: str, engine: str) -> Mapping[str, Any]:
    """Return the files of a host `before` and `after` a release, and the digest of the change."""
    kept: Mapping[str, Any] = json.loads((RELEASES / release / f"host-{engine}.json").read_text())
    return kept
