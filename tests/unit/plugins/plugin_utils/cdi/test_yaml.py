# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML as engines read it, word by word. tests/integration/test_cdi_reference.py compares the same with their library."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view import schema, yaml


def value(text: str) -> Any:
    return next(iter(yaml.read(f"a: {text}\n".encode())[0].value.values())).value


# what is written: (what it is, the text where text belongs)
WORDS: dict[str, tuple[Any, str | None]] = {
    "0": (0, "0"),
    "0:1": ("0:1", "0:1"),
    "1:30": ("1:30", "1:30"),
    "08": (8.0, "8"),
    "010": (8, "8"),
    "0o10": (8, "8"),
    "0x1F": (31, "31"),
    "0b11": (3, "3"),
    "1_000": (1000, "1000"),
    "-5": (-5, "-5"),
    "+5": (5, "5"),
    "1.10": (1.1, "1.1"),
    "0.5.0": ("0.5.0", "0.5.0"),
    "1e3": (1000.0, "1000"),
    "1e6": (1e6, "1e+06"),
    "123456.5": (123456.5, "123456.5"),
    "16777217.0": (16777217.0, "1.6777216e+07"),
    "0.0001": (0.0001, "0.0001"),
    "0.00001": (0.00001, "1e-05"),
    "1e300": (1e300, "+Inf"),
    ".5": (0.5, "0.5"),
    ".inf": (float("inf"), "+Inf"),
    "yes": (True, "true"),
    "y": (True, "true"),
    "Off": (False, "false"),
    "yEs": ("yEs", "yEs"),
    "~": (None, None),
    "null": (None, None),
    "": (None, None),
    "''": ("", ""),
    "'08'": ("08", "08"),
    "2020-01-01": ("2020-01-01", "2020-01-01"),
    "MIG-1": ("MIG-1", "MIG-1"),
    "18446744073709551615": (18446744073709551615, "18446744073709551615"),
    "18446744073709551616": (1.8446744073709552e19, "1.8446744e+19"),
    "!!str 08": ("08", "08"),
    "!!float 1": (1.0, "1"),
    "!!int '7'": (7, "7"),
    "!x yes": ("yes", "yes"),
    "! yes": ("yes", "yes"),
    "!!binary aGk=": ("hi", "hi"),
    "&x 1": (1, "1"),
    ".nvidia": (".nvidia", ".nvidia"),
}


@pytest.mark.parametrize(("written", "is_", "text"), [(k, *v) for k, v in WORDS.items()], ids=[k or "nothing" for k in WORDS])
def test_words(written: str, is_: Any, text: str | None) -> None:
    found = value(written)
    assert (found, type(found)) == (is_, type(is_))
    assert text is None or schema.as_text(found) == text


REFUSED = {
    "!!int x": "'x' is no int",
    "!!bool 1": "'1' is no bool",
    "!!null x": "'x' is no null",
    "!!timestamp x": "'x' is no timestamp",
    "!!binary '%'": "this is no base64",
    "*x": "the anchor x is not known",
    "&x [*x]": "an anchor's value contains itself",
    "{a: 1, a: 2}": "the key a is there twice (first in line 1)",
    "{<<: 1}": "only a mapping can be merged",
    "{[a]: b}": "a key must be text",
    "[" * 200: "nested more than 100 levels deep",
    "\0": "",
    "'": "",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items(), ids=[repr(k)[:20] for k in REFUSED])
def test_refused(text: str, why: str) -> None:
    with pytest.raises(yaml.Unreadable) as refused:
        value(text)
    assert why in refused.value.message
    assert refused.value.line in (1, 2)


def bomb(levels: int) -> bytes:
    lines = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}' if i else 'x'] * 9)}]\n" for i in range(levels)]
    return "".join(lines).encode()


@pytest.mark.parametrize("levels", [9, 60])
def test_a_few_lines_that_stand_for_millions(levels: int) -> None:
    with pytest.raises(yaml.Unreadable, match="far more than what is written"):
        yaml.read(bomb(levels))


def test_lines() -> None:
    tree, more = yaml.read(b"a:\n  b: 1\n  c:\n  - d\n  - e\n---\nx\n")
    (a,) = tree.value.values()
    b, c = a.value.values()
    assert (a.line, b.line, c.line, [e.line for e in c.value], more) == (1, 2, 3, [4, 5], True)


def test_a_merge_may_add_but_not_change() -> None:
    merged = value("{<<: {b: 1}, c: 2}")
    assert {key[1]: tree.value for key, tree in merged.items()} == {"b": 1, "c": 2}
    with pytest.raises(yaml.Unreadable, match="the key b is there twice"):
        yaml.read(b"a: {<<: {b: 1}, b: 2}\n")
