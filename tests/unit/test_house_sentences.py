# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house about sentences for people: one idea, at most 35 words. They hold for pages,
for messages and for the documentation of modules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.plugin_sources import ROOT, list_sources

MOST_WORDS = 35
PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "roles/*/README.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
    if not path.is_relative_to(ROOT / "docs/docsite")
)
GENERATED = re.compile(r"<!-- table .*?<!-- end -->", re.DOTALL)
FENCE = re.compile(r"^\s*```.*?^\s*```\s*$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^\s*([-*]|\d+\.)\s")
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z(`])|(?<=:)\s+(?=[A-Z])")


def list_paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs and items of lists. Code, tables and headings are not sentences."""
    for block in re.split(r"\n\s*\n", FENCE.sub("", GENERATED.sub("", text))):
        lines: list[str] = []
        for line in block.split("\n"):
            if line.lstrip().startswith(("|", "#", "<", "![")):
                continue
            if ITEM.match(line):
                yield " ".join(lines)
                lines = [ITEM.sub("", line)]
            else:
                lines.append(line.strip())
        yield " ".join(lines)


def list_sentences(text: str) -> list[str]:
    """Return the sentences of a page. Inline code and the text of a link are words of them."""
    found = []
    for paragraph in list_paragraphs(text):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
        plain = re.sub(r"`[^`]+`", "`code`", re.sub(r"[*_]{1,2}(?=\S)|(?<=\S)\*{1,2}", "", plain))
        found += END_OF_SENTENCE.split(plain)
    return found


def list_long_sentences(text: str) -> list[str]:
    return [words for words in list_sentences(text) if len(words.split()) > MOST_WORDS]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One two. Three four.", 2),
        ("One two, see `a.py`. `host` does three.", 2),
        ("One two:\n\n- three four\n- five [six. Seven](x.md) eight", 4),
        ("One two: `code` three", 1),
        ("One two.\n\n```yaml\nThree. Four.\n```\n", 1),
        ("One two.\n\n| A. B | C |\n", 1),
        ("One.\n<!-- table x -->\nTwo. Three.\n<!-- end -->\n", 1),
    ],
)
def test_a_sentence_ends_where_a_reader_sees_it_end(text: str, count: int) -> None:
    assert len([words for words in list_sentences(text) if words.strip()]) == count


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_no_sentence_is_longer_than_a_reader_can_keep_in_mind(page: Path) -> None:
    assert list_long_sentences((ROOT / page).read_text()) == []


MESSAGES = sorted((ROOT / "tests/fixtures/messages").glob("*.txt"))
FIELD = re.compile(r"\{[^}]*\}")
# A function of Ansible's markup: O(state=absent).
MARKUP = re.compile(r"\b[BCEILMOPRUV]\([^)]*\)")


@pytest.mark.parametrize("table", MESSAGES, ids=lambda path: path.stem)
def test_no_sentence_of_a_message_is_longer(table: Path) -> None:
    parts = [line for line in table.read_text().splitlines() if line.startswith("  ")]
    texts = [FIELD.sub("`value`", part.partition(": ")[2]) for part in parts]
    assert [words for text in texts for words in list_long_sentences(text)] == []


def list_descriptions(documentation: Any) -> Iterator[str]:
    """Yield the texts of a module's documentation that are sentences, at any depth."""
    for key, value in documentation.items() if isinstance(documentation, dict) else ():
        if key in ("description", "short_description", "notes"):
            yield from value if isinstance(value, list) else [value]
        else:
            yield from list_descriptions(value)


def read_documentation(path: Path) -> Iterator[Any]:
    """Yield the YAML documents in the constants of a module or a fragment of documentation."""
    for node in ast.walk(ast.parse(path.read_text())):
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Constant) and "\n" in str(value.value):
            yield yaml.safe_load(value.value)


@pytest.mark.parametrize(
    "path", [*list_sources("modules"), *list_sources("doc_fragments")], ids=lambda path: path.stem
)
def test_no_sentence_of_an_option_or_a_result_is_longer(path: Path) -> None:
    texts = [
        MARKUP.sub("`code`", text)
        for documentation in read_documentation(path)
        for text in list_descriptions(documentation)
        if isinstance(text, str)
    ]
    assert [words for text in texts for words in list_long_sentences(text)] == []
