# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house (ARCHITECTURE.md) about engines: where code may name one, or NVIDIA."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import launcher
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits

from tests.unit.plugin_sources import (
    PLANNER,
    PLUGINS,
    find_breaches,
    get_host_file,
    list_imports,
    list_sources,
    list_words,
    name_plugin_file,
    read_tree,
)

UPSTREAM_NAMES = re.compile(
    r"(?<![a-z])(nvidia|containerd|cri-?o|docker|podman|cdi|runc|crun|kubelet|k3s|rke2)(?![a-z])",
    re.IGNORECASE,
)
# "projections" has the tables and keys in an engine's own files.
KNOWS_ENGINES = {"traits.py", "engines", "managers", "projections"}
OF_ONE_TOOL = {"nvidia_ctk_crio.py": {"crio"}}  # the table of that name in CRI-O's files
ELSEWHERE = [path for path in list_sources("plugin_utils") if not KNOWS_ENGINES & set(path.parts)]


def find_named_engines(path: Path) -> set[str]:
    """Return the engines that a file names in its strings."""
    found = {
        node.value
        for node in ast.walk(read_tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return found & set(traits.TRAITS) - OF_ONE_TOOL.get(path.name, set())


def test_no_engine_is_a_case_of_its_own_outside_its_package() -> None:
    """Code asks an engine's traits how it differs from others, so a new engine is a package and a
    row there.
    """
    assert find_breaches(ELSEWHERE, find_named_engines) == {}


# Questions that are about one engine, whatever others there are: the cluster of Docker Swarm,
# cri-dockerd, whose hooks run for CRI-O's pods, whether Podman is there as a reader of specs, which
# known-bad combinations are in containerd's own files, and its advice after a failed verification.
ASKED_BY_CONSTANT = {
    "host/cdi/consumers.py": {"PODMAN"},
    "host/known_bad/planned_host.py": {"CONTAINERD"},
    "host/resources/oci_hook.py": {"CRIO"},
    "host/resources/swarm.py": {"DOCKER"},
    "host/seen_host.py": {"DOCKER"},
    "host/verification/cases.py": {"CONTAINERD"},
}
# Its rows name their engine, and import the constants for that.
ROWS_OF_ENGINES = "host/known_bad/table.py"
ENGINE_CONSTANTS = {key for key in vars(traits) if vars(traits)[key] in [*traits.TRAITS]}
PACKAGES = {f"{PLANNER}host.engines.{getattr(traits, key)}": key for key in ENGINE_CONSTANTS}


def list_branches(tree: ast.Module) -> list[ast.AST]:
    """Give the functions of a file, and what it calls by another name. A row of a table that has
    each engine is not a branch.
    """
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    aliases = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)
    ]
    return [*inner, *aliases]


def map_modules_of_engines(tree: ast.Module) -> dict[str, str]:
    """Map the names that a file imports from engines' packages to the engines' constants."""
    return {
        one.asname or one.name: PACKAGES[node.module]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in PACKAGES
        for one in node.names
    }


def find_constants_of_engines(tree: ast.Module) -> set[str]:
    """Return the engines that a file asks for by a constant (`traits.DOCKER`, `consumers.PODMAN`),
    or by their own code (`podman_detect.NAME`).
    """
    modules = map_modules_of_engines(tree)
    nodes = [node for branch in list_branches(tree) for node in ast.walk(branch)]
    constants = {node.attr for node in nodes if isinstance(node, ast.Attribute)} & ENGINE_CONSTANTS
    return constants | {
        modules[node.id] for node in nodes if isinstance(node, ast.Name) and node.id in modules
    }


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("def f(i): return i.engine == traits.DOCKER", {"DOCKER"}),
        ("def f(i): return i.engine == consumers.PODMAN", {"PODMAN"}),
        ("def f(i): return i.engine == podman_detect.NAME", {"PODMAN"}),
        ("f = lambda i: podman_detect.find_instances(i)", {"PODMAN"}),
        ("KEPT = traits.CRIO", {"CRIO"}),
        ("ENGINES = {traits.PODMAN: podman_detect}", set()),
    ],
)
def test_each_way_to_ask_for_an_engine_is_seen(line: str, asked: set[str]) -> None:
    imported = f"from {PLANNER}host.engines.podman import detect as podman_detect\n"
    assert find_constants_of_engines(ast.parse(imported + line)) == asked


def test_no_engine_is_asked_for_by_its_constant_outside_its_package() -> None:
    """A constant is a name as well, and so is a module of one engine. `traits` is imported as a
    module, so that each use shows.
    """
    planner = PLUGINS / "plugin_utils/_planner"
    found = {path: find_constants_of_engines(read_tree(path)) for path in ELSEWHERE}
    asked = {str(path.relative_to(planner)): names for path, names in found.items() if names}
    assert asked == ASKED_BY_CONSTANT
    taken = {f"{PLANNER}host.traits.{constant}" for constant in ENGINE_CONSTANTS}
    paths = [path for path in ELSEWHERE if path != planner / ROWS_OF_ENGINES]
    assert find_breaches(paths, lambda path: list_imports(read_tree(path)) & taken) == {}


def test_the_host_side_acts_on_no_engine_by_name() -> None:
    """What runs as root on a fleet knows neither NVIDIA nor an engine; probes are the one
    exception, comments may cite upstream.
    """
    paths = [item for item in list_sources("module_utils") if "probes" not in item.parts]
    assert (
        find_breaches(
            paths,
            lambda path: [
                text for text in list_words(read_tree(path)) if UPSTREAM_NAMES.search(text)
            ],
        )
        == {}
    )


def test_the_transaction_mentions_no_engine_at_all() -> None:
    """Not even in a comment: what it does is the same for whatever writes files and restarts units."""

    def find_mentions(path: Path) -> list[str]:
        lines = path.read_text().replace("gpufleet.nvidia", "").splitlines()
        return [line for line in lines if UPSTREAM_NAMES.search(line)]

    assert find_breaches(map(get_host_file, launcher.PARTS), find_mentions) == {}


def test_one_function_decides_whether_a_restart_is_left_to_a_person() -> None:
    """What `restart: never` means is said once: core/model.py reads the option for all."""
    asking = re.compile(r"""restart\)? (?:[!=]=|(?:not )?in) \(?["'](?:never|force|auto)""")
    found = {
        name_plugin_file(path).removeprefix("plugin_utils/_planner/")
        for path in list_sources("plugin_utils", "_planner")
        if asking.search(path.read_text())
    }
    assert found == {"core/model.py", "host/engines/restarts.py", "host/sharing/mps_ends.py"}
