# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts the processes that Ansible makes for each host's tasks, and writes the tasks of each host as JSON into $GPUFLEET_WORKERS."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: workers
type: notification
short_description: Count worker processes for a test
description: The tasks of each host, in their order, in the file that the environment variable GPUFLEET_WORKERS names.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "workers"

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.tasks: dict[str, list[str]] = {}

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Ansible calls this right before it makes the process (strategy/__init__.py, `_queue_task`)."""
        self.tasks.setdefault(host.name, []).append(task.action)

    def v2_playbook_on_stats(self, _stats: Any) -> None:
        path = os.environ.get("GPUFLEET_WORKERS")
        if path:
            with open(path, "w", encoding="utf-8") as handle:
                json.dump(self.tasks, handle)
