# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about the objects that AWX gets."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

EMPTY_SETTING = Sentence(
    "awx.empty",
    "gpufleet_awx_{name} is empty",
    why="AWX cannot make job templates without it",
    next="Set it",
)
WRONG_NUMBER = Sentence(
    "awx.number",
    "gpufleet_awx_{name} is {value}",
    why="AWX does not take such a number",
    next="Write it as 1 or more",
)
SCHEDULE = Sentence(
    "awx.schedule",
    "gpufleet_awx_drift_schedule is {value!r}",
    why="AWX wants one DTSTART with a time zone, and one RRULE with an INTERVAL",
    next="Write it like {example}",
)
NOT_OF_RUN = Sentence(
    "awx.not-of-run",
    "gpufleet_awx_settings has {unknown}",
    why="it takes settings of the whole run, and variables of hosts belong in the inventory",
    next="Name any of {known}",
)
OF_SLICES = (
    "it counts its own hosts only, {hosts} in all. "
    "So each of the other jobs may lose as many hosts again, and take as many out of service"
)
ONE_SLICE = "Set the slices of the job template to 1, and split a rollout by group or limit"
LOOKS_LIKE_SLICE = Sentence(
    "awx.looks-like-slice",
    f"This job looks like a slice of the job template {{template}}: {OF_SLICES}",
    next=ONE_SLICE,
)
HAS_EACH_NTH_HOST = Sentence(
    "awx.has-each-nth-host",
    f"This job has every {{ordinal}} host of an inventory, as a slice has: {OF_SLICES}",
    next=ONE_SLICE,
)
