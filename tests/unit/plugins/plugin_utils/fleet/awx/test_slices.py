# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What shows that a job of AWX is a slice."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx import slices
from hypothesis import given
from hypothesis import strategies as st

# in the order in which they were added
FLEET = {f"gpu{number:03}": 100 + number for number in range(1, 41)}
JOB = {"awx_job_id": 7, "awx_job_template_name": "gpufleet rollout"}
OF_SLICE = {**JOB, "awx_workflow_job_name": "gpufleet rollout"}
OF_WORKFLOW = {**JOB, "awx_workflow_job_name": "gpufleet change"}


def dealt(numbers: dict[str, int], number: int, count: int) -> dict[str, int]:
    """As AWX deals hosts out: by name, one to each slice in turn."""
    return {host: numbers[host] for host in sorted(numbers)[number - 1 :: count]}


CASES = [
    ("not in AWX", {}, dealt(FLEET, 1, 4), ""),
    ("a job of all hosts", JOB, FLEET, ""),
    ("a job of a workflow", OF_WORKFLOW, FLEET, ""),
    (
        "a slice",
        OF_SLICE,
        dealt(FLEET, 2, 4),
        "looks like a slice of the job template gpufleet rollout: it counts its own hosts only, 10 in all",
    ),
    (
        "a slice that is started again",
        JOB,
        dealt(FLEET, 2, 4),
        "has every 4th host of an inventory, as a slice has",
    ),
    ("of two slices", JOB, dealt(FLEET, 1, 2), "has every 2nd host"),
    ("an inventory with a gap", JOB, {h: n for h, n in FLEET.items() if n != 107}, ""),
    ("a few hosts", JOB, {"a": 1, "b": 3, "c": 5}, ""),
    ("hosts that AWX gave no number", JOB, dict.fromkeys(FLEET, ""), ""),
    ("added against the order of the names", JOB, {host: 200 - n for host, n in FLEET.items()}, ""),
]


@pytest.mark.parametrize(
    ("what", "variables", "numbers", "words"), CASES, ids=[case[0] for case in CASES]
)
def test_a_slice_is_told(
    what: str, variables: dict[str, object], numbers: dict[str, object], words: str
) -> None:
    found = slices.warn_of_slice(variables, numbers)
    assert words in found
    assert bool(words) == bool(found)


@given(count=st.integers(2, 9), hosts=st.integers(40, 120), data=st.data())
def test_every_slice_of_an_inventory_is_seen_without_its_name(
    count: int, hosts: int, data: st.DataObject
) -> None:
    fleet = {f"gpu{number:03}": number for number in range(hosts)}
    number = data.draw(st.integers(1, count))
    assert slices.get_slice_step(dealt(fleet, number, count)) == count


def test_a_number_that_no_machine_reads_is_no_number_of_a_host() -> None:
    assert slices.get_slice_step({f"gpu{n}": "9" * 5000 for n in range(9)}) == 1
