# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the clauses about what could not be learned of a host."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

FILE_NOT_READ = Sentence("looked.file-not-read", "this file could not be read")
PATH_NOT_INSPECTED = Sentence("looked.path-not-inspected", "this path could not be inspected")
DIRECTORY_NOT_LISTED = Sentence("looked.directory-not-listed", "this directory could not be listed")
PATTERN_NOT_LISTED = Sentence(
    "looked.pattern-not-listed", "the files of this pattern could not be listed"
)
DRIVER_FILES_NOT_LISTED = Sentence(
    "looked.driver-files-not-listed", "the files of the driver could not be listed"
)
TARGETS_NOT_INSPECTED = Sentence(
    "looked.targets-not-inspected", "the targets of these files could not be inspected"
)
KEYS_NOT_COMPARED = Sentence(
    "looked.keys-not-compared", "the keys of this file could not be compared"
)
PROGRAMS_NOT_SEARCHED = Sentence(
    "looked.programs-not-searched", "programs could not be searched for"
)
COMMAND_UNRUN = Sentence("looked.command-not-run", "this command could not be run")
PACKAGES_NOT_QUERIED = Sentence(
    "looked.packages-not-queried", "the packages of this host could not be queried"
)
UNITS_NOT_QUERIED = Sentence(
    "looked.units-not-queried", "the units of systemd could not be queried"
)
PROCESSES_NOT_LISTED = Sentence(
    "looked.processes-not-listed", "the processes of this host could not be listed"
)
CRI_UNANSWERED = Sentence("looked.cri-silent", "the engine does not answer over CRI")
HTTP_UNANSWERED = Sentence("looked.http-silent", "the engine does not answer over HTTP")
LIBRARY_NOT_QUERIED = Sentence("looked.library-not-queried", "this library could not be queried")
JOURNAL_NOT_READ = Sentence("looked.journal-not-read", "the journal of this host could not be read")
QUERY_NOT_ANSWERED = Sentence("looked.not-answered", "the query {query} failed")
REASON_UNSAID = Sentence("looked.no-reason", "no reason given")
FILE_IS_OTHER = Sentence("looked.file-is", "it is {kind}")
CONTENT_UNSENT = Sentence("looked.content-not-sent", "its content was not sent")
FILE_UNREAD_UNSAID = Sentence("looked.could-not-be-read", "could not be read")
SERVED_BY_OTHER = Sentence(
    "looked.served-by-other", "{socket} is served by process {found}, not by {wanted}"
)
