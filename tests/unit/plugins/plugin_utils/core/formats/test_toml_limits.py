# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is too much is refused with file, line and limit before parsing; what is within the limits
takes bounded memory.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_limits,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import worst

PATH = "/etc/containerd/config.toml"
KEY = "this key has more than 20 parts"
BRACKETS = "more than 20 brackets are open here"

TOO_MUCH = {
    "a key of 14 000 parts": ("x = 1\n" + "a." * 14000 + "a = 1\n", f"{PATH}:2: {KEY}"),
    "a header of 21 parts": ("\n\n[" + "a . " * 20 + "b]\n", f"{PATH}:3: {KEY}"),
    "quoted parts": ('"a".' * 15 + "'b'." * 15 + "c = 1\n", f"{PATH}:1: {KEY}"),
    "within an inline table": ("x = { y = 1, " + "a." * 30 + "b = 1 }\n", f"{PATH}:1: {KEY}"),
    "behind a string of several lines": (
        'x = """\n#\n"""\n' + "a." * 30 + "b = 1\n",
        f"{PATH}:4: {KEY}",
    ),
    "arrays in arrays": ("x = 1\ny = " + "[" * 10000 + "]" * 10000 + "\n", f"{PATH}:2: {BRACKETS}"),
    "tables in tables": ("x = " + "{a=" * 21 + "1" + "}" * 21 + "\n", f"{PATH}:1: {BRACKETS}"),
    "more lines than a configuration has": (
        "\n" * 30_001,
        f"{PATH}:30001: this has 30001 lines, commas, brackets and backslashes",
    ),
    "more values": ("x = 1\ny = [" + "1," * 40_000 + "]\n", f"{PATH}:2: this has 40003 lines"),
    "a string of escapes": ('x = "' + "\\n" * 40_000 + '"\n', f"{PATH}:1: this has 40001 lines"),
    "a text of more than 4 MiB": (
        "#" * (toml_limits.SIZE + 1),
        f"{PATH}: this has 4194305 characters, but at most 4194304 are read",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_is_too_much_is_told_with_file_line_and_limit(text: str, sentence: str) -> None:
    with pytest.raises(PlanError) as caught:
        toml.load_toml(text, PATH)
    assert str(caught.value).startswith(sentence)


def test_a_number_of_a_million_digits_is_one_sentence() -> None:
    with pytest.raises(PlanError, match=r"config\.toml:1: this key or number has more than 1000"):
        toml.load_toml("a = " + "1" * 1_000_000, PATH)


@pytest.mark.parametrize(
    "text",
    [
        'x = "' + "a" * 3000,
        'x = """' + "a" * 3000,
        '"' + "a" * 3000 + ".b = 1",
        'x = "' + "a\\n" * 3000,
        '"a' * 3001,
    ],
)
def test_a_string_without_an_end_is_looked_at_once(text: str) -> None:
    with pytest.raises(PlanError, match="this is not valid TOML"):
        toml.load_toml(text, PATH)


WITHIN = {
    "dots in a string": 'x = "' + "a." * 5000 + '"\n',
    "dots in a literal string": "x = '" + "a." * 5000 + "'\n",
    "dots in strings of several lines": 'x = """\n'
    + "a." * 5000
    + "\n\"\"\"\ny = '''\n"
    + "a." * 5000
    + "\n'''\n",
    "dots in a comment": "# " + "a." * 5000 + "\nx = 1\n",
    "brackets in a string": 'x = "' + "[{" * 5000 + '"\n# ' + "[" * 5000 + "\n",
    "an escaped quote before dots": 'x = "\\"' + "a." * 5000 + '"\n',
    "20 parts": "a." * 19 + "b = 1\n",
    "20 brackets": "x = " + "[" * 20 + "]" * 20 + "\n",
    "many headers": "".join(f"[a{n}]\nb = [1]\n" for n in range(500)),
}


@pytest.mark.parametrize("text", WITHIN.values(), ids=WITHIN)
def test_what_only_looks_like_it_is_read(text: str) -> None:
    assert toml.load_toml(text, PATH)


words = st.sampled_from(
    ["a", ".", '"', "'", '"""', "'''", "\\", "#", "\n", "[", "]", "{", "}", "=", " ", "1", ","]
)


@given(st.lists(words, max_size=60).map("".join))
def test_the_limits_refuse_nothing_that_is_valid_and_small(text: str) -> None:
    """60 signs can hold a key of more than 20 parts, or as many brackets; anything else is the
    parser's to judge.
    """
    try:
        toml_limits.require_bounded_toml(text, PATH)
    except PlanError:
        assert text.count(".") >= 20 or text.count("[") + text.count("{") > 20


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("name", worst.FILES)
def test_the_worst_file_within_the_limits_takes_bounded_memory_on_the_controller(name: str) -> None:
    found = worst.plan(name)
    assert found.mib < found.bound


def test_the_worst_look_within_the_limits_takes_bounded_memory_on_the_host() -> None:
    """Four patterns with more in them than a whole answer may hold: one is an error, and memory
    stays bounded.
    """
    found = worst.look()
    assert found.mib < found.bound
