# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the surveys of AWX's job templates.

A survey asks only for settings of a run. AWX passes an unanswered question to the job as an empty
text (awx/main/models/mixins.py, SurveyJobTemplateMixin), and extra variables override the
inventory's. So a question about a variable of hosts would empty it for all of them.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping
from typing import Any

LONGEST = 1024  # of an answer, which AWX counts


@dc.dataclass(frozen=True)
class Question:
    """A question of a survey.

    default: the answer that is there at first; choices: () for free text; required: whether the
    answer must not be empty.
    """

    variable: str
    text: str
    help: str
    default: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False


HOSTS = Question(
    "gpufleet_hosts",
    "Which hosts?",
    "A host, a group, or a pattern of Ansible's.",
    "all",
    required=True,
)
FAIL_ON_DRIFT = Question(
    "gpufleet_fail_on_drift",
    "Fail where a host would be changed?",
    "true is for a schedule that watches for drift.",
    "false",
    ("false", "true"),
)
MAX_LOST = Question(
    "gpufleet_max_lost",
    "How many hosts may be lost?",
    "A number, or a percentage such as 10%. With more that do not answer, the job fails.",
    "10%",
)
UNTIL = Question(
    "gpufleet_rollout_until",
    "Until where?",
    "canaries ends the run as paused once the canaries are done. The next run continues with the waves.",
    "end",
    ("end", "canaries"),
)
WAVES = Question(
    "gpufleet_rollout_waves",
    "Which waves?",
    "Numbers or percentages of hosts, with commas: 1,10%,50%,100%.",
)
CANARIES = Question(
    "gpufleet_rollout_canaries", "How many canaries of each class?", "A number. 0 means none."
)
MAX_FAILED = Question(
    "gpufleet_rollout_max_failed",
    "How many hosts may fail?",
    "A number, or a percentage such as 2%.",
)
MAX_UNAVAILABLE = Question(
    "gpufleet_rollout_max_unavailable",
    "How many hosts may be out of service at once?",
    "A number, or a percentage, of each cluster, partition and failure domain.",
)
MAX_LEFT_OUT = Question(
    "gpufleet_rollout_max_left_out",
    "How many hosts may be left out?",
    "A number, or a percentage such as 10%.",
)
DOMAIN = Question(
    "gpufleet_rollout_domain",
    "What are the failure domains?",
    "Variables of the hosts, with commas: rack,power_feed.",
)
SOAK = Question(
    "gpufleet_rollout_soak",
    "How long to wait before the second check?",
    "Seconds, after each batch.",
)
WINDOW = Question(
    "gpufleet_rollout_window",
    "When may batches start?",
    "For example Mo-Fr 20:00-04:00 Europe/Berlin. Empty means always.",
)
SERIAL = Question(
    "gpufleet_serial",
    "How many hosts at once?",
    "One number, or one percentage such as 10%.",
    "10%",
    required=True,
)
SITE_MAX_FAILED = Question(
    "gpufleet_max_failed", "How many hosts may fail?", "A number, or a percentage such as 2%.", "0"
)
CHANGE_REF = Question(
    "gpufleet_change_ref",
    "Which ticket?",
    "It goes into the hosts' journals, into marks of drained hosts and reports.",
)

ROLLOUT = (
    HOSTS,
    CHANGE_REF,
    WAVES,
    CANARIES,
    MAX_FAILED,
    MAX_UNAVAILABLE,
    MAX_LEFT_OUT,
    DOMAIN,
    SOAK,
    WINDOW,
)


def build_survey(questions: Iterable[Question], answers: Mapping[str, str]) -> dict[str, Any]:
    """Build a survey in the form that AWX takes. answers: the answers that are there at first, by
    variable.
    """
    return {
        "name": "",
        "description": "",
        "spec": [
            build_survey_question(question, answers.get(question.variable))
            for question in questions
        ],
    }


def build_survey_question(question: Question, answer: str | None) -> dict[str, Any]:
    """Return a question as AWX takes it.

    answer: its default; None for the question's own.
    """
    default = question.default if answer is None else answer
    about = {
        "variable": question.variable,
        "question_name": question.text,
        "question_description": question.help,
    }
    if question.choices:
        return {
            **about,
            "type": "multiplechoice",
            "required": False,
            "default": default,
            "choices": list(question.choices),
        }
    return {
        **about,
        "type": "text",
        "required": question.required,
        "default": default,
        "min": int(question.required),
        "max": LONGEST,
    }


def list_needed_answers(
    questions: Iterable[Question], answers: Mapping[str, str]
) -> dict[str, str]:
    """Return what a schedule has to answer.

    AWX refuses a schedule that leaves out a required answer, whatever is there at first.
    """
    return {
        entry["variable"]: entry["default"]
        for entry in build_survey(questions, answers)["spec"]
        if entry["required"]
    }
