# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every link of every page leads to a file that is there, and every anchor to a heading; pages are
found from README.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(
    ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
).stdout.split("\0")
PAGES = sorted(Path(name) for name in TRACKED if name.endswith(".md") and (ROOT / name).is_file())
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
REPOSITORY = re.compile(r"https://github\.com/gpufleet/gpufleet\.nvidia/blob/main/")


def prose(text: str) -> str:
    """A page without its blocks of code, in which nothing is a link or a heading."""
    return FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """The anchors of a page as GitHub makes them: words in lower case, joined by dashes, the second
    of a name with a number.
    """
    found: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#+ +(.*?) *#*$", prose(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """The links of a page within the repository: as written, the file, the anchor."""
    for target in LINK.findall(prose((ROOT / page).read_text())):
        inside = REPOSITORY.sub("/", target)
        if re.match(r"[a-z]+:", inside):
            continue
        name, _hash, anchor = inside.partition("#")
        file = (
            Path(name.lstrip("/"))
            if name.startswith("/")
            else Path(os.path.normpath(page.parent / name))
            if name
            else page
        )
        yield target, file, anchor


def test_there_are_pages() -> None:
    assert Path("README.md") in PAGES
    assert sum(1 for page in PAGES for _link in links(page)) > 100


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_leads_somewhere(page: Path) -> None:
    lost = [
        target
        for target, file, anchor in links(page)
        if not (ROOT / file).exists()
        or (anchor and file.suffix == ".md" and anchor not in anchors((ROOT / file).read_text()))
    ]
    assert lost == []


def test_every_page_for_users_can_be_found_from_readme() -> None:
    found, todo = {Path("README.md")}, [Path("README.md")]
    while todo:
        more = {file for _target, file, _anchor in links(todo.pop()) if file in PAGES} - found
        found |= more
        todo.extend(more)
    assert [
        str(page)
        for page in PAGES
        if page.parts[0] in ("docs", "roles") and page.name != "index.md" and page not in found
    ] == []


# The contents go by what people do, in this order. A section may begin with one of these words and
# continue with its own.
KINDS = ["Tutorials", "How to", "Explanation", "Reference", "Evidence", "Contribute"]


def test_the_contents_list_each_page_once_by_what_people_do() -> None:
    """The site's navigation is made of the same sections (tests/tools/docsite.py)."""
    sections = tool_modules.loaded("docsite").list_sections((ROOT / "docs/README.md").read_text())
    assert list(dict.fromkeys(head.partition(":")[0] for head in sections)) == KINDS
    listed = Counter(
        Path(os.path.normpath(Path("docs") / target))
        for entries in sections.values()
        for _title, target in entries
    )
    assert [str(page) for page, count in listed.items() if count > 1] == []
    pages = {page for page in PAGES if page.parent == Path("docs")} - {Path("docs/README.md")}
    assert pages - set(listed) == set()


MOST_WORDS_OF_README = 1200


def test_readme_is_read_in_five_minutes() -> None:
    """A page that takes longer is a page of docs/, and README links to it."""
    assert len((ROOT / "README.md").read_text().split()) <= MOST_WORDS_OF_README


def test_the_page_for_extenders_names_files_and_tables_that_are_there() -> None:
    page, planner = (ROOT / "docs/extending.md").read_text(), ROOT / "plugins/plugin_utils/_planner"
    quoted = re.findall(r"`([^`\n]+)`", page)
    paths = [quote for quote in quoted if re.fullmatch(r"[\w./-]+(/|\.py|\.yml)", quote)]
    assert [
        path
        for path in paths
        if not ((ROOT / path).exists() or (planner / path).exists() or path.startswith("meta/"))
    ] == []
    code = "\n".join(path.read_text() for path in (ROOT / "plugins").rglob("*.py"))
    tables = [quote.split(" ")[0] for quote in re.findall(r"`([A-Z_]{4,})`", page)]
    assert [name for name in tables if not re.search(rf"^{name}\b.* = ", code, re.MULTILINE)] == []
    assert len(paths) > 5
    assert len(tables) > 3


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("## For programs: AWX, ansible-runner, JSON", "for-programs-awx-ansible-runner-json"),
        (
            "## How it differs from `nvidia-ctk cdi generate`",
            "how-it-differs-from-nvidia-ctk-cdi-generate",
        ),
        ("### [A link](x.md) in it", "a-link-in-it"),
    ],
)
def test_anchors_are_githubs(heading: str, anchor: str) -> None:
    assert anchors(heading) == {anchor}
