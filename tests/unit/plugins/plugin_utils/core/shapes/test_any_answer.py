# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers in which a host has replaced values by anything: the edge refuses them, or a plan or a
planned refusal is made of them.
"""

from __future__ import annotations

import copy
import importlib
import os
import pathlib
import random
import re
import types
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

from tests.draws import count_examples
from tests.unit import running_host
from tests.unit.running_host import ACTIONS, Host, HostProcess
from tests.unit.running_hosts import ENGINES, build

EXAMPLES = count_examples(25)
PLANNED = (PlanError,)
TEMPLATE = "{{ lookup('pipe', 'id > /tmp/x') }}"
DEEP: Any = None
for _level in range(40):
    DEEP = [DEEP]
OPTIONS: dict[str, dict[str, Any]] = {
    "host_info": {"no_gpu": "prepare"},
    "host": {"no_gpu": "prepare", "packages": "ignore"},
}
NUMBER = re.compile("[0-9]+")
# What a value is replaced by: of each type of JSON, and text that looks like what belongs there.
ANYTHING: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7.5, 1 << 62, 1 << 70, 1e300, "", "x", TEMPLATE, "²", "-1", "9" * 30, "\ud800", "\udc80", "\0", "a/b", "/",
    "/x", "2.0", "99999999999999999999.1", "a" * 5000, [], ["x"], [[]], {}, {"x": 1}, {"error": {}},
    {"error": {"kind": "x", "message": "y"}},
    {"error": TEMPLATE}, DEEP, "\n", "version = 3\n", "{", "[", "version = [", "= ", "a: [", "GPU 0: x (UUID: y)\n", "0" * 40, "a" * 64,
)  # fmt: skip


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value within a value."""
    yield place
    for key, inner in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(inner, (*place, key))


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return copy.deepcopy(value)


def replaced(value: Any, place: tuple[Any, ...], by: Any) -> Any:
    if not place:
        return by
    made = copy.copy(value)
    made[place[0]] = replaced(value[place[0]], place[1:], by)
    return made


class Liar:
    """The process, one of whose answers in a task is mutated."""

    def __init__(self, process: HostProcess, draw: random.Random, program: str) -> None:
        self.process, self.draw, self.program, self.done = process, draw, program, ""

    def ask(
        self,
        root: pathlib.Path,
        program: str,
        request: Any,
        known: Any,
        devices: Any = None,
        kernel: str = "",
    ) -> Any:
        answer = self.process.ask(root, program, request, known, devices, kernel)
        if program != self.program or self.done:
            return answer
        for _time in range(self.draw.choice((1, 1, 1, 3))):
            every = list(places(answer))
            kinds = sorted({str(place[:2]) for place in every})
            # else the longest answer would be the one that is always met
            kind = self.draw.choice(kinds)
            place = self.draw.choice([place for place in every if str(place[:2]) == kind])
            by = self.instead(answer, place, every)
            self.done += f" {place} by {by!r:.60}"
            answer = replaced(answer, place, by)
        return answer

    def instead(self, answer: Any, place: tuple[Any, ...], every: list[tuple[Any, ...]]) -> Any:
        """A value for a place: any, another one of the same answer, or the same text with another
        number in it.
        """
        now = at(answer, place)
        numbers = list(NUMBER.finditer(now)) if isinstance(now, str) else []
        if numbers and self.draw.random() < 0.7:
            found = self.draw.choice(numbers)
            return (
                now[: found.start()]
                + self.draw.choice(("9" * 5000, "²", "-1", "", "1.", "1e400"))
                + now[found.end() :]
            )
        return (
            self.draw.choice(ANYTHING)
            if self.draw.random() < 0.6
            else at(answer, self.draw.choice(every))
        )


def ran(host: Host, module: str, **options: Any) -> str:
    """How a task ends without the last guard of actions: "" as planned, else the exception that
    nobody expected.
    """
    cls = importlib.import_module(ACTIONS + module).ActionModule
    action = cls.__new__(cls)
    action._task = types.SimpleNamespace(
        args=options, check_mode=False, diff=True, async_val=0, delegate_to=None, action=module
    )
    action._connection = types.SimpleNamespace(
        _shell=types.SimpleNamespace(tmpdir=None), has_pipelining=True, become=None
    )
    action._templar = types.SimpleNamespace(template=lambda value: value)
    action._compute_environment_string = lambda _found=None: ""
    action._low_level_execute_command = host._by_stdin
    try:
        cls.run.__wrapped__(action, None, {"inventory_hostname": "gpu1"})
    except PLANNED:
        return ""
    except Exception as error:  # the rule: there is none
        trace, where = error.__traceback__, []
        while trace is not None:
            where.append(
                f"{pathlib.Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
            )
            trace = trace.tb_next
        return f"{type(error).__name__}: {error} at {' '.join(where[-5:])}"
    return ""


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("host_info", "observe"),
        ("host", "observe"),
        ("host", "transaction.entry"),
        ("ENGINE_runtime", "observe"),
        ("toolkit_config", "observe"),
        ("cdi_spec", "observe"),
        ("gpu_health_info", "observe"),
        ("gpu_diagnose", "observe"),
    ],
)
@pytest.mark.parametrize("name", ENGINES)
def test_any_value_anywhere(process: HostProcess, name: str, module: str, program: str) -> None:
    if ENGINES[name].devices and os.geteuid() != 0:
        pytest.skip("only root may make device nodes")
    draw, met = random.Random(f"{name} {module} {program}"), 0
    # what a transaction has done is not done again
    for _host in range(EXAMPLES // 3 if program != "observe" else 1):
        host = build(process, ENGINES[name].copy(), 0o644)
        try:
            for _example in range(EXAMPLES if program == "observe" else 1):
                liar = Liar(process, draw, program)
                host.answers = liar  # type: ignore[assignment]
                ended = ran(
                    host, module.replace("ENGINE", ENGINES[name].engine), **OPTIONS.get(module, {})
                )
                assert ended == "", liar.done
                met += bool(liar.done)
        finally:
            host.close()
    assert met > EXAMPLES // 6
