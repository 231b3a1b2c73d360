# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house about documentation: modules are nothing else, and what docstrings say is
true.
"""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path

import yaml

from tests.unit.plugin_sources import (
    PLUGINS,
    find_breaches,
    is_documentation,
    list_imports,
    list_sources,
    read_documentation,
    read_tree,
)


def list_code(tree: ast.Module) -> list[ast.stmt]:
    """Give the statements of a module file that are neither its documentation nor imports."""
    return [
        node
        for node in tree.body
        if not is_documentation(node) and not isinstance(node, ast.Import | ast.ImportFrom)
    ]


def test_a_module_is_documentation() -> None:
    """Nothing in modules/ but the programs of host_program runs on a host: the actions do the work."""
    paths = [item for item in list_sources("modules") if item.stem != "host_program"]
    assert (
        find_breaches(
            paths,
            lambda path: [ast.unparse(node)[:80] for node in list_code(read_tree(path))],
        )
        == {}
    )


def test_every_action_has_a_documented_module() -> None:
    """The argument specification is derived from the documentation, so it has to be there, whole."""
    modules = [
        PLUGINS / "modules" / item.name
        for item in list_sources("action")
        if item.name != "__init__.py"
    ]
    assert [module for module in modules if not module.is_file()] == []
    assert (
        find_breaches(
            modules,
            lambda path: {"DOCUMENTATION", "EXAMPLES", "RETURN"} ^ {*read_documentation(path)},
        )
        == {}
    )


def list_odd_sentences(value: object, key: str = "") -> list[object]:
    """Give what stands for a sentence of the documentation and is none: YAML reads one with a colon
    and a blank as a table.
    """
    if isinstance(value, dict):
        # an option may have one of these names
        broken = key in SENTENCES and "description" not in value
        return (
            [value]
            if broken
            else [
                odd for name, inner in value.items() for odd in list_odd_sentences(inner, str(name))
            ]
        )
    if isinstance(value, list):
        return [odd for inner in value for odd in list_odd_sentences(inner, key)]
    return [] if isinstance(value, str) or key not in SENTENCES else [value]


SENTENCES = ("description", "short_description", "details", "notes")
YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def test_a_sentence_of_the_documentation_is_a_text() -> None:
    """ansible-doc ends with an error otherwise, for all modules at once."""

    def find_odd(path: Path) -> list[object]:
        found = read_documentation(path) or read_fragments(path)
        return [
            odd
            for part in ("DOCUMENTATION", "RETURN")
            for odd in list_odd_sentences(yaml.load(found.get(part, "{}"), YAML_LOADER))
        ]

    assert find_breaches([*list_sources("modules"), *list_sources("doc_fragments")], find_odd) == {}


def read_fragments(path: Path) -> dict[str, str]:
    """Give the documentation strings of a fragment's class, put into one text of YAML."""
    classes = [node for node in read_tree(path).body if isinstance(node, ast.ClassDef)]
    texts = [
        n.value.value
        for c in classes
        for n in c.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)
    ]
    return {"DOCUMENTATION": yaml.safe_dump([yaml.safe_load(str(text)) for text in texts])}


RAISED = re.compile(r"\b[Rr]aises?\s+(?:an?\s+)?([A-Z]\w+(?:(?:,|\s+or|\s+and)+\s+[A-Z]\w+)*)")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def list_classes(path: Path) -> set[str]:
    """Give the names of the classes that a file makes, and of all that it imports."""
    tree = read_tree(path)
    made = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return made | {item.rpartition(".")[2] for item in list_imports(tree)}


def find_raised_names(path: Path) -> set[str]:
    """Return the names of what a file's docstrings say is raised."""
    documented = [node for node in ast.walk(read_tree(path)) if isinstance(node, DOCUMENTED)]
    lists = [RAISED.findall(ast.get_docstring(node) or "") for node in documented]
    return {name for found in lists for names in found for name in re.findall(r"[A-Z]\w+", names)}


def test_docstrings_name_exceptions_that_exist() -> None:
    known = set(dir(builtins)).union(*map(list_classes, list_sources()))
    assert find_breaches(list_sources(), lambda path: find_raised_names(path) - known) == {}
