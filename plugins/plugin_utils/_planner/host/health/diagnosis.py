# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask for NVIDIA's short diagnosis of a host's GPUs, and read what it printed.

A diagnosis that did not end with a result is not known, and is never taken for passed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    messages,
)

DIAGNOSIS = ("dcgmi", "diag", "-r", "1")
DIAGNOSIS_SECONDS = 300
# Where dcgmi connects to without `--host`. Any user may listen there while no nv-hostengine does,
# and the protocol knows no password. dcgmi is root's, so it is not even run then. That a socket is
# root's proves little: root of a container with the host's network has one, and so does
# docker-proxy for a port that a container publishes. Root of a user namespace has another number in
# the kernel's table.
PORT = 5555
SERVER = "nv-hostengine"
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
MOST_TESTS = 64  # that failed: twice as many as DCGM has in all
# A line of its table, `| NVML Library | Pass |`; of a GPU since DCGM 4, `| | GPU0: Fail |`.
# A name is words with spaces between them. So a line of any length can be read in only one way.
VERDICT = re.compile(
    r"^\|\s*(?:(?P<test>[\w/()-]+(?: +[\w/()-]+)*)\s*)?\|\s*(?:GPU ?\d+: )?(?P<verdict>Pass|Fail|Warn|Skip)\b",
    re.IGNORECASE,
)


def ask_for_server() -> queries.Question:
    """Ask who listens where dcgmi connects to."""
    args = {"port": PORT, "tables": list(TABLES), "program": SERVER}
    return queries.ask_for_probe("listeners", args)


def list_server_questions() -> list[queries.Question]:
    """List the questions about the server. Its socket is asked last, after minutes of diagnosis."""
    return [queries.ask_for_processes([SERVER]), ask_for_server()]


def explain_no_server(obs: Observation) -> str:
    """Return why the diagnosis is not run, '' if root's nv-hostengine alone listens where dcgmi
    connects to.
    """
    answers = [obs.get_answer_or_error(question) for question in list_server_questions()]
    failed = next((answer["error"] for answer in answers if "error" in answer), None)
    if failed:
        cause = failed.get("message") or ""
        return messages.DIAGNOSIS_SERVER_UNKNOWN.fill(port=PORT, cause=cause)
    processes, value = answers[0]["processes"], answers[1]["value"]
    listeners = value["listeners"]
    others = [entry["uid"] for entry in listeners if entry["uid"] != 0]
    if others:
        return messages.DIAGNOSIS_OTHER_SERVER.fill(uid=others[0], port=PORT)
    if not listeners:
        return messages.DIAGNOSIS_NO_SERVER.fill(port=PORT)
    verified = {process["pid"] for process in processes if process.get("verified")}
    if not all(verified & set(entry["pids"]) for entry in listeners):
        return messages.DIAGNOSIS_UNVERIFIED_SERVER.fill(port=PORT)
    return "" if value["reached"] else messages.DIAGNOSIS_DIVERTED.fill(port=PORT)


def describe_unmade_diagnosis(why: str) -> dict[str, Any]:
    """Return the result of a diagnosis that was not made, or that does not count."""
    return {"known": False, "why": why, "code": get_code(why), "failed": []}


def ask_for_diagnosis() -> queries.Question:
    return queries.ask_for_command(
        list(DIAGNOSIS),
        timeout=DIAGNOSIS_SECONDS,
        shows=(VERDICT.pattern.replace("^", "(?i)^", 1),),
    )


def read_diagnosis(obs: Observation, before: Observation) -> dict[str, Any]:
    """Return the result of the diagnosis.

    `known` is False if it did not end with a result, and `why` and `code` have the reason. before:
    the look that has shown the server which was to be asked.
    """
    other = explain_no_server(obs) or (
        ""
        if obs.get_answer(ask_for_server())["value"] == before.get_answer(ask_for_server())["value"]
        else messages.DIAGNOSIS_SERVER_CHANGED.fill(port=PORT)
    )
    if other:
        return describe_unmade_diagnosis(other)
    return read_verdicts(obs)


def read_verdicts(obs: Observation) -> dict[str, Any]:
    """Return the result that dcgmi printed."""
    answer = obs.get_answer_or_error(ask_for_diagnosis())
    failed, verdicts = list_failed_tests(str(answer.get("stdout") or ""))
    known = bool(failed) or (answer.get("rc") == 0 and verdicts > 0)
    why = explain_no_diagnosis(answer) or ("" if known else explain_no_verdict(answer))
    return {
        "known": not why,
        "why": why,
        "code": get_code(why),
        "failed": failed if not why else [],
    }


def explain_no_diagnosis(answer: Mapping[str, Any]) -> str:
    """Return why the diagnosis did not come to an end, '' if it did."""
    command = " ".join(DIAGNOSIS)
    if "error" in answer:
        said = answer["error"].get("message")
        cause = str(said) if said else messages.DIAGNOSIS_UNSAID.fill(command=command)
        return messages.DIAGNOSIS_NOT_RUN.fill(cause=cause)
    if answer.get("timed_out"):
        return messages.DIAGNOSIS_LATE.fill(command=command, seconds=DIAGNOSIS_SECONDS)
    return ""


def explain_no_verdict(answer: Mapping[str, Any]) -> str:
    """Return why a diagnosis that came to an end has no result."""
    return messages.DIAGNOSIS_WITHOUT_RESULT.fill(
        command=" ".join(DIAGNOSIS), status=answer.get("rc")
    )


def list_failed_tests(table: str) -> tuple[list[str], int]:
    """Return the tests that failed, and the number of tests that were made (skipped ones do not
    count).

    A line without a name belongs to the test above it.
    """
    failed: dict[str, None] = {}
    test, verdicts = "", 0
    for said in filter(None, map(VERDICT.match, table.splitlines())):
        verdict = said["verdict"].lower()
        test, verdicts = said["test"] or test, verdicts + (verdict != "skip")
        if verdict == "fail" and len(failed) < MOST_TESTS:
            failed[test] = None
    return list(failed), verdicts
