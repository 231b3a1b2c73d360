# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about files that this collection wrote, kept and gives back."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import JOURNAL_DIR

OWN_FILE_UNREADABLE = Sentence(
    "restore.file-unreadable",
    "this file could not be read",
    why="{reason}",
    next="Make it readable for root, or remove it",
)
NOT_REGULAR = Sentence(
    "restore.not-regular",
    "this is not a regular file but a {type}",
    next="Remove it, then run again",
)
REPLACED_SINCE = Sentence(
    "restore.replaced-since",
    "{path} has been replaced and contains nothing of this collection any more; it is left alone",
)
CHANGED_PUT_BACK = Sentence(
    "restore.changed-put-back",
    "{path} was changed after this collection had written it, but the whole file belongs to this "
    "collection. So the file from before it is put back all the same. The newest entry of the "
    "host's journal keeps the changed content",
)
CHANGED_REMOVED = Sentence(
    "restore.changed-removed",
    "{path} was changed after this collection had written it, but the whole file belongs to this "
    "collection. So it is removed all the same. The newest entry of the host's journal keeps the "
    "changed content",
)
KEY_BY_KEY = Sentence("restore.key-by-key", "taken back key by key")
BACK_BEFORE = Sentence("restore.back-before", "state: absent restores what was there before")
BACK_KEPT = Sentence(
    "restore.back-kept",
    "state: absent restores what the journal kept, whether or not the engine still exists",
)
PART_UNKNOWN = Sentence(
    "restore.part-unknown", "it is not known which part of it this collection wrote"
)
STATE_UNKNOWN = Sentence("restore.state-unknown", "not known: {reason}")
COPY_DAMAGED = Sentence("restore.copy-damaged", "{reasons}", next="Nothing was changed")
NOT_ALL_BACK = Sentence(
    "restore.not-all-back",
    "not everything can be restored, so nothing was changed: {files}",
    next="Then run again",
)
BYTES_KEPT = Sentence(
    "restore.bytes-kept",
    "{reason}",
    next="Bring it into the intended state by hand (its bytes from before are in {directory}/content), then remove {directory}",
)
NO_BYTES = Sentence(
    "restore.no-bytes",
    "{reason}",
    next="Bring it into the intended state by hand (there was no such file), then remove {directory}",
)
ORIGINAL_CHANGED = Sentence(
    "restore.changed-since",
    "{path}: it was changed after this collection had written it, and {obstacle}",
)
EARLIER_NOT_SENT = Sentence(
    "restore.earlier-value-not-sent",
    "the value of {key} from before this collection has a form that is not sent from the host",
    why="this file was changed by others since, so it is given back key by key",
    next=f"Write that value by hand (the copy from before is below {JOURNAL_DIR}/originals), and run again",
)
REMOVED_SINCE = Sentence(
    "restore.removed-since",
    "{path} was removed after this collection had written it; it stays removed",
)
PROGRAM_GONE_BEFORE = Sentence(
    "restore.default-without-program",
    "{path} gets its default handler {handler} back, whose program {program} is gone",
    why="a container that names no handler cannot start with it",
    next="Install the package of that program, or name another default handler in {path} and restart the engine",
)
LOST = Sentence(
    "restore.lost",
    "The journal of this host, which kept the original files, is gone. Files of other tools that "
    "were taken over cannot be restored, if there were any",
    next="Where you need one, have its tool write it again ({command})",
)
LOST_WITH_FILES = Sentence(
    "restore.lost-with-files",
    "The journal of this host, which kept the original files, is gone. Files of other tools that "
    "were taken over cannot be restored: {files}",
    next="Where you need one, have its tool write it again ({command})",
)
ENGINE_UNKNOWN = Sentence(
    "restore.engine-unknown",
    "{path} was restored, but it is not known whether {engine} runs ({reason})",
    next="Restart it if it does",
)
NOT_RESTARTED = Sentence(
    "restore.not-restarted",
    "{path} was restored, but {units} could not be inspected and was not restarted ({reason})",
    next="Restart it at a convenient time",
)
MARKED_WITHOUT_COPY = Sentence(
    "restore.marked-without-copy",
    "{path}: this collection wrote this file, and {reason}",
    next="Take it out of the configuration that names it, then remove it",
)
SUSPECTED = Sentence(
    "restore.suspected",
    "{reason}",
    next="Correct that first: without a journal it is not known which part of the file this collection wrote",
)
OTHER_HANDLER = Sentence(
    "restore.other-handler",
    "the handler {handler} with the program {program} did not exist before the first change of this "
    "collection, and is not one of those named in gpufleet_handlers",
    next="Name it in gpufleet_handlers to have it removed, or remove it by hand if this collection did not write it",
)
LOWERING_WITHOUT_CAUSE = Sentence(
    "restore.lowering-without-cause",
    "this plan would take something away without a cause: {things}",
    why="a plan may take something away only by a cause that it names",
    next="Nothing was changed. Report this message as a bug of the collection",
)
