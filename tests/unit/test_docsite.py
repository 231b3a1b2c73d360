# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make docs` does to pages on their way into the site, and what it finds broken there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
MODULES = "https://github.com/gpufleet/gpufleet.nvidia/blob/main/"


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    """tests/tools/docsite.py, which imports its neighbours by their names."""
    yield from tool_modules.imported("docsite")


@pytest.mark.parametrize(
    ("page", "link", "wanted"),
    [
        ("docs/a.md", "[b](b.md)", "[b](b.md)"),
        ("docs/a.md", "[b](b.md#part)", "[b](b.md#part)"),
        ("docs/a.md", "[s](../SECURITY.md#how)", "[s](security.md#how)"),
        ("SECURITY.md", "[b](docs/b.md)", "[b](b.md)"),
        ("docs/a.md", "[here](#part)", "[here](#part)"),
        ("docs/a.md", "[out](https://example.org/x.md)", "[out](https://example.org/x.md)"),
        (
            "docs/a.md",
            "[code](../plugins/modules/host.py)",
            f"[code]({MODULES}plugins/modules/host.py)",
        ),
        ("docs/a.md", "![plan](plan.svg)", "![plan](plan.svg)"),
        ("docs/a.md", "![plan](pictures/plan.svg)", "![plan](plan.svg)"),
        ("docs/sub/a.md", "![plan](../plan.svg)", "![plan](../plan.svg)"),
        ("docs/sub/a.md", "[b](../b.md#part)", "[b](../b.md#part)"),
    ],
)
def test_a_link_leads_to_the_same_from_the_site(
    page: str,
    link: str,
    wanted: str,
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / page).write_text(link)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert (
        tool.page(
            Path(page),
            {
                Path("docs/b.md"): Path("b.md"),
                Path("docs/sub/a.md"): Path("sub/a.md"),
                Path("SECURITY.md"): Path("security.md"),
            },
        )
        == wanted
    )


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ('<a href="other.html">', []),
        ('<a href="other.html#part"><img src="_static/x.css?v=1">', []),
        ('<a href="#own"><p id="own">', []),
        ('<a href="https://example.org/nowhere">', []),
        ('<a href="gone.html">', ["index.html: gone.html is not there"]),
        ('<a href="other.html#gone">', ["index.html: other.html#gone has no such anchor"]),
        ('<a href="#gone">', ["index.html: #gone has no such anchor"]),
        ('<img src="gone.svg">', ["index.html: gone.svg is not there"]),
    ],
)
def test_a_link_that_leads_nowhere_is_named(
    body: str, lost: list[str], tool: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static/x.css").touch()
    (tmp_path / "other.html").write_text('<h2 id="part">')
    (tmp_path / "index.html").write_text(body)
    assert list(tool.broken(tmp_path)) == lost


THREE = "## A\n\n## B\n\n## C\n"
CONTENTS = "\n```{contents} On this page\n:local:\n:depth: 1\n```\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"# T\n\n{THREE}", f"# T\n{CONTENTS}\n{THREE}"),
        (f"<!-- licence\n-->\n# T\n{THREE}", f"<!-- licence\n-->\n# T\n{CONTENTS}{THREE}"),
        ("# T\n\n## A\n\n## B\n", "# T\n\n## A\n\n## B\n"),
        ("# T\n\n```shell\n## 1\n## 2\n## 3\n```\n", "# T\n\n```shell\n## 1\n## 2\n## 3\n```\n"),
    ],
    ids=["three sections", "a comment before the title", "two sections", "comments in a block"],
)
def test_a_page_of_three_sections_begins_with_their_list(
    text: str, wanted: str, tool: ModuleType
) -> None:
    assert tool.add_contents(text) == wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("    host_module", "    host <host_module>"),
        ("    host_info_module", "    host_info <host_info_module>"),
        ("    image_choice_info_filter", "    image_choice_info <image_choice_info_filter>"),
        ("    drain_role", "    drain <drain_role>"),
        ("    :maxdepth: 1", "    :maxdepth: 1"),
    ],
)
def test_the_navigation_calls_a_plugin_by_its_short_name(
    line: str, wanted: str, tool: ModuleType
) -> None:
    assert tool.shorten_titles(line) == wanted


def test_options_stand_by_subject_before_their_table(tool: ModuleType) -> None:
    begin = ".. _ansible_collections.gpufleet.nvidia.host_role__parameter-"
    names = ("main__gpufleet_gpus", "main__gpufleet_engines", "main__gpufleet_cdi/x", "look__other")
    anchors = "".join(f"      {begin}{name}:\n" for name in names)
    text = f"Synopsis\n{tool.PARAMETERS}\n{anchors}"
    assert tool.group_options(text, *tool.GROUPED["host_role"]).splitlines() == [
        "Synopsis",
        "",
        "Parameters",
        "----------",
        "",
        "By subject:",
        "",
        "* How containers get GPUs: :ansopt:`gpufleet.nvidia.host#role:main:gpufleet_engines`",
        "* The GPUs of a host: :ansopt:`gpufleet.nvidia.host#role:main:gpufleet_gpus`",
        "",
        *anchors.splitlines(),
    ]
