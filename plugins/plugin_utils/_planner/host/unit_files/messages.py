# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about units of systemd and their files."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

TOO_MANY_NAMES = Sentence(
    "unit.too-many-names",
    "the unit has more than {limit} names",
    why="drop-ins of each count, and no more are followed",
    next="Remove links to this unit from {directories}, and run again",
)
TOO_MANY_VARIABLES = Sentence(
    "unit.too-many-variables",
    "this unit has more than {limit} variables in its command, or files with its environment",
    why="no more of a unit is read",
    next="Shorten it, and run again",
)
COMMAND_TOO_LONG = Sentence(
    "unit.command-too-long",
    "this command has more than {limit} characters",
    why="no more of a unit is read",
    next="Shorten it, and run again",
)
FILES_TOO_LONG = Sentence(
    "unit.files-too-long",
    "the files of this unit or of its environment have more than {limit} characters together",
    why="no more of a unit is read",
    next="Shorten it, and run again",
)
VALUE_UNKNOWN = Sentence(
    "unit.value-unknown",
    "the value of {flag} is not known",
    why="it has a specifier of systemd or a variable that only the host can fill in, or a form that is not sent from the host",
    next="Write the path there, or set gpufleet_config_path to it",
)
