# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a soak: what was tried with another executor does not count, and half a line costs no
other one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults import __main__ as soak

RESULT = {"executor": "new", "number": 1, "fine": True}


def test_a_result_of_another_executor_does_not_count(tmp_path: Path) -> None:
    log = soak.Log(tmp_path / "results.jsonl", "new")
    log.add(RESULT)
    log.add({**RESULT, "executor": "old", "number": 2})
    assert log.results() == [RESULT]


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_half_a_line_at_the_end_is_dropped_and_tried_again(tmp_path: Path, whole: int) -> None:
    path = tmp_path / "results.jsonl"
    lines = [json.dumps({**RESULT, "number": number}) for number in range(whole + 1)]
    path.write_text("".join(f"{line}\n" for line in lines[:whole]) + lines[whole][:15])
    log = soak.Log(path, "new")
    assert [result["number"] for result in log.results()] == [*range(whole)]
    log.add({**RESULT, "number": whole})
    assert [result["number"] for result in soak.Log(path, "new").results()] == [*range(whole + 1)]


def test_an_empty_log_has_no_results(tmp_path: Path) -> None:
    assert soak.Log(tmp_path / "folder/results.jsonl", "new").results() == []
