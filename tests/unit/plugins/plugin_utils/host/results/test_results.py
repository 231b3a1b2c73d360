# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentence for a transaction that failed: its last part is the next step that helps."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import results

BY_HAND = "Run the command on the host by hand; nothing else was changed"
# Causes that are known of a command's output, and whether a person would learn more from running it
# again.
COMMANDS: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "nothing is known": ([], True),
    "another package manager": ([{"code": "package-lock"}], False),
    "a package that no repository has": (
        [{"code": "package-unknown", "name": "nvidia-container-toolkit-base"}],
        False,
    ),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_whose_cause_is_known_is_not_to_be_run_by_hand(case: str) -> None:
    found, by_hand = COMMANDS[case]
    answer = {
        "ran": [{"argv": ["apt-get", "install"], "rc": 100, "causes": found}],
        "error": {"phase": "command", "message": "apt-get ended with 100", "next": BY_HAND},
    }
    said = results.describe_answer_trouble(answer)
    assert (BY_HAND in said) is by_hand
    assert (get_code(said.values["step"]) == "transaction.correct-cause") is not by_hand
    assert said.code == "transaction.command"


@pytest.mark.parametrize(
    ("where", "shown"),
    [("/var/lib/gpufleet", ""), ("/var/lib/gpufleet/a1", "/var/lib/gpufleet/a1"), (None, "")],
)
def test_the_journals_directory_alone_is_no_place_of_an_error(
    where: str | None, shown: str
) -> None:
    """The sentence names the file that it is about."""
    error = {"phase": "expect", "message": "/etc/x: is a mount", "next": "", "where": where}
    said = results.describe_trouble({"error": error})
    assert said["error"]["where"] == shown
    assert ("/var/lib/gpufleet" in str(said)) is bool(shown)


# the end of an answer -> the parts of it that a person needs as evidence
SEEN: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "nothing": ({}, (0, 0, 0)),
    "all is well": (
        {"validation": [{"rc": 0}], "health": [{"ok": True}], "ran": [{"rc": 0}]},
        (0, 0, 0),
    ),
    "a validation was refused": (
        {"validation": [{"rc": 1}, {"findings": ["line 3"]}, {"rc": 0}]},
        (2, 0, 0),
    ),
    "a unit is not well": ({"health": [{"ok": True}, {"ok": False}]}, (0, 1, 0)),
    "a command failed": ({"ran": [{"rc": 0}, {"rc": 100}]}, (0, 0, 1)),
}


@pytest.mark.parametrize("case", SEEN)
def test_evidence_is_what_was_refused_or_failed(case: str) -> None:
    answer, numbers = SEEN[case]
    found = results.collect_evidence(answer)
    assert tuple(len(found[key]) for key in ("validation", "health", "commands")) == numbers


@pytest.mark.parametrize(
    ("drift", "shown"), [(False, ["gpu2", "gpu10"]), (True, ["gpu1", "gpu2", "gpu10"])]
)
def test_the_hosts_that_ansible_shows_as_failed_are_those_that_need_a_person(
    drift: bool, shown: list[str]
) -> None:
    hosts = {
        "gpu10": {"failed": True, "msg": "no space left"}, "gpu1": {"changed": True, "row": {"x": 1}},
        "gpu2": {"unreachable": True}, "gpu3": {"row": {"x": 1}},
    }  # fmt: skip
    found = outcomes.list_failures(hosts, True, drift)
    assert list(found) == shown
    assert (found["gpu10"], found["gpu2"]) == ("failed: no space left", "lost")


REFUSED = {"argv": ["containerd"], "rc": 1, "findings": ["line 3"]}
CAUSED = {**REFUSED, "causes": [{"code": "package-lock"}]}
BEFORE = {**REFUSED, "baseline_rc": 1}
WORDS: list[tuple[dict[str, Any], list[str]]] = [
    # the end of an answer, the beginning of each sentence
    ({}, []),
    ({"validation": [{"rc": 0}]}, []),
    ({"validation": [REFUSED]}, ["Check mode keeps none of its output"]),
    ({"validation": [REFUSED], "said": "/x"}, ["Its output is in /x on the host"]),
    ({"validation": [CAUSED], "said": "/x"}, ["Cause: "]),
    ({"validation": [BEFORE]}, ["The same program refuses", "Check mode keeps none of its output"]),
]


@pytest.mark.parametrize(("answer", "begins"), WORDS)
def test_why_a_program_refused_is_whole_sentences(
    answer: dict[str, Any], begins: list[str]
) -> None:
    said = results.list_refusal_words(answer)
    assert [text[: len(words)] for text, words in zip(said, begins, strict=True)] == begins
