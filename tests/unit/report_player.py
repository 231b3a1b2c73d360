# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays a report: runs its tasks on its host with the real actions and programs, and judges result,
files and a second run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.unit import public_reports, report_hosts
from tests.unit.bare_trees import State, Tree
from tests.unit.public_reports import Content, Report, Task

CONTROLLER = report_hosts.CONTROLLER


def play(report: Report, root: Path, show: Callable[[str], None] = lambda _text: None) -> list[str]:
    """Return what is wrong, [] for nothing. show: takes each result as lines."""
    wrong: list[str] = []
    with report_hosts.built(report, root) as host:
        first = host.tree.state()
        for number, task in enumerate(report.tasks, 1):
            earlier = {"original": first, "unchanged": host.tree.state()}
            result = _run(host, task)
            told = lines(result)
            show(told)
            found = [
                *judge(task, result, told),
                *judge_files(task, earlier, host.tree),
                *_judge_second_run(host, task),
            ]
            wrong += [f"task {number} ({task.module}): {text}" for text in found]
    return wrong


def _run(host: report_hosts.Host, task: Task) -> dict[str, Any]:
    before = os.umask(int(task.umask, 8))
    try:
        return host.task(
            task.module, {key: _option(value) for key, value in task.options.items()}, task.check
        )
    finally:
        os.umask(before)


def _option(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        return (public_reports.PLACE / value[1:]).read_text(encoding="utf-8")
    return value


def _judge_second_run(host: report_hosts.Host, task: Task) -> Iterator[str]:
    if task.expect.outcome == "changed" and not task.check:
        before, again = host.tree.state(), _run(host, task)
        if again.get("failed") or again["changed"] or host.tree.state() != before:
            yield f"the second run is not unchanged: {short(lines(again))}"


# ---------------------------------------------------------------- the judgement


def lines(value: Any, place: str = "") -> str:
    """Return a result as lines, `place: text` for each value.

    The diff, which has the content of files, is left out.
    """
    if isinstance(value, Mapping):
        kept = {key: inner for key, inner in value.items() if place or key != "diff"}
        return "".join(
            lines(inner, f"{place}.{key}" if place else str(key)) for key, inner in kept.items()
        )
    if isinstance(value, (list, tuple)):
        return "".join(lines(inner, place) for inner in value)
    return f"{place}: {value}\n"


def short(told: str) -> str:
    """Return the lines that a person reads first."""
    kept = [
        line
        for line in told.splitlines()
        if line.startswith(("msg", "changed", "failed", "advice", "row.why"))
    ]
    return " | ".join(kept)[:2000]


def outcome(result: Mapping[str, Any]) -> str:
    """Name what became of a task."""
    if result.get("failed"):
        return "refused"
    if result["changed"]:
        return "changed"
    return "untouched" if result.get("row", {}).get("managed") is False else "unchanged"


def judge(task: Task, result: Mapping[str, Any], told: str) -> Iterator[str]:
    """Yield the differences of the result from what is right."""
    right, found = task.expect, outcome(result)
    if found != right.outcome:
        yield f"{found}, not {right.outcome}: {short(told)}"
    for code in sorted(set(right.codes) - find_codes(told)):
        yield f"has no message {code}: {short(told)}"
    for pattern in right.says:
        if not re.search(pattern, told):
            yield f"says nothing of /{pattern}/: {short(told)}"
    for pattern in (*right.silent, CONTROLLER):
        if spoken := re.search(rf".*(?:{pattern}).*", told):
            yield f"speaks of /{pattern}/: {spoken[0][:400]}"


def find_codes(told: str) -> set[str]:
    """Return the codes of a result's messages: of its error, its differences and its advice.

    told: the result as lines.
    """
    fields = re.findall(r"(?m)^(?:[\w.]+\.)?code: (\S+)$", told)
    return {*fields, *re.findall(r"(?m)\[([a-z0-9-]+\.[a-z0-9-]+)\]$", told)}


def judge_files(task: Task, earlier: Mapping[str, State], tree: Tree) -> Iterator[str]:
    """Yield the differences of the files from what is right.

    A task that changes nothing leaves all bytes, modes and owners.
    """
    before, after = earlier["unchanged"], tree.state()
    if (task.check or task.expect.outcome != "changed") and after != before:
        yield f"files are not as before: {sorted(path for path in {*before, *after} if before.get(path) != after.get(path))}"
    for path, right in task.expect.files.items():
        if right.state in earlier:
            if after.get(path) != earlier[right.state].get(path):
                yield f"{path}: is not {right.state}: {after.get(path)}"
        elif (path in after) == (right.state == "absent"):
            yield f"{path}: is {'' if path in after else 'not '}there"
        elif path in after:
            yield from (f"{path}: {text}" for text in _judge_content(right, after[path]))


def _judge_content(right: Content, found: tuple[bytes | None, int, int, int]) -> Iterator[str]:
    text = (found[0] or b"").decode("utf-8", "replace")
    yield from (f"lacks {part!r}: {text[:3000]}" for part in right.has if part not in text)
    yield from (f"has {part!r}" for part in right.lacks if part in text)
    if right.mode and int(right.mode, 8) != found[1]:
        yield f"has the mode {found[1]:04o}, not {right.mode}"
