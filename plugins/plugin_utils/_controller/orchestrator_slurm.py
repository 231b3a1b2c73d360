# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a host out of service by Slurm."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    draining_messages,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.module_calls import Calls
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.orchestrator import (
    CALL,
    HUNG,
    Refused,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.sentences import (
    get_last_line,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import drain_slurm


@dc.dataclass(frozen=True)
class Slurm:
    """Slurm, by scontrol where the task runs."""

    calls: Calls
    args: Mapping[str, Any]
    names: tuple[str, ...]
    why: str

    def read_node(self) -> drain_slurm.SlurmNode:
        """Return the node, as Slurm sees it."""
        for name in self.names:
            status, output, error = self.calls.run_program(["scontrol", "show", "node", name], CALL)
            if status == 0 and drain_slurm.NAME.search(output):
                return drain_slurm.parse_slurm_node(output)
            if not drain_slurm.NOT_FOUND.search(output + error):
                raise self._build_error("show the node", status, error or output)
        raise drain.build_unknown_node_error("gpufleet_slurm_node", self.names, (), "Slurm")

    def get_standing(self) -> drain.Standing:
        return drain_slurm.judge_slurm_standing(self.read_node(), self.args["rollout"])

    def take_out(self, *, try_only: bool = False) -> None:
        self._update("DRAIN", self.args["reason"], "in_service", try_only)
        if not try_only and self.get_standing().state not in ("held", "broken"):
            raise Refused(draining_messages.DRAIN_OF_OTHERS.fill())

    def describe_waiting(self, _left: int, /) -> str:
        node = self.read_node()
        if drain_slurm.judge_slurm_standing(node, self.args["rollout"]).state in (
            "others",
            "in_service",
        ):
            raise Refused(
                draining_messages.SLURM_NODE_CHANGED.fill(
                    node=node.name, state=node.state, reason=node.reason
                )
            )
        return drain_slurm.explain_slurm_wait(node)

    def give_back(self, *, try_only: bool = False) -> None:
        node = self.read_node()
        if (
            not try_only
            and drain_slurm.judge_slurm_standing(node, self.args["rollout"]).state == "held"
        ):
            self._run_scontrol("resume the node", [f"nodename={node.name}", "state=resume"])

    def keep(self, why: str, *, try_only: bool = False) -> None:
        self._update("", why, "held", try_only)

    def _update(self, state: str, text: str, wanted: str, try_only: bool) -> None:
        """Mark the node, only if its standing is still the wanted one.

        This rollout's mark on another's drain would make that drain this rollout's to end.
        """
        node = self.read_node()
        standing = drain_slurm.judge_slurm_standing(node, self.args["rollout"])
        # A node that is down may be held as well, and gets the reason.
        stands = standing.state == wanted or (
            wanted == "held"
            and standing.state == "broken"
            and drain_slurm.is_held(node, self.args["rollout"])
        )
        if not stands:
            raise Refused(standing.text or draining_messages.NODE_PUT_BACK.fill(node=node.name))
        if not try_only:
            reason = drain_slurm.build_slurm_reason(self.args["rollout"], text, self.why)
            self._run_scontrol(
                "drain the node",
                [
                    f"nodename={node.name}",
                    *([f"state={state}"] if state else []),
                    f"reason={reason}",
                ],
            )

    def _run_scontrol(self, doing: str, words: list[str]) -> None:
        status, output, error = self.calls.run_program(["scontrol", "update", *words], CALL)
        if status:
            raise self._build_error(doing, status, error or output)

    def _build_error(self, doing: str, status: int, error: str) -> PlanError:
        if status == 127:
            return PlanError(messages.NO_SCONTROL.fill())
        if drain_slurm.NOT_PERMITTED.search(error):
            return PlanError(messages.SLURM_FORBIDS.fill(doing=doing, cause=get_last_line(error)))
        why = (
            draining_messages.SLURM_LATE.fill()
            if status in HUNG
            else get_last_line(error) or draining_messages.SLURM_ENDED.fill(status=status)
        )
        passing = status in HUNG or drain_slurm.UNREACHABLE.search(error)
        kind = drain.OutOfReach if passing else PlanError
        return kind(messages.SLURM_FAILED.fill(doing=doing, cause=why))
