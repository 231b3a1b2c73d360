# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every bad input of tests/fixtures/bad gets its code and one sentence, soon, and in little memory."""

from __future__ import annotations

import signal
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import variables_check

from tests.unit.plugins import bad_corpus

SECONDS = 30
MEMORY = 256 << 20
# Each refusal of these parts has a code. The answers of the host's program, `question` and
# `transaction`, have a kind instead.
CODED: tuple[str, ...] = (
    "containerd",
    "crio",
    "docker",
    "gate",
    "options",
    "repository",
    "toolkit",
)
KEYS = ("code", "option", "within")  # of a case: what identifies the message
CASES = [(part, name) for part in bad_corpus.PARTS for name in bad_corpus.cases(part)]


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """No input may cost more time or memory than a small host has to spare."""
    tracemalloc.start()
    signal.alarm(SECONDS)  # ends the process: whatever hangs beyond that must be seen
    try:
        yield
    finally:
        signal.alarm(0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MEMORY


@pytest.mark.parametrize(("part", "name"), CASES, ids=[f"{part}: {name}" for part, name in CASES])
def test_each_is_refused_in_one_sentence_with_its_code(
    part: str, name: str, tmp_path: Path
) -> None:
    case = bad_corpus.cases(part)[name]
    found, sentence = bad_corpus.answer(part, case, tmp_path)
    sentence = sentence.replace(str(tmp_path), "@")
    assert found == {key: case[key] for key in KEYS if key in case}
    assert case.get("says", "") in sentence
    assert "\n" not in sentence
    assert "Traceback" not in sentence


def test_no_refusal_is_without_a_code() -> None:
    assert [
        f"{part}: {name}"
        for part, name in CASES
        if part in CODED and not bad_corpus.cases(part)[name].get("code")
    ] == []


OF_NODE = {
    name: case for name, case in bad_corpus.cases("options").items() if case["module"] == "host"
}


def test_a_run_and_a_task_give_a_bad_value_the_same_code() -> None:
    """The check of a run's variables sees some of them before any host is looked at, and the task
    sees all.
    """
    found = {}
    for name, case in OF_NODE.items():
        variables = {f"gpufleet_{option}": value for option, value in case["options"].items()}
        several = variables_check.list_wrong_host_values(variables)
        if several:
            found[name] = (several[0].code, case.get("code", ""))
    assert len(found) > 20
    assert {name: codes for name, codes in found.items() if codes[0] != codes[1]} == {}


def test_each_is_different_in_kind() -> None:
    inputs = Counter(
        repr({k: v for k, v in bad_corpus.cases(part)[name].items() if k not in ("says", *KEYS)})
        + part
        for part, name in CASES
    )
    assert [text for text, count in inputs.items() if count > 1] == []
    assert len(CASES) >= 300
