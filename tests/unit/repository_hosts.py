# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that have files of a package repository."""

from __future__ import annotations

import hashlib

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    apt_sources,
    repository,
    rpm_sources,
)

from tests.unit.repository_keys import OLD, armor

URL = "http://mirror.example.org/deb"
MIRROR = {"toolkit_repository": URL, "toolkit_key": armor(OLD)}


def observe_distribution(os_id: str, like: str = "", **files: str) -> Observation:
    where = repository.get_repository_family({"ID": os_id, "ID_LIKE": like})
    answers: dict = {f"file:{p}": {"exists": False} for p in (where.key_path, where.list_path)}
    answers["originals"] = {"originals": {}}
    answers.update(
        {
            f"glob:{pattern}": {"files": []}
            for pattern in (*apt_sources.PATTERNS, *rpm_sources.PATTERNS.values())
        }
    )
    for name, text in files.items():
        path = {"key": where.key_path, "list": where.list_path}[name]
        answers[f"file:{path}"] = {
            "exists": True,
            "type": "file",
            "content": text,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
    return Observation({"os_release": {"ID": os_id, "ID_LIKE": like}}, answers)
