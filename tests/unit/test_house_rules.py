# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house (ARCHITECTURE.md), import by import: who may know what, who may touch what."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.action import transport
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.transaction import launcher
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import traits

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
OWN = "ansible_collections.gpufleet.nvidia.plugins."
NODE = OWN + "module_utils._node"

# What reads a file, starts a process, opens a connection, or looks at a clock. The planner gets all of that as an observation.
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
# tomlkit reads TOML where Python is 3.10; PyYAML comes with ansible-core and reads CDI specs that others wrote.
THIRD_PARTY = {"tomlkit", "yaml"}
# What both sides must judge by one rule: pure functions of the node side that the planner may use as well.
SHARED = {
    f"projection.{name}"
    for name in ("selection", "projector", "placeholders", "toml_places", "json_places", "yaml_scalars", "yaml_scan", "documents")
}
UPSTREAM_NAMES = re.compile(r"(?<![a-z])(nvidia|containerd|cri-?o|docker|podman|cdi|runc|crun|kubelet|k3s|rke2)(?![a-z])", re.IGNORECASE)


def sources(*parts: str) -> list[Path]:
    """Give the Python files of a room."""
    return sorted(PLUGINS.joinpath(*parts).rglob("*.py"))


def name(path: Path) -> str:
    """Name a file in a test's id."""
    return str(path.relative_to(PLUGINS))


def imports(tree: ast.AST) -> set[str]:
    """Give the full names of what a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)
    return found


def called(tree: ast.AST) -> set[str]:
    """Give the last names of what a file calls: open(...) and path.read_text(...) alike."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            names.add(node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", ""))
    return names


def words(tree: ast.AST) -> list[str]:
    """Give the names and strings that a file works with; docstrings and the collection's own name do not count."""
    doc = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            found.append(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in doc:
            found.append(node.value.replace("gpufleet.nvidia", ""))
    return found


def part_of_node(imported: str) -> str:
    """Give the part of the node side that an import of it, or of a name in it, means: a path with dots for slashes."""
    part = imported.removeprefix(NODE + ".")
    return part if file_of(part).exists() else part.rpartition(".")[0]


def file_of(part: str) -> Path:
    """Give the file of a part of the node side."""
    return PLUGINS.joinpath("module_utils", "_node", *part.split(".")).with_suffix(".py")


def foreign_to_planner(imported: str) -> bool:
    """Say whether the planner may not import this."""
    top = imported.split(".")[0]
    if imported.startswith(NODE + "."):
        return part_of_node(imported) not in SHARED
    if imported.startswith(OWN):
        return not imported.startswith(OWN + "plugin_utils.") and imported != OWN + "plugin_utils"
    if imported.startswith("pathlib."):
        return imported not in {"pathlib.PurePosixPath", "pathlib.PurePath"}
    return top in IMPURE or top in {"ansible", "ansible_collections"} or top not in sys.stdlib_module_names | THIRD_PARTY


OF_OTHER_PYTHONS = {"_sha256", "_sha2"}  # of the standard library up to 3.11, and from 3.12 on


def foreign_to_node(imported: str) -> bool:
    """Say whether a program of the node side may not import this: only the standard library and its own package."""
    top = imported.split(".")[0]
    return not imported.startswith((OWN + "module_utils", ".")) and top not in sys.stdlib_module_names | {"__future__"} | OF_OTHER_PYTHONS


def without_documentation(tree: ast.Module) -> list[ast.stmt]:
    """Give the statements of a module file that are neither its documentation nor imports."""
    return [node for node in tree.body if not is_documentation(node) and not isinstance(node, ast.Import | ast.ImportFrom)]


def is_documentation(node: ast.stmt) -> bool:
    """Say whether a statement is a docstring or one of the three strings that ansible-doc reads."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return False
    return all(isinstance(target, ast.Name) and target.id in {"DOCUMENTATION", "EXAMPLES", "RETURN"} for target in node.targets)


def documentation(path: Path) -> dict[str, str]:
    """Give the documentation strings of a module file."""
    body = ast.parse(path.read_text()).body
    return {node.targets[0].id: node.value.value for node in body if isinstance(node, ast.Assign) and is_documentation(node)}  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", sources("plugin_utils"), ids=name)
def test_the_planner_is_pure(path: Path) -> None:
    """plugin_utils touches no file, process, connection or clock, and knows nothing of Ansible."""
    tree = ast.parse(path.read_text())
    assert sorted(item for item in imports(tree) if foreign_to_planner(item)) == []
    assert sorted(called(tree) & IMPURE_CALLS) == []


PLANNER = OWN + "plugin_utils._planner."


def package(module: str) -> str:
    """Name the package of one of the planner's modules; one that is in none stands for itself."""
    parts = module.removeprefix(PLANNER).split(".")
    return "/".join(parts[:-1]) or parts[0]


def planner_module(imported: str) -> str:
    """Give the module that an import reads: the name itself, or the one that has it."""
    path = PLUGINS / "plugin_utils" / "_planner" / imported.removeprefix(PLANNER).replace(".", "/")
    return imported if path.with_suffix(".py").is_file() else imported.rpartition(".")[0]


def test_arrows_between_the_planners_packages_point_one_way() -> None:
    """Who reads a package needs only those below it; a circle would make one room of all that are in it."""
    arrows: dict[str, set[str]] = {}
    for path in sources("plugin_utils"):
        own = package(PLANNER + ".".join(path.relative_to(PLUGINS / "plugin_utils" / "_planner").with_suffix("").parts))
        read = {package(planner_module(item)) for item in imports(ast.parse(path.read_text())) if item.startswith(PLANNER)}
        arrows.setdefault(own, set()).update(read - {own})
    assert [*graphlib.TopologicalSorter(arrows).static_order()]


KNOWS_ENGINES = {"traits.py", "engines", "managers", "projections"}  # of the last: the tables and keys in an engine's own files
OF_ONE_TOOL = {"nvidia_ctk_crio.py": {"crio"}}  # the table of that name in CRI-O's files
ELSEWHERE = [path for path in sources("plugin_utils") if not KNOWS_ENGINES & set(path.parts)]


@pytest.mark.parametrize("path", ELSEWHERE, ids=name)
def test_no_engine_is_a_case_of_its_own_outside_its_package(path: Path) -> None:
    """What differs between engines is asked of their traits, so a new one is a package and a row there."""
    found = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert found & set(traits.TRAITS) - OF_ONE_TOOL.get(path.name, set()) == set()


def test_all_that_is_not_promised_has_a_name_that_says_so() -> None:
    """The contract is modules, roles, playbooks, their options and results; a leading underscore says that the rest may change."""
    rooms = [path for side in ("plugin_utils", "module_utils") for path in PLUGINS.joinpath(side).iterdir()]
    assert [path.name for path in rooms if not path.name.startswith("_")] == []


@pytest.mark.parametrize("module", sorted(SHARED))
def test_what_both_sides_share_is_pure(module: str) -> None:
    """It is held to the planner's rule, on the node's Python."""
    tree = ast.parse(file_of(module).read_text())
    assert sorted(item for item in imports(tree) if foreign_to_planner(item)) == []
    assert sorted(called(tree) & IMPURE_CALLS) == []


@pytest.mark.parametrize("path", sources("plugin_utils") + sources("action"), ids=name)
def test_tomlkit_is_imported_only_where_python_cannot_read_toml(path: Path) -> None:
    """A top-level import would make every run pay for it, and fail where it is not installed."""
    top_level = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not any("tomlkit" in item for node in top_level for item in imports(node))


@pytest.mark.parametrize("path", sources("module_utils"), ids=name)
def test_the_node_side_needs_only_the_standard_library(path: Path) -> None:
    """module_utils runs on hosts with nothing but Python; a probe may use the library that it asks, where the host has it."""
    foreign = {item for item in imports(ast.parse(path.read_text())) if foreign_to_node(item)}
    assert foreign - ({"pynvml"} if "probes" in path.parts else set()) == set()


@pytest.mark.parametrize("path", [item for item in sources("module_utils") if "probes" not in item.parts], ids=name)
def test_the_node_side_acts_on_no_engine_by_name(path: Path) -> None:
    """What runs as root on a fleet knows neither NVIDIA nor an engine; probes are the one exception, comments may cite upstream."""
    assert [text for text in words(ast.parse(path.read_text())) if UPSTREAM_NAMES.search(text)] == []


@pytest.mark.parametrize("part", launcher.PARTS)
def test_the_transaction_mentions_no_engine_at_all(part: str) -> None:
    """Not even in a comment: what it does is the same for whatever writes files and restarts units."""
    text = file_of(part).read_text().replace("gpufleet.nvidia", "")
    assert [line for line in text.splitlines() if UPSTREAM_NAMES.search(line)] == []


SHIPPED = {**transport.PROGRAMS, "transaction on the host's disk": tuple(launcher.PARTS)}


def parts_of(part: str) -> list[str]:
    """Give the parts of the node side that one of them imports."""
    return [part_of_node(item) for item in imports(ast.parse(file_of(part).read_text())) if item.startswith(NODE + ".")]


@pytest.mark.parametrize("program", SHIPPED)
def test_a_program_is_sent_with_what_it_imports(program: str) -> None:
    """As a module the same program gets what it imports and nothing else: a part too few or too many works one way only."""
    shipped = SHIPPED[program]
    first = transport.MAIN.get(program.split()[0], program.split()[0])
    needed, todo = {first}, [first]
    while todo:
        more = set(parts_of(todo.pop())) - needed
        needed |= more
        todo.extend(more)
    assert sorted(shipped) == sorted(needed - {"loader"}), "that goes before all parts"


@pytest.mark.parametrize("path", [item for item in sources("modules") if item.stem != "host_program"], ids=name)
def test_a_module_is_documentation(path: Path) -> None:
    """Nothing in modules/ but the programs of host_program runs on a node: the actions do the work."""
    assert [ast.unparse(node)[:80] for node in without_documentation(ast.parse(path.read_text()))] == []


@pytest.mark.parametrize("path", [item for item in sources("action") if item.name != "__init__.py"], ids=name)
def test_every_action_has_a_documented_module(path: Path) -> None:
    """The argument specification is derived from the documentation, so it has to be there, whole."""
    module = PLUGINS / "modules" / path.name
    assert module.is_file(), f"{name(path)} needs plugins/modules/{path.name} with its documentation"
    assert sorted(documentation(module)) == ["DOCUMENTATION", "EXAMPLES", "RETURN"]


@pytest.mark.parametrize("path", sources(), ids=name)
def test_a_file_fits_on_a_few_screens(path: Path) -> None:
    """A file has one reason to exist; documentation of a module does not count as code."""
    if path.parent.name != "modules":
        assert len(path.read_text().splitlines()) < 450


@pytest.mark.parametrize("path", sources(), ids=name)
def test_every_file_says_its_licence(path: Path) -> None:
    """The licence of each file stands in its first lines."""
    text = path.read_text()
    # REUSE-IgnoreStart
    assert not text or "# SPDX-License-Identifier: GPL-3.0-or-later" in text.splitlines()[:6]
    # REUSE-IgnoreEnd


# Metaphors that a reader would have to learn first, each with the word that stands for it now.
DIALECT = {
    r"the hands|its hands|our hands|class hands|hands\.\w+": "the executor",
    r"eyes": "the observer",
    r"wish|wishes|wished": "the desired state",
    r"ledger": "the journal",
    r"truths": "the staleness guard",
    r"census": "a snapshot",
    r"anew": "again",
    r"of ours": "of this collection",
    r"for ever": "forever",
}
PROSE = [
    path
    for room in ("plugins", "roles", "playbooks", "docs", "tests", "molecule", "examples", ".github")
    for path in (ROOT / room).rglob("*")
    if path.suffix in {".py", ".md", ".yml", ".yaml", ".go"}
    # What others wrote or a program printed, what ansible-test leaves behind, and this file, which names the words.
    if not path.is_relative_to(ROOT / "tests/fixtures")
    and not path.is_relative_to(ROOT / "tests/output")
    and path != Path(__file__).resolve()
]


@pytest.mark.parametrize("words", DIALECT, ids=DIALECT.values())
def test_a_thing_is_called_what_its_field_calls_it(words: str) -> None:
    """Users meet these words in messages and maintainers in names: as words of their own, and as parts of a name."""
    word = re.compile(rf"(?<![a-z])({words.replace(' ', '[ _]')})(?![a-z])", re.IGNORECASE)
    paths = [*PROSE, ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
    found = [(path.relative_to(ROOT), line) for path in paths for line in path.read_text().splitlines() if word.search(line)]
    assert found == []


def not_texts(value: object, key: str = "") -> list[object]:
    """Give what stands for a sentence of the documentation and is none: YAML reads one with a colon and a blank as a table."""
    if isinstance(value, dict):
        broken = key in SENTENCES and "description" not in value  # an option may have one of these names
        return [value] if broken else [odd for name, inner in value.items() for odd in not_texts(inner, str(name))]
    if isinstance(value, list):
        return [odd for inner in value for odd in not_texts(inner, key)]
    return [] if isinstance(value, str) or key not in SENTENCES else [value]


SENTENCES = ("description", "short_description", "details", "notes")


@pytest.mark.parametrize("path", [*sources("modules"), *sources("doc_fragments")], ids=name)
def test_a_sentence_of_the_documentation_is_a_text(path: Path) -> None:
    """ansible-doc ends with an error otherwise, for all modules at once."""
    found = documentation(path) or fragments(path)
    for part in ("DOCUMENTATION", "RETURN"):
        assert not_texts(yaml.safe_load(found.get(part, "{}"))) == []


def fragments(path: Path) -> dict[str, str]:
    """Give the documentation strings of a fragment's class, put into one text of YAML."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    texts = [n.value.value for c in classes for n in c.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)]
    return {"DOCUMENTATION": yaml.safe_dump([yaml.safe_load(str(text)) for text in texts])}
