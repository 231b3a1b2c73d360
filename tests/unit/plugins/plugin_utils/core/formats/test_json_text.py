# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of a JSON text is our keys and nothing else, whatever the text looks like."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import edits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit import jsontexts

PATH = "/etc/docker/daemon.json"
RUNTIME = {"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}
ALL = {"features": {"cdi": True}, "default-runtime": "nvidia", **RUNTIME}
roomy = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# what it is: (before, wanted, after)
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "nothing there": ("", {"features": {"cdi": True}}, '{\n  "features": {\n    "cdi": true\n  }\n}\n'),
    "an empty object": ("{}\n", {"a": 1}, '{\n  "a": 1\n}\n'),
    "an empty object of two lines": ("{\n}", {"a": 1}, '{\n  "a": 1\n}'),
    "four blanks": ('{\n    "debug": true\n}\n', {"a": {"b": 1}}, '{\n    "a": {\n        "b": 1\n    },\n    "debug": true\n}\n'),
    "tabs": ('{\n\t"debug": true\n}\n', {"a": {"b": 1}}, '{\n\t"a": {\n\t\t"b": 1\n\t},\n\t"debug": true\n}\n'),
    "Windows": ('{\r\n  "debug": true\r\n}\r\n', {"a": 1}, '{\r\n  "a": 1,\r\n  "debug": true\r\n}\r\n'),
    "one line": ('{"debug": true, "x": 1}', {"a": {"b": [1, 2]}}, '{"a": {"b": [1, 2]}, "debug": true, "x": 1}'),
    "minified": ('{"debug":true,"x":1}', {"a": {"b": 1}}, '{"a":{"b":1},"debug":true,"x":1}'),
    "a member of a member": (
        '{"features": {"buildkit": true}}', {"features": {"cdi": True}}, '{"features": {"cdi": true, "buildkit": true}}',
    ),
    "a value that is another": ('{"features": {"cdi": false}}', {"features": {"cdi": True}}, '{"features": {"cdi": true}}'),
    "one is not true": ('{"a": 1}', {"a": True}, '{"a": true}'),
    "an empty member": ('{\n  "runtimes": {}\n}', {"runtimes": {"n": 1}}, '{\n  "runtimes": {\n    "n": 1\n  }\n}'),
    "null": ('{\n "runtimes": null\n}', {"runtimes": {"n": 1}}, '{\n "runtimes": {\n  "n": 1\n }\n}'),
    "a long number": ('{\n  "x": 12345678901234567\n}', {"a": 1}, '{\n  "a": 1,\n  "x": 12345678901234567\n}'),
    "blank lines": ('{\n\n  "x": "\\u00e9 é"\n\n}', {"a": 1}, '{\n\n  "a": 1,\n  "x": "\\u00e9 é"\n\n}'),
    "a byte order mark": ('\ufeff{"x": 1}', {"a": 1}, '\ufeff{"a": 1, "x": 1}'),
}  # fmt: skip


@pytest.mark.parametrize(("before", "wanted", "after"), CASES.values(), ids=CASES)
def test_what_is_written(before: str, wanted: dict[str, Any], after: str) -> None:
    doc, splices = json_text.merge_json_keys(json_text.parse_json_text(before, PATH), wanted)
    assert doc.text == after
    assert applied(before, splices) == after
    assert json_text.merge_json_keys(doc, wanted)[1] == ()


def applied(text: str, splices: Any) -> str:
    """As the executor does it: lines of bytes, the last edit first."""
    lines = edits.split_lines(text.encode())
    for edit in sorted(
        json_text.list_json_edits(text, splices), key=lambda e: e["start"], reverse=True
    ):
        lines[edit["start"] : edit["end"]] = [edit["text"].encode()]
    return b"".join(lines).decode()


ours = st.sampled_from(
    [
        ALL,
        RUNTIME,
        {"features": {"cdi": True}},
        {"default-runtime": "nvidia"},
        {"a": {"b": {"c": []}}, "d": [1, "x"]},
    ]
)
known = st.fixed_dictionaries(
    {},
    optional={
        "features": st.dictionaries(
            st.sampled_from(["cdi", "buildkit", "containerd-snapshotter"]),
            st.booleans(),
            max_size=2,
        ),
        "runtimes": st.dictionaries(
            st.sampled_from(["kata", "nvidia"]), st.just({"path": "/opt/x"}), max_size=2
        ),
        "default-runtime": st.sampled_from(["runc", "nvidia"]),
    },
)
trees = st.builds(lambda a, b: {**a, **b}, jsontexts.objects, known)


@roomy
@given(tree=trees, style=jsontexts.styles, wanted=ours)
@example(
    tree={"": ""},
    style=jsontexts.Style("\n", "  ", ":", False, True, False, ("", ""), False),
    wanted=RUNTIME,
)
@example(
    tree={"d": {"x": 5}},
    style=jsontexts.Style("\n", "  ", ":", False, True, False, ("", ""), False),
    wanted={"d": [1, "x"]},
)
def test_the_value_afterwards_is_that_from_before_and_ours(
    tree: Any, style: jsontexts.Style, wanted: Any
) -> None:
    text = jsontexts.written(tree, style)
    before = json_text.parse_json_text(text, PATH)
    assert before.data == json.loads(text.removeprefix(jsontexts.BYTE_ORDER_MARK))
    after, splices = json_text.merge_json_keys(before, wanted)
    assert json.loads(
        after.text.removeprefix(jsontexts.BYTE_ORDER_MARK)
    ) == json_text.apply_json_keys(before.data, wanted)
    assert applied(text, splices) == after.text
    assert json_text.merge_json_keys(after, wanted)[1] == ()
    kept = text
    for splice in sorted(splices, key=lambda s: s.start, reverse=True):
        kept = kept[: splice.start] + kept[splice.end :]
        if splice.start != splice.end:
            gone = text[splice.start : splice.end].strip()
            assert gone == "" or json.loads(gone) in replaceable(before.data, wanted)
    assert subsequence(kept, after.text)


def replaceable(before: Any, wanted: Any) -> list[Any]:
    """The values that have to go: each stands where another is wanted. An empty object is written
    again with what comes into it.
    """
    if before == {} or not (isinstance(before, dict) and isinstance(wanted, dict)):
        return [before]
    return [
        value for key in wanted if key in before for value in replaceable(before[key], wanted[key])
    ]


def subsequence(part: str, whole: str) -> bool:
    signs = iter(whole)
    return all(sign in signs for sign in part)


@roomy
@given(
    tree=jsontexts.objects.filter(lambda tree: not set(tree) & {"features", "runtimes"}),
    style=jsontexts.styles,
)
def test_what_was_inserted_is_taken_out_to_the_byte(tree: Any, style: jsontexts.Style) -> None:
    before = json_text.parse_json_text(jsontexts.written(tree, style), PATH)
    after, _splices = json_text.merge_json_keys(before, {"features": {"cdi": True}, **RUNTIME})
    back = json_text.remove_member(json_text.remove_member(after, ("runtimes",)), ("features",))
    assert back.data == before.data
    if before.data:
        assert back.text == before.text


@roomy
@given(tree=trees, style=jsontexts.styles, key=st.integers(0, 5))
def test_any_member_can_go(tree: Any, style: jsontexts.Style, key: int) -> None:
    doc = json_text.parse_json_text(jsontexts.written(tree, style), PATH)
    names = list(doc.data)
    if names:
        gone = names[key % len(names)]
        assert json_text.remove_member(doc, (gone,)).data == {
            k: v for k, v in doc.data.items() if k != gone
        }


WRONG: dict[str, tuple[str, str]] = {
    "a comment": ('{\n  // ours\n  "a": 1}', ":2: this is not valid JSON: '/' where a key in quotes is expected"),
    "a comment first": ("# ours\n{}", ":1: this is not valid JSON: it has no comments"),
    "a comma at the end": ('{"a": 1,\n}', ":2: this is not valid JSON: '}' where a key in quotes is expected"),
    "no end": ('{"a": {', ":1: this is not valid JSON: the end of the file where a key in quotes is expected"),
    "no comma": ('{"a": 1\n"b": 2}', ":2: this is not valid JSON: '\"' where a comma or } has to be"),
    "single quotes": ("{'a': 1}", ":1: this is not valid JSON: \"'\" where a key in quotes is expected"),
    "no colon": ('{"a" 1}', ":1: this is not valid JSON: '1' where a colon is expected"),
    "a word": ('{"a": yes}', ":1: this is not valid JSON: 'y' where a value is expected"),
    "a zero first": ('{"a": 01}', ":1: this is not valid JSON: '1' where a comma or } has to be"),
    "a raw tab in a string": ('{"a": "\t"}', ":1: this is not valid JSON: a string without an end"),
    "an open list": ('{"a": [1, 2', ":1: this is not valid JSON: the end of the file where a comma or ] has to be"),
    "a list": ("[1]", ":1: this is not a JSON object"),
    "a string": ('"x"', ":1: this is not a JSON object"),
    "null": ("null", ":1: this is not a JSON object"),
    "something behind it": ("{}\n{}", ":2: there is text after the end of the JSON object: '{'"),
    "twice": ('{"a": 1,\n "b": {"c": 1,\n "c": 2}}', ':3: the key "c" occurs twice'),
    "twice, once escaped": ('{"a": 1, "\\u0061": 2}', ':1: the key "a" occurs twice'),
    "too deep": ('{"a": ' + "[" * 5000 + "]" * 5000 + "}", ":1: it is nested more than 100 levels deep"),
    "a number without end": ('{"a": ' + "1" * 5000 + "}", ":1: this number has more than 1000 characters"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), WRONG.values(), ids=WRONG)
def test_what_is_no_configuration_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(PlanError) as caught:
        json_text.parse_json_text(text, PATH)
    assert str(caught.value).startswith(PATH + says), str(caught.value)
    assert caught.value.next


@roomy
@given(st.text(max_size=40) | st.text(st.sampled_from('{}[]",:\\u0e1 \n-.tfn'), max_size=30))
def test_it_reads_what_a_strict_reader_reads(text: str) -> None:
    try:
        theirs = json.loads(text, parse_constant=lambda _word: 1 / 0, object_pairs_hook=single)
    except (ValueError, ZeroDivisionError):
        theirs = None
    try:
        ours = json_text.parse_json_text(text, PATH)
    except PlanError:
        assert not isinstance(theirs, dict)
        return
    assert ours.root is None or ours.data == theirs


def single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _value in pairs}) != len(pairs):
        raise ValueError
    return dict(pairs)
