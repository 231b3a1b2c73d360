# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a banner travels: the program and its version, as engines print them; and that questions
arrive as they were asked.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    observe,
    question_kinds,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries, versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host

BANNERS = {
    "containerd github.com/containerd/containerd v1.7.24 88bf19b2": "1.7.24",
    "containerd github.com/containerd/containerd/v2 v2.0.1 secret": "2.0.1",
    "containerd containerd.io 1.7.25 bcc810d6": "1.7.25",
    "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1": "1.6.20~ds1",
    "crio version 1.34.0": "1.34.0",
    "Docker version 26.1.5+dfsg1, build a72d7cd": "26.1.5+dfsg1",
    "Kubernetes v1.31.4+k3s1": "1.31.4+k3s1",
    "token=abc 1.2.3": "",
    "password 1 2": "",
}


@pytest.mark.parametrize("line", BANNERS)
def test_a_banner_travels_as_far_as_its_version(line: str) -> None:
    found = re.search(queries.BANNER, line)
    shown = found.group() if found else ""
    assert versions.read_version_banner(shown) == (
        versions.read_version_banner(line) if BANNERS[line] else ""
    )
    assert BANNERS[line] in shown
    assert not {"88bf19b2", "secret", "bcc810d6", "a72d7cd", "token=abc"} & set(shown.split())


def test_no_question_about_a_command_asks_for_all_that_it_prints() -> None:
    assert queries.ask_for_command(["engine", "--version"])["shows"] == [queries.BANNER]
    assert (
        queries.ask_for_command(["engine", "config"], keep={"format": "toml", "places": []})[
            "shows"
        ]
        == []
    )


def test_a_host_reads_the_questions_that_were_asked() -> None:
    asked = seen_host.list_host_questions(Policy())
    sent = json.loads(json.dumps(queries.pack_questions(asked)))
    read = [observe._add_list(question, sent["keeps"]) for question in sent["questions"]]
    unsaid = [
        {key: value for key, value in queries.USUAL.items() if known.get(key) == value}
        for known in asked
    ]
    whole = [
        {**more, **question, "id": known["id"]}
        for question, known, more in zip(read, asked, unsaid, strict=True)
    ]
    assert whole == json.loads(json.dumps(asked))
    assert len({json.dumps(keep) for keep in sent["keeps"]}) == len(sent["keeps"]), "each list once"
    assert 3 * len(json.dumps(sent)) < 2 * len(json.dumps(asked))


def test_what_is_not_said_is_what_the_node_takes() -> None:
    assert question_kinds._get_file_options({}) == {
        "content": queries.USUAL["content"],
        "cap": queries.USUAL["max"],
        "keep": None,
    }


def test_an_answer_is_that_of_the_question_which_was_sent_with_its_number(tmp_path: Path) -> None:
    tmp_path.joinpath("there").write_text("")
    asked = [
        queries.ask_for_file(f"{tmp_path}/{name}", content=False) for name in ("there", "missing")
    ]
    answers = observe.run(queries.pack_questions(asked))["answers"]
    found = queries.name_sent_answers(
        {**answers, "2": {}, f"stat:{tmp_path}/missing": {"exists": True}}, asked
    )
    assert {name: answer["exists"] for name, answer in found.items()} == {
        f"stat:{tmp_path}/there": True,
        f"stat:{tmp_path}/missing": False,
    }


def test_a_list_of_paths_does_not_say_that_a_file_is_missing(tmp_path: Path) -> None:
    """The host's own answers: the driver's list of programs names a file, and says nothing that
    counts as its absence.
    """
    tmp_path.joinpath("program").write_text("")
    asked = [
        queries.ask_for_paths("programs", [f"{tmp_path}/*"]),
        queries.ask_for_file(f"{tmp_path}/program", content=False),
    ]
    obs = Observation({}, observe.run({"questions": asked})["answers"])
    assert obs.is_there(f"{tmp_path}/program")


TOML = {"format": "toml", "places": [["a"]]}
MORE = {"format": "toml", "places": [["b"]]}
BOTH = {"format": "toml", "places": [["a"], ["b"]], "comments": [], "patterns": []}
PRINT = ["engine", "config"]


def ask_where_absent(path: str) -> queries.Question:
    return queries.ask_where(
        queries.ask_for_probe("p", {}), absent=[path], present=["/dev"], each=("/a*", "/b*")
    )


WHERE_NEW = ask_where_absent("/new")
# Two questions with one id -> what the one that is sent asks for, in either order.
ASKED_TWICE = {
    "a command, with a list and without one": (
        queries.ask_for_command(PRINT), queries.ask_for_command(PRINT, keep=TOML), {"keep": TOML, "shows": []}),
    "a command, by two lists": (
        queries.ask_for_command(PRINT, keep=TOML), queries.ask_for_command(PRINT, keep=MORE), {"keep": BOTH, "shows": []}),
    "a command, for different lines": (
        queries.ask_for_command(PRINT, shows=("^a",)), queries.ask_for_command(PRINT, shows=("^b",), timeout=30),
        {"shows": ["^a", "^b"], "timeout": 30}),
    "a file, by two lists": (queries.ask_for_file("/f", TOML, max=9), queries.ask_for_file("/f", MORE), {"keep": BOTH, "max": 1 << 20}),
    "files, with what is in them and without it": (
        queries.ask_for_glob("/*.toml", TOML), queries.ask_for_glob("/*.toml", content=False), {"keep": TOML, "content": True}),
    "processes, for different flags": (
        queries.ask_for_processes(["p"], {"--a": "path"}), queries.ask_for_processes(["p"], {"--b": "path"}, {"V": "path"}),
        {"flags": {"--a": "path", "--b": "path"}, "environment": {"V": "path"}}),
    "an answer over HTTP, by two lists": (queries.ask_for_http("/s", "/x", TOML), queries.ask_for_http("/s", "/x", MORE), {"keep": BOTH}),
    "a directory": (queries.ask_for_directory("/d"), queries.ask_for_directory("/d"), {"kind": "dir"}),
    "a probe, of some hosts and of all": (WHERE_NEW, queries.ask_for_probe("p", {}), {"program": "p", "where": None}),
    "a probe, of hosts by one condition": (WHERE_NEW, dict(WHERE_NEW), {"where": WHERE_NEW["where"]}),
    "a probe, of hosts by two conditions": (WHERE_NEW, ask_where_absent("/old"), {"program": "p", "where": None}),
}  # fmt: skip


def _in_any_order(value: object) -> object:
    """Lists as sets: which question came first decides the order in them, and nothing else."""
    if isinstance(value, dict):
        return {key: _in_any_order(v) for key, v in value.items() if v != []}
    return {json.dumps(v) for v in value} if isinstance(value, list) else value


@pytest.mark.parametrize("case", ASKED_TWICE)
def test_two_questions_with_one_id_become_one_that_serves_both(case: str) -> None:
    one, other, wanted = ASKED_TWICE[case]
    for pair in ([one, other], [other, one], [one, other, one]):
        (asked,) = queries.merge_questions(pair)
        assert {key: _in_any_order(asked.get(key)) for key in wanted} == {
            key: _in_any_order(v) for key, v in wanted.items()
        }, pair
        unasked = {key for key, value in wanted.items() if value is None}
        assert set(asked) == {*one, *other} - unasked
