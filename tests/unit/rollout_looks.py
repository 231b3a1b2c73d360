# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build what a rollout has seen of its hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    progress,
    waves,
)

CHANGE = {
    "what": "file",
    "path": "/etc/containerd/config.toml",
    "key": "enable_cdi",
    "before": None,
    "after": True,
    "why": "it is off",
}


def looked(*differences: Mapping[str, Any], gpu: str = "L4", **more: Any) -> dict[str, Any]:
    """The look at a host with containerd 1.7 on Debian 12."""
    key = {"key": "containerd:/etc/containerd/config.toml", "engine": "containerd"}
    return {
        "differences": list(differences),
        "would_restart": ["containerd.service"] if differences else [],
        "instances": [{**key, "version": "1.7.24", "manager": "package"}],
        "decision": {
            "decisions": [
                {"instance": "containerd:/etc/containerd/config.toml", "injection": "native-cdi"}
            ]
        },
        "driver": {
            "state": "ok",
            "version": "550.163.01",
            "gpus": [{"model": f"NVIDIA {gpu}"}] * 8,
        },
        "os": {"id": "debian", "version": "12"},
        **more,
    }


START = progress.Progress()
TWO = {"a": "x", "b": "y"}


def after(
    words: Mapping[str, str], most: str, *, canaries: bool = False, start: progress.Progress = START
) -> progress.Progress:
    return progress.update_progress(
        start, progress.Ended(words, TWO, canaries), 10, waves.parse_amount("max_failed", most)
    )
