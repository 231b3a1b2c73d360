# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each page answers the questions with which people open it (tests/fixtures/page_questions.yml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

DOCS = Path(__file__).resolve().parents[2] / "docs"
QUESTIONS = yaml.safe_load((DOCS.parent / "tests/fixtures/page_questions.yml").read_text())
# The table of contents, whose links other tests follow.
WITHOUT_QUESTIONS = {"README.md"}


def list_unanswered(text: str, questions: list[dict[str, Any]]) -> list[str]:
    """Return the questions whose answer the page lacks, or a part of it."""
    return [
        question["ask"]
        for question in questions
        if not all(part in text for part in question["answer"])
    ]


def test_a_question_is_answered_by_all_parts_of_its_answer() -> None:
    asked = [{"ask": "one", "answer": ["a", "b"]}, {"ask": "other", "answer": ["b"]}]
    assert list_unanswered("a b", asked) == []
    assert list_unanswered("b", asked) == ["one"]
    assert list_unanswered("a", asked) == ["one", "other"]


def test_each_page_has_questions() -> None:
    assert {path.name for path in DOCS.glob("*.md")} - WITHOUT_QUESTIONS == set(QUESTIONS)


@pytest.mark.parametrize("page", QUESTIONS)
def test_a_page_answers_its_questions(page: str) -> None:
    questions = QUESTIONS[page]
    assert len({question["ask"] for question in questions}) == len(questions) >= 3
    assert all(question["answer"] for question in questions)
    assert list_unanswered((DOCS / page).read_text(), questions) == []
