# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the reasons why the health of a host's GPUs is not known."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

LOG_OF_TREE = Sentence("gpu-health.directory-tree", "a directory tree has no kernel log")
LOG_UNREADABLE = Sentence("gpu-health.log-unreadable", "{cause}")
LOG_NOT_READ = Sentence("gpu-health.log-not-read", "this run did not read the kernel log")
LOG_NOT_READ_BEFORE = Sentence(
    "gpu-health.log-not-read-before", "this run did not read the kernel log before the change"
)
LOG_WRITTEN_OVER = Sentence(
    "gpu-health.log-written-over",
    "the kernel has written over lines of its log since the change of the host",
)
DIAGNOSIS_NOT_RUN = Sentence("gpu-health.diagnosis-not-run", "{cause}")
DIAGNOSIS_LATE = Sentence(
    "gpu-health.diagnosis-late", "{command} did not end within {seconds} seconds"
)
DIAGNOSIS_WITHOUT_RESULT = Sentence(
    "gpu-health.diagnosis-without-result",
    "{command} ended with exit status {status}, without a result",
)
DIAGNOSIS_UNSAID = Sentence("gpu-health.diagnosis-without-reason", "{command} could not be run")
