# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house (ARCHITECTURE.md) about imports and calls: who may know what, who may touch
what.

A rule is one case, whatever the number of files: a failure names each file that breaks it, and with
what.
"""

from __future__ import annotations

import ast
import graphlib
import sys
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import launcher
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport

from tests.unit.plugin_sources import (
    HOST_SIDE,
    OWN,
    PLANNER,
    PLUGINS,
    find_breaches,
    get_host_file,
    get_host_part,
    list_called_names,
    list_imports,
    list_sources,
    read_tree,
)

# What reads a file, starts a process, opens a connection, or looks at a clock. The planner gets all
# of that as an observation.
IMPURE = {
    "asyncio",
    "ctypes",
    "fcntl",
    "getpass",
    "glob",
    "http",
    "logging",
    "multiprocessing",
    "os",
    "platform",
    "pwd",
    "grp",
    "random",
    "requests",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
}
IMPURE_CALLS = {
    "open",
    "input",
    "print",
    "exec",
    "eval",
    "__import__",
    "breakpoint",
    # methods of pathlib.Path, whose pure half (PurePosixPath) is welcome
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "unlink",
    "mkdir",
    "iterdir",
    "rglob",
    "symlink_to",
    "now",
    "utcnow",
    "today",
}
# tomlkit reads TOML where Python is 3.10. PyYAML and Jinja come with ansible-core: one reads CDI
# specs that others wrote, the other fills the template of the page, whose text it is given.
THIRD_PARTY = {"jinja2", "tomlkit", "yaml"}
# What both sides must judge by one rule: pure functions of the host side that the planner may use
# as well.
SHARED = {
    f"projection.{name}"
    for name in (
        "selection",
        "projector",
        "placeholders",
        "toml_places",
        "json_places",
        "yaml_scalars",
        "yaml_scan",
        "documents",
    )
}


def is_foreign_to_planner(imported: str) -> bool:
    """Say whether the planner may not import this."""
    top = imported.split(".")[0]
    if imported.startswith(HOST_SIDE + "."):
        return get_host_part(imported) not in SHARED
    if imported.startswith(OWN):
        planner = OWN + "plugin_utils._planner"
        return not imported.startswith(planner + ".") and imported not in (
            planner,
            OWN + "plugin_utils",
        )
    if imported.startswith("pathlib."):
        return imported not in {"pathlib.PurePosixPath", "pathlib.PurePath"}
    return (
        top in IMPURE
        or top in {"ansible", "ansible_collections"}
        or top not in sys.stdlib_module_names | THIRD_PARTY
    )


OF_OTHER_PYTHONS = {"_sha256", "_sha2"}  # of the standard library up to 3.11, and from 3.12 on


def is_foreign_to_host(imported: str) -> bool:
    """Say whether a program of the host side may not import this: only the standard library and its
    own package.
    """
    top = imported.split(".")[0]
    return (
        not imported.startswith((OWN + "module_utils", "."))
        and top not in sys.stdlib_module_names | {"__future__"} | OF_OTHER_PYTHONS
    )


def find_impure(path: Path) -> list[str]:
    """Return what a file imports and calls though it must be pure."""
    tree = read_tree(path)
    return [
        *sorted(item for item in list_imports(tree) if is_foreign_to_planner(item)),
        *sorted(list_called_names(tree) & IMPURE_CALLS),
    ]


def test_the_planner_is_pure() -> None:
    """The planner touches no file, process, connection or clock, and knows nothing of Ansible. The
    code that actions share may do so.
    """
    assert find_breaches(list_sources("plugin_utils", "_planner"), find_impure) == {}


def name_package(module: str) -> str:
    """Name the package of one of the planner's modules; one that is at the top of a wing stands for
    itself.
    """
    parts = module.removeprefix(PLANNER).split(".")
    return "/".join(parts[:-1] if len(parts) > 2 else parts)


def get_planner_module(imported: str) -> str:
    """Give the module that an import reads: the name itself, or the one that has it."""
    path = PLUGINS / "plugin_utils" / "_planner" / imported.removeprefix(PLANNER).replace(".", "/")
    return imported if path.with_suffix(".py").is_file() else imported.rpartition(".")[0]


WINGS = ("core", "host", "workloads", "cluster", "fleet")


def find_arrows_to_the_right(path: Path) -> list[str]:
    """Return what a file of a wing imports from a wing that comes after its own."""
    parts = path.relative_to(PLUGINS / "plugin_utils" / "_planner").parts
    if len(parts) == 1:
        return []  # the package's own __init__
    later = WINGS[WINGS.index(parts[0]) + 1 :]
    return sorted(
        item
        for item in list_imports(read_tree(path))
        if item.startswith(tuple(f"{PLANNER}{wing}." for wing in later))
    )


def test_arrows_between_wings_point_to_the_left() -> None:
    """A wing reads itself and the wings before it (ARCHITECTURE.md)."""
    assert find_breaches(list_sources("plugin_utils", "_planner"), find_arrows_to_the_right) == {}


def test_arrows_between_the_planners_packages_point_one_way() -> None:
    """Who reads a package needs only those below it; a circle would make one room of all that are
    in it.
    """
    arrows: dict[str, set[str]] = {}
    for path in list_sources("plugin_utils", "_planner"):
        own = name_package(
            PLANNER
            + ".".join(
                path.relative_to(PLUGINS / "plugin_utils" / "_planner").with_suffix("").parts
            )
        )
        read = {
            name_package(get_planner_module(item))
            for item in list_imports(read_tree(path))
            if item.startswith(PLANNER)
        }
        arrows.setdefault(own, set()).update(read - {own})
    assert [*graphlib.TopologicalSorter(arrows).static_order()]


def test_what_both_sides_share_is_pure() -> None:
    """It is held to the planner's rule, on the host's Python."""
    assert find_breaches(map(get_host_file, SHARED), find_impure) == {}


def test_tomlkit_is_imported_only_where_python_cannot_read_toml() -> None:
    """A top-level import would make every run pay for it, and fail where it is not installed."""

    def find_tomlkit(path: Path) -> list[str]:
        top_level = [
            node for node in read_tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        return [item for node in top_level for item in list_imports(node) if "tomlkit" in item]

    assert find_breaches(list_sources("plugin_utils") + list_sources("action"), find_tomlkit) == {}


def test_the_host_side_needs_only_the_standard_library() -> None:
    """module_utils runs on hosts with nothing but Python; a probe may use the library that it asks,
    where the host has it.
    """

    def find_foreign(path: Path) -> set[str]:
        foreign = {item for item in list_imports(read_tree(path)) if is_foreign_to_host(item)}
        return foreign - ({"pynvml"} if "probes" in path.parts else set())

    assert find_breaches(list_sources("module_utils"), find_foreign) == {}


SHIPPED = {**transport.PROGRAMS, "transaction on the host's disk": tuple(launcher.PARTS)}


def list_imported_parts(part: str) -> list[str]:
    """Give the parts of the host side that one of them imports."""
    return [
        get_host_part(item)
        for item in list_imports(read_tree(get_host_file(part)))
        if item.startswith(HOST_SIDE + ".")
    ]


@pytest.mark.parametrize("program", SHIPPED)
def test_a_program_is_sent_with_what_it_imports(program: str) -> None:
    """As a module the same program gets what it imports and nothing else: a part too few or too
    many works one way only.
    """
    shipped = SHIPPED[program]
    first = transport.MAIN.get(program.split()[0], program.split()[0])
    needed, todo = {first}, [first]
    while todo:
        more = set(list_imported_parts(todo.pop())) - needed
        needed |= more
        todo.extend(more)
    assert sorted(shipped) == sorted(needed - {"loader"}), "that goes before all parts"
