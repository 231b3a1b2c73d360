# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List what actions report about hosts and runs beside errors."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

UNREADABLE_VARIABLE = Sentence("action.unreadable-variable", "{name} cannot be read: {cause}")
SERVER_WAITS = Sentence(
    "action.server-waits",
    "this server is not changed, since {first}, another server of its cluster, did not come through in this run",
    next="Look at {first}, and run again once the cluster's API is well",
)
EVENTS_FAILED = Sentence(
    "action.events-failed",
    "gpufleet_rollout_events failed, and the rollout goes on without: {cause}",
)
NOT_RECORDED = Sentence(
    "action.not-recorded",
    "a later rollout will not know which of these hosts came through, and looks at them as at hosts of a killed one: {cause}",
)
NOT_PUBLISHED = Sentence("action.not-published", "gpufleet_report_publish failed: {cause}")
ROLLBACK_NOT_NOTED = Sentence(
    "action.rollback-not-noted", "{path} does not tell of the rollback: {cause}"
)
LOST_IN_BATCH = Sentence(
    "action.lost-in-batch",
    "it was lost within its batch, before its change had a result; whether it is in service is not known",
)
BATCH_NOT_STARTED = Sentence("action.batch-not-started", "its batch did not start")
WINDOW_CLOSED = Sentence(
    "action.window-closed",
    "the window is closed (gpufleet_rollout_window: {windows}); it opens {time}",
)
