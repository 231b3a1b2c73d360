# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what a host has found in its cases: the checks of a result, what to do about one that
failed, and the message of a failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.bounds import (
    shorten_text,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.names import (
    show_few_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    messages,
    runtime_words,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification.told_paths import (
    DRIVER_FILE,
    DRIVER_NAME,
)

LONGEST = 4096  # characters of an error, or of all problems of a case, that are shown or searched
MOST_SHOWN = 8  # of the problems of a case, and of the cases of a message
NOT_GIVEN = r"was requested and is not in the container"
# (words in the error or problem; "engine" or "engine injection", "" for all; what to do). All words
# of a row stand in the text, in any order. The first row that matches speaks. A host may choose the
# text, so each of the words is a search of its own, without a repetition that has no end: the
# controller's time grows with the text, and no faster.
ADVICE: tuple[tuple[tuple[str, ...], str, Sentence], ...] = (
    ((r"could not select device driver \"cdi\"",), "", messages.DOCKER_WITHOUT_CDI),
    (
        (r"(?i)unknown or invalid runtime name|unknown runtime specified",),
        "",
        messages.DOCKER_WITHOUT_RUNTIME,
    ),
    ((r"unresolvable CDI devices",), "", messages.DEVICE_UNRESOLVABLE),
    ((r"CDI support is explicitly disabled",), "", messages.CDI_OFF),
    ((r"no runtime for ", r" is configured"), "", messages.HANDLER_UNKNOWN),
    ((r"failed to find runtime handler",), "", messages.HANDLER_UNKNOWN),
    ((r"runtime handler ", r" not supported"), "", messages.HANDLER_UNKNOWN),
    ((r"unknown service runtime\.v1",), "", messages.ENGINE_WITHOUT_CRI),
    (
        (r"sandbox image|pause|pinging container registry|failed to (?:resolve|do request|pull)",),
        "",
        messages.NO_SANDBOX_IMAGE,
    ),
    ((r"nvidia-container-cli|nvidia-container-runtime-hook",), "", messages.HOOK_FAILED),
    ((r"executable file not found",), "", messages.NO_HANDLER_PROGRAM),
    ((r"nvidia-container-runtime", r"no such file"), "", messages.NO_HANDLER_PROGRAM),
    (
        (
            r"(?i)no such file or directory",
            rf"(?:mount(?:ing)?|stat|open|host device) [\"`']?{DRIVER_FILE}",
        ),
        "",
        messages.SPEC_FILE_GONE,
    ),
    ((rf"{DRIVER_NAME}[\"`']?: (?i:no such file or directory)",), "", messages.SPEC_FILE_GONE),
    ((r"nvidia-(?:ctk|cdi-hook): no such file or directory",), "", messages.SPEC_FILE_GONE),
    ((r"mknod: .{0,16}not found|/bin/sh",), "", messages.NO_SHELL),
    *((words, "", step) for words, step in runtime_words.list_next_steps()),
    ((r"create failed",), "", messages.READ_JOURNAL),
    ((r"No such file or directory|Connection refused|no answer to",), "", messages.SOCKET_SILENT),
    ((NOT_GIVEN,), "containerd native-cdi", messages.CDI_IGNORED),
    ((NOT_GIVEN,), "", messages.NOT_INJECTED),
    ((r"in the container, but opening it is refused",), "", messages.ACCESS_DENIED),
    ((r"can be opened although|and was not requested",), "", messages.MORE_THAN_REQUESTED),
    ((r"says nothing that matches",), "", messages.HOOK_NOT_CALLED),
    ((r"gRPC status \d",), "", messages.READ_JOURNAL),
    ((r"exit status \d",), traits.DOCKER, messages.DOCKER_BY_HAND),
    ((r"exit status \d",), traits.PODMAN, messages.PODMAN_BY_HAND),
)


def advise_on_case(engine: str, injection: str, text: str, manager: str = "") -> str:
    """Return what to do next about one error or problem; '' if nothing is known.

    Only the first LONGEST characters of the text count.
    """
    text = text[:LONGEST]
    if all(words in text for words in ("image ", " is not on this host")):
        way = known.get_manager_place(manager).load_image or traits.get_traits(engine).load_image
        return messages.LOAD_IMAGE.fill(way=way)
    for wanted, only, row in ADVICE:
        if only in ("", engine, f"{engine} {injection}") and all(
            re.search(words, text) for words in wanted
        ):
            return row.fill()
    return ""


def list_unverified_cases(planned: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cases as check mode shows them: what would be started and expected, without a
    verdict.
    """
    open_questions: dict[str, Any] = {"ok": None, "found": {}, "advice": ""}
    return [
        {
            **_describe_asked(c),
            **open_questions,
            "expected": {n["path"]: n["expect"] for n in c["nodes"]},
        }
        for c in planned
    ]


def list_case_evidence(
    planned: list[dict[str, Any]], answer: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the host's answers, each with its plan and advice: the `checks` of a result."""
    answers = {a["name"]: a for a in answer.get("cases") or ()}
    none = {"ok": False, "error": {"step": "run", "message": "the host returned no result"}}
    return [_add_advice(c, answers.get(c["name"]) or {"name": c["name"], **none}) for c in planned]


def _add_advice(case: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    next_step = (
        ""
        if found["ok"]
        else advise_on_case(
            case["engine"],
            case["injection"],
            describe_case_failure(found, LONGEST),
            case["manager"],
        )
    )
    return {**_describe_asked(case), "found": {}, **found, "advice": end_with_code(next_step)}


def _describe_asked(case: Mapping[str, Any]) -> dict[str, Any]:
    always = {k: case[k] for k in ("name", "engine", "injection", "why", "handler")}
    return {**always, **{k: case[k] for k in ("env", "annotations", "devices") if case.get(k)}}


def describe_case_failure(found: Mapping[str, Any], most: int = MOST_SHOWN) -> str:
    """Return what went wrong in one case, in one line; '' if nothing did.

    A host may have thousands of problems, so the text has at most LONGEST characters, and some more
    that tell how much was left out. most: the problems that are shown.
    """
    error = found.get("error")
    if error:
        return shorten_text(f"{error['step']}: {error['message']}", LONGEST)
    return shorten_text(show_few_texts(found.get("problems") or (), most, "; "), LONGEST)


def warn_of_further_starts(checks: list[dict[str, Any]]) -> str:
    """Return the warning about cases that were verified after they had been started again; '' if
    there are none.
    """
    late = [str(c["name"]) for c in checks if c["ok"] and c.get("again")]
    return messages.STARTED_AGAIN.fill(cases=", ".join(late)) if late else ""


def describe_unverified(checks: list[dict[str, Any]]) -> str:
    """Return the message of a failure; '' if every case is verified."""
    failed = [c for c in checks if not c["ok"]]
    if not failed:
        return ""
    alike: dict[tuple[str, str], list[str]] = {}  # engine and failure -> the cases
    for c in failed:
        engine, _colon, case = str(c["name"]).rpartition(": ")
        alike.setdefault((engine, describe_case_failure(c)), []).append(case)
    sentences = [
        ": ".join([*filter(None, [engine]), show_few_texts(cases, MOST_SHOWN), why])
        for (engine, why), cases in alike.items()
    ]
    said = shorten_text(show_few_texts(sentences, MOST_SHOWN, ". "), 2 * LONGEST)
    next_steps = dict.fromkeys(c["advice"] for c in failed if c.get("advice"))
    details = ". ".join([said, *(f"Next: {step}" for step in next_steps)])
    return messages.CHECKS_FAILED.fill(failed=len(failed), total=len(checks), details=details)
