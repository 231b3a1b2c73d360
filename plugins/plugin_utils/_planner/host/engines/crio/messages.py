# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about CRI-O."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

LOADS_EVERY = "CRI-O loads every file in its drop-in directory, regardless of its name"

# --- engines that are left alone

CRIO_SILENT = Sentence(
    "crio.silent",
    "CRI-O runs, but does not answer at {socket}",
    why="{reason}",
    next="See `journalctl -u {unit}`, correct that and run again",
)
STOPPED_BY_FILE = Sentence(
    "crio.stopped-by-file",
    "CRI-O does not run, and it cannot read a file: {place}: {problem}",
    next="{step}",
)
CRIO_VERSION_UNKNOWN = Sentence(
    "crio.version-unknown",
    "the version of CRI-O is not known",
    why="no package database below it has a version",
    next='Set gpufleet_engine_version, for example to "1.34.0"',
)
VERSION_UNREADABLE = Sentence(
    "crio.version-unreadable",
    "{version!r} is not a version of CRI-O",
    next="Write it as 1.34.2",
)
WRITTEN_BY_TOOL = Sentence(
    "crio.written-by-tool",
    "{path} configures NVIDIA's runtime already and looks like the work of {tool}. CRI-O reads it "
    "after the drop-in of this collection, so it would override that",
    next="Leave CRI-O to that tool, or remove the file (with the GPU Operator: toolkit.enabled=false) and run again",
)
NOT_TAKEN_OVER = Sentence(
    "crio.not-taken-over",
    "{path} configures NVIDIA's runtime already and looks like the work of {tool}. CRI-O reads it "
    "after the drop-in of this collection, so it would override that. This run does not take the "
    "file over: {reason}",
    next="{step}",
)

# --- files that CRI-O reads

CRIO_DROP_IN_NEVER = Sentence(
    "crio.drop-in-never",
    "gpufleet_drop_in: never is not possible with CRI-O",
    why="a later file that defines the same handler replaces it completely, so a handler in the main file could be lost",
    next="Use gpufleet_drop_in: auto",
)
DROP_IN_ELSEWHERE = Sentence(
    "crio.drop-in-elsewhere",
    "CRI-O would not read this drop-in",
    why="its drop-in directory is {directory}",
    next="Choose a file there",
)
CRIO_DROP_IN_OF_OTHERS = Sentence(
    "crio.drop-in-of-others",
    "this file exists, and this collection did not write it",
    why="it does not begin with this collection's marker",
    next="Move it away, or set another path in gpufleet_drop_in_path",
)
MAIN_FILE_UNREADABLE = Sentence(
    "crio.main-file-unreadable",
    "CRI-O cannot read this: {trouble}",
    next="Move it elsewhere or repair it",
)
DROP_IN_UNREADABLE = Sentence(
    "crio.drop-in-unreadable",
    "CRI-O cannot read this: {trouble}",
    why=LOADS_EVERY,
    next="Move it elsewhere or repair it",
)
MAIN_FILE_REFUSED = Sentence(
    "crio.main-file-refused", "CRI-O would refuse to start: {problem}", next="{step}"
)
DROP_IN_REFUSED = Sentence(
    "crio.drop-in-refused",
    "CRI-O would refuse to start: {problem}",
    why=LOADS_EVERY,
    next="Move the file out of the directory, or repair it",
)
READ_LATER = Sentence(
    "crio.read-later",
    "CRI-O reads this file after the drop-in of this collection, and it overrides {settings}",
    why=f"{LOADS_EVERY}, and the last one wins",
    next="Move it out of {directory}, or remove these settings from it",
)
FLAG_OUTRANKS = Sentence(
    "crio.flag-outranks",
    "CRI-O gets the flag {flag} ({value})",
    why="the flag outranks all its files, and {wanted} is needed",
    next="Remove the flag from its unit, restart CRI-O and run again",
)
STRAY_FILE = Sentence(
    "crio.stray-file",
    "{path} looks like a leftover, but CRI-O loads it",
    next="Move it out of {directory}",
)

# --- handlers

CRIO_NO_BASE = Sentence(
    "crio.no-base",
    "CRI-O has no handler of type oci to copy a new one from",
    why="the default is {default!r}, the handlers are {handlers}",
    next="Declare crun or runc in a drop-in of your own",
)
CRIO_OTHER_KIND = Sentence(
    "crio.handler-of-other-kind",
    "the handler {handler} is of another kind ({kind})",
    why="runc cannot take its place",
    next="Choose another name in gpufleet_handlers, or remove this handler from the configuration",
)
HIDDEN_PROGRAM = Sentence(
    "crio.handler-runs-hidden-program",
    "the handler {handler} runs a program whose path is not sent from the host",
    why="that is not a known path of the NVIDIA runtime",
    next="Set the intended program in gpufleet_handlers ({handler}: binary), choose another name "
    "there, or remove this handler from the configuration",
)
DEFAULT_PROGRAM_TO_COME = Sentence(
    "crio.default-program-to-come",
    "{path} does not exist yet: without it CRI-O will not start",
)
PROGRAM_TO_COME = Sentence(
    "crio.program-to-come",
    "{path} does not exist yet: without it CRI-O will ignore the handler",
)
STATE_ELSEWHERE = Sentence(
    "crio.state-elsewhere",
    "containers of the handler {handler} keep their state below {present}, those of its replacement below {planned}",
    why="CRI-O could not stop the containers that run now",
    next="Set runtime_root: {present} in gpufleet_handlers ({handler}: options), or drain the node first, and run again",
)
CRIO_PROGRAM_NEEDED = Sentence(
    "crio.program-needed",
    "CRI-O does not start with a default handler whose program does not exist, and ignores any other such handler",
)

# --- pods

PODS_HANG = Sentence(
    "crio.pods-hang",
    "CRI-O cannot stop the pods {pods}, which were started with the handler {handlers}, without it",
    next="Drain them before the handler is removed",
)
PODS_MAY_HANG = Sentence(
    "crio.pods-may-hang",
    "CRI-O cannot stop pods that were started with the handler {handlers}, without it",
    next="Drain them before the handler is removed",
)

# --- reasons of differences

ABSENT = Sentence("crio.absent", "state: absent removes the drop-in of this collection")
CRIO_NOT_LOADED = Sentence(
    "crio.not-loaded", "the file is correct, but the daemon has not loaded it"
)
READS_AT_START = Sentence(
    "crio.reads-at-start", "CRI-O reads handlers and the default handler only at its start"
)
CRIO_RESTART_LEFT = Sentence(
    "crio.restart-left", "{unit} has to be restarted before the change takes effect"
)
WHOLE_FILE = Sentence(
    "crio.whole-file", "this collection owns the whole file; its settings stay the same"
)
DEFAULT_FOR_GPUS = Sentence("crio.default-for-gpus", "workloads get GPUs from this handler")
CRIO_DEFAULT_UNWANTED = Sentence("crio.default-unwanted", "the handler should not be the default")
RUNTIME_PATH = Sentence(
    "crio.runtime-path", "the NVIDIA runtime, which calls the low-level runtime"
)
RUNTIME_TYPE = Sentence("crio.runtime-type", "it is an OCI runtime")
CRIO_COPIED = Sentence("crio.copied", "as in the handler {base}")
HANDLER_UNWANTED = Sentence(
    "crio.handler-unwanted", "this handler is no longer in the desired state"
)

# --- checks by CRI-O itself

CRIO_CHECKED = Sentence(
    "crio.checked",
    "CRI-O itself reads the new configuration, and only the settings of this collection change",
)
LOGS_ERROR = Sentence("crio.logs-error", "CRI-O logs an error")

# --- files of nvidia-ctk

TOOL_WRITES = Sentence(
    "crio.tool-writes",
    "nvidia-ctk runtime configure writes exactly this for this configuration{mode}",
)
OPERATOR_WRITES = Sentence(
    "crio.operator-writes",
    "the GPU Operator's toolkit, which no longer runs here, writes exactly this for this configuration{mode}",
)
CRIO_REPLACED = Sentence("crio.replaced", "{writer}; {drop_in} replaces it")
OVERRIDDEN = Sentence(
    "crio.overridden",
    "a tool wrote it into this file, which stays unchanged; this collection's drop-in is read later and takes precedence{mode}",
)
CRIO_CAME_BACK = Sentence(
    "crio.came-back",
    "this collection took it over before and it exists again, so something writes it",
    next="Find out what writes it (a boot script, a configuration management, an operator), end that, remove the file and run again",
)
LEFT_TO_OWNER = Sentence(
    "crio.left-to-owner",
    "gpufleet_adopt: never leaves it to its owner",
    next="Set gpufleet_adopt: auto to have it taken over, or remove {path} and run again",
)
DECLARES_NO_HANDLER = Sentence(
    "crio.declares-no-handler",
    "it declares no handler, which nvidia-ctk runtime configure always does",
    next="Remove {path} and run again",
)
CRIO_UNEXPLAINED = Sentence(
    "crio.unexplained",
    "nvidia-ctk runtime configure does not explain {keys}",
    next="Move what you need of it to a drop-in of your own that is read before {drop_in}, remove {path} and run again",
)
HANDLER_NOT_NAMED = Sentence(
    "crio.handler-not-named",
    "it declares the handler {handler}, which is not in gpufleet_handlers, and pods may use it",
    next="Name {handler} in gpufleet_handlers to have it taken over, or remove {path} once no pod uses it",
)
OTHER_DEFAULT = Sentence(
    "crio.other-default",
    "it makes {default} the default handler, but the first one in gpufleet_handlers is {handler}",
    next="Set gpufleet_set_as_default, or remove that line",
)
HOOK_WANTED = Sentence(
    "crio.hook-wanted",
    "an OCI hook and no handler is to be configured here, but pods may use this one",
    next="Remove {path} once no pod uses it",
)

# --- what this release of CRI-O can do, as evidence of a decision

RELEASE_AND_CDI_DIRECTORIES = Sentence(
    "crio.release-and-cdi", "CRI-O {version}, CDI directories {directories}"
)
CRIO_BEFORE_CDI = Sentence("crio.before-cdi", "CRI-O {version} is older than {since}")
CRIO_NOT_INSTALLED = Sentence("crio.not-installed", "CRI-O is not installed on this host")
CRIO_NO_REASON = Sentence("crio.no-reason", "it reports no reason")

# --- why CRI-O does not load a file
FILE_IS_UTF8 = Sentence("crio.file-is-utf-8", "TOML is UTF-8")
OTHER_TYPE_EXPECTED = Sentence("crio.other-type-expected", "CRI-O expects another type")
