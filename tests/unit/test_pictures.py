# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures of the pages are as their script draws them, each with a title and on a page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
pictures = tool_modules.loaded("pictures")
DRAWN = pictures.list_pictures()
TEXTS = "\n".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_a_picture_is_as_the_script_draws_it(path: Path) -> None:
    assert path.read_text() == DRAWN[path], "run make docs"
    assert pictures.PICTURES[path.stem]() == DRAWN[path]


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_a_picture_has_a_title_and_says_on_its_page_what_it_shows(path: Path) -> None:
    root = ET.fromstring(path.read_text())
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text
    assert re.search(rf"!\[[^\]]{{20,}}\]\(pictures/{path.name}\)", TEXTS)


def test_no_picture_is_left_over() -> None:
    assert set(pictures.PLACE.iterdir()) == set(DRAWN)


def test_the_transaction_has_the_states_of_the_journal() -> None:
    """Each state is a word of the executor's code, and the page has them in the same order."""
    code = "\n".join(
        path.read_text() for path in (ROOT / "plugins/module_utils/_host/transaction").glob("*.py")
    )
    states = [state for state, _step in pictures.STEPS[1:]]
    assert [state for state in states if f'"{state}"' not in code] == []
    page = (ROOT / "docs/transaction.md").read_text().partition("## States")[2]
    places = [page.index(f"`{state}`") for state in states]
    assert places == sorted(places)


def test_words_that_do_not_fit_are_an_error() -> None:
    with tool_modules.reachable():
        drawing = tool_modules.executed("drawing")
    with pytest.raises(drawing.TooWide):
        drawing.draw_box(drawing.Box(0, 0, 50, 20), ["a line that is too long"])
