# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the user's own check on a host by ansible.builtin.command.

If the host is lost during the check, no ansible-core renders the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action.command import ActionModule as Command
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import base

# The parts of a command's result. The host returns it, and could add facts, hosts of the inventory
# or statistics.
PARTS = (
    "changed",
    "cmd",
    "delta",
    "end",
    "exception",
    "failed",
    "msg",
    "rc",
    "skipped",
    "start",
    "stderr",
    "stdout",
    "unreachable",
)


class ActionModule(Command):
    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        found: Mapping[str, Any] = super().run(tmp, task_vars)
        return {name: found[name] for name in PARTS if name in found}
