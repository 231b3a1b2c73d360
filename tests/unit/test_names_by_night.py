# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names in tests that run on hosts, many of them by night alone: a rename that forgets one is
noticed here, by day.

They are strings, so neither a linter nor a type checker knows that they are names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.action import playbook_step
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments

ROOT = Path(__file__).resolve().parents[2]
PLAYED = ("tests/integration", "tests/lab", "tests/faults", "tests/bench", "tests/awx", "molecule")
COLLECTION = re.compile(r"(?:gpufleet\\?\.nvidia\\?\.|\{HERE\}|\{OURS\})([a-z_]+)")
# A sentence ends with its code in brackets. Without a hyphen it could be a table of TOML.
CODE = re.compile(r"\[([a-z0-9-]+\.[a-z0-9]+(?:-[a-z0-9]+)+)\]")
VARIABLE = re.compile(r"\bgpufleet_\w+")
CALL = re.compile(r"\.(?:task|of)\(\s*\"([a-z_]+)\"")
OF_ANSIBLE = {"raw"}
OF_ANY_TASK = {"changed", "status"}  # the status is of tests/tools/onlab.py


def list_texts(*places: str) -> Iterator[tuple[str, str]]:
    """Yield each source beneath the directories: its path and its text."""
    for place in places:
        for path in sorted((ROOT / place).rglob("*")):
            if path.suffix in (".py", ".yml", ".json"):
                yield str(path.relative_to(ROOT)), path.read_text()


def list_names() -> set[str]:
    """List what has a name of the collection, gpufleet.nvidia.NAME."""
    kinds = ("plugins/modules", "plugins/lookup", "plugins/filter", "playbooks", "roles")
    return {path.stem for kind in kinds for path in (ROOT / kind).iterdir()} | {"plugins"}


def list_steps() -> set[str]:
    """List what a task of the tests can be: a module, or a step of our playbooks."""
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
    return modules | set(playbook_step.STEPS) | OF_ANSIBLE


def list_codes() -> set[str]:
    return {
        line
        for path in (ROOT / "tests/fixtures/messages").glob("*.txt")
        for line in path.read_text().splitlines()
    }


def list_variables() -> set[str]:
    return {
        name
        for _path, text in list_texts("plugins", "roles", "playbooks")
        for name in VARIABLE.findall(text)
    }


KINDS: dict[str, tuple[re.Pattern[str], Callable[[], set[str]]]] = {
    "parts of the collection": (COLLECTION, list_names),
    "tasks": (CALL, list_steps),
    "codes of sentences": (CODE, list_codes),
    "variables": (VARIABLE, list_variables),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_tests_on_hosts_name_is_there(kind: str) -> None:
    pattern, known = KINDS[kind]
    there, found = known(), list(list_texts(*PLAYED))
    assert any(pattern.search(text) for _path, text in found), "the pattern finds some"
    missing = {path: sorted({*pattern.findall(text)} - there) for path, text in found}
    assert {path: names for path, names in missing.items() if names} == {}


def list_keys_read(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the module and the key of each `run.of("host")[HOST]["key"]`."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Subscript(
                value=ast.Subscript(
                    value=ast.Call(
                        func=ast.Attribute(attr="of"), args=[ast.Constant(value=str() as module)]
                    )
                ),
                slice=ast.Constant(value=str() as key),
            ):
                yield module, key


def test_a_key_of_a_result_that_tests_on_hosts_read_is_documented() -> None:
    read = {
        (module, key)
        for place in PLAYED
        for path in sorted((ROOT / place).rglob("*.py"))
        for module, key in list_keys_read(path)
        if key not in OF_ANY_TASK
    }
    assert read, "the shape of an expression finds some"
    documented = {
        module: set(yaml.safe_load(arguments.read_module_text(module, "RETURN")))
        for module, _key in read
    }
    assert sorted((module, key) for module, key in read if key not in documented[module]) == []
