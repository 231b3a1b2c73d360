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
    "gpufleet_rollout_events failed, and the rollout continues without it: {cause}",
)
NOT_RECORDED = Sentence(
    "action.not-recorded",
    "a later rollout cannot know which of these hosts came through, and treats them as hosts of a rollout that was killed: {cause}",
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
WAITS_FOR_WINDOW = Sentence("action.waits-for-window", "{closed}; run it again within")
WOULD_PAUSE = Sentence(
    "action.would-pause", "{closed}. A run now would pause before its first batch"
)
ENDED_BY_PERSON = Sentence(
    "action.ended-by-person",
    "a person has ended it before this batch (gpufleet_rollout_pause)",
    next="Run it again to go on",
)
CANARIES_DONE = Sentence(
    "action.canaries-done",
    "its canaries are done (gpufleet_rollout_until: canaries)",
    next="Run it again for the waves",
)
GATE_CHECK_ILL = Sentence(
    "action.gate-check-ill", "gpufleet_rollout_gate_check is not well: {cause}"
)
BATCH_UNKNOWN = Sentence(
    "action.batch-unknown",
    "the result of batch {number} of the rollout is not known, since none of its hosts has the result of its gate. "
    "So batch {following} does not begin",
    next="Run the rollout again",
)
NAME_IS_PATTERN = Sentence(
    "action.name-is-pattern",
    "Ansible puts {hosts} into a batch in which the plan does not have it, since the name of a host is an operator of Ansible's patterns",
    next="Name hosts by letters, digits, '.', '_' and '-'",
)

# --- the part of a rollout that is done in clusters

NOT_APPLIED_BEFORE = Sentence(
    "action.not-applied-before",
    "the objects that the hosts of this batch need before their change could not be applied to their cluster, so no host of it is "
    "changed: {cause}",
)
NOT_APPLIED_AFTER = Sentence(
    "action.not-applied-after",
    "the hosts of this batch are changed, but the objects that follow could not be applied to their cluster: {cause}",
)
NOT_APPLIED_END = Sentence(
    "action.not-applied-end",
    "the objects that follow from the hosts that are as desired could not be applied to their cluster: {cause}",
)
ROLLOUT_ENDS_HERE = Sentence(
    "action.rollout-ends-here",
    "The rollout ends here, also for hosts of other clusters and of none. To continue with those hosts, name them in gpufleet_hosts",
)
CLUSTERS_GO_ON = Sentence(
    "action.clusters-go-on",
    "Nothing of it loses a pod its GPU. The playbook gpufleet.nvidia.kubernetes applies it without another rollout",
)
CLUSTERS_WAIT = Sentence(
    "action.clusters-wait", "nothing is applied to the clusters now: {closed}; run it again within"
)

# --- which rollout has a host

CLAIMED = Sentence(
    "action.claimed", "the rollout in process {process}, begun {begun}{about}, has it until it ends"
)
CLAIMED_UNKNOWN = Sentence(
    "action.claimed-unknown",
    "the rollout in process {process} of {machine}, begun {begun}{about}, has it until it ends; "
    "this machine cannot tell whether it still runs: remove {path} if it has ended",
)
VERIFIED_EACH_RUN = Sentence(
    "action.verified-each-run",
    "{host} is verified in each run: {path} has its boot as that of {other}",
    next="Remove that file if both are one machine",
)
CLASS_WAITS = Sentence("action.class-waits", "class {label} has not been tried: {cause}")
NOTHING_TAKEN = Sentence(
    "action.nothing-taken",
    "no host was changed, and none is as desired: {idle} of {all} left out: {hosts} ({first}: {cause})",
)

# --- lines of other actions

NOTHING_WRITTEN_FOR_CLUSTERS = Sentence(
    "action.nothing-for-clusters",
    "Nothing was written: gpufleet_kubernetes_dir names a directory for files, and gpufleet_kubernetes_apply applies to the cluster",
)
ROLLOUT_DOES_BOTH = Sentence(
    "action.rollout-does-both",
    "gpufleet.nvidia.rollout does both in this order, batch by batch, with gpufleet_kubernetes_apply",
)
OTHER_CLUSTERS_WAIT = Sentence(
    "action.other-clusters-wait",
    "Until then the other clusters of this run get nothing either; --limit names their hosts alone",
)
PACKAGES_FROM_ARCHIVE = Sentence(
    "action.packages-from-archive",
    "No repository is added: the packages come from {archive}, and the module host installs the missing ones",
)
TREE_WITHOUT_GPU = Sentence(
    "action.tree-without-gpu", "A directory tree has no driver and no GPU; give facts instead"
)

# why a variable cannot be read
VALUE_UNDEFINED = Sentence("action.value-undefined", "{name} is undefined")
SOMETHING_UNDEFINED = Sentence("action.something-undefined", "something in {template} is undefined")
TEMPLATE_FORM = Sentence("action.template-form", "it is not a template ({cause})")

# of a report, and of what an action has done
MADE_ONE_BEFORE = Sentence("action.made-one-before", "{names} was made or updated before")
MADE_SEVERAL_BEFORE = Sentence("action.made-several-before", "{names} were made or updated before")
NOTHING_CHANGED_SO_FAR = Sentence("action.nothing-changed", "nothing was changed")
REASON_UNGIVEN = Sentence("action.no-reason-given", "it gave no reason")
NOTHING_DONE = Sentence("action.nothing-done", "Nothing was done")
REPORT_TOO_LARGE = Sentence("action.report-too-large", "it has more than {limit} MiB")
REPORT_PLACE = Sentence("action.report-place", "The report of {hosts} is {path}")
EARLIER_STAYS = Sentence(
    "action.earlier-stays", "{problem}. What was done before stays in place: {done}"
)
