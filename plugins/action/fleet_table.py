# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One table of the fleet, for people."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.action import base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import escape, fleet, table
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import PlanError

SPEC = base.argument_spec("fleet_table")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = base.arguments(self, SPEC)
        variables = task_vars or {}
        hosts = list(variables.get("ansible_play_hosts_all") or [])
        results = {h: dict(variables["hostvars"][h].get(args["results"]) or {}) for h in hosts}
        lines = [escape.line(row) for row in table.lines(results, details=args["details"], check=bool(self._task.check_mode))]
        Display().display("\n" + "\n".join(lines) + "\n")
        try:
            fleet.require_policy(args["fleet_policy"], results)
        except PlanError as error:
            raise AnsibleActionFail(str(error), result={"lines": lines}) from None
        return {"changed": False, "lines": lines}
