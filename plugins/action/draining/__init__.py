# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Those who take a host out of service: commands of the user's, Slurm, Kubernetes. Each is asked and told where the task runs.

A package of one file, since ansible-test wants a module for every other file below plugins/action.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError

CALL = 60  # seconds that one call which changes something may take
HUNG = (124, 137)  # what timeout(1) ends with


class Refused(Exception):
    """An orchestrator did not do what it was told; its sentence."""


class Orchestrator(Protocol):
    """Who can take a host out of service. try_only: judge the change as far as that is possible, and do nothing."""

    def standing(self) -> drain.Standing: ...
    def take_out(self, *, try_only: bool = False) -> None: ...
    def waiting(self, left: int) -> str: ...
    def give_back(self, *, try_only: bool = False) -> None: ...
    def keep(self, why: str, *, try_only: bool = False) -> None: ...


@dc.dataclass(frozen=True)
class Calls:
    """The way to the machine where the task runs."""

    action: ActionBase
    variables: Mapping[str, Any]

    def module(self, name: str, arguments: Mapping[str, Any], *, check: bool = False) -> dict[str, Any]:
        """Run a module there. check: in check mode, whatever the task is in: the callers know what only reads, and what is only tried."""
        task = self.action._task
        before, task.check_mode = task.check_mode, check
        try:
            return dict(self.action._execute_module(module_name=name, module_args=dict(arguments), task_vars=dict(self.variables)))
        finally:
            task.check_mode = before

    def command(self, argv: Sequence[Any], seconds: int, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        """Run a program there, without a shell and for at most so long: exit status, output, what it said."""
        assigned = ["env", *(f"{key}={value}" for key, value in environment.items())] if environment else []
        words = ["timeout", "-k", "10", str(seconds), *assigned, *map(str, argv)]
        result = self.module("ansible.builtin.command", {"argv": words})
        if "rc" not in result:
            raise PlanError(f"{argv[0]} cannot be run", why=said(result), next="see gpufleet_drain_delegate for where it runs")
        return int(result["rc"]), str(result.get("stdout") or ""), str(result.get("stderr") or result.get("msg") or "")


def said(result: Mapping[str, Any]) -> str:
    """The last line of what a module said."""
    return last_line(str(result.get("stderr") or result.get("msg") or "")) or "no message"


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""


def of(
    action: ActionBase,
    variables: Mapping[str, Any],
    args: Mapping[str, Any],
    work: drain.Work,
    why: str,
    by: Sequence[str],
    *,
    needed: bool,
) -> dict[str, Orchestrator]:
    """Those that are asked."""
    calls = Calls(action, variables)
    host = str(variables.get("inventory_hostname") or "")
    makers = {drain.COMMANDS: lambda: Commands(calls, args, host, why)}
    return {who: makers[who]() for who in by}


@dc.dataclass(frozen=True)
class Commands:
    """Commands of the user's. Whether the host is out of service is known by the command `marked`, else for the time of the play."""

    calls: Calls
    args: Mapping[str, Any]
    host: str
    why: str
    begun: list[str] = dc.field(default_factory=list)  # that `before` was begun, whether or not it succeeded

    def standing(self) -> drain.Standing:
        if not self.args["commands"].get("marked"):
            return drain.Standing("ours" if self.begun or self._of_this_play() else "in_service", "", self.host)
        status, _output, error = self._run("marked", CALL)
        if status in (126, 127, *HUNG):
            raise self._failed("marked", status, error)
        return drain.Standing("in_service" if status else "ours", "", self.host)

    def _of_this_play(self) -> bool:
        """Whether an earlier task of this run has drained the host; otherwise it would be put back though nobody took it."""
        earlier = self.calls.variables.get(self.args["drained"]) or {}
        return earlier.get("outcome") in ("drained", "pending") and drain.COMMANDS in (earlier.get("by") or ())

    def take_out(self, *, try_only: bool = False) -> None:
        if not try_only:
            self.begun.append("before")
            self._must("before")

    def waiting(self, left: int) -> str:
        if not self.args["commands"].get("wait"):
            return ""
        status, _output, error = self._run("wait", left)
        if status in (126, 127):
            raise self._failed("wait", status, error)
        said_ = f" ({last_line(error)})" if error.strip() else ""
        return f"the command wait ended with {status}{said_}" if status else ""

    def give_back(self, *, try_only: bool = False) -> None:
        if not try_only:
            self._must("after")

    def keep(self, why: str, *, try_only: bool = False) -> None:
        """Nothing to tell: the commands have no text of this collection."""

    def _must(self, step: str) -> None:
        status, _output, error = self._run(step, max(CALL, self.args["timeout"]))
        if status:
            raise self._failed(step, status, error)

    def _run(self, step: str, seconds: int) -> tuple[int, str, str]:
        reason = drain.text_of(self.args["reason"], self.why)
        environment = {"GPUFLEET_HOST": self.host, "GPUFLEET_ROLLOUT": self.args["rollout"], "GPUFLEET_REASON": reason}
        return self.calls.command(self.args["commands"][step], seconds, environment)

    def _failed(self, step: str, status: int, error: str) -> PlanError:
        how = "did not end in time" if status in HUNG else f"ended with {status}"
        why = last_line(error) or "it said nothing"
        return PlanError(f"gpufleet_drain_commands.{step} {how}", why=why, next="try the command by hand, where the task runs")
