# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which entry of a file of credentials is for an image."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    distribution,
)

KEYS = [
    # a key of the file, what counts of it
    ("index.docker.io", "index.docker.io"),
    ("https://index.docker.io/v1/", "index.docker.io"),
    ("http://r.example.org/v2", "r.example.org"),
    ("https://r.example.org:5000/", "r.example.org:5000"),
    ("r.example.org/team", "r.example.org/team"),
    ("r.example.org/v3", "r.example.org/v3"),
]


@pytest.mark.parametrize(("key", "stripped"), KEYS)
def test_a_key_counts_without_scheme_and_api_version(key: str, stripped: str) -> None:
    assert distribution.strip_auth_key(key) == stripped
