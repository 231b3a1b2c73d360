# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about other tools' files, and about what is restored."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- a file of another tool goes

EXPLAINED_BY_CTK = Sentence(
    "containerd.explained-by-nvidia-ctk",
    "every key in it is explained by nvidia-ctk's own rules and by the other files{note}",
)
EXPLAINED_BY_OPERATOR = Sentence(
    "containerd.explained-by-operator-toolkit",
    "every key in it is explained by the rules of the GPU Operator's toolkit, which no longer runs here, and by the other files{note}",
)
GOES = Sentence(
    "containerd.file-of-tool-goes",
    "this collection's own file now holds what the tool set, and everything else in it applies without it. The journal keeps it",
)
MANAGED_HERE = Sentence(
    "containerd.handler-managed-from-now-on",
    "the other lines of this file stay. From now on this collection manages the handler{note}",
)
CARRIED = Sentence(
    "containerd.handler-of-tool-kept",
    "the handler was created by {command}, and pods may use it",
)
COPIED_BY_TOOL = Sentence(
    "containerd.setting-of-tool-kept",
    "as in the file of {command}, which copied it from another handler",
)
DEFAULT_OF_TOOL = Sentence(
    "containerd.default-of-tool-kept",
    "{command} made it the default",
)

# ---------------------------------------------------------------- a file of another tool stays

TWO_TOOLS = Sentence(
    "containerd.two-tools",
    "{paths} define NVIDIA handlers, so two tools configured this containerd",
    next="Remove the one that is not wanted, restart containerd and run again",
)
TOOL_MAY_RUN = Sentence(
    "containerd.tool-may-still-run",
    "nothing proves that its tool no longer runs: {cause}",
)
NOT_IMPORTED = Sentence(
    "containerd.file-of-tool-not-imported",
    "no file imports it, so it has no effect",
    next="Remove it: rm {path}",
)
NOT_BY_CTK = Sentence(
    "containerd.key-not-of-nvidia-ctk",
    "{key}, which nvidia-ctk does not write",
    next="Remove that from {path} and run again",
)
ADOPT_NEVER = Sentence(
    "containerd.adopt-never",
    "gpufleet_adopt: never leaves it in place",
    next="Set gpufleet_adopt: auto to have it taken over",
)
IMPORTED_BY_NAME = Sentence(
    "containerd.file-of-tool-imported-by-name",
    "{root} imports it by name, and containerd does not start without it",
    next="Import its directory by {directory}/*.toml instead, and run again",
)
CAME_BACK = Sentence(
    "containerd.file-of-tool-came-back",
    "it was taken over before and exists again, so something writes it",
    next="Find out what writes it (a boot script, a configuration management, an operator), end that, remove the file and run again",
)
USE_OWN_FILE = Sentence(
    "containerd.give-other-containerd-own-file",
    "Give that containerd a file of its own instead of {path}, restart it and run again",
)
OTHER_AT_UNKNOWN_PLACE = Sentence(
    "containerd.other-containerd-at-unknown-path",
    "another containerd runs with {path}, a relative path, and may import it",
)
OTHER_UNREADABLE = Sentence(
    "containerd.other-containerd-config-unreadable",
    "another containerd runs with {path}, which may import it and cannot be read ({trouble})",
)
OTHER_READS = Sentence(
    "containerd.other-containerd-reads",
    "another containerd, which runs with {path}, reads it, too",
)
OTHER_IMPORTS = Sentence(
    "containerd.stopped-containerd-imports",
    "{path}, the configuration of a containerd that does not run now, imports it by name",
)
FILE_OF_TOOL_UNWANTED = Sentence(
    "containerd.file-of-tool-unwanted",
    "the desired state has no handler here",
    next="Remove {path} once no pod uses its handlers, restart {unit} and run again",
)
NOT_LOADED_YET = Sentence(
    "containerd.file-of-tool-not-loaded",
    "the running containerd has not loaded it, so it is not known whether it works",
    next="Restart {unit} and run again",
)
# `nvidia-ctk runtime configure` is not offered as a step: it copies the main file alone, so values
# that another file hides or sets differ again. Without --set-as-default it takes the default
# handler away.
DECIDE_VALUES = (
    "Write the values that are to hold to {place}, remove {path}, and run again: this run adds the handler "
    "itself and restarts the engine, so do not restart it before"
)
UNEXPLAINED = Sentence(
    "containerd.keys-unexplained",
    "nothing explains {keys}",
    next=DECIDE_VALUES,
)
UNEXPLAINED_MORE = Sentence(
    "containerd.more-keys-unexplained",
    "nothing explains {keys}; and {count} more",
    next=DECIDE_VALUES,
)
PLACES_DIFFER = Sentence(
    "containerd.places-differ",
    "that {one} and {other} differ",
)
ONLY_IN_ONE = Sentence(
    "containerd.key-in-one-file",
    "{place}, which only one of the files has",
)
HANDLER_ONLY_THERE = Sentence(
    "containerd.handler-in-one-file",
    "the handler {handler}, which only {path} has",
)
VALUES_DIFFER = Sentence(
    "containerd.values-differ",
    "{key} ({here}, {there})",
)
PLACE_HAS = Sentence(
    "containerd.place-has-value",
    "{place} has {value}",
)
PLACE_LACKS = Sentence(
    "containerd.place-lacks-value",
    "{place} does not set it",
)
NO_OTHER = Sentence(
    "containerd.no-other-file",
    "no other file does",
)

# ---------------------------------------------------------------- what is restored

CRI_WAS_OFF = Sentence(
    "containerd.cri-plugin-disabled",
    "{path}: its CRI plugin is disabled, so nothing in this file was in use. {unit} reads the file at its next start",
)
LOOKS_LIKE_OURS = Sentence(
    "containerd.handler-looks-like-ours",
    "{path}: has a handler that looks like one of this collection ({handler}), {cause}. It is left alone",
)
JOURNAL_UNAWARE = Sentence(
    "containerd.handler-not-in-journal",
    "which the journal of this host does not know",
)
WOULD_DIFFER = Sentence(
    "containerd.handler-would-differ",
    "which this collection did not write: its {key} would differ",
)
ONLY_KEYS_OUT = Sentence(
    "containerd.only-own-keys-removed",
    "{path}: changed by others in the meantime, or without a copy in the journal. Only the keys of this collection are taken back",
)
