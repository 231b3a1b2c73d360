# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the settings of a rollout before any host is looked at."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import settings, window
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError

SPEC = arguments.spec("rollout_settings")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    BYPASS_HOST_LOOP = True

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)
        found = settings.of(args)
        require_zones(found.windows)
        return {"changed": False, "settings": args}


def require_zones(windows: Iterable[window.Window]) -> None:
    """What zones there are is known to the controller's own data."""
    for one in windows:
        try:
            zoneinfo.ZoneInfo(one.zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            what = f"gpufleet_rollout_window has {one.text!r}"
            step = f"Write it as {window.EXAMPLE!r}; a controller without time zones needs the Python library tzdata"
            raise PlanError(what, why=f"{one.zone} is no time zone that this controller knows", next=step) from None
