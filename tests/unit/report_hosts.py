# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of reports: a tree with the host's files, or a host that runs beneath a directory
(running_host).

Played are the device nodes, the machine on which a tree lies, and the network; of a host that runs
also its engine and its programs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol
from unittest import mock

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import acknowledge
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
    online,
    transport,
)

from tests.tools import wire
from tests.unit import hardware, running_host, running_hosts
from tests.unit.bare_trees import Tree
from tests.unit.public_reports import Report

# No message about a tree may name the machine on which it lies.
CONTROLLER = "of-the-controller"
PROGRAMS: Mapping[str, Callable[[Any], Any]] = {
    "observe": observe.run,
    transport.MAIN["transaction"]: transaction_entry.run,
    transport.MAIN["acknowledge"]: acknowledge.run,
}


class Unplayable(Exception):
    """An error: no process may have a root of its own here, which a host that runs needs."""


class Host(Protocol):
    """A host on which tasks are run."""

    tree: Tree

    def task(self, module: str, options: dict[str, Any], check: bool) -> dict[str, Any]: ...


@contextlib.contextmanager
def built(report: Report, place: Path) -> Iterator[Host]:
    """Build the host of a report, and take it away. place: the directory for a tree."""
    with mock.patch.object(
        online,
        "fetch",
        return_value={"error": {"kind": "fetch", "message": "there is no network in tests"}},
    ):
        if report.running:
            yield from _running(report, place)
            return
        tree = Tree(place)
        build(report, tree)
        system = SimpleNamespace(
            sysname="Linux",
            release=f"6.1.0-{CONTROLLER}",
            nodename=CONTROLLER,
            machine=report.machine,
        )
        devices = running_host.with_devices(
            hardware.devices(report.hardware) if report.hardware else {}
        )
        with (
            mock.patch.object(host_files, "get_lstat", devices),
            mock.patch.object(os, "uname", return_value=system),
        ):
            yield TreeHost(tree)


class TreeHost:
    """A tree: another root directory, in which nothing runs."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def task(self, module: str, options: dict[str, Any], check: bool) -> dict[str, Any]:
        given = {"root": str(self.tree.root), **options, "transport": "stdin"}
        return running_host.played_task(module, given, self._by_stdin, self._by_module, check=check)

    def _by_stdin(self, _line: str, in_data: bytes) -> dict[str, Any]:
        job = wire.job(in_data)
        return {
            "rc": 0,
            "stdout": f"\n{job['marker']}{host_answers.pack(PROGRAMS[job['main']](job['request']))}\n",
            "stderr": "",
        }

    def _by_module(self, **more: Any) -> dict[str, Any]:
        raise AssertionError(f"a task in a tree asks by stdin: {more}")


class RunningHost:
    """A host that runs: its own root, its engine, its programs."""

    def __init__(self, host: running_host.Host) -> None:
        self.host, self.tree = host, Tree(host.root)

    def task(self, module: str, options: dict[str, Any], check: bool) -> dict[str, Any]:
        return self.host.task(module, check=check, **options)


@functools.cache
def _start_process() -> running_host.HostProcess:
    """Return the one process that answers for all reports, since it has to be started before any
    thread.
    """
    return running_host.HostProcess()


def _running(report: Report, place: Path) -> Iterator[Host]:
    process, wanted, seen = _start_process(), report.running, report.hardware
    assert wanted
    if process.refused:
        raise Unplayable(process.refused)
    told = running_hosts.STATUS.get(wanted.engine, running_hosts.INFO)
    spec = running_hosts.Spec(
        wanted.engine, {}, said=told, kubelet=list(wanted.kubelet), units=dict(wanted.units)
    )
    host = running_hosts.build(process, spec, 0o644)
    try:
        build(report, Tree(place))
        shutil.copytree(place, host.root, symlinks=True, dirs_exist_ok=True)
        host.kernel = wanted.kernel
        host.devices = hardware.devices(seen) if seen else {}
        asked = f"{sys.executable} -I -S - "
        answer = functools.partial(
            running_hosts.answer_probe,
            json.dumps(hardware.nvml(seen)) if seen else "",
            state=hardware.states(seen, wanted.states) if seen else running_hosts.NO_STATE,
            log=wanted.kernel_log,
        )
        # the first that fits answers
        host.known = [
            *wanted.programs,
            *([(asked, 0, answer, "")] if seen else []),
            *host.known,
        ]
        yield RunningHost(host)
    finally:
        host.close()


def build(report: Report, tree: Tree) -> None:
    """Make the files, links and directories of a report's host."""
    seen = report.hardware
    if (report.place / "tree").is_dir():
        shutil.copytree(report.place / "tree", tree.root, symlinks=True, dirs_exist_ok=True)
    for path, text in {**(hardware.files(seen) if seen else {}), **report.files}.items():
        tree.write(path, text)
    for path, encoding in report.encodings.items():
        tree.path(path).write_bytes(report.files[path].encode(encoding))
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
    """Give files and directories the same modes whatever the checkout's are. An executable file
    stays executable.
    """
    root.chmod(0o755)
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
