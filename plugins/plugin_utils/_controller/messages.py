# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences of actions."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Sentence

# ---------------------------------------------------------------- test hosts
TEST_HOSTS = Sentence(
    "test-hosts.not-a-table",
    "The environment variable {variable}, which only tests set, is not a JSON table",
    next="Unset it",
)
TEST_HOSTS_KEYS = Sentence(
    "test-hosts.unknown-keys",
    "The environment variable {variable}, which only tests set, has unknown keys: {keys}",
    next="Unset it",
)
