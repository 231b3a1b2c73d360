# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the clauses about the host's lists of libraries and of the driver's files."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

CACHE_TOO_OLD = Sentence("driver-files.cache-too-old", "it has the format of glibc before 2.2 only")
NO_CACHE_OF_LOADER = Sentence("driver-files.no-cache", "it is not a cache of glibc's loader")
CACHE_BIG_ENDIAN = Sentence("driver-files.cache-big-endian", "it was written on a big-endian CPU")
CACHE_CLAIMS = Sentence("driver-files.cache-claims", "it claims {count} entries")
CACHE_TEXT_LONG = Sentence(
    "driver-files.cache-text-long", "it has a text of more than {longest} bytes"
)
CACHE_CUT_SHORT = Sentence("driver-files.cache-cut-short", "it is cut short")
FILE_LIST_NOT_JSON = Sentence("driver-files.list-not-json", "it is not JSON: {problem}")
FILE_LIST_NO_LIST = Sentence("driver-files.list-no-list", "it is not a list")

# why the driver's files were not found, or are not mounted, and what to do
CACHE_UNREADABLE = Sentence(
    "driver-files.cache-unreadable",
    "{path} cannot be read, which names the folders of libraries outside the usual ones",
    why="{problem}",
    next="Run {command} on the host, which writes it again, then run again",
)
FILES_UNTRUSTED = Sentence(
    "driver-files.untrusted",
    "containers do not get {files}, which users besides root can change",
    why="{doubts}",
    next="Do that if the files are the driver's, then run again",
)
