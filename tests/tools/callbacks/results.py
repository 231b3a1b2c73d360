# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what every task answered on every host, one JSON object a line, in the file
$GPUFLEET_RESULTS.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: results
type: notification
short_description: Keep all results for a test
description: One JSON object a line in the file that the environment variable GPUFLEET_RESULTS names.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "results"

    def _keep(self, status: str, result: Any) -> None:
        path = os.environ.get("GPUFLEET_RESULTS")
        if path and result._task.action != "ansible.builtin.include_role":
            entry = {
                "host": result._host.name,
                "task": result._task.action,
                "step": result._task.args.get("step", ""),
                "status": status,
                "result": dict(result._result),
            }
            with open(path, "a", encoding="utf-8") as handle:
                handle.write(json.dumps(entry, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        self._keep("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._keep("failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._keep("unreachable", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._keep("skipped", result)
