# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house about facts: data goes one way, from an observation to a plan.

A room reads the observation once (`read_..._facts`), and plans take the facts.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.unit.plugin_sources import PLUGINS, list_sources, read_tree


def name_host_file(path: Path) -> str:
    return str(path.relative_to(PLUGINS / "plugin_utils/_planner/host"))


def takes_observation(function: ast.FunctionDef) -> bool:
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return any(a.annotation and ast.unparse(a.annotation) == "Observation" for a in named)


def list_functions(path: Path) -> list[ast.FunctionDef]:
    """Give the functions at the top of a file."""
    return [node for node in read_tree(path).body if isinstance(node, ast.FunctionDef)]


def find_plans_by_observation(path: Path) -> list[str]:
    return [
        function.name
        for function in list_functions(path)
        if function.name.lstrip("_").startswith("plan") and takes_observation(function)
    ]


def test_plans_take_facts_and_no_observation() -> None:
    rooms = list_sources("plugin_utils", "_planner", "host")
    found = {name_host_file(path): set(find_plans_by_observation(path)) for path in rooms}
    assert {path: plans for path, plans in found.items() if plans} == {}


def find_climbs(path: Path, readers: set[str]) -> list[str]:
    """Give the functions outside the pass that have another room read an observation."""
    return [
        function.name
        for function in list_functions(path)
        if not function.name.lstrip("_").startswith("read_")
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in readers
    ]


def test_rooms_do_not_have_one_another_read_the_observation() -> None:
    """The pass is in `seen_host`, in the actions, and in what reads a room's facts."""
    rooms = list_sources("plugin_utils", "_planner", "host")
    readers = {
        function.name
        for path in rooms
        for function in list_functions(path)
        if function.name.startswith("read_") and takes_observation(function)
    }
    found = {
        name_host_file(path): set(find_climbs(path, readers))
        for path in rooms
        if path.stem != "seen_host"
    }
    assert {path: climbs for path, climbs in found.items() if climbs} == {}


def find_callables_in_facts(path: Path) -> list[str]:
    """Give the fields of facts by which a plan could still ask the observation."""
    return [
        f"{node.name}.{ast.unparse(field.target)}"
        for node in read_tree(path).body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Facts")
        for field in node.body
        if isinstance(field, ast.AnnAssign) and "Callable" in ast.unparse(field.annotation)
    ]


def test_facts_are_values_and_not_functions() -> None:
    """A fact that is read later is a Fact or a Lookup, which reads it once."""
    rooms = list_sources("plugin_utils", "_planner", "host")
    found = {name_host_file(path): find_callables_in_facts(path) for path in rooms}
    assert {path: fields for path, fields in found.items() if fields} == {}


SHELLS = {
    directory + name
    for directory in ("", "/bin/", "/usr/bin/")
    for name in ("sh", "bash", "dash", "ash", "ksh", "zsh")
}


def find_shells(path: Path) -> list[str]:
    """Give the functions of a file, '' for its top, with words that have a shell for their program."""
    named = {node: part for part in list_functions(path) for node in ast.walk(part)}
    return [
        named[node].name if node in named else ""
        for node in ast.walk(read_tree(path))
        if isinstance(node, ast.List | ast.Tuple)
        and node.elts
        and isinstance(node.elts[0], ast.Constant)
        and node.elts[0].value in SHELLS
    ]


def test_no_planner_sends_a_shell() -> None:
    """No rule sees what a shell is told to take away: it would need no cause and no way back.

    The one shell looks for a Python that runs a program of this collection.
    """
    found = {path.name: find_shells(path) for path in list_sources("plugin_utils")}
    assert {name: where for name, where in found.items() if where} == {
        "host_service.py": ["build_service_command"]
    }
