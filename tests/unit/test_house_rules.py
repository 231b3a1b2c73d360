# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house (ARCHITECTURE.md), import by import: who may know what, who may touch
what.

A rule is one case, whatever the number of files: a failure names each file that breaks it, and with
what.
"""

from __future__ import annotations

import ast
import builtins
import functools
import graphlib
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import launcher
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
OWN = "ansible_collections.gpufleet.nvidia.plugins."
NODE = OWN + "module_utils._host"

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
UPSTREAM_NAMES = re.compile(
    r"(?<![a-z])(nvidia|containerd|cri-?o|docker|podman|cdi|runc|crun|kubelet|k3s|rke2)(?![a-z])",
    re.IGNORECASE,
)


def sources(*parts: str) -> list[Path]:
    """Give the Python files of a room."""
    return sorted(PLUGINS.joinpath(*parts).rglob("*.py"))


def name(path: Path) -> str:
    """Name a file in a test's id."""
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


def imports(tree: ast.AST) -> set[str]:
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


def called(tree: ast.AST) -> set[str]:
    """Give the last names of what a file calls: open(...) and path.read_text(...) alike."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            names.add(
                node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            )
    return names


def words(tree: ast.AST) -> list[str]:
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


def part_of_node(imported: str) -> str:
    """Give the part of the host side that an import of it, or of a name in it, means: a path with
    dots for slashes.
    """
    part = imported.removeprefix(NODE + ".")
    return part if file_of(part).exists() else part.rpartition(".")[0]


def file_of(part: str) -> Path:
    """Give the file of a part of the host side."""
    return PLUGINS.joinpath("module_utils", "_host", *part.split(".")).with_suffix(".py")


def foreign_to_planner(imported: str) -> bool:
    """Say whether the planner may not import this."""
    top = imported.split(".")[0]
    if imported.startswith(NODE + "."):
        return part_of_node(imported) not in SHARED
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


def foreign_to_node(imported: str) -> bool:
    """Say whether a program of the host side may not import this: only the standard library and its
    own package.
    """
    top = imported.split(".")[0]
    return (
        not imported.startswith((OWN + "module_utils", "."))
        and top not in sys.stdlib_module_names | {"__future__"} | OF_OTHER_PYTHONS
    )


def without_documentation(tree: ast.Module) -> list[ast.stmt]:
    """Give the statements of a module file that are neither its documentation nor imports."""
    return [
        node
        for node in tree.body
        if not is_documentation(node) and not isinstance(node, ast.Import | ast.ImportFrom)
    ]


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


def documentation(path: Path) -> dict[str, str]:
    """Give the documentation strings of a module file."""
    body = read_tree(path).body
    return {
        node.targets[0].id: node.value.value
        for node in body
        if isinstance(node, ast.Assign) and is_documentation(node)
    }  # type: ignore[attr-defined]


def find_impure(path: Path) -> list[str]:
    """Return what a file imports and calls though it must be pure."""
    tree = read_tree(path)
    return [
        *sorted(item for item in imports(tree) if foreign_to_planner(item)),
        *sorted(called(tree) & IMPURE_CALLS),
    ]


def test_the_planner_is_pure() -> None:
    """The planner touches no file, process, connection or clock, and knows nothing of Ansible. What
    actions share may do so.
    """
    assert find_breaches(sources("plugin_utils", "_planner"), find_impure) == {}


PLANNER = OWN + "plugin_utils._planner."


def package(module: str) -> str:
    """Name the package of one of the planner's modules; one that is at the top of a wing stands for
    itself.
    """
    parts = module.removeprefix(PLANNER).split(".")
    return "/".join(parts[:-1] if len(parts) > 2 else parts)


def planner_module(imported: str) -> str:
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
        for item in imports(read_tree(path))
        if item.startswith(tuple(f"{PLANNER}{wing}." for wing in later))
    )


def test_arrows_between_wings_point_to_the_left() -> None:
    """A wing reads itself and the wings before it (ARCHITECTURE.md)."""
    assert find_breaches(sources("plugin_utils", "_planner"), find_arrows_to_the_right) == {}


def test_arrows_between_the_planners_packages_point_one_way() -> None:
    """Who reads a package needs only those below it; a circle would make one room of all that are
    in it.
    """
    arrows: dict[str, set[str]] = {}
    for path in sources("plugin_utils", "_planner"):
        own = package(
            PLANNER
            + ".".join(
                path.relative_to(PLUGINS / "plugin_utils" / "_planner").with_suffix("").parts
            )
        )
        read = {
            package(planner_module(item))
            for item in imports(read_tree(path))
            if item.startswith(PLANNER)
        }
        arrows.setdefault(own, set()).update(read - {own})
    assert [*graphlib.TopologicalSorter(arrows).static_order()]


# of the last: the tables and keys in an engine's own files
KNOWS_ENGINES = {
    "traits.py",
    "engines",
    "managers",
    "projections",
}
OF_ONE_TOOL = {"nvidia_ctk_crio.py": {"crio"}}  # the table of that name in CRI-O's files
ELSEWHERE = [path for path in sources("plugin_utils") if not KNOWS_ENGINES & set(path.parts)]


def find_named_engines(path: Path) -> set[str]:
    """Return the engines that a file names in its strings."""
    found = {
        node.value
        for node in ast.walk(read_tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return found & set(traits.TRAITS) - OF_ONE_TOOL.get(path.name, set())


def test_no_engine_is_a_case_of_its_own_outside_its_package() -> None:
    """What differs between engines is asked of their traits, so a new one is a package and a row
    there.
    """
    assert find_breaches(ELSEWHERE, find_named_engines) == {}


# Questions that are about one engine, whatever others there are: the cluster of Docker Swarm,
# cri-dockerd, whose hooks run for CRI-O's pods, and whether Podman is there as a reader of specs.
ASKED_BY_CONSTANT = {
    "host/cdi/consumers.py": {"PODMAN"},
    "host/resources/oci_hook.py": {"CRIO"},
    "host/resources/swarm.py": {"DOCKER"},
    "host/seen_host.py": {"DOCKER"},
}
# Its rows say of which engine they are, and import the constants for that.
ROWS_OF_ENGINES = "host/known_bad/table.py"
ENGINE_CONSTANTS = {key for key in vars(traits) if vars(traits)[key] in [*traits.TRAITS]}


def list_branches(tree: ast.Module) -> list[ast.AST]:
    """Give the functions of a file, and what it calls by another name. A row of a table that has
    each engine is no branch.
    """
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    aliases = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)
    ]
    return [*inner, *aliases]


def find_constants_of_engines(path: Path) -> set[str]:
    """Return the engines that a file asks for by their constants (`traits.DOCKER`)."""
    return {
        node.attr
        for branch in list_branches(read_tree(path))
        for node in ast.walk(branch)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value) == "traits"
        and node.attr in ENGINE_CONSTANTS
    }


def test_no_engine_is_asked_for_by_its_constant_outside_its_package() -> None:
    """A constant is a name as well. `traits` is imported as a module, so that each use shows."""
    planner = PLUGINS / "plugin_utils/_planner"
    found = {path: find_constants_of_engines(path) for path in ELSEWHERE}
    asked = {str(path.relative_to(planner)): names for path, names in found.items() if names}
    assert asked == ASKED_BY_CONSTANT
    taken = {f"{PLANNER}host.traits.{constant}" for constant in ENGINE_CONSTANTS}
    paths = [path for path in ELSEWHERE if path != planner / ROWS_OF_ENGINES]
    assert find_breaches(paths, lambda path: imports(read_tree(path)) & taken) == {}


def test_all_that_is_not_promised_has_a_name_that_says_so() -> None:
    """The contract is modules, roles, playbooks, their options and results; a leading underscore
    says that the rest may change.
    """
    rooms = [
        path
        for side in ("plugin_utils", "module_utils")
        for path in PLUGINS.joinpath(side).iterdir()
    ]
    assert [path.name for path in rooms if not path.name.startswith("_")] == []


def test_what_both_sides_share_is_pure() -> None:
    """It is held to the planner's rule, on the host's Python."""
    assert find_breaches(map(file_of, SHARED), find_impure) == {}


def test_tomlkit_is_imported_only_where_python_cannot_read_toml() -> None:
    """A top-level import would make every run pay for it, and fail where it is not installed."""

    def find_tomlkit(path: Path) -> list[str]:
        top_level = [
            node for node in read_tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        return [item for node in top_level for item in imports(node) if "tomlkit" in item]

    assert find_breaches(sources("plugin_utils") + sources("action"), find_tomlkit) == {}


def test_the_node_side_needs_only_the_standard_library() -> None:
    """module_utils runs on hosts with nothing but Python; a probe may use the library that it asks,
    where the host has it.
    """

    def find_foreign(path: Path) -> set[str]:
        foreign = {item for item in imports(read_tree(path)) if foreign_to_node(item)}
        return foreign - ({"pynvml"} if "probes" in path.parts else set())

    assert find_breaches(sources("module_utils"), find_foreign) == {}


def test_the_node_side_acts_on_no_engine_by_name() -> None:
    """What runs as root on a fleet knows neither NVIDIA nor an engine; probes are the one
    exception, comments may cite upstream.
    """
    paths = [item for item in sources("module_utils") if "probes" not in item.parts]
    assert (
        find_breaches(
            paths,
            lambda path: [text for text in words(read_tree(path)) if UPSTREAM_NAMES.search(text)],
        )
        == {}
    )


def test_the_transaction_mentions_no_engine_at_all() -> None:
    """Not even in a comment: what it does is the same for whatever writes files and restarts units."""

    def find_mentions(path: Path) -> list[str]:
        lines = path.read_text().replace("gpufleet.nvidia", "").splitlines()
        return [line for line in lines if UPSTREAM_NAMES.search(line)]

    assert find_breaches(map(file_of, launcher.PARTS), find_mentions) == {}


SHIPPED = {**transport.PROGRAMS, "transaction on the host's disk": tuple(launcher.PARTS)}


def parts_of(part: str) -> list[str]:
    """Give the parts of the host side that one of them imports."""
    return [
        part_of_node(item)
        for item in imports(read_tree(file_of(part)))
        if item.startswith(NODE + ".")
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
        more = set(parts_of(todo.pop())) - needed
        needed |= more
        todo.extend(more)
    assert sorted(shipped) == sorted(needed - {"loader"}), "that goes before all parts"


def test_a_module_is_documentation() -> None:
    """Nothing in modules/ but the programs of host_program runs on a node: the actions do the work."""
    paths = [item for item in sources("modules") if item.stem != "host_program"]
    assert (
        find_breaches(
            paths,
            lambda path: [
                ast.unparse(node)[:80] for node in without_documentation(read_tree(path))
            ],
        )
        == {}
    )


def test_every_action_has_a_documented_module() -> None:
    """The argument specification is derived from the documentation, so it has to be there, whole."""
    modules = [
        PLUGINS / "modules" / item.name for item in sources("action") if item.name != "__init__.py"
    ]
    assert [module for module in modules if not module.is_file()] == []
    assert (
        find_breaches(
            modules, lambda path: {"DOCUMENTATION", "EXAMPLES", "RETURN"} ^ {*documentation(path)}
        )
        == {}
    )


def test_a_file_fits_on_a_few_screens() -> None:
    """A file has one reason to exist; documentation of a module does not count as code."""
    sizes = {
        path: len(path.read_text().splitlines())
        for path in sources()
        if path.parent.name != "modules"
    }
    assert {name(path): lines for path, lines in sizes.items() if lines >= 630} == {}


def test_every_file_says_its_licence() -> None:
    """The licence of each file stands in its first lines."""
    heads = {path: path.read_text().splitlines()[:6] for path in sources()}
    # REUSE-IgnoreStart
    assert [
        name(path)
        for path, head in heads.items()
        if head and "# SPDX-License-Identifier: GPL-3.0-or-later" not in head
    ] == []
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
    for room in (
        "plugins",
        "roles",
        "playbooks",
        "docs",
        "tests",
        "molecule",
        "examples",
        ".github",
    )
    for path in (ROOT / room).rglob("*")
    if path.suffix in {".py", ".md", ".yml", ".yaml", ".go", ".j2"}
    # What others wrote or a program printed, what ansible-test leaves behind, and this file, which
    # names the words.
    if not path.is_relative_to(ROOT / "tests/fixtures")
    and not path.is_relative_to(ROOT / "tests/output")
    and path != Path(__file__).resolve()
]


def test_a_thing_is_called_what_its_field_calls_it() -> None:
    """Users meet these words in messages and maintainers in names: as words of their own, and as
    parts of a name.
    """
    dialect = "|".join(DIALECT).replace(" ", "[ _]")
    word = re.compile(rf"(?<![a-z])({dialect})(?![a-z])", re.IGNORECASE)
    paths = [*PROSE, ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
    assert (
        find_breaches(
            paths,
            lambda path: [line for line in path.read_text().splitlines() if word.search(line)],
        )
        == {}
    )


def not_texts(value: object, key: str = "") -> list[object]:
    """Give what stands for a sentence of the documentation and is none: YAML reads one with a colon
    and a blank as a table.
    """
    if isinstance(value, dict):
        # an option may have one of these names
        broken = key in SENTENCES and "description" not in value
        return (
            [value]
            if broken
            else [odd for name, inner in value.items() for odd in not_texts(inner, str(name))]
        )
    if isinstance(value, list):
        return [odd for inner in value for odd in not_texts(inner, key)]
    return [] if isinstance(value, str) or key not in SENTENCES else [value]


SENTENCES = ("description", "short_description", "details", "notes")
YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def test_a_sentence_of_the_documentation_is_a_text() -> None:
    """ansible-doc ends with an error otherwise, for all modules at once."""

    def find_odd(path: Path) -> list[object]:
        found = documentation(path) or fragments(path)
        return [
            odd
            for part in ("DOCUMENTATION", "RETURN")
            for odd in not_texts(yaml.load(found.get(part, "{}"), YAML_LOADER))
        ]

    assert find_breaches([*sources("modules"), *sources("doc_fragments")], find_odd) == {}


def fragments(path: Path) -> dict[str, str]:
    """Give the documentation strings of a fragment's class, put into one text of YAML."""
    classes = [node for node in read_tree(path).body if isinstance(node, ast.ClassDef)]
    texts = [
        n.value.value
        for c in classes
        for n in c.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)
    ]
    return {"DOCUMENTATION": yaml.safe_dump([yaml.safe_load(str(text)) for text in texts])}


# ---------------------------------------------------------------- from an observation to a plan

# Data goes one way: a room reads the observation once (`read_..._facts`), and plans take the facts.
# What still takes the observation. Both lists may only shrink, which the two numbers below them
# hold: lower a number with its list, and never raise it.
PLANS_BY_OBSERVATION: dict[str, set[str]] = {}
CLIMBS: dict[str, set[str]] = {
    "cdi/devices/sources.py": {"identify_hardware"},
    "cdi/driver_files/discover.py": {"discover"},
    "driver/gpus.py": {"parse_driver"},
    "kubelet/kubelet.py": {"find_kubelet"},
    "sharing/gpu_users.py": {"report_gpu_users"},
    "work.py": {"report_work"},
}
MOST_PLANS = 0
MOST_CLIMBS = 6


def of_host(path: Path) -> str:
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
    rooms = sources("plugin_utils", "_planner", "host")
    found = {of_host(path): set(find_plans_by_observation(path)) for path in rooms}
    assert {path: plans for path, plans in found.items() if plans} == PLANS_BY_OBSERVATION


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
    rooms = sources("plugin_utils", "_planner", "host")
    readers = {
        function.name
        for path in rooms
        for function in list_functions(path)
        if function.name.startswith("read_") and takes_observation(function)
    }
    found = {
        of_host(path): set(find_climbs(path, readers)) for path in rooms if path.stem != "seen_host"
    }
    assert {path: climbs for path, climbs in found.items() if climbs} == CLIMBS


def test_the_lists_of_readers_only_shrink() -> None:
    """Their sizes are written down, so that a list that has shrunk does not grow again."""
    assert sum(map(len, PLANS_BY_OBSERVATION.values())) == MOST_PLANS
    assert sum(map(len, CLIMBS.values())) == MOST_CLIMBS


RAISED = re.compile(r"\b[Rr]aises?\s+(?:an?\s+)?([A-Z]\w+(?:(?:,|\s+or|\s+and)+\s+[A-Z]\w+)*)")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def list_classes(path: Path) -> set[str]:
    """Give the names of the classes that a file makes, and of all that it imports."""
    tree = read_tree(path)
    made = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return made | {item.rpartition(".")[2] for item in imports(tree)}


def find_raised_names(path: Path) -> set[str]:
    """Return the names of what a file's docstrings say is raised."""
    documented = [node for node in ast.walk(read_tree(path)) if isinstance(node, DOCUMENTED)]
    lists = [RAISED.findall(ast.get_docstring(node) or "") for node in documented]
    return {name for found in lists for names in found for name in re.findall(r"[A-Z]\w+", names)}


def test_docstrings_name_exceptions_that_exist() -> None:
    known = set(dir(builtins)).union(*map(list_classes, sources()))
    assert find_breaches(sources(), lambda path: find_raised_names(path) - known) == {}
