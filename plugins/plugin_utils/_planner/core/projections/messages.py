# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about values that do not leave a host."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

VALUE_WITHHELD = Sentence(
    "content.value-not-sent",
    "the value of {key} has a form that is not sent from the host",
    why="only configuration values of a known form leave the host, since any other value may be a secret",
    next="Write it in the usual form, or make the change by hand",
)
INVALID_TOML = Sentence(
    "content.invalid-toml", "this is not valid TOML", why="{reason}", next="Repair this line first"
)
UTF16_TOML = Sentence(
    "content.utf-16-toml", "this is UTF-16, but TOML must be UTF-8", next="Save the file as UTF-8"
)
INVALID_JSON = Sentence(
    "content.invalid-json", "this is not valid JSON", why="{reason}", next="Repair this line first"
)
UTF16_JSON = Sentence(
    "content.utf-16-json", "this is UTF-16, but JSON must be UTF-8", next="Save the file as UTF-8"
)
NO_DETAILS = Sentence("content.no-details", "the scanner on the host reports no more details")
