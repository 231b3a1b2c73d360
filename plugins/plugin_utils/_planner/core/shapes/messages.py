# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List what is wrong with a value from a host."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

NOT_OF_SHAPE = Sentence("shape.not-of-shape", "not {shape}")
NOT_UTF8 = Sentence("shape.not-utf-8", "not text that UTF-8 can write")
OTHER_COUNT = Sentence("shape.other-count", "not as many items as the query has {names}")
KEY_MISSING = Sentence("shape.missing", "is missing")
NONE_OF_KEYS = Sentence("shape.none-of", "has none of {names}")
NAME_MISSING = Sentence("shape.lacks-name", "lacks one of the query's {names}")
