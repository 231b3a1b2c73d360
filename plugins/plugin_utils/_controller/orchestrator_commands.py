# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a host out of service by the user's own commands."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.module_calls import Calls
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.orchestrator import (
    CALL,
    HUNG,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.sentences import (
    get_last_line,
)


@dc.dataclass(frozen=True)
class Commands:
    """The user's commands.

    The command `marked` tells whether the host is out of service. Without it, that is known for the
    time of the play.
    """

    calls: Calls
    args: Mapping[str, Any]
    host: str
    why: str
    # that `before` was begun, whether or not it succeeded
    begun: list[str] = dc.field(default_factory=list)

    def get_standing(self) -> drain.Standing:
        if not self.args["commands"].get("marked"):
            return drain.Standing(
                "held" if self.begun or self._was_drained_in_play() else "in_service", "", self.host
            )
        status, _output, error = self._run("marked", CALL)
        if status in (125, 126, 127, *HUNG):  # 125 is env's or timeout's own
            raise self._build_error("marked", status, error)
        return drain.Standing("in_service" if status else "held", "", self.host)

    def _was_drained_in_play(self) -> bool:
        """Tell whether an earlier task of this run has drained the host.

        Otherwise the host would be put back into service although this run has not taken it out.
        """
        earlier = self.calls.variables.get(self.args["drained"]) or {}
        return earlier.get("outcome") in ("drained", "pending") and drain.COMMANDS in (
            earlier.get("by") or ()
        )

    def take_out(self, *, try_only: bool = False) -> None:
        if not try_only:
            self.begun.append("before")
            self._must("before")

    def describe_waiting(self, left: int, /) -> str:
        if not self.args["commands"].get("wait"):
            return ""
        status, _output, error = self._run("wait", left)
        if status in (125, 126, 127):
            raise self._build_error("wait", status, error)
        said_ = f" ({get_last_line(error)})" if error.strip() else ""
        return f"the command wait ended with {status}{said_}" if status else ""

    def give_back(self, *, try_only: bool = False) -> None:
        if not try_only:
            self._must("after")

    def keep(self, why: str, *, try_only: bool = False) -> None:
        """Do nothing: the commands have no text of this collection."""

    def _must(self, step: str) -> None:
        status, _output, error = self._run(step, max(CALL, self.args["timeout"]))
        if status:
            raise self._build_error(step, status, error)

    def _run(self, step: str, seconds: int) -> tuple[int, str, str]:
        reason = drain.get_drain_text(self.args["reason"], self.why)
        environment = {
            "GPUFLEET_HOST": self.host,
            "GPUFLEET_ROLLOUT": self.args["rollout"],
            "GPUFLEET_REASON": reason,
        }
        return self.calls.run_program(self.args["commands"][step], seconds, environment)

    def _build_error(self, step: str, status: int, error: str) -> PlanError:
        cause = get_last_line(error) or "it said nothing"
        if status in HUNG:
            return PlanError(messages.COMMAND_HUNG.fill(step=step, cause=cause))
        return PlanError(messages.COMMAND_FAILED.fill(step=step, status=status, cause=cause))
