# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What scalars of YAML are, and which texts are none. tests/integration/test_cdi_reference.py
compares it with the engines' library.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    schema,
    yaml,
)


def tree(text: str) -> yaml.YamlTree:
    found: yaml.YamlTree = next(
        iter(yaml.read_yaml_document(f"a: {text}\n".encode()).tree.value.values())
    )
    return found


# what is written: (what it is, whether every library reads the same text where text belongs)
WORDS: dict[str, tuple[Any, bool]] = {
    "0": (0, True),
    "0:1": ("0:1", True),
    "1:30": ("1:30", True),
    "08": (8.0, False),
    "010": (8, False),
    "0o10": (8, False),
    "0x1F": (31, False),
    "0b11": (3, False),
    "1_000": (1000, False),
    "-5": (-5, True),
    "+5": (5, False),
    "1.10": (1.1, False),
    "0.5": (0.5, True),
    "0.5.0": ("0.5.0", True),
    "1e3": (1000.0, False),
    "16777217.0": (16777217.0, False),
    "0.0001": (0.0001, False),
    "1e300": (1e300, False),
    ".5": (0.5, False),
    ".inf": (float("inf"), False),
    "true": (True, True),
    "yes": (True, False),
    "y": (True, False),
    "Off": (False, False),
    "yEs": ("yEs", True),
    "''": ("", True),
    "'08'": ("08", True),
    "2020-01-01": ("2020-01-01", True),
    "MIG-1": ("MIG-1", True),
    "18446744073709551615": (18446744073709551615, True),
    "18446744073709551616": (1.8446744073709552e19, False),
    "&x 1": (1, True),
    ".nvidia": (".nvidia", True),
}


@pytest.mark.parametrize(("written", "is_", "same"), [(k, *v) for k, v in WORDS.items()], ids=WORDS)
def test_words(written: str, is_: Any, same: bool) -> None:
    found = tree(written)
    assert (found.value, type(found.value)) == (is_, type(is_))
    assert (isinstance(is_, str) or schema.is_kept(found)) == same


@pytest.mark.parametrize("written", ["~", "null", ""])
def test_nothing(written: str) -> None:
    assert tree(written).value is None


REFUSED = {
    "!!int 1": "it has the tag tag:yaml.org,2002:int",
    "!x yes": "it has the tag !x",
    "!!binary aGk=": "it has the tag tag:yaml.org,2002:binary",
    "!!map {}": "it has the tag tag:yaml.org,2002:map",
    "*x": "the anchor x is not known",
    "&x [*x]": "an anchor's value contains itself",
    "{a: 1, a: 2}": "the key a is there twice (first in line 1)",
    "{<<: 1}": "only a mapping can be merged",
    "{[a]: b}": "a key must be text",
    '"a\\/b"': "there is the escape",
    "[" * 200: "nested more than 100 levels deep",
    "\0": "",
    "'": "",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items(), ids=[repr(k)[:20] for k in REFUSED])
def test_refused(text: str, why: str) -> None:
    with pytest.raises(yaml.UnreadableYaml) as refused:
        tree(text)
    assert why in refused.value.message
    assert refused.value.line in (1, 2)


@pytest.mark.parametrize("written", ["'a\\/b'", '"a\\\\/b"', "a\\/b", "a # \\/"])
def test_what_looks_like_that_escape(written: str) -> None:
    assert isinstance(tree(written).value, str)


def bomb(levels: int) -> bytes:
    lines = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}' if i else 'x'] * 9)}]\n" for i in range(levels)]
    return "".join(lines).encode()


@pytest.mark.parametrize("levels", [9, 60])
def test_a_few_lines_that_stand_for_millions(levels: int) -> None:
    with pytest.raises(yaml.UnreadableYaml, match="and aliases repeat many"):
        yaml.read_yaml_document(bomb(levels))


def test_lines() -> None:
    found = yaml.read_yaml_document(b"a:\n  b: 1\n  c:\n  - d\n  - e\n---\nx\n")
    (a,) = found.tree.value.values()
    b, c = a.value.values()
    assert (a.line, b.line, c.line, [e.line for e in c.value], found.more) == (
        1,
        2,
        3,
        [4, 5],
        True,
    )


MERGES = [
    ("{<<: {b: 1}, c: 2}", {"b": 1, "c": 2}, []),
    ("{<<: {b: 1}, b: 2}", {"b": 2}, ["b"]),
    ("{b: 2, <<: {b: 1}}", {"b": 2}, ["b"]),
    ("{<<: [{b: 1}, {b: 2, c: 3}]}", {"b": 1, "c": 3}, ["b"]),
]


@pytest.mark.parametrize(("text", "values", "twice"), MERGES)
def test_a_key_wins_over_a_merge_and_that_is_told(
    text: str, values: dict[str, int], twice: list[str]
) -> None:
    found = yaml.read_yaml_document(f"a: {text}\n".encode())
    (merged,) = found.tree.value.values()
    assert {key[1]: part.value for key, part in merged.value.items()} == values
    assert [key for key, _line in found.merged_twice] == twice
