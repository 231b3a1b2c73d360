# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the check of one's own on a host: ansible.builtin.command, with a result that no ansible-core renders when the host is lost in it."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action.command import ActionModule as Command
from ansible_collections.gpufleet.nvidia.plugins.action import base


class ActionModule(Command):
    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = super().run(tmp, task_vars)
        return found
