# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words of unit files. Every row was held against systemd 252 itself: the command line that it
shows, or the arguments of the process.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.unit_places import (
    FILLER,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import words
from hypothesis import given
from hypothesis import strategies as st

# a value -> its words
SPLIT: dict[str, list[str]] = {
    "": [],
    "  a \t b ": ["a", "b"],
    "\"a b\" 'c d'": ["a b", "c d"],
    'foo"bar baz"': ["foobar baz"],
    "'a\"b'": ['a"b'],
    "\"\" ''": ["", ""],
    r"\x41 \101 \u00e9 \s \"": ["A", "A", "é", " ", '"'],
    r"\q \x4 \9": ["\\q", "\\x4", "\\9"],
    r'"a\"b"': ['a"b'],
}


@pytest.mark.parametrize(("value", "found"), SPLIT.items())
def test_words(value: str, found: list[str]) -> None:
    assert [word.text for word in words.split_words(value, escapes=True)] == found


@pytest.mark.parametrize("value", ['a "b', "it's", "'"])
def test_a_quote_without_its_end(value: str) -> None:
    with pytest.raises(words.Unbalanced):
        words.split_words(value, escapes=True)


@given(st.lists(st.text("ab \t\"'\\$%;=", max_size=6), max_size=5))
def test_what_is_quoted_comes_back(given_words: list[str]) -> None:
    quoted = (
        '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'
        for word in given_words
    )
    assert [word.text for word in words.split_words(" ".join(quoted), escapes=True)] == given_words


# (text, unit) -> what it is when specifiers are filled in
SPECIFIERS: dict[tuple[str, str], str] = {
    ("%%i", "docker.service"): "%i",
    ("%n %N %p", "docker.service"): "docker.service docker docker",
    ("/etc/%i.toml", "containerd@gpu.service"): "/etc/gpu.toml",
    ("%p-%i", "containerd@gpu.service"): "containerd-gpu",
    ("/run/%i", "docker.service"): "/run/",
    ("%H", "docker.service"): FILLER,
    ("%t/docker", "docker.service"): f"{FILLER}/docker",
    ("%n", ""): FILLER,
    ("100%", "docker.service"): f"100{FILLER}",
}


@pytest.mark.parametrize(("text", "unit"), SPECIFIERS)
def test_specifiers(text: str, unit: str) -> None:
    assert words.fill_specifiers(text, unit) == SPECIFIERS[text, unit]


VARIABLES = {
    "A": "one two",
    "B": '"q r" s',
    "C": "",
    "D": "$A",
    "F": 'dq "esc" \\x y',
    "S": "it's one",
}
# a word of ExecStart -> the arguments that it becomes
FILLED: dict[str, list[str]] = {
    "$A": ["one", "two"],
    "${A}": ["one two"],
    "x${A}y": ["xone twoy"],
    "x$A": ["x$A"],
    "$B": ["q r", "s"],
    "${B}": ['"q r" s'],
    "$C": [],
    "${C}": [""],
    "$UNSET": [],
    "${UNSET}": [""],
    "$$": ["$"],
    "$$A": ["$A"],
    "$D": ["$A"],
    "$F": ["dq", "esc", "x", "y"],
}


@pytest.mark.parametrize(("word", "arguments"), FILLED.items())
def test_variables(word: str, arguments: list[str]) -> None:
    assert words.fill_variables([word], VARIABLES, 100) == arguments


def test_the_variables_that_words_refer_to() -> None:
    assert words.name_variables(["$A", "x${B}", "x$C", "$$D", "$${E}", "--f=${G}"]) == {
        "A",
        "B",
        "G",
    }
