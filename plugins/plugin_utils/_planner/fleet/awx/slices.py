# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect whether a job of AWX is a slice of a larger one.

AWX does not tell. But it starts slices as a workflow that has the job template's name
(awx/main/models/jobs.py). It deals the hosts of the inventory out by name, one to each slice in
turn (models/inventory.py). AWX numbers the hosts in the order in which they were added, and within
a slice these numbers then mostly go up by the number of slices. A slice that is started again alone
shows nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import whole
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx import messages

FEW = 4  # hosts whose numbers may go up evenly by chance


def get_sliced_template(variables: Mapping[str, Any]) -> str:
    """Return the name of the job template that this job is a slice of, '' if it is none.

    A workflow may have that name by chance.
    """
    template, workflow = (
        str(variables.get(f"awx_{name}_name") or "") for name in ("job_template", "workflow_job")
    )
    return template if template and template == workflow else ""


def get_slice_step(numbers: Mapping[str, Any]) -> int:
    """Return by how much AWX's numbers of the hosts go up, in the order of the names.

    Return 1 if they do not go up evenly. numbers: host -> its number.
    """
    read = (whole.read_whole(str(numbers[host])) for host in sorted(numbers))
    known = [number for number in read if number is not None]
    steps = {after - before for before, after in zip(known, known[1:], strict=False)}
    return (
        max(1, steps.pop())
        if len(known) >= FEW and len(known) == len(numbers) and len(steps) == 1
        else 1
    )


def warn_of_slice(variables: Mapping[str, Any], numbers: Mapping[str, Any]) -> str:
    """Build the warning for a job that changes hosts and looks like a slice, '' for any other.

    numbers: host -> its number, for all hosts of the inventory.
    """
    template = get_sliced_template(variables)
    if template:
        return messages.LOOKS_LIKE_SLICE.fill(template=template, hosts=len(numbers))
    step = get_slice_step(numbers) if "awx_job_id" in variables else 1
    if step <= 1:
        return ""
    return messages.HAS_EACH_NTH_HOST.fill(ordinal=write_ordinal(step), hosts=len(numbers))


def write_ordinal(number: int) -> str:
    """Return a number as an ordinal: 1st, 2nd, 11th."""
    ending = (
        "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number}{ending}"
