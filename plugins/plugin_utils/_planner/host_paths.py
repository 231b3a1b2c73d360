# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spell paths of hosts in one way, so that two names of one file are equal: options, flags of processes, and what files name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable


def clean(path: str) -> str:
    """Spell a path as Go's filepath.Clean does, which containerd (imports) and the CDI library (directories) use.

    Those read `..` by the letters of the path, whatever its links lead to. An empty path stays empty.
    """
    return _with_one_slash(posixpath.normpath(path)) if path else ""


def as_opened(path: str) -> str:
    """Spell a path that a program hands to the kernel as it is: `..` stays, since a link before it can lead elsewhere."""
    if not path:
        return ""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts) or "."


def clean_directories(paths: Iterable[str]) -> tuple[str, ...]:
    """Spell the directories of a list. One that is named twice counts in its last place, which has the higher priority."""
    return _last_of_each(map(clean, paths))


def opened_directories(paths: Iterable[str]) -> tuple[str, ...]:
    """Spell the directories of a list that a program opens as they are."""
    return _last_of_each(map(as_opened, paths))


def _last_of_each(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(reversed(dict.fromkeys(reversed(list(paths)))))


def _with_one_slash(path: str) -> str:
    """Take the second slash away that POSIX, and so Python, keeps at the beginning."""
    return path[1:] if path.startswith("//") else path
