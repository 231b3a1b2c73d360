# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about configuration files, and about settings that would have no effect in
them.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- files and imports

TOO_DEEP = Sentence(
    "containerd.import-chain-too-long",
    "more than {limit} files import one another in a row",
    next="Import fewer files here",
)
TOO_MANY = Sentence(
    "containerd.too-many-imports",
    "more than {limit} files are imported",
    next="Import fewer files here",
)
IMPORTS_NO_LIST = Sentence(
    "containerd.imports-not-a-list",
    "`imports` is not a list of paths",
    next="Fix it first: containerd refuses it",
)
IMPORT_MISSING = Sentence(
    "containerd.import-missing",
    "the imported file {path} does not exist",
    why="containerd does not start with a missing import",
    next="Create the file, or remove it from `imports`",
)
IMPORT_IS_DIRECTORY = Sentence(
    "containerd.import-is-directory",
    "the import {path} is a directory",
    why="containerd does not start with it",
    next="Import {pattern} instead",
)
UNREADABLE = Sentence(
    "containerd.file-unreadable",
    "this file cannot be read",
    why="{trouble}",
    next="Make it a readable regular file",
)
NOT_LOADED = Sentence(
    "containerd.file-not-loaded",
    "containerd does not load it",
)
REFUSED_BY_RELEASE = Sentence(
    "containerd.file-refused-by-release",
    "containerd {version} refuses it",
)
VERSION_NO_NUMBER = Sentence(
    "containerd.version-not-a-number",
    "`version` is not a number",
    next="Fix it first: containerd refuses it",
)
VERSION_UNSUPPORTED = Sentence(
    "containerd.config-version-unsupported",
    "this file has version = {declared}, but containerd {version} supports only {supported}",
    why="containerd rejects or ignores such a file",
    next="Write it for this containerd, or upgrade containerd",
)
VERSION_1_CRI_DROPPED = Sentence(
    "containerd.version-1-cri-dropped",
    "this is a version 1 configuration",
    why="containerd {version} drops its CRI part silently",
    next='Write it as version 2 (plugins."io.containerd.grpc.v1.cri") and run again',
)
VERSION_1_BESIDE_DROP_IN = Sentence(
    "containerd.version-1-beside-drop-in",
    "this is a version 1 configuration",
    why="containerd {version} accepts no newer drop-in beside it",
    next='Write it as version 2 (plugins."io.containerd.grpc.v1.cri") and run again',
)
CRI_SWITCHED_OFF = Sentence(
    "containerd.cri-switched-off-by-file",
    "disabled_plugins switches CRI off",
    why="settings for CRI would have no effect",
    next="Remove the CRI plugin from disabled_plugins and run again",
)
TABLE_UNREAD = Sentence(
    "containerd.table-of-version-2-unread",
    "containerd {version} does not read this table",
    why="{root} has no version, so it counts as version 1, in which the table is plugins.cri",
    next="If these settings are to count, write version = 2 at the top of {root}. Otherwise remove the table",
)
DROP_IN_TOO_NEW = Sentence(
    "containerd.drop-in-newer-than-root",
    "this file has version = {declared}, but its root {root} has {wanted}",
    why="containerd does not start with it, or silently drops the root file's CRI table",
    next="Write it as version {wanted}, or remove it",
)
CTK_DROP_IN_TOO_NEW = Sentence(
    "containerd.drop-in-of-nvidia-ctk-newer-than-root",
    "this file has version = {declared}, but its root {root} has {wanted}",
    why="containerd does not start with it, or silently drops the root file's CRI table",
    next="Write it as version {wanted} (`{command} --config-source=file` does that), or remove it",
)

# ---------------------------------------------------------------- settings without an effect

OTHER_SPELLING = Sentence(
    "containerd.option-in-other-spelling",
    "{setting} is spelled {spelling} here",
    why="containerd 2.x prefers this spelling to the usual one, so the line of this collection would have no effect",
    next="Spell it {name}, and run again",
)
CHANGES_MORE = Sentence(
    "containerd.change-alters-more",
    "the change would alter more than the keys of this collection",
    why="merged, its files would yield other settings than before",
    next="Merge the files into one, and run again",
)
SHADOWED_BY_OWN_DROP_IN = Sentence(
    "containerd.own-drop-in-hides-root",
    "this drop-in of this collection hides the root file's CRI settings from the installed containerd",
    why="it was written for containerd 2.x, and {version} uses its whole CRI table instead of the root file's",
    next="Run with gpufleet_state: absent first, then run again. On 1.x this collection writes to the root file only",
)
SHADOWED_BY_TABLE = Sentence(
    "containerd.setting-shadowed-by-table",
    "{setting} = {value} would have no effect",
    why="this file is read last, and containerd 1.x uses its whole CRI table instead of the root file's",
    next="{step}",
)
SHADOWED_BY_SETTING = Sentence(
    "containerd.setting-shadowed",
    "{setting} = {value} would have no effect",
    why="this file is read later and sets {there}",
    next="{step}, or set the same value in gpufleet_handlers",
)
MOVE_CRI_SETTINGS = Sentence(
    "containerd.move-cri-settings",
    "Move its CRI settings to the root file and remove it",
)
TAKE_SETTING_OUT = Sentence(
    "containerd.take-setting-out",
    "Take this setting out of it",
)
SHADOWED_BY_TOOL = Sentence(
    "containerd.file-of-tool-read-later",
    "this file of {tool} is read after the one of this collection, and is not taken over",
    why="{cause}",
    next="{step}",
)

# ---------------------------------------------------------------- our own file

DROP_IN_PATH_IN_USE = Sentence(
    "containerd.drop-in-path-in-use",
    "the drop-in of this collection belongs here, but the path is in use",
    why="{trouble}",
    next="Move it away",
)
DROP_IN_OF_OTHERS = Sentence(
    "containerd.drop-in-of-others",
    "others wrote this file, at the path of the drop-in of this collection",
    why="it does not begin with this collection's marker",
    next="Move it away, or set another path in gpufleet_drop_in_path",
)
OWNED = Sentence(
    "containerd.file-owned",
    "this collection owns this file",
)
IMPORTS_DROP_IN = Sentence(
    "containerd.imports-drop-in",
    "so that containerd reads the drop-in",
)
VERSION_NEEDED = Sentence(
    "containerd.version-needed",
    "containerd 2.0 to 2.2 drop the CRI settings of a file without a version",
)
NOT_WRITTEN_HERE = Sentence(
    "containerd.setting-of-manager",
    "{setting} is not written here",
    why="it is a setting of {title}",
    next="{step}",
)
LEAVES_NOT_TOML = Sentence("containerd.leaves-not-toml", "line {line} is not valid TOML ({fault})")
