# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spell paths of hosts in one way, so that two names of one file are equal: options, flags of
processes, and what files name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable


def clean_host_path(path: str) -> str:
    """Return a path as Go's filepath.Clean spells it, which containerd (imports) and the CDI
    library (directories) use.

    Both resolve `..` by the text of the path, even if a link leads elsewhere. An empty path stays
    empty.
    """
    return _drop_second_slash(posixpath.normpath(path)) if path else ""


def keep_as_opened(path: str) -> str:
    """Return a path that a program passes to the kernel unchanged: `..` stays, since a link before
    it can lead elsewhere.
    """
    if not path:
        return ""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts) or "."


def clean_directories(paths: Iterable[str]) -> tuple[str, ...]:
    """Return a list of directories, each cleaned.

    A directory that is named twice counts in its last place, which has the higher priority.
    """
    return _keep_last_of_each(map(clean_host_path, paths))


def list_opened_directories(paths: Iterable[str]) -> tuple[str, ...]:
    """Return a list of directories that a program opens as they are written.

    A directory that is named twice counts in its last place, which has the higher priority.
    """
    return _keep_last_of_each(map(keep_as_opened, paths))


def _keep_last_of_each(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(reversed(dict.fromkeys(reversed(list(paths)))))


def _drop_second_slash(path: str) -> str:
    """Drop the second leading slash, which POSIX, and so Python, keeps."""
    return path[1:] if path.startswith("//") else path


def get_folder_name(path: str) -> str:
    """Return the name of the folder that a file is in; '' for a path without one, which only a host
    answers that does not answer as this collection's programs do.
    """
    return posixpath.basename(posixpath.dirname(path))
