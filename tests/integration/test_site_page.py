# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation's site in a real browser: each page can be read whole on a phone and on two
desktops, and asks no other machine for anything.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import browser

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / ".cache/docs/site"
PHONE, WIDTHS = 390, (390, 1280, 1600)
# The theme gives each table its scroll bar some time after the page was loaded.
READY = """
new Promise((done) => {
  const wait = () => {
    const tables = document.querySelectorAll('table.docutils');
    const ready = document.querySelectorAll('.wy-table-responsive > table.docutils');
    tables.length === ready.length ? done(true) : setTimeout(wait, 10);
  };
  wait();
})
"""
# Elements beyond the right edge that no scroll bar reaches, by the name of the tag and their text.
CUT_OFF = """
[...document.querySelectorAll('.document *')].filter((element) => {
  const box = element.getBoundingClientRect();
  if (!box.width || box.right <= document.documentElement.clientWidth + 1) return false;
  for (let outer = element.parentElement; outer !== document.body; outer = outer.parentElement) {
    if (['auto', 'scroll'].includes(getComputedStyle(outer).overflowX)) return false;
  }
  return true;
}).map((element) => `${element.tagName} ${element.textContent.trim().slice(0, 40)}`)
"""
# Tables that a reader has to push sideways.
WIDER = """
[...document.querySelectorAll('.document table')]
  .filter((table) => table.offsetWidth > table.parentElement.clientWidth + 1)
  .map((table) => table.textContent.trim().slice(0, 40))
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.installed() as window:
        yield window


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    """The site as `make docs` builds it of this checkout."""
    subprocess.run([sys.executable, "tests/tools/docsite.py"], cwd=ROOT, check=True)
    return sorted(SITE.rglob("*.html"))


@pytest.mark.parametrize("width", WIDTHS)
def test_each_page_can_be_read_whole(
    width: int, pages: list[Path], chromium: browser.Browser
) -> None:
    assert len(pages) > 100
    wrong = {}
    for page in pages:
        chromium.open(page, width)
        assert chromium.look(READY)
        wrong[str(page.relative_to(SITE))] = [
            *chromium.look(CUT_OFF),
            *(chromium.look(WIDER) if width == PHONE else []),
            *chromium.complaints(),
            *(url for url in chromium.requests() if not url.startswith(("file:", "data:"))),
        ]
    assert {page: words for page, words in wrong.items() if words} == {}


def test_a_cell_on_a_phone_begins_with_the_name_of_its_column(
    pages: list[Path], chromium: browser.Browser
) -> None:
    assert SITE / "rollout.html" in pages
    chromium.open(SITE / "rollout.html", PHONE)
    first = "document.querySelector('table.docutils tbody td')"
    head = "document.querySelector('table.docutils thead th')"
    assert chromium.look(f"getComputedStyle({first}).display") == "block"
    assert chromium.look(f"getComputedStyle({head}).display") != "none"
    assert chromium.look(f"{head}.getClientRects().length") == 0
    assert chromium.look(f"getComputedStyle({first}, '::before').content") == '"You want to: "'
