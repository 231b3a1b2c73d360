# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays a report: builds its host beneath a directory, runs its tasks there with the real actions and programs, and judges them.

Played are the device nodes, since no account but root can make any, the machine on which the tree lies, and the network.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ansible_collections.gpufleet.nvidia.plugins.action import online, transport
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node import host_files, observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.transaction import acknowledge
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.transaction import entry as transaction

from tests.tools import wire
from tests.unit import hardware, public_reports
from tests.unit.bare_trees import State, Tree
from tests.unit.public_reports import Content, Report, Task
from tests.unit.running_host import played_task

# No message about a tree may name the machine on which it lies.
CONTROLLER = "of-the-controller"
NODE_FIELDS = ("st_mode", "st_rdev", "st_uid", "st_gid", "st_size", "st_mtime", "st_ino", "st_dev", "st_nlink")
PROGRAMS: Mapping[str, Callable[[Any], Any]] = {
    "observe": observe.run,
    transport.MAIN["transaction"]: transaction.run,
    transport.MAIN["acknowledge"]: acknowledge.run,
}


def play(report: Report, root: Path, show: Callable[[str], None] = lambda _text: None) -> list[str]:
    """Give what is wrong, [] for nothing. show: takes each result as lines."""
    tree = Tree(root)
    build(report, tree)
    first = tree.state()
    wrong: list[str] = []
    with _played(report, root):
        for number, task in enumerate(report.tasks, 1):
            earlier = {"original": first, "unchanged": tree.state()}
            result = _run(report, task, root)
            told = lines(result)
            show(told)
            found = [*judge(task, result, told), *judge_files(task, earlier, tree), *_judge_second_run(report, task, tree)]
            wrong += [f"task {number} ({task.module}): {text}" for text in found]
    return wrong


def _judge_second_run(report: Report, task: Task, tree: Tree) -> Iterator[str]:
    if task.expect.outcome == "changed" and not task.check:
        before, again = tree.state(), _run(report, task, tree.root)
        if again.get("failed") or again["changed"] or tree.state() != before:
            yield f"the second run is not unchanged: {short(lines(again))}"


# ---------------------------------------------------------------- the host


def build(report: Report, tree: Tree) -> None:
    """Make the files, links and directories of a report's host."""
    seen = report.hardware
    if (report.place / "tree").is_dir():
        shutil.copytree(report.place / "tree", tree.root, symlinks=True, dirs_exist_ok=True)
    for path, text in {**(hardware.files(seen) if seen else {}), **report.files}.items():
        tree.write(path, text)
    for path in [*(hardware.directories(seen) if seen else ()), *report.directories]:
        tree.path(path).mkdir(parents=True, exist_ok=True)
    for path, target in {**(hardware.links(seen) if seen else {}), **report.links}.items():
        tree.path(path).parent.mkdir(parents=True, exist_ok=True)
        tree.path(path).symlink_to(target)
    for path in hardware.devices(seen) if seen else ():
        tree.write(path, "")
    _set_modes(tree.root)
    programs = {path: "0755" for path in (seen.bins if seen else ())}
    for path in programs:
        tree.write(path, "")
    for path, mode in {**programs, **report.modes}.items():
        tree.path(path).chmod(int(mode, 8))


def _set_modes(root: Path) -> None:
    """Give files and directories the same modes whatever the checkout's are; what may be executed stays so."""
    root.chmod(0o755)
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


@contextlib.contextmanager
def _played(report: Report, root: Path) -> Iterator[None]:
    """Play what a tree of an account's own cannot have."""
    nodes = {f"{root}{path}": node for path, node in (hardware.devices(report.hardware) if report.hardware else {}).items()}
    real_lstat = host_files.lstat

    def lstat(tree_root: str, path: str) -> Any:
        found, node = real_lstat(tree_root, path), nodes.get(host_files.full(tree_root, path))
        if found is None or node is None:
            return found
        numbers = {"st_mode": 0o020000 | node.mode, "st_rdev": os.makedev(node.major, node.minor), "st_gid": node.group}
        return SimpleNamespace(**{**{name: getattr(found, name) for name in NODE_FIELDS}, **numbers})

    system = SimpleNamespace(sysname="Linux", release=f"6.1.0-{CONTROLLER}", nodename=CONTROLLER, machine=report.machine)

    def fetch(_url: str) -> dict[str, Any]:
        return {"error": {"kind": "fetch", "message": "there is no network in tests"}}

    with (
        mock.patch.object(host_files, "lstat", lstat),
        mock.patch.object(os, "uname", return_value=system),
        mock.patch.object(online, "fetch", fetch),
    ):
        yield


# ---------------------------------------------------------------- a task


def _run(report: Report, task: Task, root: Path) -> dict[str, Any]:
    """Give the result of a whole action in the tree."""
    options = {"root": str(root), **{key: _option(value) for key, value in task.options.items()}, "transport": "stdin"}
    before = os.umask(int(task.umask, 8))
    try:
        return played_task(task.module, options, _by_stdin, _by_module, check=task.check)
    finally:
        os.umask(before)


def _option(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        return (public_reports.PLACE / value[1:]).read_text(encoding="utf-8")
    return value


def _by_stdin(_line: str, in_data: bytes) -> dict[str, Any]:
    job = wire.job(in_data)
    return {"rc": 0, "stdout": f"\n{job['marker']}{transport.pack(PROGRAMS[job['main']](job['request']))}\n", "stderr": ""}


def _by_module(**more: Any) -> dict[str, Any]:
    raise AssertionError(f"a task in a tree asks by stdin: {more}")


# ---------------------------------------------------------------- the judgement


def lines(value: Any, place: str = "") -> str:
    """Give a result as lines, `place: text` for each value. Left out is the diff, which has the content of files."""
    if isinstance(value, Mapping):
        kept = {key: inner for key, inner in value.items() if place or key != "diff"}
        return "".join(lines(inner, f"{place}.{key}" if place else str(key)) for key, inner in kept.items())
    if isinstance(value, (list, tuple)):
        return "".join(lines(inner, place) for inner in value)
    return f"{place}: {value}\n"


def short(told: str) -> str:
    """Give the lines that a person reads first."""
    kept = [line for line in told.splitlines() if line.startswith(("msg", "changed", "failed", "advice", "row.why"))]
    return " | ".join(kept)[:2000]


def outcome(result: Mapping[str, Any]) -> str:
    """Name what became of a task."""
    if result.get("failed"):
        return "refused"
    if result["changed"]:
        return "changed"
    return "untouched" if result.get("row", {}).get("managed") is False else "unchanged"


def judge(task: Task, result: Mapping[str, Any], told: str) -> Iterator[str]:
    """Compare the result with what is right."""
    right, found = task.expect, outcome(result)
    if found != right.outcome:
        yield f"{found}, not {right.outcome}: {short(told)}"
    for pattern in right.says:
        if not re.search(pattern, told):
            yield f"says nothing of /{pattern}/: {short(told)}"
    for pattern in (*right.silent, CONTROLLER):
        if spoken := re.search(rf".*(?:{pattern}).*", told):
            yield f"speaks of /{pattern}/: {spoken[0][:400]}"


def judge_files(task: Task, earlier: Mapping[str, State], tree: Tree) -> Iterator[str]:
    """Compare the files with what is right: a task that changes nothing leaves all bytes, modes and owners."""
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
