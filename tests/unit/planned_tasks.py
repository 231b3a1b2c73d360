# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task with options, and a plan that changes one file and restarts one unit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Plan,
    Restart,
)


def make_task(args: dict[str, Any]) -> Any:
    return SimpleNamespace(_task=SimpleNamespace(args=args))


PLAN = Plan(
    differences=(
        Difference("file", "/etc/a", "handler.type", "old", "new", "because"),
        Difference("file", "/etc/a", "mode", None, "cdi", "so"),
    ),
    changes=({"op": "write", "path": "/etc/a", "content": "x"},),
    restarts=(Restart("a.service"),),
    diffs=(("/etc/a", "before", "after"),),
)
