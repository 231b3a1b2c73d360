# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tomlkit judges every kind of edit: our key is as it was asked for, and all else it reads as
before, comments and order included.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fixtures import earlier_content as earlier
from tests.fixtures import public_configurations as public
from tests.unit import tomlkit_judge as judge
from tests.unit.toml_cases import PATHS, SETS, VALUES, texts, with_value

TEXTS = {row.file: row.text for row in (*public.CONTAINERDS, *public.CRIOS, *earlier.ROWS)}
V2, V3 = ("plugins", "io.containerd.grpc.v1.cri"), ("plugins", "io.containerd.cri.v1.runtime")
HANDLER = {
    "runtime_type": "io.containerd.runc.v2",
    "options": {"BinaryName": "/usr/bin/nvidia-container-runtime", "SystemdCgroup": True},
}


def require_the_same(before: toml.TomlDocument, after: toml.TomlDocument, *ours: toml.Path) -> None:
    was, now = judge.facts(before.text), judge.facts(after.text)
    headers = [
        path
        for path in judge.headers(now)
        if path not in judge.headers(was) and any(one[: len(path)] == path for one in ours)
    ]
    # ours: nothing but our key stands below them
    now = [fact for fact in now if not (fact[0] == "table" and fact[1] in headers)]
    assert judge.without(now, *ours) == judge.without(was, *ours)


@dc.dataclass(frozen=True)
class Edit:
    """One change that an engine's planner makes; the keys that it is about, beneath the engine's
    own table.
    """

    does: Callable[[toml.TomlDocument, toml.Path], toml.TomlDocument]
    about: toml.Path
    beneath: bool = True

    def path(self, names: toml.Path) -> toml.Path:
        return (*names, *self.about) if self.beneath else self.about


OURS = ("containerd", "runtimes", "zz-ours")
DEFAULT, SWITCH, DIRECTORIES = (
    ("containerd", "default_runtime_name"),
    ("enable_cdi",),
    ("cdi_spec_dirs",),
)
EDITS = {
    "a handler": Edit(lambda doc, path: toml.set_tree(doc, path, HANDLER), OURS),
    "the default handler": Edit(lambda doc, path: toml.set_value(doc, path, "zz-ours"), DEFAULT),
    "the switch of CDI": Edit(lambda doc, path: toml.set_value(doc, path, True), SWITCH),
    "a list": Edit(
        lambda doc, path: toml.set_value(doc, path, ["/etc/cdi", "/run/cdi"]), DIRECTORIES
    ),
    "one more import": Edit(
        lambda doc, path: toml.append(doc, path, "/etc/containerd/conf.d/*.toml"),
        ("imports",),
        beneath=False,
    ),
    "one more import in a directory": Edit(
        lambda doc, path: toml.append(doc, path, "/x"), ("crio", "image", "zz"), beneath=False
    ),
}


def names(data: Any) -> toml.Path:
    return next(
        (path for path in (V3, V2) if toml.look_up_toml(data, path) is not None),
        ("crio", "runtime"),
    )


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("file", sorted(TEXTS))
def test_in_configurations_of_node_images_all_else_is_read_as_before(file: str, edit: Edit) -> None:
    """Also when the key is taken out again."""
    before = toml.parse_toml(TEXTS[file], file)
    path = edit.path(names(before.data))
    after = edit.does(before, path)
    require_the_same(before, after, path)
    assert judge.data(after.text) == after.data
    require_the_same(before, toml.remove_toml_key(toml.parse_toml(after.text, file), path), path)


@pytest.mark.parametrize(("text", "key", "value", "_wanted"), SETS.values(), ids=SETS)
def test_by_the_rows_of_the_table(text: str, key: str, value: Any, _wanted: str) -> None:
    text = text.removeprefix("\ufeff")
    path = tuple(key.split("/"))
    before = toml.parse_toml(text, "f.toml")
    after = toml.set_value(before, path, value)
    assert judge.data(after.text) == with_value(judge.data(text), path, value)
    require_the_same(before, after, path)


@given(texts(), PATHS, VALUES)
def test_a_key_that_is_set_is_all_that_differs(text: str, path: toml.Path, value: Any) -> None:
    before = toml.parse_toml(text, "f.toml")
    try:
        after = toml.set_value(before, path, value)
    except toml.TomlError:
        assume(False)
    assert judge.data(after.text) == with_value(judge.data(text), path, value)
    require_the_same(before, after, path)


def paths(data: Any, above: toml.Path = ()) -> list[toml.Path]:
    """All keys and tables."""
    inner = data.items() if isinstance(data, dict) else ()
    return [
        path for name, value in inner for path in ((*above, name), *paths(value, (*above, name)))
    ]


@given(texts(), st.data())
def test_a_key_that_is_removed_is_all_that_is_gone(text: str, draws: st.DataObject) -> None:
    """The comments of a table go with it."""
    before = toml.parse_toml(text, "f.toml")
    path = draws.draw(st.sampled_from(paths(before.data) or [("none",)]))
    after = toml.remove_toml_key(before, path)
    kept, left = (
        judge.without(judge.facts(before.text), path),
        judge.without(judge.facts(after.text), path),
    )
    assert [fact for fact in left if fact[0] != "comment"] == [
        fact for fact in kept if fact[0] != "comment"
    ]
    assert not [
        fact
        for fact in judge.facts(after.text)
        if fact[0] == "value" and fact[1][: len(path)] == path
    ]


def test_the_judge_sees_what_an_edit_must_not_do() -> None:
    """Each of these texts differs from the first outside the key a.x, and only by a comment, an
    order or a spelling in most.
    """
    first = '# one\n[a]\nx = 1 # two\ny = "b"\n[c]\nz = 0x10\n'
    same = '# one\n[a]\ny = "b"\nx = 2 # two\n[c]\nz = 0x10\n'
    assert judge.without(judge.facts(first), ("a", "x")) != judge.without(
        judge.facts(same), ("a", "x")
    ), "a comment went to another place"
    for other in (
        first.replace("# one", "# 1"),
        first.replace(" # two", ""),
        first.replace('"b"', "'b'"),
        first.replace("0x10", "16"),
        '# one\n[c]\nz = 0x10\n[a]\nx = 1 # two\ny = "b"\n',
        first.replace("[c]", "[ c ]\n# three"),
    ):
        assert judge.without(judge.facts(first), ("a", "x")) != judge.without(
            judge.facts(other), ("a", "x")
        )
    assert judge.without(judge.facts(first), ("a", "x")) == judge.without(
        judge.facts(first.replace("x = 1", "x = [3, 4]")), ("a", "x")
    )
