# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each sentence for people is a row of its package's table, with a code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
    end_with_code,
)

from tests.unit import tool_modules

message_tables = tool_modules.loaded("message_tables")
PLUGINS = message_tables.ROOT / "plugins"
TABLES = message_tables.find_tables()
ROWS = [
    (package, name, row)
    for package, path in TABLES.items()
    for name, row in message_tables.read_rows(path).items()
]
CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*")
# An id names releases, too: `known-bad.toolkit-1.18.0-links`.
CODE_OF_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.[a-z0-9]+([-.][a-z0-9]+)*")
GOLDEN = message_tables.map_golden_files()
LABELS = "a label, a cell of a table, or a word for a state: the reason beside it has the code"
BY_ID = "a table whose rows have ids, and an id is the end of a code (TABLES_BY_ID)"
DOCUMENTED = "text of a form, a file or a page that explains itself, and no message"
PROGRAMS = "words that a program prints or takes"
BUGS = "an error of the code itself, which no user can correct"
# Files below plugins/ that have texts with a verb in them, and why these have no code.
WITHOUT_CODES: Mapping[str, tuple[str, ...]] = {
    LABELS: (
        "plugin_utils/_controller/steps/rollout_report.py",
        "plugin_utils/_controller/base.py",
        "plugin_utils/_planner/cluster/summary.py",
        "plugin_utils/_planner/fleet/image_table.py",
        "plugin_utils/_planner/fleet/report/fleet_hosts.py",
        "plugin_utils/_planner/fleet/report/verification.py",
        "plugin_utils/_planner/fleet/report/specs.py",
        "plugin_utils/_planner/fleet/rollout.py",
        "plugin_utils/_planner/host/bundle/archive_plan.py",
        "plugin_utils/_planner/host/cdi/described.py",
        "plugin_utils/_planner/host/engines/containerd/verify.py",
        "plugin_utils/_planner/host/engines/docker/daemon_action.py",
        "plugin_utils/_planner/host/owned_file.py",
        "plugin_utils/_planner/host/resources/repository.py",
        "plugin_utils/_planner/host/results/groups.py",
        "plugin_utils/_planner/host/results/journal.py",
        "plugin_utils/_planner/host/results/leftovers.py",
        "plugin_utils/_planner/host/results/results.py",
    ),
    BY_ID: (
        "plugin_utils/_planner/core/causes.py",
        "plugin_utils/_planner/core/projections/file_places.py",
        "plugin_utils/_planner/host/cdi/lint/rules.py",
        "plugin_utils/_planner/host/known_bad/rules.py",
        "plugin_utils/_planner/host/known_bad/table.py",
    ),
    DOCUMENTED: (
        "lookup/play_hosts.py",
        "plugin_utils/_planner/cluster/groups.py",
        "plugin_utils/_planner/core/projections/crio_places.py",
        "plugin_utils/_planner/fleet/awx/objects.py",
        "plugin_utils/_planner/fleet/awx/surveys.py",
        "plugin_utils/_planner/fleet/driver_change.py",
        "plugin_utils/_planner/fleet/settings.py",
        "plugin_utils/_planner/host/cdi/deviations.py",
        "plugin_utils/_planner/host/cdi/staleness_guard.py",
        "plugin_utils/_planner/host/engines/containerd/template.py",
        "plugin_utils/_planner/host/resources/device_nodes.py",
        "plugin_utils/_planner/host/resources/metrics.py",
        "plugin_utils/_planner/host/resources/owners_settings.py",
        "plugin_utils/_planner/host/sharing/resource.py",
    ),
    PROGRAMS: (
        "plugin_utils/_controller/transport.py",
        "plugin_utils/_planner/host/resources/installers.py",
        "plugin_utils/_planner/host/resources/repository_check.py",
        "plugin_utils/_planner/host/verification/evidence.py",
        "plugin_utils/_planner/host/verification/told_words.py",
    ),
    BUGS: (
        "plugin_utils/_controller/guard.py",
        "plugin_utils/_planner/core/queries.py",
    ),
}
# A text of several words with a finite verb, or one that begins as a step does.
VERB = re.compile(
    r"(?<![\w-])(is|are|was|were|has|have|had|does|do|did|cannot|can|could|must|may|will|would|needs"
    r"|lacks|knows)(?![\w-])"
)
STEP = re.compile(r"(Set|Run|Remove|Give|Write|Name|Look|See|Make|Correct|Log|Wait|Copy|Check)\s")
NO_PROSE = re.compile(r"[\\\[\]|^$#]|\(\?")  # regular expressions and comments of files

FULL = Sentence(
    "demo.full",
    "{title} has its CRI plugin disabled",
    why="`disabled_plugins` lists it",
    next="remove it from {place}.",
)


def test_a_message_has_its_code_its_values_and_its_parts() -> None:
    message = FULL.fill(title="containerd", place="the list")
    assert (
        message
        == "containerd has its CRI plugin disabled (`disabled_plugins` lists it). Remove it from the list"
    )
    assert (message.code, message.values) == (
        "demo.full",
        {"title": "containerd", "place": "the list"},
    )
    assert (message.what, message.why, message.next) == (
        "containerd has its CRI plugin disabled",
        "`disabled_plugins` lists it",
        "Remove it from the list",
    )


@pytest.mark.parametrize("values", [{}, {"title": "x"}, {"title": "x", "place": "y", "more": "z"}])
def test_a_row_takes_exactly_its_own_values(values: dict[str, str]) -> None:
    with pytest.raises(KeyError):
        FULL.fill(**values)


def test_an_error_ends_with_its_code() -> None:
    error = PlanError(
        FULL.fill(title="containerd", place="the list"), where="/etc/containerd/config.toml", line=3
    )
    assert str(error).startswith("/etc/containerd/config.toml:3: containerd ")
    assert str(error).endswith(" [demo.full]")
    assert (error.code, error.values["title"]) == ("demo.full", "containerd")


def test_an_error_raised_again_keeps_its_code_and_takes_new_parts() -> None:
    first = PlanError(FULL.fill(title="containerd", place="the list"))
    second = PlanError(first.message, where="/x", why="another cause")
    assert (second.code, second.why, second.next) == ("demo.full", "another cause", first.next)


def test_a_refusal_keeps_the_step_of_its_message_apart() -> None:
    refusal = Refusal(FULL.fill(title="containerd", place="the list"), kind="unfit")
    assert refusal.next == "Remove it from the list"
    assert str(refusal) == FULL.fill(title="containerd", place="the list")
    assert refusal.message.code == "demo.full"


@pytest.mark.parametrize(
    ("text", "shown"), [("plain", "plain"), (Message("said", "demo.said"), "said [demo.said]")]
)
def test_advice_ends_with_its_code_if_it_has_one(text: str, shown: str) -> None:
    assert end_with_code(text) == shown


def test_codes_have_their_form_and_no_code_means_two_things() -> None:
    codes = [row.code for _package, _name, row in ROWS]
    assert [code for code in codes if not CODE.fullmatch(code)] == []
    assert sorted(code for code in set(codes) if codes.count(code) > 1) == []


def test_codes_of_a_table_begin_with_one_word_that_no_other_table_has() -> None:
    first: dict[str, set[str]] = {}
    for package, _name, row in ROWS:
        first.setdefault(row.code.partition(".")[0], set()).add(package)
    assert {word: packages for word, packages in first.items() if len(packages) > 1} == {}


def test_codes_of_tables_with_ids_have_the_form_and_are_no_other_rows() -> None:
    codes = [row.code for rows in message_tables.TABLES_BY_ID.values() for row in rows()]
    of_tables = {row.code for _package, _name, row in ROWS}
    assert [code for code in codes if not CODE_OF_ID.fullmatch(code) or code in of_tables] == []
    assert sorted({code for code in codes if codes.count(code) > 1}) == []


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_file_has_the_sentences_of_the_table(name: str) -> None:
    golden = message_tables.GOLDEN / f"{name}.txt"
    assert golden.read_text() == GOLDEN[name], "run python tests/tools/message_tables.py --write"


def find_sources() -> Iterator[Path]:
    for part in ("action", "plugin_utils", "lookup", "filter"):
        yield from sorted((PLUGINS / part).rglob("*.py"))


SOURCES = {path: ast.parse(path.read_text()) for path in find_sources()}


def find_used_rows(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each NAME.fill(...) or module.NAME.fill(...) with the name of its constant."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "fill"
        ):
            row = node.func.value
            name = (
                row.attr
                if isinstance(row, ast.Attribute)
                else row.id
                if isinstance(row, ast.Name)
                else ""
            )
            if name.isupper():
                yield name, node


def test_rows_are_filled_with_their_own_values() -> None:
    known: dict[str, set[frozenset[str]]] = {}
    for _package, name, row in ROWS:
        known.setdefault(name, set()).add(row.fields)
    wrong = [
        f"{path.relative_to(PLUGINS)}:{call.lineno} {name}"
        for path, tree in SOURCES.items()
        for name, call in find_used_rows(tree)
        if all(word.arg for word in call.keywords)
        and frozenset(word.arg or "" for word in call.keywords) not in known.get(name, set())
    ]
    assert wrong == []


def test_each_row_is_used() -> None:
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for path, tree in SOURCES.items()
        if not path.name.endswith("messages.py") and path.parent.name != "messages"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
    }
    assert [f"{package}: {name}" for package, name, _row in ROWS if name not in used] == []


def test_a_constant_names_one_row_in_the_whole_tree() -> None:
    names = [name for _package, name, _row in ROWS]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_rows_of_errors_have_a_next_step() -> None:
    """A row may leave it out if every call of it gives one."""
    stepless = {name for _package, name, row in ROWS if not row.next}
    wrong = [
        f"{path.relative_to(PLUGINS)}:{node.lineno} {name}"
        for path, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "PlanError"
        and node.args
        for name, _call in find_used_rows(ast.Module([ast.Expr(node.args[0])], []))
        if name in stepless and not any(word.arg in ("next", None) for word in node.keywords)
    ]
    assert wrong == []


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.BinOp) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value)
    )


# The argument that is a sentence: its position, and its name.
SENTENCES = {
    "PlanError": (0, "what"),
    "OutOfReach": (0, "what"),
    "Refusal": (0, "what"),
    "Difference": (5, "why"),
    "Reason": (2, "why"),
    "Leftover": (5, "why"),
    "Evidence": (1, "text"),
}


def find_uncoded(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the calls whose sentence is written where it is used."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = (
            node.func.attr
            if isinstance(node.func, ast.Attribute)
            else node.func.id
            if isinstance(node.func, ast.Name)
            else ""
        )
        if name in SENTENCES:
            position, keyword = SENTENCES[name]
            given = [
                *node.args[position : position + 1],
                *(word.value for word in node.keywords if word.arg == keyword),
            ]
            if any(map(is_literal, given)):
                yield node


def test_sentences_stand_in_tables() -> None:
    found = [
        f"{path.relative_to(PLUGINS)}:{call.lineno}"
        for path, tree in SOURCES.items()
        for call in find_uncoded(tree)
    ]
    assert found == []


def read_template(node: ast.expr) -> str:
    """Return a literal's text, with `{}` for each value of an f-string, '' for any other node."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def find_prose(tree: ast.Module) -> Iterator[str]:
    """Yield the literals that read as a sentence or a step, without docstrings."""
    left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out.update(map(id, node.values))
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or id(node) in left_out:
            continue
        text = read_template(node)
        reads_so = VERB.search(text) or STEP.match(text)
        if text.count(" ") > 1 and reads_so and not NO_PROSE.search(text):
            yield text


def test_a_file_with_sentences_and_no_codes_says_why() -> None:
    excused = [path for paths in WITHOUT_CODES.values() for path in paths]
    prose = {
        str(path.relative_to(PLUGINS)): texts
        for path, tree in SOURCES.items()
        if not path.name.endswith("messages.py") and path.parent.name != "messages"
        for texts in [list(find_prose(tree))]
        if texts
    }
    assert {path: texts for path, texts in prose.items() if path not in excused} == {}
    assert [path for path in excused if path not in prose] == [], "these need no reason any more"
    assert len(excused) == len(set(excused))
