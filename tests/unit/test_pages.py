# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written from the code is as the code has it: tables in docs/, the roles' options, results
that modules share.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import deviations
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)

from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
pages = tool_modules.loaded("pages")
cdi_tables = tool_modules.loaded("cdi_tables")
options = tool_modules.loaded("options")
message_tables = tool_modules.loaded("message_tables")
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


MESSAGES: dict[str, Sentence] = {
    row.code: row
    for path in message_tables.find_tables().values()
    for row in message_tables.read_rows(path).values()
}
OUTPUT = re.compile(r"^ *```text\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r" \[([a-z0-9-]+\.[a-z0-9-]+)\]")


def build_rule(row: Sentence) -> re.Pattern[str]:
    """Return the rule for a sentence with its code. Any text may stand for a value, and for the step
    of a row without one.
    """

    def spell(template: str) -> str:
        return re.sub(r"\\\{\w+\\\}", ".+", re.escape(template))

    step = row.next and row.next[0].upper() + row.next[1:].removesuffix(".")
    why = rf" \({spell(row.why)}\)" if row.why else ""
    following = rf"\. {spell(step)}" if step else r"(?:\. .+)?"
    # a playbook that ends before its first task says so before the code
    nothing = rf"(?:\. {MESSAGES['action.nothing-done'].what})?"
    return re.compile(rf"{spell(row.what)}{why}{following}{nothing} \[{re.escape(row.code)}\]")


def list_shown_messages(text: str) -> Iterator[tuple[str, str]]:
    """Yield each message that a page shows as output, up to its code, and the code."""
    for block in OUTPUT.findall(text):
        words, start = " ".join(block.split()), 0
        for code in CODE.finditer(words):
            if code[1] in MESSAGES:
                yield words[start : code.end()], code[1]
                start = code.end()


SHOWING = {
    page.name: shown
    for page in sorted((ROOT / "docs").glob("*.md"))
    if (shown := [*list_shown_messages(page.read_text())])
}


def test_a_message_is_compared_with_the_row_of_its_code() -> None:
    rule = build_rule(Sentence("demo.code", "{path} is off", why="it is", next="turn it on."))
    assert rule.search("gpu1: /a b is off (it is). Turn it on [demo.code]")
    assert not rule.search("gpu1: /a b is off (it was). Turn it on [demo.code]")
    assert not rule.search("gpu1: /a b is off (it is). Turn it on [demo.other]")


@pytest.mark.parametrize("page", SHOWING)
def test_a_message_that_a_page_shows_is_the_row_of_its_code(page: str) -> None:
    wrong = [words for words, code in SHOWING[page] if not build_rule(MESSAGES[code]).search(words)]
    assert wrong == []


def test_the_pages_for_a_night_show_messages() -> None:
    assert {"driver.md", "gpu-health.md", "platform.md", "rollout-driver.md"} <= set(SHOWING)


CONTRACT = json.loads((ROOT / "docs/contract.json").read_text())
SETTINGS = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
OWN_VARIABLES = "gpufleet_own_variables"  # the check of variables reads it, and no option


def list_settings(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables of this collection in a document of YAML, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if str(key).startswith("gpufleet_"):
                yield str(key), inner
            yield from list_settings(inner)
    elif isinstance(value, list):
        for item in value:
            yield from list_settings(item)


def explain_wrong_setting(name: str, value: Any, contract: Mapping[str, Any]) -> str:
    """Explain what is wrong with a setting, '' if the roles accept it."""
    if name == OWN_VARIABLES:
        return ""
    known = contract.get(f"variable {name}")
    if known is None:
        return f"{name}: no such variable"
    choices = known.get("choices")
    values = value if isinstance(value, list) else [value]
    wrong = [item for item in values if choices and "{{" not in str(item) and item not in choices]
    return f"{name}: {wrong}" if wrong else ""


def list_wrong_settings(text: str) -> list[str]:
    """List the settings on a page that no run would accept. A block that is not a whole document
    shows a part of one, and is left out.
    """
    wrong = []
    for indent, block in SETTINGS.findall(text):
        lines = [line.removeprefix(indent) for line in block.splitlines()]
        try:
            values = [*yaml.safe_load_all("\n".join(lines))]
        except yaml.YAMLError:
            continue
        wrong += [
            explain_wrong_setting(name, value, CONTRACT) for name, value in list_settings(values)
        ]
    return [entry for entry in wrong if entry]


def test_a_wrong_setting_is_found() -> None:
    page = "```yaml\ngpufleet_isolaton: strict\ngpu1:\n  gpufleet_restart: sometimes\n```\n"
    assert list_wrong_settings(page) == [
        "gpufleet_isolaton: no such variable",
        "gpufleet_restart: ['sometimes']",
    ]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_the_settings_on_a_page_are_accepted(page: Path) -> None:
    assert list_wrong_settings(page.read_text()) == []
