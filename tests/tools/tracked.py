# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the files of this checkout that git knows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import clean_runs
from environments import ROOT


def list_tracked() -> list[Path]:
    """Return the tracked files and links that are there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        encoding="utf-8",
        errors="surrogateescape",
        env=clean_runs.build_git_environment(os.environ),
    ).stdout
    return [Path(item) for item in listed.split("\0") if item and os.path.lexists(ROOT / item)]


def list_tracked_files() -> list[Path]:
    """Return the tracked files alone. A link counts as the file that it leads to here."""
    return [path for path in list_tracked() if (ROOT / path).is_file()]
