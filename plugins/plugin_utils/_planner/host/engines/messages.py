# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences that several engines share."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

CONFIG_PATH_MISSING = Sentence(
    "engine.config-path-missing",
    "gpufleet_config_path is {path}, which does not exist in {root}",
    why="{usual} exists there, which the engine reads if it is started without another path",
    next="Correct the path, leave it empty, or create the file if you mean it",
)
HANDLER_OTHER_PROGRAM = Sentence(
    "engine.handler-other-program",
    "the handler {handler} runs {program}",
    why="that is not a known path of the NVIDIA runtime",
    next="Set the intended program in gpufleet_handlers ({handler}: binary), choose another "
    "name there, or remove this handler from the configuration",
)
PROGRAM_NOT_TAKEN_OVER = Sentence(
    "engine.program-not-taken-over",
    "The handler {copied} runs {program}. The handler {handler} has its properties, but "
    "the NVIDIA runtime starts runc or crun instead of that program: containers of "
    "{handler} get nothing that only {program} does",
)
HANDLER_VALUE_NOT_SENT = Sentence(
    "engine.handler-value-not-sent",
    "the handler {handler} has a value in {key} that is not sent from the host",
    why="it does not have the form of such values, and the new handler is copied from this one",
    next="Write it in the usual form",
)
NO_HANDLER_WANTED = Sentence(
    "engine.no-handler-wanted",
    "the desired state has no handler here",
)
FILE_OF_TOOL_IS_LINK = Sentence(
    "engine.file-of-tool-is-link",
    "it is a symbolic link to {target}",
    next="Replace the link by the file itself, and run again",
)
CDI_DIRECTORIES_SET = Sentence("engine.cdi-directories", "gpufleet_cdi_spec_dirs sets this")
