# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about transactions that failed on a host."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

CONFLICT = Sentence(
    "transaction.conflict",
    "conflict: {thing} changed between the observation and the transaction, twice in a row (expected {expected}, found {found})",
    next="Another program writes it: stop that program, then run again",
)
LOCK = Sentence("transaction.lock", "lock: {problem}", next="{step}")
RECOVER = Sentence("transaction.recover", "recover: {problem}", next="{step}")
EXPECT = Sentence("transaction.expect", "expect: {problem}", next="{step}")
COMMAND = Sentence("transaction.command", "command: {problem}", next="{step}")
BACKUP = Sentence("transaction.backup", "backup: {problem}", next="{step}")
STAGE = Sentence("transaction.stage", "stage: {problem}", next="{step}")
VALIDATE = Sentence("transaction.validate", "validate: {problem}", next="{step}")
SWAP = Sentence("transaction.swap", "swap: {problem}", next="{step}")
RESTART = Sentence("transaction.restart", "restart: {problem}", next="{step}")
HEALTH = Sentence("transaction.health", "health: {problem}", next="{step}")
PRECHECK = Sentence("transaction.precheck", "precheck: {problem}", next="{step}")
APPROVAL = Sentence("transaction.approval", "approval: {problem}", next="{step}")
REQUEST = Sentence("transaction.request", "request: {problem}", next="{step}")
FAILED = Sentence("transaction.failed", "{phase}: {problem}", next="{step}")
ALL_AS_BEFORE = Sentence(
    "transaction.all-as-before",
    "Everything is as it was before: the transaction was rolled back",
)
ROLLED_BACK = Sentence("transaction.rolled-back", "The transaction was rolled back")
REFUSED_BEFORE = Sentence(
    "transaction.refused-before",
    "The same program refuses the present configuration as well, before any change",
)
CORRECT_CAUSE = Sentence(
    "transaction.correct-cause",
    "Correct the cause, then run again; nothing else was changed",
)
OUTPUT_KEPT = Sentence("transaction.output-kept", "its output is in {directory} on the host")
OUTPUT_NOT_KEPT = Sentence("transaction.output-not-kept", "check mode keeps none of its output")
CAUSE_KNOWN = Sentence("transaction.cause-known", "Cause: {causes}; {output}")
