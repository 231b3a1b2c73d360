# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about a host that is taken out of service and put back."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

DRAIN_OF_OTHERS = Sentence(
    "draining.of-others",
    "Slurm took the drain, but it shows the drain of another person or program",
)
SLURM_NODE_CHANGED = Sentence(
    "draining.slurm-node-changed",
    "another person or program has changed the node {node} meanwhile ({state}, reason {reason!r})",
)
NODE_PUT_BACK = Sentence(
    "draining.node-put-back",
    "another person or program has put the node {node} back into service meanwhile",
)
NODE_CHANGED_MEANWHILE = Sentence(
    "draining.node-changed", "another person or program has changed the node {node} meanwhile"
)
NODE_ALWAYS_CHANGED = Sentence(
    "draining.node-always-changed",
    "cannot {doing}: another program changes the node all the time",
)
HELD_BY_TAINT = Sentence(
    "draining.held-by-taint",
    "the node {node} is held by a taint, and {cause}",
    next="Set gpufleet_drain_method to wait",
)
NOT_DRAINED = Sentence("draining.not-drained", "not drained: {cause}")
NOT_PUT_BACK_BY = Sentence(
    "draining.not-put-back-by", "{program} has not put it back into service: {cause}"
)
PUT_BACK_FAILED = Sentence(
    "draining.put-back-failed", "{program} could not put it back into service: {cause}"
)
NOT_PUT_BACK = Sentence("draining.not-put-back", "not put back into service: {cause}")
PUT_BACK = Sentence("draining.put-back", "put back into service")
NOT_HELD = Sentence("draining.not-held", "no program holds it out of service")
NO_ORCHESTRATOR_ASKED = Sentence("draining.not-asked", "this run asked no program about it")
NOT_HELD_BY_ROLLOUT = Sentence(
    "draining.not-held-by-rollout", "this rollout does not hold it out of service"
)
DRAINED_BEFORE = Sentence(
    "draining.drained-before", "an earlier run of this rollout has drained it"
)
CHANGE_FAILED = Sentence("draining.change-failed", "a change of this host failed")
ORCHESTRATOR_NOT_ASKED = Sentence(
    "draining.orchestrator-not-asked", "{program} was not asked: {cause}"
)
LOCK_NOT_READ = Sentence("draining.lock-not-read", "the lock of kured was not read: {cause}")
SLURM_LATE = Sentence("draining.slurm-late", "slurmctld did not answer in time")
SLURM_ENDED = Sentence("draining.scontrol-ended", "scontrol ended with {status}")
DELEGATE_UNREACHABLE = Sentence(
    "draining.delegate-unreachable",
    "the machine where the task runs cannot be reached",
    why="{cause}",
    next="See {delegate} for where the task runs",
)
