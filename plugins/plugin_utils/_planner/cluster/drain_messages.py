# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about taking hosts out of service."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

ACCESS = "gpufleet_kubernetes_kubeconfig and gpufleet_kubernetes_context"

# ---------------------------------------------------------------- settings
DRAIN_TIME = Sentence(
    "drain.time",
    "{setting} is {value}",
    why="it is not a time from 1 to {longest} seconds",
    next="Write it as 3600",
)
INTERVAL_TOO_LONG = Sentence(
    "drain.interval-too-long",
    "gpufleet_drain_interval is {interval}",
    why="it is longer than gpufleet_drain_timeout, {timeout}",
    next="Give a shorter interval",
)
ROLLOUT_ID = Sentence(
    "drain.rollout-id",
    "gpufleet_rollout_id is {value!r}",
    why="it marks nodes, and is not a word of at most 63 letters, digits, '.', '_' and '-'",
    next="Write it as driver-580-2026-03",
)
BY_NOBODY = Sentence(
    "drain.by-is-empty",
    "gpufleet_drain_by is empty",
    next="Write auto, commands, slurm or kubernetes",
)
BY_MISSING_COMMANDS = Sentence(
    "drain.commands-missing",
    "gpufleet_drain_by names commands, and gpufleet_drain_commands is not set",
    next="Set it, or name another one",
)
SLURM_CANNOT_EVICT = Sentence(
    "drain.slurm-cannot-evict",
    "gpufleet_drain_method is evict, and gpufleet_drain_by names slurm",
    why="Slurm jobs are waited for and never cancelled",
    next="Write wait",
)
# kubernetes.core, plugins/modules/k8s_drain.py, delete_or_evict_pods(): it makes the node
# unschedulable, which a taint does not record.
EVICTION_CORDONS = Sentence(
    "drain.eviction-cordons", "an eviction cordons the node, and no program would uncordon it"
)
TAINT_CANNOT_EVICT = Sentence(
    "drain.taint-cannot-evict",
    "gpufleet_drain_method is evict, and gpufleet_kubernetes_hold is taint",
    why="an eviction cordons the node, and no program would uncordon it",
    next="Set gpufleet_kubernetes_hold to cordon, or gpufleet_drain_method to wait",
)
COMMANDS_NOT_A_DICTIONARY = Sentence(
    "drain.commands-not-a-dictionary",
    "gpufleet_drain_commands is not a dictionary",
    next="Give it the keys before, wait and after, each a list of words",
)
UNKNOWN_COMMAND = Sentence(
    "drain.unknown-command",
    "gpufleet_drain_commands has the unknown key {key!r}",
    next="Known keys are {known}",
)
COMMAND_MISSING = Sentence(
    "drain.command-missing",
    "gpufleet_drain_commands has no {step}",
    why="a host that is taken out of service has to come back",
    next="Add {step}",
)
COMMAND_IS_TEXT = Sentence(
    "drain.command-is-text",
    "gpufleet_drain_commands.{step} is {value!r}",
    why="a string would need a shell",
    next="Write it as a list: [/usr/local/bin/drain, --host, gpu1]",
)
COMMAND_NOT_A_LIST = Sentence(
    "drain.command-not-a-list",
    "gpufleet_drain_commands.{step} is {value!r}",
    why="it is not a list of words",
    next="Write it as a list: [/usr/local/bin/drain, --host, gpu1]",
)
NULL_CHARACTER = Sentence(
    "drain.null-character",
    "gpufleet_drain_commands.{step} has a word with a null character",
    next="Take it out",
)

# ---------------------------------------------------------------- nodes
AMBIGUOUS_NAME = Sentence(
    "drain.ambiguous-name",
    "this host calls itself {name}",
    why="the inventory has another host of this name, and knows this one as {host}",
    next="Set {setting} to the node's name for this host",
)
NO_NODE = Sentence(
    "drain.no-node",
    "there is no node {tried}",
    why="{where} has {known}",
    next="Set {setting} to the node's name for this host",
)
NO_NODES = Sentence(
    "drain.no-nodes",
    "there is no node {tried}",
    why="{where} has no nodes",
    next="Set {setting} to the node's name for this host",
)
OTHER_MACHINE = Sentence(
    "drain.other-machine",
    "the node {node} is another machine than this host",
    why="the cluster knows its boot as {known}, and the host's is {boot_id}",
    next=f"Check gpufleet_kubernetes_node, {ACCESS}; after a reboot wait until the kubelet has reported",
)
SLURM_OUTPUT = Sentence(
    "drain.slurm-output",
    "the output of scontrol show node has no NodeName or no State",
    why="this release of Slurm may print them in another way",
    next="Run `scontrol show node` and `scontrol --version` by hand where the task runs, and open an issue with both outputs",
)
SLURM_SEVERAL_NODES = Sentence(
    "drain.slurm-several-nodes",
    "scontrol show node has {number} lines {field}=",
    why="it tells more than one node, or a field of it has a line end",
    next="Name one node in gpufleet_slurm_node, and look at `scontrol show node`",
)

# ---------------------------------------------------------------- answers of the Kubernetes API
ODD_OBJECT = Sentence(
    "kubernetes-api.odd-object",
    "cannot {doing}",
    why="the answer has an object whose {part} is not what Kubernetes has there",
    next=f"Check {ACCESS}, and the API",
)
NAMELESS_OBJECT = Sentence(
    "kubernetes-api.nameless-object",
    "cannot {doing}",
    why="the answer has something without a name in it",
    next=f"Check {ACCESS}, and the API",
)
FORBIDDEN = Sentence(
    "kubernetes-api.forbidden",
    "cannot {doing}",
    why="{cause}",
    next=f"Give the account of {ACCESS} that right, see {{rights}}",
)
UNAUTHORIZED = Sentence(
    "kubernetes-api.unauthorized",
    "cannot {doing}",
    why="the API does not know this account",
    next=f"Check {ACCESS}",
)
API_FAILED = Sentence(
    "kubernetes-api.failed", "cannot {doing}", why="{cause}", next=f"Check {ACCESS}"
)
ODD_ANSWER = Sentence(
    "kubernetes-api.odd-answer",
    "cannot {doing}",
    why="{cause}",
    next=f"Check {ACCESS}, and the API",
)
WEBHOOK_FAILED = Sentence(
    "kubernetes-api.webhook-failed",
    "cannot {doing}",
    why="{cause}",
    next="See that the service of the webhook {webhook} answers, or ask its owner",
)
ADMISSION_DENIED = Sentence(
    "kubernetes-api.denied",
    "cannot {doing}",
    why="{cause}",
    next="Change what the {policy} objects to, or have it let this change pass",
)
NO_LIBRARY = Sentence(
    "kubernetes-api.no-library",
    "cannot {doing}",
    why="the Python library kubernetes is missing where the task runs",
    next="Install it for the Python of {delegate} (the controller)",
)
CERTIFICATE = Sentence(
    "kubernetes-api.certificate",
    "cannot {doing}",
    why="{cause}",
    next=f"Check the cluster's CA in the file of {ACCESS}",
)
NO_API = Sentence(
    "kubernetes-api.no-answer",
    "cannot {doing}",
    why="the Kubernetes API does not answer",
    next=f"Check {ACCESS}, and the way to the API",
)
CONFIG_STEP = f"Check {ACCESS}, which are of the machine where the task runs ({{delegate}}), or the variables K8S_AUTH_*"
NO_KUBECONFIG = Sentence(
    "kubernetes-api.no-kubeconfig",
    "cannot {doing}",
    why="there is no such kubeconfig, or it is empty",
    next=CONFIG_STEP,
)
KUBECONFIG = Sentence(
    "kubernetes-api.kubeconfig", "cannot {doing}", why="{cause}", next=CONFIG_STEP
)
PODS_STAY = Sentence(
    "kubernetes-api.pods-stay",
    "cannot {doing}",
    why="{cause}",
    next="Let them end, or see gpufleet_kubernetes_force and gpufleet_kubernetes_delete_emptydir_data",
)
FIELD_TAKEN = Sentence(
    "kubernetes-api.field-taken",
    "cannot {doing}",
    why="{cause}",
    next="Undo what {owner} has changed there, or remove the object if no other program needs it, then run again",
)
NAMESPACE_ENDING = Sentence(
    "kubernetes-api.namespace-ending",
    "cannot {doing}",
    why="{cause}",
    next="Run again once the namespace {namespace} is gone, or name another one in gpufleet_kubernetes_namespace",
)

# ---------------------------------------------------------------- whether a host is drained
NEVER = Sentence("drain.never", "gpufleet_drain is never")
ALWAYS = Sentence("drain.always", "gpufleet_drain is always")
RESTART_ENDS = Sentence("drain.restart-ends", "the restart ends {containers}")
GPUS_USED = Sentence("drain.gpus-used", "the driver changes, and {processes} use the GPUs")
GPUS_UNKNOWN = Sentence(
    "drain.gpus-unknown",
    "the driver changes, and it is not known whether processes use the GPUs ({hidden})",
)
GPUS_UNKNOWN_GO_ON = Sentence(
    "drain.gpus-unknown-go-on",
    "the driver changes, and it is not known whether processes use the GPUs ({hidden}); gpufleet_drain_unknown is go_on",
)
GPUS_FREE = Sentence("drain.gpus-free", "the driver changes, and no process uses the GPUs")
ENDS_NOTHING = Sentence("drain.ends-nothing", "the change ends no container")
NO_ORCHESTRATOR = Sentence(
    "drain.no-orchestrator",
    "{reason}, and nothing here can drain the host: no kubelet and no slurmd runs on it, and gpufleet_drain_commands is not set",
)
TIMED_OUT_KEPT = Sentence(
    "drain.timed-out-kept",
    "not drained within {seconds} s: {waits}",
    next="The node stays out of service (gpufleet_drain_on_timeout: keep); the next run of this rollout continues with it",
)
TIMED_OUT_STAYS = Sentence(
    "drain.timed-out-stays", "not drained within {seconds} s: {waits}", next="{stays}"
)
TIMED_OUT_HELD_BEFORE = Sentence(
    "drain.timed-out-held-before",
    "not drained within {seconds} s: {waits}",
    next="{held} held the node before this run, and holds it still: its change may have failed. Raise gpufleet_drain_timeout",
)
TIMED_OUT = Sentence(
    "drain.timed-out",
    "not drained within {seconds} s: {waits}",
    next="The node is in service again. Raise gpufleet_drain_timeout, or wait for a time with less work",
)

# ---------------------------------------------------------------- how orchestrators see a node
SLURM_CLAIMED = Sentence(
    "drain.slurm-claimed", "Slurm is rebooting the node {node} or switching it off ({state})"
)
SLURM_BROKEN = Sentence(
    "drain.slurm-broken",
    "the node {node} is {state}; Slurm resumes it when it works again, or a person does",
)
SLURM_HELD = Sentence("drain.slurm-held", "drained by this rollout ({reason})")
SLURM_OTHERS = Sentence(
    "drain.slurm-others",
    "the node {node} is drained by {who} ({state}), and only who drained it resumes it",
)
SLURM_BUSY = Sentence("drain.slurm-busy", "the node {node} is {state}")
NOT_READY = Sentence("drain.not-ready", "the node {node} is not Ready ({cause})")
HELD_HERE = Sentence("drain.held", "the node {node} is held by this rollout")
HELD_BY_ROLLOUT = Sentence(
    "drain.held-by-rollout", "the node {node} is held by the rollout {rollout}"
)
CORDONED_BY_OTHERS = Sentence(
    "drain.cordoned-by-others",
    "another person or program has cordoned the node {node} and has to uncordon it",
)
OWNER_TAKES_AWAY = Sentence("drain.taken-away", "{owner} is taking the node {node} away ({mark})")
OWNER_AT_WORK = Sentence(
    "drain.owner-at-work", "{owner} is working on the node {node} ({mark}) {ends}"
)
KURED_AT_WORK = Sentence(
    "drain.kured-at-work",
    "kured is working on the node {node} ({where}) until the host has rebooted",
)
KUBELET_UNREPORTED = Sentence("drain.kubelet-not-reported", "its kubelet has not reported")

# until when another program works on a node
UNTIL_STATE = Sentence("drain.until-state", "until the state is {state}")
UNTIL_REBOOTED = Sentence("drain.until-rebooted", "until the host has rebooted")
UNTIL_MAINTENANCE_DELETED = Sentence(
    "drain.until-maintenance-deleted", "until its NodeMaintenance is deleted"
)
UNTIL_TAINT_GONE = Sentence("drain.until-taint-gone", "until the taint is gone")
UNTIL_MAINTENANCE_OVER = Sentence("drain.until-maintenance-over", "until the maintenance is over")
