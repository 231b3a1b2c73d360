# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels that a test installs without a network, by a lock file."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from .artefacts import REPO, cached, digest


def find_wheels(group: str, python: Path) -> Path:
    """Return a directory with the wheels of a lock file for this machine, and download what is
    missing.

    group: of pyproject.toml. python: an interpreter of the release that shall install them.
    """
    lock = REPO / "tests" / "locks" / f"{group}.txt"
    key = digest(lock, str(python))
    build = functools.partial(_download, lock, python)
    return cached("wheels", group, key, build, f"Python packages of the group {group}: downloading")


def _download(lock: Path, python: Path, place: Path) -> None:
    words = ("--quiet", "--require-hashes", "--only-binary=:all:", "--no-deps")
    command = [python, "-m", "pip", "download", *words, "--requirement", lock, "--dest", place]
    subprocess.run(command, check=True)
