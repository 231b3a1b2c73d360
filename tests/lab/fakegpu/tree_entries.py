# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An entry of a tree of files, and how it gets onto a disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """An entry of a tree: a file's text, or the target of a symbolic link."""

    text: str = ""
    link: str = ""
    mode: int = 0o644


def put(path: Path, entry: Entry) -> None:
    """Write one entry of a tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if entry.link:
        path.symlink_to(entry.link)
        return
    path.write_text(entry.text)
    path.chmod(entry.mode)
