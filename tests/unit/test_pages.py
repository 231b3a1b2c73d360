# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written from the code is as the code has it: tables in docs/, the roles' options, results
that modules share.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import deviations
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)

from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
pages = tool_modules.loaded("pages")
cdi_tables = tool_modules.loaded("cdi_tables")
options = tool_modules.loaded("options")
FOLLOWS = {str(path.relative_to(ROOT)): text for path, text in options.files()}


@pytest.mark.parametrize("page", list(pages.list_pages()), ids=lambda page: page.name)
def test_a_page_is_as_the_code_has_it(page: Path) -> None:
    assert pages.fill_tables(page.read_text()) == page.read_text(), "run make docs"


@pytest.mark.parametrize("path", FOLLOWS)
def test_what_follows_from_the_documentation_is_as_it_has_it(path: str) -> None:
    assert (ROOT / path).read_text() == FOLLOWS[path], "run make docs"


def test_every_shared_result_is_in_each_of_its_modules() -> None:
    for shared in yaml.safe_load(options.RESULTS.read_text()):
        for module in shared["modules"]:
            assert (
                f"\n{shared['name']}:\n" in (ROOT / f"plugins/modules/{module}.py").read_text()
            ), (shared["name"], module)


def test_every_table_is_on_a_page() -> None:
    shown = {
        name
        for page in pages.list_pages()
        for _head, name, _body, _end in pages.BLOCK.findall(page.read_text())
    }
    assert shown == set(pages.TABLES)


@pytest.mark.parametrize("engine", cdi_versions.MAX_CDI)
def test_the_ranges_on_the_page_are_those_of_the_table(engine: str) -> None:
    ranges = cdi_tables.list_ranges(cdi_versions.MAX_CDI[engine])
    for release in [first for first, _newest in cdi_versions.MAX_CDI[engine]][1:]:
        name = ".".join(map(str, release))
        newest = cdi_versions.get_max_cdi_version(engine, name)
        assert newest in ranges, name


def test_the_variables_that_people_need_first_are_ten() -> None:
    first = tool_modules.loaded("variable_tables").FIRST
    assert len(first) == 10
    listed = (ROOT / "docs/variables.md").read_text().partition("<!-- table variables -->")[2]
    assert [name for name in first if f"\n| `{name}` |" not in listed] == []


def test_no_intended_difference_is_named_twice() -> None:
    topics = [deviation.topic for deviation in deviations.DEVIATIONS]
    assert len(topics) == len(set(topics))
