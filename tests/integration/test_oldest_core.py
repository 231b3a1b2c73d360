# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The oldest ansible-core that is promised says about real hosts what the newest says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab import inventory
from tests.lab.lab import Lab
from tests.tools.onlab import ROOT, Fleet, settings

pytestmark = pytest.mark.lab

HOSTS = {
    "old-containerd": {"kind": "containerd-1.7", "gpus": 2, "driver": "ok"},
    "old-nogpu": {"kind": "containerd-1.6", "gpus": 0, "driver": "none"},
}
RUNS = {"plan": (), "site": ("--check", "--diff")}
# WHY stands beside them, or below where there is no room
HEADINGS = [
    "HOST",
    "ENGINE",
    "GPUS",
    "INJECTION",
    "CHANGED",
    "RESTARTED",
]


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot(HOSTS)
    return found


@pytest.fixture(scope="module")
def oldest() -> Path:
    """The programs of ansible-core 2.16, or a word on why they cannot be had."""
    make = [sys.executable, ROOT / "tests/tools/environments.py", "core-2-16"]
    made = subprocess.run(
        make, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if made.returncode == 3:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


def play(programs: Path, lab: Lab, playbook: str, arguments: tuple[str, ...], place: Path) -> str:
    """Run a playbook of the collection with the given Ansible, and give its words."""
    variables = place / "variables.json"
    variables.write_text(json.dumps(settings()))
    environment = {
        **os.environ,
        **inventory.imitated(),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache/collections"),
        "ANSIBLE_LOCAL_TEMP": str(place),
        "ANSIBLE_NOCOLOR": "1",
    }
    command = [
        programs / "ansible-playbook",
        "-i",
        lab.inventory_path(),
        "--limit",
        ",".join(HOSTS),
        "-e",
        f"@{variables}",
    ]
    done = subprocess.run(
        [*command, *arguments, ROOT / f"playbooks/{playbook}.yml"],
        capture_output=True, text=True, check=False, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.stdout


def table(words: str) -> list[str]:
    """What people read at the end of a run: from the table's heading to the recap, without the
    tasks' own lines.
    """
    lines = words.splitlines()
    begins = [
        number for number, line in enumerate(lines) if line.split()[: len(HEADINGS)] == HEADINGS
    ]
    assert begins, words
    begin = begins[0]
    end = next(
        number
        for number, line in enumerate(lines[begin:], begin)
        if re.match(r"(ok|changed): \[|PLAY RECAP", line)
    )
    return [line for line in lines[begin:end] if line.strip()]


def test_it_is_the_oldest(oldest: Path) -> None:
    said = subprocess.run(
        [oldest / "ansible-playbook", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert "[core 2.16." in said.stdout.splitlines()[0]


@pytest.mark.parametrize("playbook", RUNS)
def test_both_say_the_same(playbook: str, fleet: Fleet, oldest: Path, tmp_path: Path) -> None:
    before = {host: fleet.tree(host) for host in HOSTS}
    told = {
        programs: table(play(programs, fleet.lab, playbook, RUNS[playbook], tmp_path))
        for programs in (oldest, Path(sys.executable).parent)
    }
    old, new = told.values()
    assert old == new
    assert {line.split()[0] for line in old if line.startswith("old-")} >= set(HOSTS)
    assert {host: fleet.tree(host) for host in HOSTS} == before
