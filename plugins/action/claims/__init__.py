# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts the rollouts of this controller have, so that a second one does not touch those of a first one that lives.

A rollout leaves one small file, with its hosts and with the process that it runs in. The kernel says whether that process lives, so one
that was killed holds nothing, and nobody has to clean up. Of rollouts on other controllers the hosts tell: one that is drained by another
rollout, or on which a transaction is at work.

A package of one file, since ansible-test wants a module for every other file below plugins/action.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
import fcntl
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError


@dc.dataclass(frozen=True)
class Process:
    """A process: its number alone may be that of another one by now. where: the machine's boot, and the namespace of its numbers."""

    number: int
    started: str
    where: str


def process(number: int) -> Process | None:
    """The process with a number, None where there is none."""
    stat = Path(f"/proc/{number}/stat")
    if not Path("/proc/self/stat").exists():  # a controller that is no Linux
        shown = subprocess.run(["ps", "-o", "lstart=", "-p", str(number)], capture_output=True, text=True, check=False)
        return Process(number, shown.stdout.strip(), os.uname().nodename) if shown.stdout.strip() else None
    try:
        # The name of the program stands in parentheses and may hold anything; the time of the start is the 20th field after it.
        fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return None if fields[0] in "ZX" else Process(number, fields[19], f"{boot} {os.readlink('/proc/self/ns/pid')}")
    except (OSError, IndexError):
        return None


def place() -> Path:
    home = Path(constants.config.get_config_value("ANSIBLE_HOME")).expanduser()
    return home / "gpufleet" / "rollouts"


@contextlib.contextmanager
def alone() -> Iterator[Path]:
    """One rollout at a time reads what others have, and says what it takes."""
    directory = place()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (directory / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield directory
    except OSError as error:
        step = "Make it a directory that you may write to, or set ANSIBLE_HOME"
        why = f"{error.strerror}; there a rollout says which hosts it has"
        raise PlanError("this directory cannot be used", where=str(directory), why=why, next=step) from None


def of_others(directory: Path) -> dict[str, str]:
    """Host, by its identity, -> the sentence about the rollout that has it. What a dead one has left is removed."""
    found: dict[str, str] = {}
    for path in sorted(directory.glob("*.json")):
        claim = _read(path)
        owner = Process(**claim["process"])
        if owner == process(os.getppid()):
            continue
        if owner != process(owner.number):
            path.unlink(missing_ok=True)
            continue
        about = f" ({claim['about']})" if claim["about"] else ""
        text = f"the rollout in process {owner.number}, begun {claim['begun']}{about}, has it until it ends"
        found.update(dict.fromkeys(claim["hosts"], text))
    return found


def _read(path: Path) -> dict[str, Any]:
    """PlanError for a file that says something else: it would not be known who has which hosts."""
    try:
        claim = json.loads(path.read_text(encoding="utf-8"))
        Process(**claim["process"])
        return {"about": str(claim["about"]), "begun": str(claim["begun"]), "hosts": list(claim["hosts"]), "process": claim["process"]}
    except (ValueError, KeyError, TypeError) as error:
        step = "Remove it if no rollout runs"
        raise PlanError("this file does not say which hosts a rollout has", where=str(path), why=str(error), next=step) from None


def take(directory: Path, hosts: list[str], begun: str, about: str) -> None:
    """Say that this run has these hosts, for as long as the process of ansible-playbook lives, of which this one is a child."""
    mine = process(os.getppid())
    if mine is None or not hosts:
        return
    claim: Mapping[str, Any] = {"process": dc.asdict(mine), "hosts": hosts, "begun": begun, "about": about}
    path = directory / f"{mine.number}.json"
    whole = path.with_suffix(".new")
    whole.write_text(json.dumps(claim), encoding="utf-8")
    whole.replace(path)


def give_up(directory: Path) -> None:
    """The rollout has ended, and the process may go on with other plays."""
    (directory / f"{os.getppid()}.json").unlink(missing_ok=True)
