# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/troubleshooting.md quotes messages that exist: each heading is a piece of a text in the
code, with … for what is put in.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
QUOTED = [
    quote
    for heading in re.findall(r"^### (`.*)$", PAGE, re.MULTILINE)
    for quote in re.findall(r"`([^`]+)`", heading)
]
GAP = "\0"
# What is put into a text: a field of str.format or of a template of our own, and % with its letter.
FIELD = re.compile(r"\{[\w.\[\]!:,]*\}|%(?:\(\w+\))?[\d.]*[a-z]")


def text(node: ast.AST) -> str | None:
    """What a node says, with a gap for each value that is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return FIELD.sub(GAP, node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            (text(part) or "") if isinstance(part, ast.Constant) else GAP for part in node.values
        )
    return None


def texts(tree: ast.AST) -> Iterator[str]:
    yield from filter(None, map(text, ast.walk(tree)))


@functools.cache
def said() -> list[str]:
    """Every text in the code but documentation."""
    rooms = ("action", "plugin_utils", "module_utils")
    files = [path for room in rooms for path in sorted((ROOT / "plugins" / room).rglob("*.py"))]
    return [said for path in files for said in texts(ast.parse(path.read_text()))]


def sayable(quote: str, template: str) -> bool:
    """Whether a text can have this piece: its words in their order, with a value (of the template,
    or one of its pieces) at each gap.
    """
    parts = [part.strip() for part in quote.split("…") if part.strip()]
    at = 0
    for part in parts:
        found = re.search(re.escape(part), template[at:])
        if not found:
            return False
        between = template[at : at + found.start()]
        if at and GAP not in between:
            return False
        at += found.end()
    return True


def test_the_page_has_symptoms() -> None:
    assert len(QUOTED) > 30
    assert len(set(QUOTED)) == len(QUOTED)


@pytest.mark.parametrize("quote", QUOTED)
def test_a_symptom_is_a_message_of_the_code(quote: str) -> None:
    assert any(sayable(quote, template) for template in said()), (
        f"no text in plugins/ can say {quote!r}"
    )


@pytest.mark.parametrize(
    ("quote", "template", "wanted"),
    [
        ("Every pod of … fails", f"Every pod of {GAP} fails: {GAP} is gone", True),
        ("Every pod of … fails", "Every pod of it fails", False),
        ("Every pods of … fails", f"Every pod of {GAP} fails", False),
        ("… fails: … is gone", f"Every pod of {GAP} fails: {GAP} is gone", True),
        ("is gone … fails", f"{GAP} fails: {GAP} is gone", False),
    ],
)
def test_a_piece_is_compared_word_by_word(quote: str, template: str, wanted: bool) -> None:
    assert sayable(quote, template) is wanted
