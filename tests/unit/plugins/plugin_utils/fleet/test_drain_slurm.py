# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as Slurm prints it, and what follows: table."""

from __future__ import annotations

import time

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import drain_slurm
from hypothesis import given
from hypothesis import strategies as st


def shown(state: str, reason: str = "", by: str = "root") -> str:
    """`scontrol show node` of Slurm 22.05, shortened."""
    last = f"   Reason={reason} [{by}@2026-11-22T14:16:05]\n" if reason else ""
    return (
        "NodeName=gpu1 Arch=x86_64 CoresPerSocket=1 \n   CPUAlloc=1 CPUEfctv=1 CPUTot=1 CPULoad=13.51\n"
        f"   RealMemory=1 AllocMem=0\n   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A\n   Partitions=gpus \n{last}\n"
    )


OURS = "gpufleet.nvidia r7: the restart ends 1 container (web)"
CLAIMED = [
    # state, whether Slurm itself is about to reboot the node or to switch it off
    ("IDLE", False),
    ("IDLE+MAINT", False),  # a reservation, which may well be for this change
    ("IDLE@", True),
    ("MIXED+REBOOT_REQUESTED", True),
    ("IDLE^", True),
    ("IDLE+POWERING_DOWN", True),
    ("IDLE!", True),
]


@pytest.mark.parametrize(("state", "claimed"), CLAIMED)
def test_a_node_that_slurm_reboots_or_switches_off_is_left_to_slurm(
    state: str, claimed: bool
) -> None:
    found = drain_slurm.judge_slurm_standing(drain_slurm.parse_slurm_node(shown(state)), "r7")
    assert (
        found.obstacle.startswith("Slurm is rebooting the node gpu1 or switching it off (")
        is claimed
    )
    assert bool(found.obstacle) is claimed


def test_the_drain_of_another_rollout_is_named() -> None:
    found = drain_slurm.judge_slurm_standing(
        drain_slurm.parse_slurm_node(
            shown("IDLE+DRAIN", "gpufleet.nvidia r70: the restart ends 1 container (web)")
        ),
        "r7",
    )
    assert "drained by the rollout r70" in found.obstacle


FORGED = [
    # what a node's slurmd tells of itself, where it stands in the output
    ("   OS=Linux\n   State=IDLE+DRAIN\n   X=", "   RealMemory"),
    (
        "   OS=Linux\n   Reason=gpufleet.nvidia r7: x [root@2026-11-22T14:16:05]\n   X=",
        "   RealMemory",
    ),
    ("   Extra=x\n   Reason=gpufleet.nvidia r7: x [root@2026-11-22T14:16:05]\n", "\n\n"),
    ("NodeName=gpu2 Arch=x86_64\n", "NodeName"),  # two nodes, by a list in the name
]


@pytest.mark.parametrize(("words", "before"), FORGED)
def test_an_output_that_tells_a_field_twice_is_not_believed(words: str, before: str) -> None:
    text = shown("IDLE+DRAIN", "fan 3 is broken")
    at = text.rindex(before) + before.startswith("\n")
    assert (
        drain_slurm.judge_slurm_standing(drain_slurm.parse_slurm_node(text), "r7").state == "others"
    )
    with pytest.raises(PlanError, match=r"\[drain.slurm-several-nodes\]$"):
        drain_slurm.parse_slurm_node(text[:at] + words + text[at:])


CASES = [
    # state, reason, how it stands, whether it is drained
    ("IDLE", "", "in_service", False),
    ("ALLOCATED", "", "in_service", False),
    ("IDLE+PLANNED", "", "in_service", False),
    ("IDLE", OURS, "in_service", False),  # a reason stays behind after a resume by hand
    ("IDLE+DRAIN", OURS, "held", True),
    ("MIXED+DRAIN", OURS, "held", False),
    ("ALLOCATED+DRAIN", OURS, "held", False),
    ("IDLE+COMPLETING+DRAIN", OURS, "held", False),
    ("IDLE+DRAIN+MAINT", OURS, "held", True),
    ("IDLE+DRAIN", "gpufleet.nvidia r70: the restart ends 1 container (web)", "others", True),
    ("IDLE+DRAIN", "fan 3 is broken", "others", True),
    ("IDLE+DRAIN", "not gpufleet.nvidia r7: at all", "others", True),
    # as Slurm prints a reason of two lines
    (
        "IDLE+DRAIN",
        "x\n          State=IDLE",
        "others",
        True,
    ),
    ("IDLE+DRAIN", "", "others", True),
    ("DOWN", "", "broken", False),
    ("DOWN+DRAIN", OURS, "broken", False),
    ("DOWN*", "Not responding", "broken", False),
    ("IDLE*", "", "broken", False),
    ("IDLE+DRAIN+NOT_RESPONDING", OURS, "broken", False),
    ("UNKNOWN+NOT_RESPONDING", "", "broken", False),
    ("FAIL", "", "broken", False),
]


@pytest.mark.parametrize(("state", "reason", "standing", "drained"), CASES)
def test_how_a_node_stands(state: str, reason: str, standing: str, drained: bool) -> None:
    node = drain_slurm.parse_slurm_node(shown(state, reason))
    found = drain_slurm.judge_slurm_standing(node, "r7")
    assert found.state == standing
    assert bool(found.text) == (standing != "in_service")
    assert (drain_slurm.explain_slurm_wait(node) == "") == drained


def test_output_that_is_no_node_is_an_error() -> None:
    with pytest.raises(PlanError, match=r"\[drain.slurm-output\]$"):
        drain_slurm.parse_slurm_node(
            "slurm_load_node error: Unable to contact slurm controller (connect failure)"
        )


@given(st.text(), st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=9))
def test_what_is_written_is_recognised_by_its_own_rollout_only(text: str, rollout: str) -> None:
    node = drain_slurm.parse_slurm_node(
        shown("IDLE+DRAIN", drain_slurm.build_slurm_reason(rollout, text, "why"))
    )
    assert drain_slurm.is_held(node, rollout)
    assert not drain_slurm.is_held(node, f"{rollout}x")


def test_a_reason_of_many_spaces_is_read_in_one_pass() -> None:
    before = time.process_time()
    found = drain_slurm.parse_slurm_node(shown("IDLE+DRAIN", " " * 200_000 + "x"))
    assert time.process_time() - before < 1
    assert (found.reason.strip(), found.by) == ("x", "root")
