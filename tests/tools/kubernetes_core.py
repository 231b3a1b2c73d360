# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection kubernetes.core, which is optional for users and needed by tests. It comes with
the package `ansible` of the index.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import environments

PACKAGE = "ansible==14.5.0"  # with kubernetes.core 6.6.0
WHEEL = "sha256:245623ccc2d31d0f6f4bdb63168d550cad305fb032cc43d96e8f61ce8ab0ba84"
PART = "ansible_collections/kubernetes/core/"


def ensure(
    package: str = PACKAGE,
    wheel: str = WHEEL,
    part: str | tuple[str, ...] = PART,
    group: str = "kubernetes",
    name: str = "",
) -> Path:
    """Return the folder for ANSIBLE_COLLECTIONS_PATH, after making it if it is missing.

    part: the directories of the wheel. group: the environment that downloads it. name: of the place
    in the cache, if it isn't that of the group.
    """
    place = environments.CACHE / (name or group) / package.replace("==", "-")
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _make(place, f"{package} --hash={wheel}", part, group)
    return place


def _make(place: Path, requirement: str, part: str | tuple[str, ...], group: str) -> None:
    """Take the directories from the wheel of this version and hash. A half-made one has another
    name.
    """
    python = environments.ensure(group) / "python"
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(requirement + "\n")
        options = [
            "-q",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--dest",
            folder,
            "--requirement",
            str(wanted),
        ]
        command: list[str | Path] = [python, "-m", "pip", "download", *options]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            wheel.extractall(
                Path(folder) / "made", [name for name in wheel.namelist() if name.startswith(part)]
            )
        shutil.move(Path(folder) / "made", place)
