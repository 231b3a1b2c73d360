# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about configurations that a manager renders."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- where the settings come from

PLACE_OF_TEMPLATE = Sentence(
    "containerd.place-in-template",
    "{template} (from which {title} renders {path})",
)
FROM_TEMPLATE = Sentence(
    "containerd.rendered-from-template",
    "{title} renders {path} from this template at each start",
)
FROM_TEMPLATE_WITH_CAUSE = Sentence(
    "containerd.rendered-from-template-with-cause",
    "{cause}; {title} renders {path} from this template at each start",
)
FIX_TEMPLATE = Sentence(
    "containerd.fix-template",
    "Do this in the template: {step}. Or move the template away (mv {template} "
    "{template}.old) for {title}'s own text. Then restart {title} and run again",
)
RENDERED = Sentence(
    "containerd.rendered-at-start",
    "{title} renders this file at each start",
)
RENDERED_WITH_CAUSE = Sentence(
    "containerd.rendered-at-start-with-cause",
    "{cause}; {title} renders this file at each start",
)
RESTART_OR_CORRECT = Sentence(
    "containerd.restart-or-correct",
    "Restart {title}, which renders it again, and correct {sources} if that does not help. Then run again",
)
RESTART_OR_UPDATE = Sentence(
    "containerd.restart-or-update",
    "Restart {title}, which renders it again, and update {title} if that does not help. Then run again",
)

# ---------------------------------------------------------------- drop-ins

NOTHING_MISSING = Sentence(
    "containerd.rendered-completely",
    "{title}'s own configuration already has all that is decided",
)
DROP_IN_FOR_KEYS_OF_HANDLER = Sentence(
    "containerd.drop-in-completes-handler",
    "{title} renders {path} at each start and imports this file. Its own handler {handler} lacks {keys}",
)
DROP_IN_FOR_HANDLER = Sentence(
    "containerd.drop-in-adds-handler",
    "{title} renders {path} at each start and imports this file. It has no handler {handler} yet",
)
DROP_IN_FOR_KEYS = Sentence(
    "containerd.drop-in-adds-keys",
    "{title} renders {path} at each start and imports this file. It lacks {keys}",
)
FINDS_BY_ITSELF = Sentence(
    "containerd.manager-finds-handlers",
    "{title} renders {path} at each start, and {cause}. It adds the handlers that it finds by itself",
)
NO_DROP_IN_READ = Sentence(
    "containerd.rendered-without-drop-ins",
    "{title} renders {path} at each start, so this collection does not edit it, and {cause}",
    next="{step}",
)
NO_FILE_YET = Sentence(
    "containerd.rendered-file-missing",
    "it does not exist yet, so nothing tells which drop-ins this release reads",
)
MERGED = Sentence(
    "containerd.drop-ins-merged-by-manager",
    "this release merges what drop-ins say of CRI into {path} by itself, where our part cannot be told from the rest",
)
REPLACED = Sentence(
    "containerd.drop-in-would-replace",
    "a drop-in would replace all that it says of CRI on containerd {version}",
)
DROP_IN_NEVER = Sentence(
    "containerd.drop-in-never",
    "gpufleet_drop_in: never allows no other way",
)
NOT_NAMED = Sentence(
    "containerd.imports-without-drop-in",
    "its imports ({imports}) do not name {path}",
)
WATCHED = Sentence(
    "containerd.manager-restarts-by-itself",
    "gpufleet_restart: never cannot be kept here, so nothing is written",
    why="{title} watches its drop-ins, and restarts its containerd by itself when one changes",
    next="Run in a change window with gpufleet_restart: auto. Containers go on during that restart",
)
TAKEN_UP = Sentence(
    "containerd.manager-takes-change-up",
    "{title} takes the change up by itself and restarts its containerd",
)
OF_PERSON = Sentence(
    "containerd.main-file-of-person",
    "{path} does not begin with the line `{line}`, so {title} takes it for a person's, and so does this collection",
    next="Move it away and restart {title}, which then writes its own, and run again. Or put the handler into it by hand",
)
OF_PERSON_MERGED = Sentence(
    "containerd.main-file-of-person-merged",
    "{path} does not begin with the line `{line}`, so {title} takes it for a person's, "
    "and so does this collection. {title} makes {merged}, which it imports, for a main "
    "file of its own alone",
    next="Move it away and restart {title}, which then writes its own, and run again. Or put the handler into it by hand",
)
DROP_IN_OTHER_VERSION = Sentence(
    "containerd.drop-in-of-other-version",
    "{place} has version = {found} and not {wanted}, and {title} does not start again with such a drop-in",
    next="Write it for version {wanted} (`containerd config migrate`) or remove it, and run again",
)
DROP_IN_OLD_TABLE = Sentence(
    "containerd.drop-in-with-old-table",
    "{place} has the table {table} of older releases, and {title} does not start again with such a drop-in",
    next="Write it for version {wanted} (`containerd config migrate`) or remove it, and run again",
)

# ---------------------------------------------------------------- what a manager finds by itself

FOUND_AT_START = Sentence(
    "containerd.manager-finds-program",
    "{title} finds {program} at its start and adds the handler",
)
HANDLER_LACKS = Sentence(
    "containerd.rendered-handler-lacks",
    "{title} renders the handler {handler} by itself, without {keys}",
    why="a table that stands twice in the file is an error, with which containerd does not start",
    next="Give the handler another name in gpufleet_handlers, which goes into a template of this collection",
)
COPIED_HANDLER_LACKS = Sentence(
    "containerd.copied-template-handler-lacks",
    "{title} renders the handler {handler} without {keys}",
    next="Write that into its table",
)
COPIED_PROGRAM_GONE = Sentence(
    "containerd.copied-template-program-gone",
    "{title} renders the handler {handler} with {program}, which is not on this host",
    why="a template that is a copied configuration keeps that program at each start, and every pod of the handler fails",
    next="Write a program that is there into its table",
)
OTHER_DRIVER = Sentence(
    "containerd.rendered-handler-other-cgroup-driver",
    "{title} renders the handler {handler} with another cgroup driver than runc",
    why="pods of such a handler are killed after a while (k3s issue 8470)",
    next="Update {title}, or give the handler another name in gpufleet_handlers, which goes into a template of this collection",
)
COPIED_OTHER_DRIVER = Sentence(
    "containerd.copied-template-other-cgroup-driver",
    "{title} renders the handler {handler} with another cgroup driver than runc",
    why="pods of such a handler are killed after a while (k3s issue 8470)",
    next="Write SystemdCgroup = {{{{ .SystemdCgroup }}}} into its options",
)
DEFAULT_RENDERED = Sentence(
    "containerd.default-as-rendered",
    "as it is rendered",
)
DEFAULT_SAID = Sentence(
    "containerd.default-as-set",
    "as {path} sets it",
)
DEFAULT_OF_MANAGER = Sentence(
    "containerd.default-of-manager",
    "the default handler is a setting of {title}, which this collection does not change",
    why="{title} renders it into {path} at each start",
    next="{step}",
)
WRITE_DEFAULT = Sentence(
    "containerd.write-default-line",
    "Write this line {key}: {handler} in {path}, and run again",
)
ADD_DEFAULT = Sentence(
    "containerd.add-default-line",
    "Add the line {key}: {handler} in {path}, and run again",
)
REMOVE_DEFAULT = Sentence(
    "containerd.remove-default-line",
    "Remove the line {key}: {handler} from {path}, and run again",
)
REMOVE_DEFAULT_FLAG = Sentence(
    "containerd.remove-default-flag",
    "Remove --{key} from the arguments of {unit}, and run again",
)
RESTART_LEFT = Sentence(
    "containerd.rendered-at-next-start-restart-never",
    "{path}: {title} renders it at its next start. gpufleet_restart: never leaves the restart of {unit} to you",
)
RESTART_YOURSELF = Sentence(
    "containerd.rendered-at-next-start-without-unit",
    "{path}: {title} renders it at its next start. This containerd runs outside systemd",
    next="Restart it yourself",
)
RESTART_RENDERS = Sentence(
    "containerd.restart-renders",
    "{title} looks for the NVIDIA runtime and renders its configuration at its start",
)
ONLY_FOUND_WANTED = Sentence(
    "containerd.only-found-handlers-wanted",
    "no handler is wanted that the manager does not add by itself",
)
LEFT_BY_OPERATOR = Sentence(
    "containerd.program-left-by-operator",
    "{program}: {title} takes this program before {usual}. It was left by a GPU Operator and reads the configuration next to it",
    next="Remove its directory to use the packages' own",
)
PATH_NOT_PLAIN = Sentence(
    "containerd.service-path-not-plain",
    "the value of PATH is not a list of absolute directories",
    why="systemd replaces no variables in such a file, so programs are not found by this PATH",
    next="Write it out, for example PATH={example}, restart the service and run again",
)
PROGRAM_MISSING = Sentence(
    "containerd.program-not-installed",
    "{program} is not installed, so {title} adds no handler for it",
    next="Set gpufleet_packages: present to have it installed, or install it",
)
PROGRAM_NOT_FOUND = Sentence(
    "containerd.program-not-in-path",
    "{title} does not find {program}",
    why="{directory} is not in the PATH of {unit}",
    next="{step}",
)
WRITE_PATH = Sentence(
    "containerd.write-path-line",
    "Write this line in {path}, and run again: PATH={value}",
)
ADD_PATH = Sentence(
    "containerd.add-path-line",
    "Add this line to {path}, and run again: PATH={value}",
)
SETTINGS_PATH_NOT_PLAIN = Sentence(
    "containerd.manager-settings-path-not-plain",
    "the value of {variable} is not the path of a file",
    why="so what becomes the default handler at the next start is not known",
    next="Name a file of this host by its absolute path, and run again",
)
DEFAULT_NOT_PLAIN = Sentence(
    "containerd.manager-default-not-plain",
    "the value of {key} is not the plain name of a handler",
    why="so which handler becomes the default at the next start is not known",
    next="Write it as {key}: nvidia, or as the name of another handler, and run again",
)

# ---------------------------------------------------------------- templates

NO_BASE = Sentence(
    "containerd.template-without-base",
    "this release of {title} has no base for a template",
    why="its containerd is {version}, and templates can begin with the base since that with {since}",
    next="Update {title}, or use the handler nvidia without options, which it adds by itself",
)
TEMPLATE_UNREADABLE = Sentence(
    "containerd.template-unreadable",
    "this template could not be read",
    why="{trouble}",
    next="Make it readable for root, or move it away",
)
STATEMENT_IN_HANDLER = Sentence(
    "containerd.statement-in-handler",
    "a handler has {{{{ in its name or in a value",
    why="it would be a statement of the template",
    next="Choose another name or value in gpufleet_handlers",
)
TEMPLATE_REPLACES = Sentence(
    "containerd.template-replaces-own-text",
    "this template replaces {title}'s own text, and has no place for the handler {handler} that {title} finds",
    why="it is a configuration that was copied, by an older GPU Operator or by hand "
    "(NVIDIA/gpu-operator issue 992), and keeps the text of the release that it was "
    "copied from",
    next="Move it away (mv {path} {path}.old) and run again. Parts of it that have to stay go below {base} in a new one",
)
TEMPLATE_COPIED = Sentence(
    "containerd.template-copied",
    "{path}:{line}: this template is a configuration that was copied, by an older GPU "
    "Operator or by hand, and replaces {title}'s own text. It stays as it is, since the "
    "handlers that are wanted are rendered with it. A later release of {title} may not "
    "start with it (NVIDIA/gpu-operator issue 992)",
    next="Move it away (mv {path} {path}.old) and run again",
)
TEMPLATE_OF_OTHERS = Sentence(
    "containerd.template-of-others",
    "others wrote this template, so this collection does not edit it",
    why="the manager reads one template, and the handlers that are wanted are not in it",
    next="Add these lines to its end and run again: {tables}",
)
