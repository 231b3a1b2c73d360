# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the files of the controller that a user names, by a path that may begin with `~`."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError


def expand_named_path(name: str) -> Path:
    """Return a path with the home directory that it begins with.

    Raise PlanError for a path that no file can have.
    """
    if "\0" in name:
        raise PlanError(messages.PATH_WITH_NULL.fill(), where=name)
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # of half a character, as JSON can write one
        raise PlanError(messages.PATH_NOT_TEXT.fill(), where=name) from None
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise PlanError(messages.NO_SUCH_HOME.fill(), where=name) from None


def find_file_to_write(name: str, setting: str) -> Path:
    """Return the whole path of a file that is going to be written. Raise PlanError if its directory
    is missing.
    """
    path = expand_named_path(name).absolute()
    # Path.is_dir() raises errors of its own for a path that is too long or not permitted.
    if not os.path.isdir(path.parent):
        raise PlanError(messages.NO_DIRECTORY.fill(setting=setting), where=str(path))
    return path
