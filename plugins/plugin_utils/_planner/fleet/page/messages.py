# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about reports that were kept."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

NAME_FILES = "Name files report.json that this collection has written in gpufleet_report_from"
NOT_A_REPORT = Sentence(
    "page.not-a-report",
    "this is not a report",
    why="gpufleet_report_from names it",
    next=NAME_FILES,
)
A_PLAN = Sentence(
    "page.a-plan",
    "this is not a report",
    why="it says nothing of a run; a plan that gpufleet_rollout_plan_file has written looks like this",
    next=NAME_FILES,
)
REPORT_SCHEMA = Sentence(
    "page.other-schema",
    "this report has schema {found}",
    why="this collection reads schema {known}",
    next="Make the report again",
)
REPORT_DAMAGED = Sentence(
    "page.damaged",
    "this report is damaged at {place}",
    why="a value there does not have the schema's form",
    next=NAME_FILES,
)
HOSTS_TWICE = Sentence(
    "page.hosts-twice",
    "several reports of gpufleet_report_from have {hosts}, and the newest report counts. "
    "If these are different hosts, name the reports in it, as in north=north/report.json",
)
