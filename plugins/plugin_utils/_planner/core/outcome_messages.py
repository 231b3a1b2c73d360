# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about how a run has ended."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

RUN_FAILED = Sentence("outcome.run-failed", "of {hosts}: {counts}")
RUN_DRIFTED = Sentence(
    "outcome.run-drifted", "of {hosts}: {counts} (gpufleet_fail_on_drift is true)"
)
RUN_OF_HOSTS = Sentence("outcome.run-of-hosts", "{ended}: {hosts}")
RUN_TO_LOOK_AT = Sentence("outcome.run-to-look-at", "{ended}. To be looked at: {hosts}")
