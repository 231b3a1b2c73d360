# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one form of an error: "where: what (why). Next step". Every caller passes the step as it is
shown, and the value makes sure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
SOURCES = sorted([*(PLUGINS / "action").rglob("*.py"), *(PLUGINS / "plugin_utils").rglob("*.py")])
# The values that carry a next step, and where in their arguments it is when it has no name.
ERRORS = {"PlanError", "QueryFailed", "Shadowed", "Stopped", "TomlError", "TooMuch"}
BY_PLACE = {"Refusal": 1}


def _leaves(value: ast.expr) -> Iterator[ast.expr]:
    """What a conditional expression may be."""
    if isinstance(value, ast.IfExp):
        yield from (*_leaves(value.body), *_leaves(value.orelse))
    elif isinstance(value, ast.BoolOp):
        for one in value.values:
            yield from _leaves(one)
    else:
        yield value


def _passed(call: ast.Call) -> Iterator[ast.expr]:
    name = ast.unparse(call.func).rpartition(".")[2]
    if name not in ERRORS and name not in BY_PLACE and name != "Sentence":
        return
    yield from (word.value for word in call.keywords if word.arg == "next")
    if name in BY_PLACE:
        yield from call.args[BY_PLACE[name] : BY_PLACE[name] + 1]


def steps(tree: ast.Module) -> Iterator[ast.expr]:
    """Every next step as it is written: in the call, or in a name of the same function."""
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        passed = [
            value for n in ast.walk(function) if isinstance(n, ast.Call) for value in _passed(n)
        ]
        names = {value.id for value in passed if isinstance(value, ast.Name)}
        given = (n for n in ast.walk(function) if isinstance(n, ast.Assign))
        named = [
            n.value
            for n in given
            if any(isinstance(t, ast.Name) and t.id in names for t in n.targets)
        ]
        for value in (*passed, *named):
            yield from _leaves(value)
    for node in tree.body:
        for call in (
            n
            for n in ast.walk(node)
            if isinstance(n, ast.Call) and not isinstance(node, ast.FunctionDef | ast.ClassDef)
        ):
            for value in _passed(call):
                yield from _leaves(value)


def text(value: ast.expr) -> str | None:
    """The words of a literal, with {} for a value; None if it is not a literal, since the value
    takes care of that.
    """
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else None
    if isinstance(value, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in value.values
        )
    return None


def fault(said: str) -> str:
    if said[:1].islower():
        return "begins with a small letter"
    return "ends with a full stop" if said.endswith(".") else ""


def without_step(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the errors whose sentence stands there without a next step. `**` may hand a step on,
    and a message has its own.
    """
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        handed_on = bool(call.args) and isinstance(
            call.args[0], ast.Call | ast.Attribute | ast.Name
        )
        stepless = not any(word.arg in ("next", None) for word in call.keywords) and not handed_on
        if ast.unparse(call.func).rpartition(".")[2] in ERRORS and stepless:
            yield call


def test_every_error_has_a_next_step() -> None:
    assert [
        f"{path}:{call.lineno}"
        for path in SOURCES
        for call in without_step(ast.parse(path.read_text()))
    ] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('raise PlanError("x", why="y")', 1),
        ('raise model.TooMuch("x")', 1),
        ('raise PlanError("x", next="Do this")', 0),
        ('raise PlanError("x", **more)', 0),
        ('raise KeyError("x")', 0),
    ],
)
def test_the_search_finds_what_has_none(source: str, found: int) -> None:
    assert len([*without_step(ast.parse(source))]) == found


def test_every_next_step_is_passed_as_it_is_shown() -> None:
    found = [
        (path, value, text(value))
        for path in SOURCES
        for value in steps(ast.parse(path.read_text()))
    ]
    assert len([said for *_place, said in found if said]) > 150, (
        "fewer than there are: the search looks past them"
    )
    wrong = [
        f"{path.name}:{value.lineno}: {said!r} {fault(said)}"
        for path, value, said in found
        if said and fault(said)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ('def f():\n    raise PlanError("x", next="do this")', ["do this"]),
        ('def f():\n    raise model.PlanError("x", next="Do this.")', ["Do this."]),
        ('def f():\n    way = f"do {x}"\n    raise TooMuch("x", next=way)', ["do {}"]),
        ('def f():\n    return Refusal("x", "do this" if y else "Do that")', ["do this"]),
        ('ROW = Sentence("demo.row", "it is broken", next="write it")', ["write it"]),
        ('def f():\n    raise PlanError("x", why="no.", next=f"{x} is known")', []),
    ],
)
def test_the_search_finds_them(source: str, wrong: list[str]) -> None:
    assert [
        said for value in steps(ast.parse(source)) for said in [text(value)] if said and fault(said)
    ] == wrong


# what, where, line, why, next -> what a person reads
COMPOSED = {
    "all of it": (
        PlanError(
            "it is not valid", where="/etc/a", line=3, why="a key is missing", next="Repair it"
        ),
        "/etc/a:3: it is not valid (a key is missing). Repair it",
    ),
    "a step out of a value": (
        PlanError("it is not valid", next="repair it."),
        "it is not valid. Repair it",
    ),
    "no step": (PlanError("it is not valid", where="/etc/a"), "/etc/a: it is not valid"),
    "a line without a file": (PlanError("it is not valid", line=3), "it is not valid"),
    "a refusal": (Refusal("k3s writes this", "set it there."), "k3s writes this. Set it there"),
}


@pytest.mark.parametrize("case", COMPOSED)
def test_one_form(case: str) -> None:
    value, said = COMPOSED[case]
    assert str(value) == said
