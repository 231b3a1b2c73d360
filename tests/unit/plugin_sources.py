# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the collection's own sources as syntax trees: its files, what they import, call and name."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
OWN = "ansible_collections.gpufleet.nvidia.plugins."
HOST_SIDE = OWN + "module_utils._host"
PLANNER = OWN + "plugin_utils._planner."


def list_sources(*parts: str) -> list[Path]:
    """Give the Python files of a room."""
    return sorted(PLUGINS.joinpath(*parts).rglob("*.py"))


def name_plugin_file(path: Path) -> str:
    """Name a file as a rule shows it."""
    return str(path.relative_to(PLUGINS))


@functools.cache
def read_tree(path: Path) -> ast.Module:
    """Parse a file once for all rules."""
    return ast.parse(path.read_text())


def find_breaches(
    paths: Iterable[Path], rule: Callable[[Path], Iterable[object]]
) -> dict[str, list[object]]:
    """Return what breaks a rule, by the name of the file. The rule lists that for one file."""
    found = {str(path.relative_to(ROOT)): list(rule(path)) for path in paths}
    return {path: breaches for path, breaches in found.items() if breaches}


def list_imports(tree: ast.AST) -> set[str]:
    """Give the full names of what a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(
                f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names
            )
    return found


def list_called_names(tree: ast.AST) -> set[str]:
    """Give the last names of what a file calls: open(...) and path.read_text(...) alike."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            names.add(
                node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            )
    return names


def list_words(tree: ast.AST) -> list[str]:
    """Give the names and strings that a file works with; docstrings and the collection's own name
    do not count.
    """
    doc = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            found.append(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in doc:
            found.append(node.value.replace("gpufleet.nvidia", ""))
    return found


def get_host_part(imported: str) -> str:
    """Give the part of the host side that an import of it, or of a name in it, means: a path with
    dots for slashes.
    """
    part = imported.removeprefix(HOST_SIDE + ".")
    return part if get_host_file(part).exists() else part.rpartition(".")[0]


def get_host_file(part: str) -> Path:
    """Give the file of a part of the host side."""
    return PLUGINS.joinpath("module_utils", "_host", *part.split(".")).with_suffix(".py")


def is_documentation(node: ast.stmt) -> bool:
    """Say whether a statement is a docstring or one of the three strings that ansible-doc reads."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return False
    return all(
        isinstance(target, ast.Name) and target.id in {"DOCUMENTATION", "EXAMPLES", "RETURN"}
        for target in node.targets
    )


def read_documentation(path: Path) -> dict[str, str]:
    """Give the documentation strings of a module file."""
    body = read_tree(path).body
    return {
        node.targets[0].id: node.value.value
        for node in body
        if isinstance(node, ast.Assign) and is_documentation(node)
    }  # type: ignore[attr-defined]
