# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about reports, and about what a host's journal and a transaction's answer
tell.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# settings of a report
NO_JMESPATH = Sentence(
    "report.no-jmespath",
    "columns: {path} is more than names with dots, but the Python library jmespath is not installed on the controller",
    next="Install it there (pip install jmespath), or write the path as names with dots",
)
UNKNOWN_RESULT = Sentence(
    "report.unknown-result",
    "results: no host of the play has a variable {name}",
    next="Register the result of host or host_info, or name one of {known}",
)
UNKNOWN_RESULT_NEAR = Sentence(
    "report.unknown-result-near",
    "results: no host of the play has a variable {name}",
    next="Did you mean {near}?",
)

# the journal of a host
STRAY = Sentence(
    "journal.stray",
    "{path} is left over from a transaction whose journal was removed: a run without check mode removes it",
)
JOURNAL_DAMAGED = Sentence("journal.damaged", "{problem}")
TRANSACTION_TAKEN_BACK = Sentence(
    "journal.taken-back", "{transaction} was rolled back {by} because: {details}"
)
TRANSACTION_UNFINISHED = Sentence(
    "journal.unfinished",
    "{transaction} is not finished (state {state}): it still runs, or the next transaction rolls it back",
)
PENDING = Sentence(
    "journal.pending",
    "{unit} runs with the configuration from before {since} ({reason}): its restart was left to you (systemctl restart {unit})",
)
RECOVERED = Sentence(
    "journal.recovered",
    "{transaction} was not finished and was rolled back first, because: {problem}",
)
REWRITTEN = Sentence(
    "journal.rewritten",
    "the journal's directory was removed during this run: the entry of this run and the copies of its files "
    "were written again; the copies of other files are lost",
)
CONTAINER_ENDED = Sentence(
    "journal.container-ended",
    "{containers} ended while {units} restarted: first process {processes}",
)
CONTAINERS_ENDED = Sentence(
    "journal.containers-ended",
    "{containers} ended while {units} restarted: first processes {processes}",
)
LEFT_BY_FAILED_RUN = Sentence(
    "journal.not-taken-over",
    "this run failed, so it was not taken over",
    next="Correct what the message of this run names, then run again",
)
