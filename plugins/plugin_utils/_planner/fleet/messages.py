# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about rollouts: their settings, plans, approvals and gates."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

AMOUNT = "Write for example {example}"
AGAIN = "Plan again, and have that plan approved"

# ---------------------------------------------------------------- numbers and waves
NO_AMOUNT = Sentence(
    "rollout.amount",
    "{setting} is {value!r}",
    why="it is neither a number of hosts nor a percentage",
    next=AMOUNT,
)
OVER_100_PERCENT = Sentence(
    "rollout.over-100-percent", "{setting} is {value!r}", why="it is more than 100%", next=AMOUNT
)
PART_OF_A_HOST = Sentence(
    "rollout.part-of-a-host",
    "{setting} is {value!r}",
    why="it is not a whole number of hosts",
    next=AMOUNT,
)
NO_WAVE = Sentence(
    "rollout.no-wave", "{setting} has no wave", next="Write it as {setting}: {example}"
)
EMPTY_WAVE = Sentence(
    "rollout.empty-wave",
    "{setting} has {sizes}",
    why="a wave needs at least one host",
    next="Write it as {setting}: {example}",
)
NO_NUMBER = Sentence(
    "rollout.number",
    "{setting} is {value!r}",
    why="it is not a whole number",
    next="Write it as {setting}: {example}",
)
NEGATIVE_NUMBER = Sentence(
    "rollout.negative-number",
    "{setting} is {value!r}",
    why="it is less than 0",
    next="Write it as {setting}: {example}",
)
NO_SWITCH = Sentence(
    "rollout.switch",
    "{setting} is {value!r}",
    why="it is neither true nor false",
    next="Write it as {setting}: true",
)
NONE_UNAVAILABLE = Sentence(
    "rollout.none-unavailable",
    "gpufleet_rollout_max_unavailable is {value!r}",
    why="with it, no host could be taken",
    next="Write at least 1",
)
SOAK_COMMAND_ALONE = Sentence(
    "rollout.soak-command-alone",
    "gpufleet_rollout_soak_command is set without gpufleet_rollout_soak",
    why="it is run after a soak",
    next="Set gpufleet_rollout_soak: 60 as well",
)
WRONG_END = Sentence(
    "rollout.until",
    "gpufleet_rollout_until is {value!r}",
    why="a rollout does not end there",
    next="Write it as {choices}",
)
WRONG_DRIVER = Sentence(
    "rollout.driver",
    "gpufleet_rollout_driver is {value!r}",
    why="it is neither a release of the driver nor the beginning of one as text",
    next='Write it in quotes, as gpufleet_rollout_driver: "580" or "580.95.05"',
)
DRIVER_WITHOUT_TASKS = Sentence(
    "rollout.driver-without-tasks",
    "gpufleet_rollout_driver is {driver}, and gpufleet_rollout_tasks have no file change",
    why="this collection installs no driver, so that nothing would bring the hosts there",
    next="Name the file that installs it, as gpufleet_rollout_tasks: {{change: driver.yml}}",
)
WRONG_KEEPING = Sentence(
    "rollout.keep-packages",
    "gpufleet_rollout_keep_packages is {value!r}",
    why="it is none of {choices}",
    next="Write it as gpufleet_rollout_keep_packages: try",
)

# ---------------------------------------------------------------- files of tasks, commands and
# sinks
TASKS_STEP = "Write it as gpufleet_rollout_tasks: {{before: drained.yml, change: driver.yml, after: check.yml}}, each of them if needed"
NO_TASKS = Sentence(
    "rollout.tasks", "gpufleet_rollout_tasks is {value!r}", why="it names no files", next=TASKS_STEP
)
UNKNOWN_TASKS = Sentence(
    "rollout.unknown-tasks",
    "gpufleet_rollout_tasks has {unknown}",
    why="files are run at {known}",
    next=TASKS_STEP,
)
GATE_CHECK = Sentence(
    "rollout.gate-check",
    "gpufleet_rollout_gate_check is {value!r}",
    why="it is not an address, and a command is a list of words",
    next="Write it as gpufleet_rollout_gate_check: https://..., or as a list of words, [/usr/local/bin/healthy, fleet]",
)
SOAK_COMMAND = Sentence(
    "rollout.soak-command",
    "gpufleet_rollout_soak_command is {value!r}",
    why="a command is a list of words, which no shell reads",
    next="Write it as a list of words, gpufleet_rollout_soak_command: [/usr/local/bin/healthy, --quick]",
)
SINK_STEP = "Write it as {setting}: https://..., or a list of words, [{example}, fleet]{or_file}"
SINK_LIST = Sentence(
    "rollout.sink-list",
    "{setting} is {value!r}",
    why="a list is a command, and its first word names a program",
    next=SINK_STEP,
)
SINK_TYPE = Sentence(
    "rollout.sink-type",
    "{setting} is {value!r}",
    why="it is neither text nor a list of words",
    next=SINK_STEP,
)
SINK_WITHOUT_HOST = Sentence(
    "rollout.sink-without-host",
    "{setting} is {value!r}",
    why="the address names no host",
    next=SINK_STEP,
)
SINK_ADDRESS = Sentence(
    "rollout.sink-address",
    "{setting} is {value!r}",
    why="it is not an address, and a command is a list of words",
    next=SINK_STEP,
)

# ---------------------------------------------------------------- windows
WINDOW_WITHOUT_TIMES = Sentence(
    "rollout.window-without-times",
    "{setting} has {window!r}",
    why="it has no times; of -e name=value Ansible keeps what is before a blank",
    next='Write it into a file for -e @file, or as JSON: -e \'{{"{setting}": "{example}"}}\'',
)
NO_WINDOW = Sentence(
    "rollout.window",
    "{setting} has {window!r}",
    why="it is not a window",
    next="Write it as '{example}'",
)
EMPTY_WINDOW = Sentence(
    "rollout.empty-window",
    "{setting} has {window!r}",
    why="it ends when it begins",
    next="Leave the setting out if no window is meant",
)
NO_SUCH_TIME = Sentence(
    "rollout.window-time",
    "{setting} has {window!r}",
    why="there is no {clock} on a clock",
    next="Write it as '{example}'",
)
NO_SUCH_DAY = Sentence(
    "rollout.window-day",
    "{setting} has {window!r}",
    why="{day} is not a day",
    next="Days are Mo, Tu, We, Th, Fr, Sa, Su; write it as '{example}'",
)
NO_SUCH_ZONE = Sentence(
    "rollout.window-zone",
    "gpufleet_rollout_window has {window!r}",
    why="this controller knows no time zone {zone}",
    next="Write it as '{example}'; a controller without time zones needs the Python library tzdata",
)

# ---------------------------------------------------------------- key paths and hosts
NO_KEY_PATH = Sentence(
    "rollout.key-path",
    "{setting} has {paths}",
    why="it is not a key path",
    next="Write keys with dots between them, for example [gpu.model, rack]",
)
UNKNOWN_KEY_PATH = Sentence(
    "rollout.unknown-key-path",
    "{setting} names the key path {path}",
    why="no host of this run has it",
    next="Name a variable of your hosts, or one of {known}",
)
NO_HOSTS = Sentence(
    "rollout.no-hosts",
    "The rollout has no hosts",
    next="Name hosts of the inventory by gpufleet_hosts or --limit",
)
TOO_MANY_LEFT_OUT = Sentence(
    "rollout.too-many-left-out",
    "{number} of {total} hosts would be left out, {allowed} may be (gpufleet_rollout_max_left_out: {most}): {hosts}",
    next="Fix them, take them out of the run, or raise gpufleet_rollout_max_left_out. No host was changed",
)
CHANGED_BEFORE = Sentence(
    "rollout.changed-before",
    "An earlier play of this ansible-playbook command has changed {hosts}",
    why="the gate could not distinguish a lost host from one with that result",
    next="Run the rollout by itself",
)

# ---------------------------------------------------------------- approvals
NO_APPROVED_CHANGES = Sentence(
    "approval.not-a-dictionary",
    "gpufleet_rollout_approved_changes is {value!r}",
    why="it is not a dictionary of classes with lists of digests",
    next="Pass on what gpufleet.nvidia.plan has set as the statistic of that name, "
    "a class with its digests of {digits} digits: {{class: [5f0c1d2e...]}}",
)
NO_DIGEST = Sentence(
    "approval.digest",
    "{option} is {value!r}",
    why="it is neither a digest of {digits} digits nor none",
    next=AGAIN,
)
OTHER_CHANGE = Sentence(
    "approval.other-change",
    "{option} is {value!r}, and the approval of this rollout has {wanted} for this host",
    why="a variable gpufleet_approved_change has taken its place",
    next="Take gpufleet_approved_change out of your variables and tasks",
)
NOT_APPROVED = Sentence(
    "approval.not-approved",
    "{approved} was approved, and this host plans {digest} now: {changes}",
    next="No file was changed. Plan again, and have that plan approved, or find out who has changed variables or the host since",
)
NOT_APPROVED_AFTER_FIRST = Sentence(
    "approval.not-approved-after-first-stage",
    "after its first stage this host plans something else than what was approved: {changes}",
    next="A plan knows the release that comes by gpufleet_toolkit_version or gpufleet_bundle_file. "
    "Plan again, and have that plan approved, or find out who has changed variables or the host since",
)
NO_PLAN = Sentence(
    "approval.not-a-plan",
    "this is not a plan of a rollout",
    why="gpufleet_rollout_approved names it",
    next="Name a file that gpufleet_rollout_plan_file has written",
)
OTHER_SCHEMA = Sentence(
    "approval.schema",
    "this plan has schema {schema!r}",
    why="this collection reads schema {known}",
    next=AGAIN,
)
CHANGED_PLAN = Sentence(
    "approval.changed-plan", "this plan is not as it was written", why="{odd}", next=AGAIN
)
PLAN_HOST_CHANGELESS = Sentence("approval.host-changeless", "the host {host} has no change")
PLAN_CHANGE_NOT_SHOWN = Sentence(
    "approval.change-not-shown",
    "the file does not name the host {host} at the change that it gives to that host",
)
PLAN_DIGEST_DIFFERS = Sentence(
    "approval.digest-differs", "the change {change} has another digest than its content"
)
OTHER_INVENTORY = Sentence(
    "approval.other-inventory",
    "this plan is of other hosts: {hosts}",
    why="this run has {own}",
    next="Name the plan of this inventory in gpufleet_rollout_approved",
)
PLAN_WITHOUT_HOSTS = Sentence(
    "approval.no-hosts",
    "this plan has no hosts",
    why="this run has {own}",
    next="Name the plan of this inventory in gpufleet_rollout_approved",
)

# --------------------------------------------------------- how a plan differs from the approved one
NEW_IN_PLAN = Sentence("approval.new-in-plan", "{subject} is new in the plan")
GONE_FROM_PLAN = Sentence("approval.gone-from-plan", "{subject} is in the plan no more")
NOT_AS_APPROVED = Sentence("approval.not-as-approved", "{subject} is not as it was approved")
WOULD_RESTART = Sentence("approval.would-restart", "{unit} would restart")
WOULD_NOT_RESTART = Sentence("approval.would-not-restart", "{unit} would not restart any more")

# ---------------------------------------------------------------- the fleet as a whole
MIXED_ENGINES = Sentence(
    "gate.mixed-engines",
    "mixed container engines: {engines}",
    why="gpufleet_fleet_policy is uniform: one engine for all hosts",
    next="Set gpufleet_fleet_policy to per_host, or take one engine's hosts out of the play",
)
MIXED_HANDLERS = Sentence(
    "gate.mixed-handlers",
    "different decisions: {decisions}",
    why="gpufleet_fleet_policy is uniform: one decision for all hosts",
    next="Give all hosts the same gpufleet_handlers and gpufleet_set_as_default, or set gpufleet_fleet_policy to per_host",
)
MIXED_INJECTIONS = Sentence(
    "gate.mixed-injections",
    "different decisions: {decisions}",
    why="gpufleet_fleet_policy is uniform: one decision for all hosts",
    next="Set gpufleet_injection: {oldest} for all, upgrade {hosts}, or set gpufleet_fleet_policy to per_host",
)

# "Failed" counts hosts that were rolled back or lost, too.
WITHIN_LIMIT = Sentence(
    "gate.within-limit", "{failed} of {total} hosts failed, and at most {allowed} may fail"
)
OVER_LIMIT = Sentence(
    "gate.over-limit", "{failed} of {total} hosts failed, but at most {allowed} may fail"
)
ROLLOUT_OVER_LIMIT = Sentence(
    "gate.rollout-over-limit", "{comparison} (gpufleet_rollout_max_failed: {limit}): {hosts}"
)

CLASS_STOPPED = Sentence("gate.class-stopped", "its class has stopped: {cause}")
CLASS_UNTRIED = Sentence("gate.class-untried", "its class has not been tried: {cause}")
CANARY_FAILED = Sentence("gate.canary-failed", "its canary {host} failed")
CANARY_ROLLED_BACK = Sentence("gate.canary-rolled-back", "its canary {host} was rolled back")
CANARY_LOST = Sentence("gate.canary-lost", "its canary {host} was lost")
CANARY_IN_SERVICE = Sentence(
    "gate.canary-in-service", "its canary {host} could not be taken out of service"
)
CANARY_IN_SERVICE_LATE = Sentence(
    "gate.canary-in-service-late", "its canary {host} could not be taken out of service in time"
)
CANARY_REFUSED = Sentence(
    "gate.canary-refused", "its canary {host} was not changed, since its change is refused now"
)

# ---------------------------------------------------------------- why a host is left out
UNREACHABLE_BEFORE = Sentence(
    "left-out.unreachable-before", "it was unreachable before the rollout began{detail}"
)
UNREACHABLE = Sentence("left-out.unreachable", "it was unreachable{detail}")
LOOK_FAILED = Sentence("left-out.look-failed", "the look at it failed{detail}")
PROBLEM = Sentence("left-out.problem", "{problem}")
DRIVER_BROKEN_BEFORE = Sentence(
    "left-out.driver-broken-before", "its GPU driver was broken before the rollout began{detail}"
)
DRIVER_BROKEN = Sentence("left-out.driver-broken", "its GPU driver was broken{detail}")
SICK_BEFORE = Sentence(
    "left-out.sick-before", "its GPUs were sick before the rollout began: {found}", next="{step}"
)
AT_WORK = Sentence("left-out.at-work", "{transaction} is changing it")
CLASS_NOT_APPROVED = Sentence(
    "left-out.class-not-approved",
    "its class, {label}, is not in gpufleet_rollout_approved_changes; it plans {planned}",
)
CHANGE_NOT_APPROVED = Sentence(
    "left-out.change-not-approved",
    "it plans something else than what was approved for its class (gpufleet_rollout_approved_changes): {planned}",
)
NOT_IN_PLAN = Sentence("left-out.not-in-plan", "it is not in the approved plan")
PLANS_OTHERWISE = Sentence(
    "left-out.plans-otherwise", "it plans something else than what was approved: {changes}"
)

# ---------------------------------------------------------------- a driver of another release
DRIVER_TO_MOVE = Sentence(
    "rollout.driver-to-move",
    "{release} is the driver, and gpufleet_rollout_driver is {wanted}",
)

# ---------------------------------------------------------------- why a host waits
SERVERS_WAIT = Sentence(
    "room.server", "{hosts} has not come through, and the {group} are changed one after another"
)
SERVERS_WAIT_FOR_SEVERAL = Sentence(
    "room.servers", "{hosts} have not come through, and the {group} are changed one after another"
)
GROUP_FULL = Sentence(
    "room.full",
    "{hosts} is still out of service, and of the {group} only {allowed} may be at once (gpufleet_rollout_max_unavailable)",
)
GROUP_FULL_OF_SEVERAL = Sentence(
    "room.full-of-several",
    "{hosts} are still out of service, and of the {group} only {allowed} may be at once (gpufleet_rollout_max_unavailable)",
)

# ---------------------------------------------------------------- after a change of the driver
WAY_BACK = Sentence(
    "moved.way-back", "Correct it and run again, or go back to the driver before: {command}"
)
NO_WAY_BACK = Sentence("moved.no-way-back", "Correct it and run again")
MOVED_BROKEN = Sentence(
    "moved.broken", "after your change the host does not serve its GPUs: {found}", next="{back}"
)
MOVED_NOT_LOADED = Sentence(
    "moved.not-loaded",
    "after your change the NVIDIA kernel module is not loaded{detail}",
    next="{back}",
)
MOVED_NO_DRIVER = Sentence(
    "moved.no-driver",
    "after your change no GPU is there for NVIDIA's driver{detail}",
    next="{back}",
)
MOVED_UNCOUNTED = Sentence(
    "moved.before-unknown",
    "it is not known how many GPUs the host had before your change: {path} does not tell",
    next="Set gpufleet_gpus to how many GPUs the host should have, then run again",
)
MOVED_NOTHING = Sentence(
    "moved.nothing",
    "your change has left the driver as it was, {release}",
    next="See your tasks if they were to move it",
)
MOVED_FEWER_GPUS = Sentence(
    "moved.fewer-gpus",
    "the host had {before} GPUs before your change, and has {now} after it",
    next="{back}",
)
MOVED_APART = Sentence(
    "moved.apart", "after your change the driver does not fit together: {found}", next="{back}"
)
MOVED_ELSEWHERE = Sentence(
    "moved.other-release",
    "after your change the driver is not {wanted}: {loaded} is loaded, and {installed} is installed",
    why="gpufleet_rollout_driver is {wanted}",
    next="{back}",
)
MOVED_SICK = Sentence("moved.sick", "after your change GPUs are sick: {found}", next="{step}")
UNITS_UNKNOWN = Sentence(
    "moved.units-unknown", "the units that this machine needs are not known: {problem}"
)

# ---------------------------------------------------------------- what a second look finds
ROLLED_BACK_SINCE = Sentence("soak.rolled-back", "its change was rolled back since by {by}{detail}")
DIFFERS_AGAIN = Sentence("soak.differs", "it is not converged any more: {place}")
ENGINE_STOPPED = Sentence("soak.engine-stopped", "{engines} does not run")
FEWER_GPUS = Sentence("soak.fewer-gpus", "it had {before} GPUs before its change, and has {now}")
HEALTH_UNREACHABLE = Sentence(
    "soak.health-unreachable", "it was unreachable for the look for errors of its GPUs{detail}"
)
GPU_ERRORS = Sentence(
    "soak.gpu-errors",
    "its GPU driver reports {errors} since its change; see {page}",
    next="{step}",
)
GPU_STATE = Sentence(
    "soak.gpu-state", "its GPU driver says since its change: {found}", next="{step}"
)
GPU_STATE_NOTE = Sentence("soak.gpu-state-note", "its GPU driver says since the change: {found}")
COMMAND_UNREACHABLE = Sentence(
    "soak.command-unreachable", "it was unreachable for gpufleet_rollout_soak_command{detail}"
)
COMMAND_NOT_RUN = Sentence(
    "soak.command-not-run", "gpufleet_rollout_soak_command could not be run{detail}"
)
COMMAND_LATE = Sentence(
    "soak.command-late", "gpufleet_rollout_soak_command did not end within {seconds} s"
)
COMMAND_ENDED = Sentence(
    "soak.command-failed", "gpufleet_rollout_soak_command ended with {status}{detail}"
)
XIDS_UNKNOWN = Sentence(
    "soak.errors-unknown",
    "whether its GPUs had errors (Xid) since the change is not known: {cause}",
)
APPLICATION_FAILED = Sentence(
    "soak.application-failed", "since the change, with its GPUs as healthy as before: {errors}"
)
NOT_DIAGNOSED = Sentence(
    "soak.not-diagnosed", "the GPUs were not diagnosed while the host was out of service: {cause}"
)
SERIAL_UNREAD = Sentence(
    "rollout.serial-unread",
    "gpufleet.nvidia.rollout does not read gpufleet_serial",
    next="A rollout makes its batches by gpufleet_rollout_canaries, gpufleet_rollout_waves and gpufleet_rollout_max_unavailable",
)
DRIFT_UNREAD = Sentence(
    "rollout.drift-unread",
    "gpufleet.nvidia.rollout does not read gpufleet_fail_on_drift",
    next="For what differs run gpufleet.nvidia.plan, and see gpufleet_rollout_max_failed for what may fail",
)
