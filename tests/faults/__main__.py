# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault on every engine, for hours: python -m tests.faults [--minutes N] [--kinds ...]
[--parts ...]; totals go to docs/faults.md.

Wherever it is stopped, what was tried is an even sample: parts take turns, and each goes through
its calls from coarse to fine. Results are kept line by line in .cache/faults, so a soak that was
stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses as dc
import json
import math
import os
import random
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import conftest
from tests.faults import sweep
from tests.faults.victim import Victim, executor_version
from tests.lab.lab import Lab

# importing it makes this checkout importable as the collection that it is
ROOT = Path(conftest.ROOT)
PLACE = ROOT / ".cache/faults"
TABLE = ROOT / "docs/faults.md"
KINDS = (
    "containerd-1.6",
    "containerd-1.7",
    "containerd-2.1",
    "containerd-2.3",
    "containerd-2.4",
    "crio-1.34",
    "docker",
    "k3s-like",
    "microk8s-like",
)
# Hosts that the real nvidia-ctk has configured: its file goes and ours comes in one transaction.
ADOPTED = ("containerd-2.4, adopted", "crio-1.34, adopted")
TITLES = {
    "crio": "CRI-O",
    "docker": "Docker",
    "k3s": "k3s (imitated) with containerd",
    "microk8s": "MicroK8s (imitated) with containerd",
}
EVERY = (*KINDS, *ADOPTED)
SEED = 5

# A part of the soak: what is done to whom, in words, and who has to clean up.
PARTS: dict[str, tuple[str, str, str]] = {
    "kill, systemd": (
        "the executor is killed; systemd takes back what it left",
        "systemd",
        sweep.KILL,
    ),
    "kill, timer": (
        "the executor and its caller are killed, systemd does nothing; the timer takes it back",
        "timer",
        sweep.KILL,
    ),
    "kill, next": (
        "the executor and its caller are killed, systemd does nothing; the next run takes it back",
        "next",
        sweep.KILL,
    ),
    "kill caller": ("the caller is killed; the executor goes on alone", "caller", sweep.KILL),
    **{error: (f"the call fails with {error}", "systemd", error) for error in sweep.ERRORS},
    "power": ("the power goes; the next boot takes it back", "boot", "power"),
}

Result = dict[str, Any]


class Log:
    """A log of what was tried, on the disk as soon as it was. executor: the version whose results
    count.
    """

    def __init__(self, path: Path, executor: str) -> None:
        self.path, self.executor, self.lock = path, executor, threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._drop_half_a_line()

    def _drop_half_a_line(self) -> None:
        """Take away what a soak that was killed has written of its last result, so that the next
        one gets a line of its own.
        """
        text = self.path.read_bytes()
        if not text.endswith(b"\n"):
            os.truncate(self.path, text.rfind(b"\n") + 1)

    def results(self) -> list[Result]:
        """Return what was tried with this executor. Another one may do at the same call what this
        one does not.
        """
        with self.lock:
            found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [result for result in found if result["executor"] == self.executor]

    def add(self, result: Result) -> None:
        with self.lock, self.path.open("a") as handle:
            handle.write(json.dumps(result) + "\n")
        if not result["fine"]:
            print("NOT FINE:", json.dumps(result), flush=True)


def version(victim: Victim) -> str:
    """Return the engine's name and the version that its own program prints."""
    name = victim.kind.split("-")[0]
    said = victim.shell(f"{victim.engine.program} --version")
    found = re.search(r"\d+\.\d+\.\d+", said)
    title = TITLES.get(name, name)
    return f"{title} {found[0] if found else said.strip()}"


def kind_of(name: str) -> str:
    """Return the lab's kind of a host under test."""
    return name.partition(",")[0]


@dc.dataclass
class Bench:
    """A host under test, and what is left to try on it. name: one of EVERY."""

    name: str
    victim: Victim
    log: Log
    deadline: float
    turns: threading.Semaphore  # how many hosts may be at work at once
    seen: sweep.Seen = dc.field(default_factory=sweep.Seen)

    known: dict[str, tuple[sweep.Sides, list[sweep.Point]]] = dc.field(default_factory=dict)

    def sides(self, traced: str) -> tuple[sweep.Sides, list[sweep.Point]]:
        if traced not in self.known:
            self.known[traced] = sweep.sides(self.victim, traced)
        return self.known[traced]

    def tries(self, part: str, outages: int) -> Iterator[Result]:
        """Try the part's calls that have not been tried yet, and yield one result for each."""
        by, how = PARTS[part][1:]
        both, found = self.sides("caller" if by == "caller" else "executor")
        engine = version(self.victim) + (" after nvidia-ctk" if self.name in ADOPTED else "")
        tried = {"kind": self.name, "engine": engine, "executor": self.log.executor, "part": part}
        order = sweep.evenly(found)
        if by == "boot":
            random.Random(f"{SEED} {self.name}").shuffle(order)
            order = order[:outages]
        done = {(r["kind"], r["part"], r["number"]) for r in self.log.results()}
        for number, point in order:
            if (self.name, part, number) in done:
                continue
            if by == "boot":
                one = sweep.outage(self.victim, both, point, self.seen)
            else:
                one = sweep.strike(self.victim, both, point, how, by, self.seen)
            judged = {"fine": one.fine, "followed": one.followed, "text": str(one)}
            yield {**tried, "number": number, "calls": len(found), **dc.asdict(one), **judged}

    def work(self, parts: Sequence[str], outages: int) -> None:
        """Let the parts take turns until all is tried or the time is over."""
        if self.name in ADOPTED:
            self.victim.configure()
        self.victim.prepare()
        left = {part: self.tries(part, outages) for part in parts}
        while left:
            for part, tries in list(left.items()):
                with self.turns:
                    if time.monotonic() > self.deadline:
                        return
                    result = next(tries, None)
                if result is None:
                    del left[part]
                    print(f"{self.name}: {part}: done", flush=True)
                else:
                    self.log.add(result)


HEAD = (
    "| engine | what happens | instants | tried | followed up | old | new | half | executor |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
)


def rows(results: list[Result]) -> list[str]:
    """Return a row for each engine and part that was tried."""
    found = []
    for kind in EVERY:
        for part, (words, _by, _how) in PARTS.items():
            mine = [r for r in results if (r["kind"], r["part"]) == (kind, part) and r["hit"]]
            if mine:
                old, new = (
                    sum(r["fine"] and r["found"] == side for r in mine) for side in ("old", "new")
                )
                tried, calls, followed = (
                    len(mine),
                    max(r["calls"] for r in mine),
                    sum(r["followed"] for r in mine),
                )
                versions = ", ".join(
                    f"`{name}`" for name in dict.fromkeys(r["executor"] for r in mine)
                )
                cells = [
                    mine[-1]["engine"],
                    words,
                    calls,
                    tried,
                    followed,
                    old,
                    new,
                    tried - old - new,
                    versions,
                ]
                found.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return found


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def with_those_before(found: list[str], table: str) -> list[str]:
    """Return the table's rows, in which rows of engines that were not tried this time stay.

    One run seldom has the hours that all engines take.
    """
    tried = {cells(row)[0] for row in found}
    before = [row for row in table.splitlines() if row.startswith("| ") and row not in HEAD]
    return [*(row for row in before if cells(row)[0] not in tried), *found]


def write_table(results: list[Result], path: Path) -> None:
    """Put the table between the page's marks."""
    begin, end = "<!-- totals: written by make soak -->", "<!-- end of totals -->"
    text = path.read_text()
    head, _begin, rest = text.partition(begin)
    table, _end, tail = rest.partition(end)
    every = with_those_before(rows(results), table)
    tried, half = (sum(int(cells(row)[column]) for row in every) for column in (3, 7))
    summary = (
        f"{tried} tries of the versions in the last column, {half} half. "
        "The executor's version is a digest of its source."
    )
    path.write_text("\n".join([head + begin, "", summary, "", *HEAD, *every, "", end + tail]))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--kinds", nargs="*", default=EVERY, choices=EVERY, help="kinds of host of the lab"
    )
    parser.add_argument(
        "--parts", nargs="*", default=list(PARTS), choices=list(PARTS), help="what is done to them"
    )
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="when to stop, whatever is left"
    )
    parser.add_argument("--hosts", type=int, default=3, help="how many hosts are at work at once")
    parser.add_argument(
        "--outages", type=int, default=50, help="how often the power goes, on each kind"
    )
    parser.add_argument("--lab", default="gpufleet-soak", help="the name of the lab")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    options = parser.parse_args(arguments)
    log = Log(PLACE / "results.jsonl", executor_version())
    if not options.table:
        soak(options, log)
    results = log.results()
    write_table(results, TABLE)
    print("\n".join([*HEAD, *rows(results)]))
    return 1 if any(not r["fine"] for r in results if r["hit"]) else 0


def soak(options: argparse.Namespace, log: Log) -> None:
    """Boot the hosts, and strike until nothing is left to strike, or no time."""
    deadline, turns = time.monotonic() + 60 * options.minutes, threading.Semaphore(options.hosts)
    with Lab(options.lab) as lab:
        names = {
            kind: "soak" + re.sub(r"\W", "", kind.replace("containerd", "c"))
            for kind in options.kinds
        }
        lab.up(
            {"hosts": {name: {"kind": kind_of(kind), "gpus": 1} for kind, name in names.items()}}
        )
        benches = [
            Bench(kind, Victim(lab, name), log, deadline, turns)
            for kind, name in names.items()
            if name in lab.hosts()
        ]
        with ThreadPoolExecutor(len(benches)) as pool:
            list(pool.map(lambda bench: bench.work(options.parts, options.outages), benches))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
