# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about what other tools wrote, and about tools that still write."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# --- programs of handlers

DEFAULT_RUNTIME_FAILS = Sentence(
    "adoption.default-runtime-fails",
    "Every container without a runtime of its own fails: the default runtime, {handler}, runs {program}, which does not exist",
)
RUNTIME_FAILS = Sentence(
    "adoption.runtime-fails",
    "Every container of the runtime {handler} fails: {program} does not exist",
)
DEFAULT_HANDLER_FAILS = Sentence(
    "adoption.default-handler-fails",
    "Every pod without a handler of its own fails: the default handler, {handler}, runs {program}, which does not exist",
)
HANDLER_FAILS = Sentence(
    "adoption.handler-fails", "Every pod of the handler {handler} fails: {program} does not exist"
)
PROGRAM_INSTALLED = Sentence(
    "adoption.program-installed", "{failure}. It lasts until a run has installed that program"
)
HANDLER_REPOINTED = Sentence(
    "adoption.handler-repointed",
    "{failure}. It lasts until a run has pointed the handler to a program that exists",
)
DEFAULT_MOVES = Sentence(
    "adoption.default-moves", "{failure}. It lasts until a run has made {handler} the default"
)
HANDLER_RETIRED = Sentence(
    "adoption.handler-retired",
    "{failure}. It lasts until a run has removed the handler with {path}",
)
HANDLER_PROGRAM_LOST = Sentence("adoption.program-lost", "{failure}", next="{step}")
HANDLER_LOST = Sentence(
    "adoption.handler-lost",
    "{failure}",
    next="Remove the handler from the configuration of {instance}, or reinstall the program",
)
RENDERED_HANDLER_LOST = Sentence(
    "adoption.rendered-handler-lost",
    "{failure}",
    why="{title} makes the configuration of {instance} again at each start",
    next="Restart {title}. If the handler is still there, remove it from its template next to that file"
    " ({templates}), or reinstall the program",
)
HANDLER_PROGRAM_MISSING = Sentence(
    "adoption.program-missing",
    "the program of the handler {handler} does not exist",
    why="{effect}",
    next="{step}",
)
DEFAULT_WITHOUT_PROGRAM = Sentence(
    "adoption.default-without-program",
    "{handler} would become the default handler of {engine}, and its program {program} is not on this host",
    why="every container without a handler of its own would fail",
    next="{step}. Then run again",
)
PROGRAM_SETS_MODE = Sentence(
    "adoption.program-sets-mode",
    "The handler {handler} keeps its program {program}: it sets the mode of the NVIDIA runtime",
    next="If you need another one, set it in gpufleet_handlers ({handler}: binary)",
)
PROGRAM_KEPT = Sentence(
    "adoption.program-kept",
    "The handler {handler} keeps its program {program}: {usual} is not on this host",
    next="If you need another one, set it in gpufleet_handlers ({handler}: binary)",
)
INSTALL_FIRST = Sentence(
    "adoption.install-first", "Install {package} first, or correct the handler's binary"
)
INSTALL_THERE = Sentence(
    "adoption.install-there",
    "Install the program there, or set another one in gpufleet_handlers",
)
REINSTALL_PROGRAM = Sentence(
    "adoption.reinstall-program",
    "Reinstall the program (gpufleet_packages: present installs NVIDIA's), or set another one in gpufleet_handlers",
)
COPY_BEFORE_PURGE = Sentence(
    "adoption.copy-before-purge",
    "Before you remove the package {package}, copy {path}: purging the package removes it",
)
MODE_STAYS = Sentence(
    "adoption.mode-stays",
    "its program {program} sets the mode of the NVIDIA runtime by its name, and stays",
)
MODE_LEFT_TO_CONFIGURATION = Sentence(
    "adoption.mode-left-to-configuration",
    "its program {program} sets the mode of the NVIDIA runtime by its name, and is replaced by "
    "{replacement}, which leaves the mode to the configuration",
)
MORE_THAN_TABLE = Sentence("adoption.more-than-table", "it has more than a version and a CRI table")
LINE_HAS_COMMENT = Sentence("adoption.has-comment", "line {line} has a comment")

# --- other generators of CDI specs

GENERATED = Sentence(
    "adoption.cdi-generated",
    "{title} generates the CDI spec of this host",
    why="{setting} makes this file at each boot, and it would hide the devices of a second spec",
    next="Set gpufleet_cdi_owner: toolkit to leave the spec to it, or {setting}.enable = false in the system's configuration",
)
UNIT_GENERATES = Sentence(
    "adoption.cdi-unit-enabled",
    "{path} is enabled and runs nvidia-ctk cdi generate, so a boot brings another spec of the same "
    "GPUs, or that one instead of this collection's",
    next="Disable it: systemctl disable {unit}",
)
OWNER_FORCED = Sentence("adoption.cdi-owner-forced", "gpufleet_cdi_owner forces this")
TOOLKIT_CANNOT_OWN = Sentence(
    "adoption.toolkit-cannot-own",
    "gpufleet_cdi_owner: toolkit cannot work: {reason}",
    next="Use gpufleet_cdi_owner: collection, or let nvidia-cdi-refresh write a spec that this host's engines accept",
)
REFRESH_SERVES = Sentence(
    "adoption.refresh-serves",
    "{title} is enabled and writes {path}, version {version}, which every consumer here accepts",
)
NO_OTHER_WRITER = Sentence(
    "adoption.no-other-writer",
    "nothing runs in another root directory, so no other tool would write the spec",
)
REFRESH_ABSENT = Sentence("adoption.refresh-absent", "nvidia-cdi-refresh is not on this host")
REFRESH_OFF = Sentence("adoption.refresh-off", "{title} is here but not enabled")
REFRESH_UNREAD = Sentence(
    "adoption.refresh-unread", "{title} writes to {path}, where no engine looks"
)
REFRESH_NOT_READ_BY_ALL = Sentence(
    "adoption.refresh-not-read-by-all", "{title} writes to {path}, where not every engine looks"
)
REFRESH_WITHOUT_FILE = Sentence(
    "adoption.refresh-without-file",
    "{title} is enabled, but {path} does not exist or has no version",
)
REFRESH_TOO_NEW = Sentence(
    "adoption.refresh-too-new",
    "{title} writes version {version}, but the oldest consumer here accepts {accepted} at most",
)
ONE_WRITER = Sentence(
    "adoption.one-cdi-writer",
    "this collection owns the CDI spec of this host, and with two writers engines drop or hide devices",
)
REFRESH_STARTS = Sentence(
    "adoption.refresh-starts",
    "the package starts nvidia-cdi-refresh, whose file would hide the one of this collection",
)
REFRESH_STOPPED = Sentence(
    "adoption.refresh-stopped",
    "{reason}",
    next="Set gpufleet_cdi_owner: toolkit to leave the spec to it",
)
UNIT_IN_THE_WAY = Sentence(
    "adoption.unit-in-the-way",
    "a unit of your own is in the place where nvidia-cdi-refresh has to be masked",
    why="{reason}",
    next="Remove it, or set gpufleet_cdi_owner: toolkit",
)
REFRESH_RETURNS = Sentence(
    "adoption.refresh-returns", "state: absent returns the CDI spec to nvidia-cdi-refresh"
)
UNIT_ENABLED_AGAIN = Sentence("adoption.unit-enabled-again", "enable {unit} again")
REFRESH_ENABLED_AGAIN = Sentence(
    "adoption.refresh-enabled-again",
    "nvidia-cdi-refresh is enabled again and writes the CDI spec from the next boot on; `systemctl start` does it now",
)

# --- hook files, daemon.json and the runtime's configuration

HOOK_ADOPTED = Sentence(
    "adoption.hook-adopted",
    "NVIDIA's packages, their guides or the GPU Operator create this hook file, and a hook in addition to CDI injects GPUs twice",
)
HOOK_LEFT = Sentence(
    "adoption.hook-left",
    "gpufleet_adopt: never leaves it in place",
    next="Set gpufleet_adopt: auto, or rm {path}: a hook in addition to CDI injects GPUs twice",
)
HOOK_SCRIPT = Sentence(
    "adoption.hook-script",
    "it is a script for the Docker of RHEL 7, which no current engine runs",
    next="Remove it: rm {path}",
)
RUNTIME_USED = Sentence("adoption.runtime-used", "the runtime is used as it is", next="{step}")
RUNTIME_USED_WITH_SETTINGS = Sentence(
    "adoption.runtime-used-with-settings",
    "the runtime is used as it is, with the settings that it has in addition to its program",
    next="{step}",
)
RUNTIME_REPOINTED = Sentence(
    "adoption.runtime-gets-program",
    "the runtime gets the program of this collection, and keeps its other settings",
    next="{step}",
)
CONFIGURATION_CHANGED = Sentence(
    "adoption.configuration-changed",
    "the value was changed from the toolkit's default, and the decision for this host needs another one; every other key stays",
    next="Use gpufleet_injection, gpufleet_isolation and gpufleet_cdi_spec_dirs, which decide on these keys",
)
OPERATOR_SEEN = Sentence(
    "adoption.operator-seen",
    "the GPU Operator runs or ran here ({path})",
    next="If this collection configures the engines, switch its toolkit off (toolkit.enabled=false in its ClusterPolicy)",
)
KUBESPRAY_SEEN = Sentence(
    "adoption.kubespray-seen",
    "{path} is Kubespray's mark, and Kubespray renders the engine's configuration again",
    next="Add the handler to its containerd_additional_runtimes as well, so its next run keeps it",
)

# --- the GPU Operator's toolkit

HAND_OVER = (
    "set toolkit.enabled=false in its ClusterPolicy, or label this node "
    "nvidia.com/gpu.deploy.container-toolkit=false, and run again once its pod is gone"
)
PROVE_GONE = (
    "If the kubelet has just started, run again when it has been active for 10 minutes. If the "
    "operator has left this host for good, set gpufleet_operator_toolkit to gone. If you use the "
    f"operator, {HAND_OVER}"
)
OPERATOR_RUNS = Sentence(
    "operator.runs",
    "The GPU Operator's toolkit runs on this host ({evidence}) and writes the NVIDIA handlers of "
    "{engine} itself, so {engine} is left alone",
    next=HAND_OVER,
)
OPERATOR_BY_NRI = Sentence(
    "operator.by-nri",
    "The GPU Operator's toolkit runs on this host ({evidence}). {engine} has no handler of it, and "
    "{socket} is there. So the toolkit works as an NRI plugin (cdi.nriPluginEnabled), or has not written its "
    "handlers yet. An NRI plugin needs no configuration of {engine}, so {engine} is left alone",
    next=HAND_OVER,
)
OPERATOR_WITHOUT_NRI = Sentence(
    "operator.without-nri",
    "The GPU Operator's toolkit runs on this host ({evidence}). {engine} has no handler of it, and "
    "{socket} is missing. So the toolkit has not written its handlers yet, or it is an NRI plugin "
    "(cdi.nriPluginEnabled) that {engine} does not serve. {engine} is left alone",
    next="If cdi.nriPluginEnabled is set, switch NRI on: containerd 1.7 has it only with "
    'disable = false in plugins."io.containerd.nri.v1.nri", 2.0 and newer unless a file disables '
    "it. Otherwise wait until the toolkit's pod is ready",
)
OPERATOR_RUNS_AGAIN = Sentence(
    "operator.runs-again",
    "The GPU Operator's toolkit runs again on this host ({evidence}): it has rewritten {path}, "
    "which this collection had taken over. It writes the NVIDIA handlers of {engine} itself, so "
    "{engine} is left alone",
    next=HAND_OVER,
)
OPERATOR_UNPROVEN = Sentence(
    "operator.unproven",
    "The GPU Operator's toolkit has configured this {engine} ({traces}), and nothing proves that "
    "it no longer runs: {evidence}. So it counts as running, and {engine} is left alone",
    next=PROVE_GONE,
)
OPERATOR_UNPROVEN_AGAIN = Sentence(
    "operator.unproven-again",
    "The GPU Operator's toolkit has configured this {engine} ({traces}) and rewritten {path}, "
    "which this collection had taken over. Nothing proves that it no longer runs: {evidence}. So "
    "it counts as running, and {engine} is left alone",
    next=PROVE_GONE,
)
PROGRAMS_STAY = Sentence(
    "operator.programs-stay",
    "the toolkit no longer runs ({evidence}); its programs stay, since containers that were started with them need them",
    next="Once no handler names a program there and its containers have ended: rm -r {path}",
)
NO_ENGINE_RUNS = Sentence("operator.no-engine-runs", "engines do not run in another root directory")
KUBELET_ABSENT = Sentence(
    "operator.no-kubelet", "no kubelet is on this host, and none of its processes runs"
)
DECLARED_GONE = Sentence(
    "operator.declared-gone",
    "gpufleet_operator_toolkit is gone, and neither a process nor a pod of it is here",
)
KUBELET_SETTLED = Sentence(
    "operator.kubelet-settled",
    "the kubelet has been active for 10 minutes, and neither a process nor a pod of it is here",
)
PROCESS_RUNS = Sentence("operator.process-runs", "its process {program} runs")
POD_RUNS = Sentence("operator.pod-runs", "{engine} has a pod {name}-*")
POD_KEPT = Sentence("operator.pod-kept", "the kubelet keeps a pod with the container {container}")
KUBELET_UNVERIFIED = Sentence(
    "operator.kubelet-unverified", "the kubelet that runs here could not be verified"
)
KUBELET_SILENT = Sentence(
    "operator.kubelet-silent",
    "the kubelet of {title} cannot be asked for how long it has run",
)
KUBELET_STOPPED = Sentence("operator.kubelet-stopped", "the kubelet of this host does not run")
KUBELET_AGE_UNKNOWN = Sentence(
    "operator.kubelet-age-unknown", "systemd does not say since when {unit} is active"
)
KUBELET_YOUNG = Sentence(
    "operator.kubelet-young",
    "the kubelet has been active for less than 10 minutes, so its pods may not have started yet",
)
PODS_UNLISTED = Sentence("operator.pods-unlisted", "{engine} does not list its pods over CRI")
NO_ENGINE_LISTS = Sentence("operator.no-engine-lists", "no engine lists its pods over CRI")
PODS_UNKNOWN = Sentence(
    "operator.pods-unknown", "the kubelet's directory {directory} could not be listed"
)
