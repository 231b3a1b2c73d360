# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate of a rollout: begin or end one batch."""

from __future__ import annotations

import dataclasses as dc
import datetime
import zoneinfo
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.action import arguments, base, fleet_table
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import progress, rollout, settings, window
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import names, registered

SPEC = arguments.spec("rollout_batch")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    BYPASS_HOST_LOOP = True

    @base.shown
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        args = arguments.of_task(self, SPEC)
        variables, plan, wanted = task_vars or {}, args["plan"], settings.of(args["settings"])
        number = batch_of(plan, variables)
        check = bool(self._task.check_mode)
        found = before(plan, number, variables["hostvars"])
        classes = {host: str(plan["hosts"][host]["class"]) for host in plan["batches"][number]["hosts"]}
        if args["point"] == "begin":
            found = found if check else within_window(found, wanted)
            show(begun(plan, number, found))
            return told(found, progress.held(found, classes))
        started = {host: c for host, c in classes.items() if host not in progress.held(found, classes)}
        words = {host: word(variables["hostvars"][host], check) for host in started}
        canaries = plan["batches"][number]["wave"] == rollout.CANARY
        total = sum(len(batch["hosts"]) for batch in plan["batches"])
        found = progress.after(found, progress.Ended(words, classes, canaries), total, wanted.max_failed)
        return told(found, {})


def batch_of(plan: Mapping[str, Any], variables: Mapping[str, Any]) -> int:
    host = variables["inventory_hostname"]
    return next(n for n, batch in enumerate(plan["batches"]) if host in batch["hosts"])


def before(plan: Mapping[str, Any], number: int, hostvars: Mapping[str, Any]) -> progress.Progress:
    """How far the rollout had come when the batch began. The step of the batch before is with its hosts, and nowhere else."""
    steps = (hostvars[plan["batches"][n]["hosts"][0]].get(registered.ROLLOUT_STEP) for n in (number, number - 1) if n >= 0)
    return progress.of(next((step["progress"] for step in steps if step and "progress" in step), {}))


def word(variables: Mapping[str, Any], check: bool) -> str:
    return progress.word(done(variables, registered.CONVERGED), steps(variables), check)


def done(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The result of one step, {} where it was not taken: a task that is skipped registers a result as well."""
    result = dict(variables.get(name) or {})
    return {} if result.get("skipped") else result


def steps(variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What else was done with a host in its batch."""
    return [done(variables, name) for name in (*registered.STEPS, registered.FAILURE)]


def within_window(found: progress.Progress, wanted: settings.Settings) -> progress.Progress:
    now = {w.zone: datetime.datetime.now(zoneinfo.ZoneInfo(w.zone)) for w in wanted.windows}
    if window.is_open(wanted.windows, {zone: (t.weekday(), t.hour * 60 + t.minute) for zone, t in now.items()}):
        return found
    named = "; ".join(w.text for w in wanted.windows)
    return progress.ended(found, f"the window is closed (gpufleet_rollout_window: {named}); run it again within", paused=True)


def begun(plan: Mapping[str, Any], number: int, found: progress.Progress) -> str:
    batch = plan["batches"][number]
    wave = "canaries" if batch["wave"] == rollout.CANARY else f"wave {batch['wave']}"
    if found.ended:
        return f"the rollout {'pauses' if found.paused else 'stops'} before batch {number + 1} of {len(plan['batches'])}: {found.ended}"
    return f"batch {number + 1} of {len(plan['batches'])}, {wave}: {names.some(batch['hosts'])}"


def show(line: str) -> None:
    if fleet_table.for_people():
        Display().display(line)


def told(found: progress.Progress, held: Mapping[str, str]) -> dict[str, Any]:
    return {"changed": False, "held": dict(held), "ended": found.ended, "progress": dc.asdict(found)}
