# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault on every engine, for hours: python -m tests.faults [--step N] [--kinds ...] [--parts ...]; the totals go to docs/faults.md.

Results are kept line by line in .cache/faults, so that a soak that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses as dc
import json
import random
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import conftest
from tests.faults import sweep
from tests.faults.victim import ABSENT, Victim
from tests.lab.lab import Lab

ROOT = Path(conftest.ROOT)  # importing it makes this checkout importable as the collection that it is
PLACE = ROOT / ".cache/faults"
TABLE = ROOT / "docs/faults.md"
KINDS = ("containerd-1.6", "containerd-1.7", "containerd-2.1", "containerd-2.3", "containerd-2.4", "crio-1.34")
SEED = 5

# A part of the soak: what is done to whom, in words, and who has to clean up.
PARTS: dict[str, tuple[str, str, str]] = {
    "kill, systemd": ("the hands are killed; systemd takes back what they left", "systemd", sweep.KILL),
    "kill, timer": ("the hands and their caller are killed, systemd does nothing; the timer takes it back", "timer", sweep.KILL),
    "kill, next": ("the hands and their caller are killed, systemd does nothing; the next run takes it back", "next", sweep.KILL),
    "kill caller": ("the caller is killed; the hands go on alone", "caller", sweep.KILL),
    **{error: (f"the call fails with {error}", "systemd", error) for error in sweep.ERRORS},
    "power": ("the power goes at a random instant; the next boot takes it back", "boot", ""),
}

Result = dict[str, Any]


class Log:
    """What was tried, on the disk as soon as it was."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def results(self) -> list[Result]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def add(self, result: Result) -> None:
        with self.lock, self.path.open("a") as handle:
            handle.write(json.dumps(result) + "\n")
        if not result["fine"]:
            print("NOT FINE:", json.dumps(result), flush=True)


def version(victim: Victim) -> str:
    """The engine's own word for what it is."""
    name = victim.kind.split("-")[0]
    said = victim.shell(f"{name} --version")
    found = re.search(r"\d+\.\d+\.\d+", said)
    return f"{'CRI-O' if name == 'crio' else name} {found[0] if found else said.strip()}"


def struck(victim: Victim, part: str, step: int, done: set[tuple[str, str, str]]) -> Iterator[Result]:
    """Every step-th call of the part that has not been tried yet."""
    by, how = PARTS[part][1:]
    both, found = sweep.sides(victim, sweep.WAYS[by] if by == "caller" else "hands")
    engine = version(victim)
    for number, point in list(enumerate(found))[::step]:
        if (victim.kind, part, str(number)) in done:
            continue
        one = sweep.strike(victim, both, point, how, by)
        told = {**dc.asdict(one), "fine": one.fine, "text": str(one)}
        yield {"kind": victim.kind, "engine": engine, "part": part, "number": str(number), "calls": len(found), **told}


def powered_off(victim: Victim, runs: int, done: set[tuple[str, str, str]]) -> Iterator[Result]:
    """The power goes while a transaction is under way, at an instant that the seed decides."""
    both, _points = sweep.sides(victim)
    engine = version(victim)
    for number in range(runs):
        chance = random.Random(f"{SEED} {victim.kind} {number}").random()
        if (victim.kind, "power", str(number)) in done:
            continue
        after = outage(victim, chance)
        found = both.verdict(after)
        again = victim.run()
        new = victim.look()
        undone = victim.run(policy=ABSENT)
        back = victim.look()
        litter = sorted({*new.litter([both.old.files, both.new.files]), *back.litter([both.old.files])})
        victim.put_back(both.old, back)
        fine = found in ("old", "new") and both.verdict(new) in ("old", "new") and both.verdict(back) == "old" and not litter
        said = [again.words, undone.words]
        told = {"found": found, "after": both.verdict(new), "back": both.verdict(back), "litter": litter, "said": said, "hit": True}
        text = f"power lost at {chance:.3f} of a run: {found}, then {both.verdict(new)}, then {both.verdict(back)}; {litter}; {said}"
        told = {**told, "fine": fine, "text": text}
        yield {"kind": victim.kind, "engine": engine, "part": "power", "number": str(number), "calls": runs, **told}


def outage(victim: Victim, chance: float) -> Any:
    """Look at the host as it is after a boot that nobody helped."""
    events = int(chance * 60)
    worker = threading.Thread(target=victim.run, daemon=True)
    worker.start()
    # Instants are told by what the hands have written: a clock would only say how busy this machine is.
    count = f"find /var/lib/gpufleet/journal /var/lib/gpufleet/originals -newer {sweep.TRACE} 2>/dev/null | wc -l"
    while worker.is_alive() and int(victim.shell(count).strip() or 0) < events // 2:
        pass
    victim.lab.kill(victim.name)
    worker.join()
    victim.lab.boot(victim.name)
    victim.shell(f"touch {sweep.TRACE}; {victim.until_it_serves()}", fails=True)
    return victim.look()


def on_host(lab: Lab, name: str, options: argparse.Namespace, log: Log) -> None:
    victim = Victim(lab, name)
    victim.prepare()
    victim.shell(f"touch {sweep.TRACE}")
    for part in options.parts:
        done = {(r["kind"], r["part"], r["number"]) for r in log.results()}
        tries = powered_off(victim, options.outages, done) if part == "power" else struck(victim, part, options.step, done)
        for result in tries:
            log.add(result)
        print(f"{victim.kind}: {part}: done", flush=True)


def rows(results: list[Result]) -> list[str]:
    """The table: one row for each engine and part."""
    found = ["| engine | what happens | instants | tried | old | new | half |", "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for kind in KINDS:
        for part, (words, _by, _how) in PARTS.items():
            mine = [r for r in results if (r["kind"], r["part"]) == (kind, part) and r["hit"]]
            if mine:
                old, new = (sum(r["fine"] and r["found"] == side for r in mine) for side in ("old", "new"))
                calls = max(r["calls"] for r in mine)
                cells = [mine[-1]["engine"], words, "random" if part == "power" else calls, len(mine), old, new, len(mine) - old - new]
                found.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return found


def write_table(results: list[Result], path: Path) -> None:
    """Put the table between the page's marks."""
    begin, end = "<!-- totals: written by make soak -->", "<!-- end of totals -->"
    text = path.read_text()
    head, _begin, rest = text.partition(begin)
    _old, _end, tail = rest.partition(end)
    struck_ = [r for r in results if r["hit"]]
    half = sum(not r["fine"] for r in struck_)
    summary = f"{len(struck_)} tries, {half} half."
    path.write_text("\n".join([head + begin, "", summary, "", *rows(results), "", end + tail]))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS, help="kinds of host of the lab")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS), help="what is done to them")
    parser.add_argument("--step", type=int, default=1, help="only every N-th system call")
    parser.add_argument("--outages", type=int, default=50, help="how often the power goes, on each kind")
    parser.add_argument("--table", action="store_true", help="only write the table anew")
    options = parser.parse_args(arguments)
    log = Log(PLACE / "results.jsonl")
    if not options.table:
        with Lab("gpufleet-soak") as lab:
            names = {kind: "soak" + re.sub(r"\W", "", kind.replace("containerd", "c")) for kind in options.kinds}
            lab.up({"hosts": {name: {"kind": kind, "gpus": 1} for kind, name in names.items()}})
            up = [name for name in names.values() if name in lab.hosts()]
            with ThreadPoolExecutor(len(names)) as pool:
                list(pool.map(lambda name: on_host(lab, name, options, log), up))
    results = log.results()
    write_table(results, TABLE)
    print("\n".join(rows(results)))
    return 1 if any(not r["fine"] for r in results if r["hit"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
