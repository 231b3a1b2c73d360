# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rule an answer breaks, by the kind of its query, and that nothing of the host is said with
it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.shapes import (
    common,
    edge,
    observer,
    programs,
    rules,
)

from tests.unit import answered

TEMPLATE = "{{ lookup('pipe', 'id') }}"
STAT = queries.ask_for_file("/secret", content=False)
FILE = {"exists": True, "type": "file", "mode": 0o644, "uid": 0, "mtime": 1.5}
UNITS = queries.ask_for_units(["a.service"])
WHICH = queries.ask_for_program(["x"])
STATUS = queries.ask_for_cri("/run/secret.sock")
CRI = {
    "service": "runtime.v1.RuntimeService",
    "runtime": {},
    "handlers": [],
    "conditions": [],
    "peer": 1,
}
SAID: Mapping[str, tuple[dict[str, Any], Any, str]] = {
    "a template for a number": (STAT, {**FILE, "mode": TEMPLATE}, "file: mode: not an integer between 0 and 4095"),
    "true for a number": (STAT, {**FILE, "uid": True}, "file: uid: not an integer between 0 and 4294967295"),
    "a number for true": (STAT, {**FILE, "exists": 1}, "file: exists: not true or false"),
    "a mode with more than its bits": (STAT, {**FILE, "mode": 0o10000}, "file: mode: not an integer between 0 and 4095"),
    "nothing at all": (STAT, {}, "file: has none of exists, error"),
    "no table": (STAT, [TEMPLATE], "file: not a table"),
    "NaN": (STAT, {**FILE, "mtime": float("nan")}, "file: mtime: not a number between -9223372036854775808 and 9223372036854775808"),
    "half a pair": (STAT, {**FILE, "exists": True, "owner": "\ud800"}, "file: owner: not text that UTF-8 can write"),
    "bytes that are no base64": (
        STAT, {**FILE, "encoding": "base64", "content": "é"}, "file: content: not base64 of at most 8388608 characters"
    ),
    "a type that no file has": (STAT, {**FILE, "type": "x"}, "file: type: not one of file, dir, link, char, block, fifo, socket"),
    "an error with no words": (UNITS, {"error": {"kind": "x"}}, "units: error: message: is missing"),
    "an error that is text": (UNITS, {"error": TEMPLATE}, "units: error: not a table"),
    "words for a number of systemd's": (
        UNITS, {"units": {"a.service": {"MainPID": TEMPLATE}}, "monotonic": 1},
        "units: units: *: MainPID: not at most 20 decimal digits"
    ),
    "another unit than the one asked for": (
        UNITS, {"units": {"b.service": {}}, "monotonic": 1}, "units: units: lacks one of the query's names"
    ),
    "a path that is too long": (
        WHICH, {"found": {"x": "/" * 4097}, "programs": {}}, "which: found: *: not text of at most 4096 characters"
    ),
    "a runtime's value at no listed place": (
        STATUS, {**CRI, "info": {"config": {"secret": "x"}}}, "cri Status: info: not the listed values, each with its shape"
    ),
    "an answer of another kind": (STATUS, FILE, "cri Status: service: is missing"),
    "a GPU's name": (
        queries.ask_for_probe("nvml", {}),
        {"value": {"source": "x", "driver_version": "1", "errors": [], "gpus": [
            {"index": 0, "minor": 0, "uuid": "", "bus_id": "0000:01:00.0", "name": "x" * 257, "mig": None, "migs": []}]}},
        "probe nvml: value: gpus: []: name: not text of at most 256 characters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_an_answer_of_another_shape(case: str) -> None:
    question, given, says = SAID[case]
    with pytest.raises(rules.BrokenShape) as caught:
        edge.read_query_answer(question, given)
    assert str(caught.value) == says


def test_what_was_not_asked_for_is_dropped_and_what_was_not_answered_is_an_error() -> None:
    look = {
        "schema": 1,
        "host": {**answered.HOST, "more": 1},
        "answers": {"0": {**FILE, "more": TEMPLATE}, "1": TEMPLATE, "x": 1},
    }
    found = edge.read_look_answers(look, [STAT])
    assert found == {"schema": 1, "host": answered.HOST, "answers": {STAT["id"]: FILE}}
    with pytest.raises(rules.BrokenShape, match="units: is missing"):
        edge.read_look_answers({**look, "answers": {"0": FILE}}, [STAT, UNITS])


def test_a_host_may_leave_out_what_not_every_host_is_asked() -> None:
    some = {**UNITS, "where": {"absent": ["/etc/x"], "present": [], "each": ["/a", "/b"]}}
    look = {"schema": 1, "host": answered.HOST, "answers": {"0": FILE}}
    assert list(edge.read_look_answers(look, [STAT, some])["answers"]) == [STAT["id"]]


PACKAGES = queries.ask_for_packages_like("x", ".*")
LIKE: list[tuple[str, Any, str]] = [
    # the key of an answer about packages, its value, the rule that it breaks
    ("like", [["libx:i386", "1.0-1", "a <b@c>", True, ""]], ""),
    ("half", [["libx", "unpacked", True]], ""),
    ("half", [["libx", "unpacked"]], "half"),
    ("half", [["libx", "unpacked", "yes"]], "half"),
    ("half", [["libx", "installed", False]], "half"),
    ("empty", ["libx"], ""),
    ("empty", [5], "empty"),
    ("empty", "libx", "empty"),
]


@pytest.mark.parametrize(("key", "value", "rule"), LIKE)
def test_what_a_host_may_say_of_packages(key: str, value: Any, rule: str) -> None:
    answer = {"manager": "dpkg", "installed": {}, "candidates": {}, key: value}
    if rule:
        with pytest.raises(rules.BrokenShape, match=rf"package: {rule}: "):
            edge.read_query_answer(PACKAGES, answer)
    else:
        assert edge.read_query_answer(PACKAGES, answer)[key] == value


@pytest.mark.parametrize("name", programs.ROWS)
@pytest.mark.parametrize("given", [{}, [], None, TEMPLATE, {"schema": True}, {"schema": 2}])
def test_an_answer_of_a_program_that_is_none(name: str, given: Any) -> None:
    with pytest.raises(PlanError, match=rf"{name}: .*\[transport.answer-shape\]$") as caught:
        host_answers.judge_answer(lambda: edge.read_program_result(name, {"cases": []}, given))
    assert "lookup" not in str(caught.value)


ROW = {"name": "libcuda1", "arch": "amd64", "version": "535"}
KEPT = {**ROW, "file": "x.deb", "sha256": "0", "size": 1}
LISTED: list[tuple[str, dict[str, Any], int]] = [
    # a list of an answer, an item of it, how many a host has at most
    ("kept", KEPT, programs.MOST_KEPT),
    ("left", {**ROW, "why": "gone"}, programs.MOST_LEFT),
    ("ran", {"argv": ["apt-mark", "unhold"], "rc": 0}, programs.MOST_RELEASES),
]


@pytest.mark.parametrize(("name", "item", "most"), LISTED)
def test_a_host_keeps_no_more_packages_than_it_has(
    name: str, item: dict[str, Any], most: int
) -> None:
    """All of them are in a result, which Ansible keeps for each host of a run."""
    answer: dict[str, Any] = {
        "schema": 1, "state": "", "again": False, "refused": False, "unread": False, "rollout": "",
        "kept": [], "left": [], "ran": [], "error": None,
    }  # fmt: skip
    answer[name] = [item] * most
    assert edge.read_program_result("kept_packages", {}, answer)[name] == answer[name]
    answer[name].append(item)
    with pytest.raises(rules.BrokenShape):
        edge.read_program_result("kept_packages", {}, answer)


def test_every_kind_of_query_has_a_row() -> None:
    asked = {
        "file",
        "certificates",
        "dir",
        "glob",
        "paths",
        "mentioned",
        "tags",
        "which",
        "command",
        "package",
        "units",
        "processes",
        "holders",
    }
    kinds = {name.partition(" ")[0] for name in observer.ROWS}
    assert kinds == asked | {"cri", "http", "originals", "probe"}
    assert set(programs.ROWS) | {"observe"} == set(transport.PROGRAMS)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -Infinity}',
        "[" * 65 + "]" * 65,
        '{"a":' * 65 + "1" + "}" * 65,
        '{"a": "[[["',
        "[1",
    ],
)
def test_json_that_is_none_or_too_deep(text: str) -> None:
    with pytest.raises(PlanError):
        host_answers.unpack_answer(base64.b64encode(zlib.compress(text.encode())).decode())


def test_brackets_within_text_are_no_depth() -> None:
    assert host_answers.unpack_answer(host_answers.pack({"a": "[" * 100, "b": ['\\"[' * 100]})) == {
        "a": "[" * 100,
        "b": ['\\"[' * 100],
    }


@pytest.mark.parametrize("length", [0, 4096, 4097, 1 << 20])
def test_what_the_node_cuts_passes(length: int) -> None:
    said = host_files.HostError("failed", "é" * length).build_answer()
    assert edge.read_query_answer(UNITS, said) == said
    text = said["error"]["message"]
    assert (text == "é" * length) == (length <= common.MESSAGE.most), "what is cut says so"
    assert host_files.cut_texts({"a": ["é" * length, 1, None, True]}) == {
        "a": [text, 1, None, True]
    }
