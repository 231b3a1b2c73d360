# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole tasks on whole hosts: all that the host's programs answer has its shape."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.unit import honest, running_host
from tests.unit.running_host import HostProcess
from tests.unit.running_hosts import ENGINES
from tests.unit.told_stories import STORIES, Run


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


@pytest.mark.parametrize("fails", ["", "validator", "restart"])
@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("name", ENGINES)
def test_what_the_programs_of_a_host_answer(
    process: HostProcess, name: str, story: str, fails: str
) -> None:
    if ENGINES[name].devices and os.geteuid() != 0:
        pytest.skip("only root may make device nodes")
    spec = ENGINES[name].copy()
    spec.fails = fails
    sent = Run(process, spec, story, 0o644, "stdin").wire
    wrong = [
        line
        for request, answer in zip(sent[::2], sent[1::2], strict=True)
        for line in honest.broken(kind(request), request, answer)
    ]
    assert len(sent) > 10
    assert wrong == []


def kind(request: dict[str, object]) -> str:
    """The program that a request is for."""
    return (
        "observe"
        if "questions" in request
        else "container_check"
        if "cases" in request
        else "acknowledge"
        if "ids" in request
        else "transaction"
    )
