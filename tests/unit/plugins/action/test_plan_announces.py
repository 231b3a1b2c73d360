# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan announces what a run does: where the host would refuse a file, the plan is refused by the
same code, and the host is as before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit import running_host
from tests.unit.bare_trees import Tree
from tests.unit.running_host import Host, HostProcess
from tests.unit.running_hosts import ENGINES, build

USUAL: dict[str, Any] = {"no_gpu": "prepare", "packages": "ignore"}
TOOLKIT = "/etc/nvidia-container-runtime/config.toml"
CONFIG = {
    "containerd, GPU": "/etc/containerd/config.toml",
    "crio": "/etc/crio/crio.conf",
    "docker": "/etc/docker/daemon.json",
}
FACTS = "/etc/ansible/facts.d"


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


def open_directory(path: str, mode: int = 0o777) -> Callable[[Host], None]:
    """Let others write to a directory."""

    def change(host: Host) -> None:
        host.path(path).mkdir(parents=True, exist_ok=True)
        host.path(path).chmod(mode)

    return change


def link_again(path: str) -> Callable[[Host], None]:
    """Give a file a second name."""
    return lambda host: os.link(host.path(path), host.path(path + ".copy"))


def open_file(path: str) -> Callable[[Host], None]:
    """Let others write to a file, which is not there yet in any of these hosts."""
    return lambda host: host.write(path, "{}\n", 0o666)


def leave_as_it_is(_host: Host) -> None:
    """Change nothing, for a host that is served."""


# the engine, the state of the host, the code of the refusal ("" for a plan)
CASES: dict[str, tuple[str, Callable[[Host], None], str]] = {
    "served": ("containerd, GPU", leave_as_it_is, ""),
    "others write to /etc/cdi": (
        "containerd, GPU",
        open_directory("/etc/cdi"),
        "transaction.expect",
    ),
    "others write where local facts lie": ("docker", open_directory(FACTS), "transaction.expect"),
    "others write to our fact": (
        "crio",
        open_file(f"{FACTS}/gpufleet.fact"),
        "restore.file-unreadable",
    ),
    "two names, the toolkit's file": (
        "containerd, GPU",
        link_again(TOOLKIT),
        "transaction.expect",
    ),
    "two names, containerd": (
        "containerd, GPU",
        link_again(CONFIG["containerd, GPU"]),
        "transaction.expect",
    ),
    "two names, Docker": ("docker", link_again(CONFIG["docker"]), "transaction.expect"),
}


def find_code(result: dict[str, Any]) -> str:
    """Return the code of a task's refusal, of its error or of its plan; '' if there is none."""
    if result.get("failed"):
        return str(result["error"]["code"])
    problem = str(result.get("problem") or "")
    return problem.rpartition("[")[2].rstrip("]") if problem else ""


@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_refused_where_the_run_would_be(process: HostProcess, name: str) -> None:
    engine, change, code = CASES[name]
    host = build(process, ENGINES[engine].copy(), 0o644)
    change(host)
    before = Tree(Path(host.root)).state()
    planned = host.task("host_info", **USUAL)
    tried = host.task("host", check=True, **USUAL)
    assert Tree(Path(host.root)).state() == before
    run = host.task("host", **USUAL)
    host.close()
    told = [find_code(result) for result in (planned, tried, run)]
    assert told == [code] * 3
    assert bool(planned["differences"]) is bool(run.get("changed"))
