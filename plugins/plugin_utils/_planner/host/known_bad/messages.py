# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about combinations that are known to be bad. The combinations are rows of
table.py, whose ids are the codes of messages about them.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

STOPS = Sentence(
    "known-bad.stops",
    "this host has, or would have, a combination that is known to be bad: {rows}",
    next="{ways}. To go on in spite of it, set gpufleet_known_bad to warn for this host",
)
TOLD = Sentence("known-bad.told", "Known to be bad: {what}. {way}. See {link}")
EXPLAINS = Sentence("known-bad.explains", "known to be bad: {what} ({link})")
NOT_JUDGED = Sentence(
    "known-bad.not-judged",
    "Rows of docs/known-bad.md could not be judged on this host, since {lacking} is not known",
)
RELEASE_UNKNOWN = Sentence("known-bad.release-unknown", "the version of {title}")
