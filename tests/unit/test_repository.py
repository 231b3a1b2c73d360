# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files beside the code name things that are there, and run what the Makefile runs."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    earlier_runs,
)

from tests.lab.kinds import KINDS
from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
FORMS = sorted(
    path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"
)
TARGETS = set(re.findall(r"^([a-z][\w.-]*):.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CONTRIBUTING.md",
        "CODE_OF_CONDUCT.md",
        "SECURITY.md",
        "LICENSE",
        "CHANGELOG.rst",
    ],
)
def test_a_visitor_finds(name: str) -> None:
    assert (ROOT / name).read_text().strip()


def test_the_page_of_names_has_everything_that_a_user_can_ask_for() -> None:
    """Its tables are generated, so this holds the tables to the files."""
    page = (ROOT / "docs/modules.md").read_text()
    internal = tool_modules.loaded("content_tables").INTERNAL
    paths = [*(ROOT / "plugins/modules").glob("*.py"), *(ROOT / "playbooks").glob("*.yml")]
    names = {f"`gpufleet.nvidia.{path.stem}`" for path in paths if path.stem not in internal}
    roles = {f"(../roles/{path.name}/README.md)" for path in (ROOT / "roles").iterdir()}
    assert sorted(name for name in names | roles if name not in page) == []


DECISIONS = list((ROOT / "docs/decisions").glob("0*.md"))
DECISION = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\n\d{4}-\d\d-\d\d\n\n"
    r"## Context\n\n(?s:.+)\n\n## Decision\n\n(?s:.+)\n\n## Consequence\n\n(?s:.+)\n"
)


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem[:4])
def test_a_decision_is_a_dated_record_that_the_list_has(path: Path) -> None:
    found = DECISION.fullmatch(path.read_text())
    assert found
    assert path.name.startswith(f"{int(found['number']):04d}-")
    line = f"- [{found['number']}. {found['title']}]({path.name})\n"
    assert line in (path.parent / "README.md").read_text()


def test_decisions_have_numbers_without_a_gap() -> None:
    numbers = sorted(int(path.name[:4]) for path in DECISIONS)
    assert numbers == list(range(1, len(numbers) + 1))


MOST_WORDS_OF_ARCHITECTURE = 2000


def test_architecture_is_read_in_ten_minutes() -> None:
    """A longer part is a page of docs/, and a reason is a decision's record."""
    words = (ROOT / "ARCHITECTURE.md").read_text().split()
    assert len(words) <= MOST_WORDS_OF_ARCHITECTURE


SOURCES = [
    *(ROOT / "plugins").rglob("*.py"),
    *(ROOT / "tests").rglob("*.py"),
    *(ROOT / "docs").glob("*.md"),
    *ROOT.glob("*.md"),
]


@pytest.mark.parametrize(
    "page",
    [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/extending.md",
        "docs/packages.md",
        "docs/transaction.md",
        *sorted(str(path.relative_to(ROOT)) for path in DECISIONS),
    ],
)
def test_a_file_that_a_maintainer_is_sent_to_is_there(page: str) -> None:
    """By its path, or by its name alone where the sentence says whose room it is in."""
    there = [f"/{path.relative_to(ROOT)}" for path in SOURCES]
    own = (ROOT / page).read_text().partition("## What we take from other collections")[0]
    named = re.findall(r"`([\w/.-]+\.(?:py|md))`", own)
    assert named or page.startswith("docs/decisions/")
    assert (
        sorted({name for name in named if not any(path.endswith(f"/{name}") for path in there)})
        == []
    )


FOLDER = re.compile(r"`((?:plugins|tests|roles|examples|docs|_planner)/(?:[\w.-]+/)*)`")


def list_missing_folders(text: str) -> list[str]:
    """Return the folders that a text names, and that are not there."""
    homes = (ROOT, ROOT / "plugins/plugin_utils")
    return [
        name for name in FOLDER.findall(text) if not any((home / name).is_dir() for home in homes)
    ]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("in `_planner/core/formats/`", []),
        ("in `_planner/formats/`", ["_planner/formats/"]),
        ("in `tests/unit/` and `tests/else/`", ["tests/else/"]),
        ("in `plugins/`, `docs`", []),
    ],
)
def test_a_folder_is_one_of_the_repository(text: str, missing: list[str]) -> None:
    assert list_missing_folders(text) == missing


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]), ids=lambda page: page.name
)
def test_a_folder_that_a_page_names_is_there(page: Path) -> None:
    assert list_missing_folders(page.read_text()) == []


def split_row(line: str) -> tuple[str, str]:
    """Return the first two cells of a table's row, '' for what is missing."""
    cells = [cell.strip() for cell in line.split(" | ")]
    return cells[0].removeprefix("| "), cells[1] if len(cells) > 1 else ""


def list_modules(rooms: list[Path], *, top: bool) -> set[str]:
    """Return the names of the modules and packages in rooms, or only at their top."""
    found = [path for room in rooms for path in (room.glob("*") if top else room.rglob("*"))]
    return {path.stem for path in found if path.suffix == ".py" or path.is_dir()}


PACKAGES = (ROOT / "docs/packages.md").read_text().partition("| Package of `_planner` |")[2]
ROWS_OF_PACKAGES = list(map(split_row, PACKAGES.partition("\n\n")[0].splitlines()[2:]))


@pytest.mark.parametrize(("package", "text"), ROWS_OF_PACKAGES)
def test_a_row_of_a_package_names_its_modules(package: str, text: str) -> None:
    rooms = [
        ROOT / "plugins/plugin_utils/_planner" / name
        for name in re.findall(r"`([\w/]+)/`", package)
    ]
    assert rooms
    named = set(re.findall(r"`([a-z0-9_]+)`", text))
    assert named - list_modules(rooms, top="at the top" in package) == set()


PLANNER = ROOT / "plugins/plugin_utils/_planner"
ROOMS_OF_ROWS = [
    (room, set(re.findall(r"`([a-z0-9_]+)`", text)))
    for package, text in ROWS_OF_PACKAGES
    for room in re.findall(r"`([\w/]+)/`", package)
]
NAMES_BY_ROOM = {
    room: {name for other, names in ROOMS_OF_ROWS if other == room for name in names}
    for room, _names in ROOMS_OF_ROWS
}
MOST_WORDS_OF_A_ROW = 100


@pytest.mark.parametrize(("package", "text"), ROWS_OF_PACKAGES)
def test_a_row_of_a_package_is_read_at_once(package: str, text: str) -> None:
    """A package with more in it has several rows."""
    assert len(text.split()) <= MOST_WORDS_OF_A_ROW, package


def test_each_package_of_the_planner_is_in_the_table() -> None:
    """It has a row, or it is named in the row of the package around it. An engine's package has the
    engine's name, and the row of engines has what is in each.
    """
    packages = [path.parent.relative_to(PLANNER) for path in PLANNER.rglob("__init__.py")]
    lacking = [
        str(package)
        for package in packages
        if len(package.parts) > 1
        and str(package) not in NAMES_BY_ROOM
        and package.name not in {"messages", *NAMES_BY_ROOM.get(str(package.parent), set())}
        and str(package.parent) != "host/engines"
    ]
    assert lacking == []


@pytest.mark.parametrize("wing", ["core", "host"])
def test_the_row_of_a_wings_top_names_all_of_it(wing: str) -> None:
    files = {path.stem for path in (PLANNER / wing).glob("*.py")} - {"__init__", "messages"}
    assert {name for name in files if not name.endswith("_messages")} - NAMES_BY_ROOM[wing] == set()


def test_the_table_of_actions_names_all_that_they_share() -> None:
    rows = (ROOT / "docs/packages.md").read_text().partition("| File of `_controller` |")[2]
    named = set(re.findall(r"`(\w+)/?`", rows.partition("\n\n")[0]))
    shared = list_modules([ROOT / "plugins/plugin_utils/_controller"], top=True)
    assert shared - {"__init__", "__pycache__"} - named == set()


def test_code_cites_no_page_that_nobody_else_has() -> None:
    """A source is upstream's file or a page of this repository."""
    pages = {page.name for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))}
    texts = {path: path.read_text() for path in sorted((ROOT / "plugins").rglob("*.py"))}
    cited = {
        (path, page)
        for path, text in texts.items()
        for page in re.findall(r"(?<![\w/.-])([a-z][\w-]*\.md)\b", text)
    }
    assert {(path, page) for path, page in cited if page not in pages} == set()


def test_the_workflow_checks_and_has_the_engines_judge() -> None:
    commands = [step.get("run", "") for workflow in WORKFLOWS for step in steps(workflow)]
    assert {
        *("make check", "make matrix", "make judges", "make docs"),
        *("make test", "make molecule", "make newest", "make nightly"),
    } <= set(commands)


@pytest.mark.parametrize(
    "path",
    [*WORKFLOWS, GITHUB / "PULL_REQUEST_TEMPLATE.md", ROOT / "CONTRIBUTING.md"],
    ids=lambda path: path.name,
)
def test_every_target_that_is_named_is_there(path: Path) -> None:
    named = set(re.findall(r"(?:`|run: |^)make ([a-z][\w.-]*)", path.read_text(), re.MULTILINE))
    assert named
    assert named - TARGETS == set()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_it_names_by_digest_and_may_only_read(workflow: Path) -> None:
    """A tag of someone else's action can be moved, a commit cannot."""
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert [name for name in used if not re.search(r"@[0-9a-f]{40}$", name)] == []
    lines = [line for line in workflow.read_text().splitlines() if "uses:" in line]
    pinned = re.compile(r" +- uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
    assert [line for line in lines if not pinned.fullmatch(line)] == [], (
        "a version beside the digest"
    )
    assert len(lines) == len(used)
    assert read(workflow)["permissions"] == {"contents": "read"}
    assert [
        name for name, job in read(workflow)["jobs"].items() if "timeout-minutes" not in job
    ] == []


# What runs code of a pull request with the rights of this repository is not among them.
TRIGGERS = {"push", "pull_request", "schedule", "workflow_dispatch"}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_gives_nothing_to_a_pull_request(workflow: Path) -> None:
    """No secret, no right, no token that stays on the disk, and no word of its author in a shell."""
    content = read(workflow)
    assert set(content[True]) <= TRIGGERS, "YAML reads `on` as true"
    assert [name for name, job in content["jobs"].items() if "permissions" in job] == []
    assert re.findall(r"\bsecrets\b|GITHUB_TOKEN", workflow.read_text()) == []
    checkouts = [one for one in steps(workflow) if "actions/checkout@" in one.get("uses", "")]
    assert checkouts
    assert {one["with"]["persist-credentials"] for one in checkouts} == {False}
    given = [str(one.get(key, "")) for one in steps(workflow) for key in ("run", "env", "with")]
    assert [words for words in given if "${{" in words] == []


def test_the_engines_judge_in_every_test_file_that_is_called_so() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\njudges:")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"tests/integration/(test_\w+)\.py", recipe)) == sorted(
        path.stem for path in (ROOT / "tests/integration").glob("test_*_judge.py")
    )
    kinds = re.search(r"\$\(LAB\) build (.+)", recipe)
    assert kinds
    assert set(kinds[1].split()) <= set(KINDS), "without their programs the judges would be skipped"


def test_owners_are_owners_of_something() -> None:
    patterns = [
        line.split()[0]
        for line in (GITHUB / "CODEOWNERS").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert [
        pattern
        for pattern in patterns
        if pattern != "*" and not (ROOT / pattern.strip("/")).exists()
    ] == []


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.name)
def test_a_form_asks_for_something_that_must_be_said(form: Path) -> None:
    content = read(form)
    assert {"name", "description", "labels", "body"} <= set(content)
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) > 1
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_promise_of_compatibility_names_what_the_code_has() -> None:
    page = (ROOT / "docs/compatibility.md").read_text()
    assert set(re.findall(r"`schema: (\d+)`", page)) == {str(decision_file.SCHEMA)}
    for path in (earlier_runs.FACT_PATH, decision_file.DECISION_PATH):
        assert f"`{path}`" in page
    oldest = re.search(r"\d+\.\d+", read(ROOT / "meta/runtime.yml")["requires_ansible"])
    assert oldest
    assert f"ansible-core {oldest[0]} and newer" in page
    with (ROOT / "pyproject.toml").open("rb") as handle:
        groups = tomllib.load(handle)["dependency-groups"]
    sanity = [
        name.removeprefix("sanity-").replace("-", ".")
        for name in groups
        if name.startswith("sanity-")
    ]
    assert f"sanity tests run on {', '.join(sanity[:-1])} and {sanity[-1]}" in " ".join(
        page.split()
    )


def test_editors_are_told_what_the_linters_demand() -> None:
    editor = configparser.ConfigParser()
    editor.read_string("[top]\n" + (ROOT / ".editorconfig").read_text())
    with (ROOT / "pyproject.toml").open("rb") as handle:
        python = tomllib.load(handle)["tool"]["ruff"]["line-length"]
    assert editor["*.{py,rst}"]["max_line_length"] == str(python)
    assert editor["*"]["max_line_length"] == str(
        read(ROOT / ".yamllint")["rules"]["line-length"]["max"]
    )


def test_hooks_before_a_commit_run_the_tools_of_the_environment() -> None:
    """No versions of their own: pyproject.toml names them."""
    hooks = [
        hook
        for repository in read(ROOT / ".pre-commit-config.yaml")["repos"]
        for hook in repository["hooks"]
    ]
    assert [hook["id"] for hook in hooks if not hook["entry"].startswith(".cache/venv/bin/")] == []
    assert {
        repository["repo"] for repository in read(ROOT / ".pre-commit-config.yaml")["repos"]
    } == {"local"}


def test_every_test_can_be_collected(tmp_path: Path) -> None:
    """The tests on hosts run rarely on a contributor's machine, and one that imports what has moved
    away fails there alone. None of them needs anything built before it runs.
    """
    unbuilt = {**os.environ, "GPUFLEET_LAB_DIR": str(tmp_path), "GPUFLEET_LAB_BUILD": "never"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-p",
        "no:cacheprovider",
        "tests/integration",
    ]
    found = subprocess.run(
        command, cwd=ROOT, env=unbuilt, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-3000:]
