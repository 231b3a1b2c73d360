# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the setting of a sink for reports and events: an address, or a command of the user's.

It is read before any look at a host.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages

FILE = "file:"  # the first word of a sink that is a file
SCHEMES = ("http://", "https://")
COMMAND_SECONDS = 300  # that a command of the user's may take, on the controller and on a host


def parse_sink(setting: str, value: Any, *, file: bool = False) -> tuple[str, ...]:
    """Return an address as one word, a command as its words, a file behind the word FILE, () for an
    empty value.

    file: whether the sink may be a file. Raise PlanError for any other value.
    """
    if value in (None, "", []):
        return ()
    example = f"/usr/local/bin/{setting.rpartition('_')[2]}"
    or_file = ", or the name of a file" if file else ""
    given = {"setting": setting, "value": value, "example": example, "or_file": or_file}
    if isinstance(value, list):
        words = tuple(str(word) for word in value)
        if not words[0] or words[0].startswith(SCHEMES):
            raise PlanError(messages.SINK_LIST.fill(**given))
        return words
    if not isinstance(value, str):
        raise PlanError(messages.SINK_TYPE.fill(**given))
    if value.startswith(SCHEMES):
        if not value.partition("://")[2].partition("/")[0]:
            raise PlanError(messages.SINK_WITHOUT_HOST.fill(**given))
        return (value,)
    if not file or "://" in value:
        raise PlanError(messages.SINK_ADDRESS.fill(**given))
    return (FILE, value)
