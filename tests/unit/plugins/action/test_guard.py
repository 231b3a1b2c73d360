# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No action raises: every failure is a result of JSON's own types, and one that nobody expected has
not a word of a host in it.
"""

from __future__ import annotations

import errno
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import (
    AnsibleActionFail,
    AnsibleActionSkip,
    AnsibleConnectionFailure,
    AnsibleError,
)
from ansible.utils.display import Display
from ansible.utils.unsafe_proxy import AnsibleUnsafeText
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    base,
    guard,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape
from hypothesis import given
from hypothesis import strategies as st

HERE = "tests/unit/plugins/action/test_guard.py"
TEMPLATE = "{{ lookup('pipe', 'touch rendered') }}"
FORGED = "/etc/x: fine\n\nPLAY RECAP ****\nc17 : ok=3\n\x1b[8m\u202e"
SHOWN = r"/etc/x: fine\n\nPLAY RECAP ****\nc17 : ok=3\n\x1b[8m\u202e"
BUG = f"; {guard.BUG}"
FAILED = {"failed": True, "changed": False}
CONTEXT = (
    "\n\nThe error appears to be in '/home/x/site.yml': line 3, column 7, but may\nbe elsewhere"
)


def raising(error: BaseException) -> Callable[[], dict[str, Any]]:
    """Give the guarded run() of an action that ends with an error."""

    def run() -> dict[str, Any]:
        raise error

    return base.guard_action(run)


TOLD: list[tuple[Exception, dict[str, Any]]] = [
    (
        PlanError("broken", where=FORGED, line=3, why=TEMPLATE, next="Correct it"),
        {
            **FAILED,
            "msg": f"{SHOWN}:3: broken ({TEMPLATE}). Correct it",
            "error": {
                "code": "",
                "what": "broken",
                "where": SHOWN,
                "line": 3,
                "why": TEMPLATE,
                "next": "Correct it",
            },
        },
    ),
    (AnsibleActionFail(FORGED), {**FAILED, "msg": SHOWN}),
    (
        AnsibleActionFail(
            "no answer",
            result={
                "rc": 1,
                "exception": "Traceback ...",
                "module_stdout": TEMPLATE,
                "changed": True,
            },
        ),
        {**FAILED, "msg": "no answer", "rc": 1, "module_stdout": TEMPLATE},
    ),
    (
        AnsibleConnectionFailure(f"ssh: {TEMPLATE}\r\n"),
        {"unreachable": True, "changed": False, "msg": f"ssh: {TEMPLATE}"},
    ),
    (AnsibleError(f"'asc' is undefined{CONTEXT}"), {**FAILED, "msg": "'asc' is undefined"}),
    (ValueError(TEMPLATE), {**FAILED, "msg": f"ValueError{BUG}"}),
    (KeyError(TEMPLATE), {**FAILED, "msg": f"KeyError{BUG}"}),
    (
        UnicodeDecodeError("utf-8", TEMPLATE.encode(), 0, 1, TEMPLATE),
        {**FAILED, "msg": f"UnicodeDecodeError{BUG}"},
    ),
    (RecursionError(TEMPLATE), {**FAILED, "msg": f"RecursionError{BUG}"}),
    (MemoryError(), {**FAILED, "msg": f"MemoryError{BUG}"}),
    (OSError(errno.ENOSPC, TEMPLATE, TEMPLATE), {**FAILED, "msg": f"OSError (ENOSPC){BUG}"}),
]


@pytest.mark.parametrize(("error", "result"), TOLD, ids=lambda case: type(case).__name__)
def test_a_failure_is_returned(error: Exception, result: dict[str, Any]) -> None:
    found = raising(error)()
    found["msg"] = re.sub(rf" in {HERE} line \d+", "", found["msg"])
    assert found == result


@pytest.mark.parametrize(
    "error",
    [AnsibleActionSkip("check mode"), KeyboardInterrupt(), SystemExit(2), GeneratorExit()],
    ids=repr,
)
def test_what_ansible_needs_passes(error: BaseException) -> None:
    with pytest.raises(type(error)):
        raising(error)()


def test_an_unexpected_error_names_our_own_line_and_tells_no_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(Display, "vvv", lambda _self, text, *_more, **_others: told.append(text))

    def run() -> dict[str, Any]:
        try:
            raise ValueError(TEMPLATE)
        except ValueError:
            return dict(json.loads(TEMPLATE))

    msg = base.guard_action(run)()["msg"]
    assert msg == f"JSONDecodeError in {HERE} line {run.__code__.co_firstlineno + 4}{BUG}"
    assert TEMPLATE not in told[0]
    assert "json/decoder.py line " in told[0]
    assert len(told) == 1


@pytest.mark.parametrize(
    "breaks",
    [
        (escape, "escape_result"),
        (arguments, "build_option_failure"),
        (guard, "describe_ansible_error"),
    ],
    ids=lambda part: part[1],
)
@pytest.mark.parametrize(
    "error", [PlanError(TEMPLATE), AnsibleError(TEMPLATE)], ids=["PlanError", "AnsibleError"]
)
def test_a_failure_of_what_makes_failures_is_one_too(
    error: Exception, breaks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: Any) -> Any:
        raise KeyError(TEMPLATE)

    monkeypatch.setattr(*breaks, broken)
    found = raising(error)()
    assert (found["failed"], found["changed"]) == (True, False)
    used = breaks[1] == "escape_result" or (breaks[1] == "build_option_failure") == isinstance(
        error, PlanError
    )
    assert (TEMPLATE in found["msg"]) is not used


def test_a_result_that_cannot_be_shown_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(dict[str, Any]):
        def items(self) -> Any:
            raise ValueError(TEMPLATE)

    found = base.guard_action(lambda: {"msg": "fine", "more": Odd(a=1)})()
    assert (
        found["failed"],
        TEMPLATE in found["msg"],
        f"ValueError in {HERE} line " in found["msg"],
    ) == (True, False, True)


class Level(int):
    pass


class Word(str):
    def __str__(self) -> str:
        return "another word"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (AnsibleUnsafeText("a"), "a"),
        (Word("a"), "a"),
        (Level(3), 3),
        ({Word("k"): (Word("v"),)}, {"k": ["v"]}),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (
            {3: 1, None: 2, True: 3, 1.5: 4, (1, 2): 5},
            {"3": 1, "null": 2, "true": 3, "1.5": 4, "<tuple>": 5},
        ),
        ({"a"}, ["a"]),
        (b"bytes", "<bytes>"),
        (Path(TEMPLATE), "<PosixPath>"),
    ],
    ids=repr,
)
def test_a_result_has_the_types_of_json_alone(value: Any, shown: Any) -> None:
    found = base.guard_action(
        lambda: {
            "value": value,
            "evidence": value,
            "ansible_stats": value,
            "diff": [{"before": value}],
        }
    )()
    assert found == {
        "value": shown,
        "evidence": shown,
        "ansible_stats": shown,
        "diff": [{"before": shown}],
    }
    assert plain(found)


def plain(value: Any) -> bool:
    """Whether a value is of JSON's types, and of no subclass."""
    kind = type(value)
    if kind is dict:
        return all(key.__class__ is str and plain(inner) for key, inner in value.items())
    return all(map(plain, value)) if kind is list else kind in (str, int, float, bool, type(None))


texts = st.text(max_size=5)
odd = (
    texts.map(Word)
    | texts.map(AnsibleUnsafeText)
    | st.integers().map(Level)
    | st.floats()
    | st.binary(max_size=3)
)
keys = odd | st.none() | st.booleans() | st.tuples(st.integers())
values = st.recursive(
    odd, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
)


@given(st.dictionaries(texts, values))
def test_every_result_is_json(result: dict[str, Any]) -> None:
    found = base.guard_action(lambda: result)()
    assert plain(found)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


ROW = Sentence("demo.row", "it is {value}", next="Change it")
SHOWN_WITH_CODE = [
    # a sentence of a result, and what is shown of it
    (ROW.fill(value=1), "it is 1. Change it [demo.row]"),
    (end_with_code(ROW.fill(value=1)), "it is 1. Change it [demo.row]"),
    (ROW.fill(value="a\nb"), r"it is a\nb. Change it [demo.row]"),
    ("a sentence of another collection", "a sentence of another collection"),
]


@pytest.mark.parametrize("key", ["advice", "warnings"])
@pytest.mark.parametrize(("said", "shown"), SHOWN_WITH_CODE)
def test_each_sentence_of_a_result_ends_with_its_code(key: str, said: str, shown: str) -> None:
    assert base.guard_action(lambda: {key: [said]})() == {key: [shown]}


def test_a_value_ends_before_the_recursion_of_ansible_does() -> None:
    deep: Any = "x"
    for _level in range(5000):
        deep = [deep]
    found = base.guard_action(lambda: {"deep": deep})()["deep"]
    levels = 0
    while isinstance(found, list):
        [found] = found
        levels += 1
    assert (levels, found) == (escape.DEEPEST + 1, escape.ELIDED)


ACTIONS = sorted(path.stem for path in (Path(base.__file__).parents[2] / "action").glob("[!_]*.py"))
GUARDED = base.guard_action(dict).__code__


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_is_guarded(name: str) -> None:
    action = importlib.import_module(
        f"ansible_collections.gpufleet.nvidia.plugins.action.{name}"
    ).ActionModule
    assert action.run.__code__ is GUARDED
