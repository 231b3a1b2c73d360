# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a node as Slurm reports it: who drains it, when it is drained, and whether it may be
resumed.
"""

from __future__ import annotations

import dataclasses as dc
import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain_messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.drain import (
    Standing,
    get_drain_text,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

MARK = "gpufleet.nvidia"
NOT_FOUND = re.compile(r"Node (\S+) not found")
# Messages of slurm_strerror() if slurmctld is down, restarts or is busy (src/common/slurm_errno.c).
UNREACHABLE = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Zero Bytes were transmitted|controller in standby mode"
)
NOT_PERMITTED = re.compile(r"Access/permission denied|Invalid user id")
# slurm_node_state_string() puts these behind the state; `*` is an older release's NOT_RESPONDING. A
# field begins a line after three spaces, and a further line of a reason has more
# (slurm_sprint_node_table(), src/api/host_info.c).
STATE = re.compile(r"(?m)^ {3}State=(\S+)")
REASON = re.compile(r"(?m)^ {3}Reason=(.*)$")
BY = re.compile(r" \[(\S+)@[\dT:-]+\]$")
NAME = re.compile(r"(?m)^NodeName=(\S+)")
BROKEN = {
    "DOWN",
    "ERROR",
    "FAIL",
    "FAILING",
    "UNKNOWN",
    "FUTURE",
    "NOT_RESPONDING",
    "INVALID",
    "INVALID_REG",
}
SUFFIXES = {
    "*": "NOT_RESPONDING",
    "$": "MAINT",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "@": "REBOOT_REQUESTED",
}
SUFFIXES |= {"^": "REBOOT_ISSUED", "!": "POWER_DOWN"}
# Slurm itself is about to reboot the node (scontrol reboot) or to switch it off (power saving).
CLAIMED = {
    "REBOOT_REQUESTED",
    "REBOOT_ISSUED",
    "POWER_DOWN",
    "POWERING_DOWN",
    "POWERED_DOWN",
    "POWERING_UP",
}
ANY_MARK = re.compile(re.escape(MARK) + r" ([A-Za-z0-9_.-]+):")


@dc.dataclass(frozen=True)
class SlurmNode:
    """The parts of `scontrol show node` that matter here."""

    name: str
    states: frozenset[str]
    reason: str = ""
    by: str = ""

    @property
    def state(self) -> str:
        return "+".join(sorted(self.states))


def parse_slurm_node(text: str) -> SlurmNode:
    """Parse the output of scontrol, which must have one node. Raise PlanError otherwise.

    Some fields are the node's own words: its system (OS) before the state, what its slurmd adds
    (Extra) after the reason. A field with a line end in it could forge another state or our mark.
    Then a line is there twice, and the output is refused.
    """
    name, state = _find_only("NodeName", NAME, text), _find_only("State", STATE, text)
    reason = _find_only("Reason", REASON, text)
    if name is None or state is None:
        raise PlanError(drain_messages.SLURM_OUTPUT.fill())
    words = state[1]
    suffixes = set()
    while words and words[-1] in "*$~#!%@^+-":
        suffixes.add(SUFFIXES.get(words[-1], ""))
        words = words[:-1]
    states = frozenset({*words.split("+"), *suffixes} - {""})
    why = reason[1].rstrip() if reason else ""
    by = BY.search(why)
    return SlurmNode(name[1], states, why[: by.start()] if by else why, by[1] if by else "")


def _find_only(field: str, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    matches = list(pattern.finditer(text))
    if len(matches) > 1:
        row = drain_messages.SLURM_SEVERAL_NODES
        raise PlanError(row.fill(number=len(matches), field=field))
    return matches[0] if matches else None


def build_slurm_mark(rollout: str) -> str:
    """Return the beginning of the reason by which a rollout marks a node in Slurm."""
    return f"{MARK} {rollout}:"


def build_slurm_reason(rollout: str, text: str, why: str) -> str:
    """Build the text for the node's reason. By the mark in front a later run recognises its own
    drain.
    """
    return f"{build_slurm_mark(rollout)} {get_drain_text(text, why)}"


def is_held(node: SlurmNode, rollout: str) -> bool:
    """Tell whether this rollout has taken a node out of service."""
    return node.reason.startswith(build_slurm_mark(rollout))


def judge_slurm_standing(node: SlurmNode, rollout: str) -> Standing:
    """Return the state of the node for this rollout. A node that is DOWN stays so, even with our
    reason.

    slurmctld reports with DOWN that the node does not work.
    """
    said = f"{node.state}, reason {node.reason!r}" + (f" by {node.by}" if node.by else "")
    working = sorted(node.states & CLAIMED)
    claimed = ""
    if working:
        claimed = drain_messages.SLURM_CLAIMED.fill(node=node.name, state=node.state)
    if node.states & BROKEN:
        text = drain_messages.SLURM_BROKEN.fill(node=node.name, state=said)
        return Standing("broken", text, node.name, claimed)
    if "DRAIN" not in node.states:
        return Standing("in_service", "", node.name, claimed)
    if is_held(node, rollout):
        text = drain_messages.SLURM_HELD.fill(reason=node.reason)
        return Standing("held", text, node.name, claimed)
    other = ANY_MARK.match(node.reason)
    who = f"the rollout {other[1]}" if other else "another person or program"
    text = drain_messages.SLURM_OTHERS.fill(node=node.name, who=who, state=said)
    return Standing("others", text, node.name, claimed)


def explain_slurm_wait(node: SlurmNode) -> str:
    """Explain what a drained node still waits for. Return '' if it is drained: IDLE+DRAIN, and no
    job is completing.
    """
    if (
        "DRAIN" in node.states
        and "IDLE" in node.states
        and not node.states & {"COMPLETING", *BROKEN}
    ):
        return ""
    return drain_messages.SLURM_BUSY.fill(node=node.name, state=node.state)
