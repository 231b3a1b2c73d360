# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts, ratios and the planner's speed on real hosts; docs/bench.md is written from here.

    python -m tests.bench [--write] [--minutes N]

A count can fail the run, and so can a row above its bound (bounds.py). All other rows are
printed with their aims. Who stops it, and who runs it on a machine on which it does not end within
its minutes, gets what has been measured until then; the page is not written.
"""

from __future__ import annotations

import argparse
import dataclasses as dc
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections"):
    sys.path.insert(0, str(entry))

from tests.bench import (
    alone,
    bounds,
    counts,
    fleet,
    generation,
    host,
    planner,
    ratios,
    table,
    whole,
    worst,
)
from tests.bench.stage import Failed, boot
from tests.lab import doctor
from tests.lab.artefacts import LabError
from tests.lab.lab import Lab

MINUTES = 25.0
STEPS = 9


class Stopped(Exception):
    """Someone, or the clock, ends the bench."""


@dc.dataclass
class Bench:
    """What has been measured until now, and where the bench is."""

    begin: float = dc.field(default_factory=time.monotonic)
    step: int = 0
    measured: table.Measured = dc.field(default_factory=table.Measured)

    def say(self, words: str) -> None:
        self.step += 1
        seconds = int(time.monotonic() - self.begin)
        print(
            f"[{seconds // 60:2}:{seconds % 60:02}] {self.step} of {STEPS}: {words} ...", flush=True
        )

    def keep(self, **found: Iterable[Any]) -> None:
        """Add rows to tables of `table.Measured`."""
        self.measured = dc.replace(
            self.measured,
            **{name: (*getattr(self.measured, name), *rows) for name, rows in found.items()},
        )


def measure(lab: Lab, bench: Bench) -> None:
    bench.say("site on untouched hosts")
    bench.keep(counts=counts.of_site(boot(lab)))
    bench.say("host, counted")
    stage = boot(lab)
    bench.keep(counts=counts.count_host(stage))
    bench.say("host against ping")
    bench.keep(ratios=ratios.against_ping(stage))
    bench.say("host against a plain playbook")
    bench.keep(ratios=[ratios.against_plain(stage)])
    bench.say("the planner")
    fresh, untouched = planner.record(stage), fleet.look(stage)
    stage.host()
    done = planner.record(stage)
    bench.keep(
        speeds=[
            planner.speed("a converged host", 3.0, done),
            planner.speed("a host where everything is to be done", 5.0, fresh),
        ]
    )
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        bench.keep(
            speeds=[
                planner.Speed(
                    "a converged host, in a process of its own",
                    None,
                    alone.milliseconds(done, Path(folder)),
                )
            ]
        )
    bench.measured = dc.replace(bench.measured, versions=table.versions(stage, done))
    bench.say("a rollout of 10 000 hosts")
    bench.keep(scales=fleet.measure(untouched))
    bench.say("CDI specs of many GPUs")
    bench.keep(ratios=generation.measure(boot(lab, generation.FLEET)))
    bench.keep(ratios=worst.growth(), worst=worst.measure())
    bench.say("whole runs against ping")
    lab.down()
    bench.keep(whole=whole.measure(lab))
    bench.say("what a host pays")
    lab.down()
    outages, looks, starts, sent = host.measure(
        lab, {"bench17": "containerd-1.7", "bench23": "containerd-2.3", "benchcrio": "crio-1.34"}
    )
    bench.keep(outages=outages, looks=looks, starts=starts, sent=sent)


def stopped(why: str) -> Callable[[int, object], NoReturn]:
    def handler(_number: int, _frame: object) -> NoReturn:
        raise Stopped(why)

    return handler


def measured(minutes: float) -> tuple[table.Measured, str]:
    """What was measured, and why that is not all, if so."""
    bench = Bench()
    signal.signal(signal.SIGALRM, stopped(f"it did not end within {minutes:g} minutes"))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopped("it was stopped"))
    signal.setitimer(signal.ITIMER_REAL, 60 * minutes)
    try:
        with Lab.of_run("bench") as lab:
            try:
                measure(lab, bench)
            finally:
                # taking the hosts down is not to be interrupted
                signal.setitimer(signal.ITIMER_REAL, 0)
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
    except (Failed, LabError, Stopped) as why:
        return bench.measured, str(why)
    return bench.measured, ""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--write", action="store_true", help="write docs/bench.md")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="when to stop, whatever is left"
    )
    options = parser.parse_args(arguments)
    obstacle = doctor.machine_obstacle()
    if obstacle:
        print(f"not run here: the bench ({obstacle})", flush=True)
        return 0
    found, why = measured(options.minutes)
    print("\n" + table.text(found), flush=True)
    missed = [f"more SSH operations than promised: {c.what}" for c in found.counts if not c.kept]
    missed += [f"above its bound: {row}" for row in bounds.list_exceeded(found.bounded)]
    for what in missed:
        print(f"bench: {what}", file=sys.stderr)
    if why:
        print(f"bench: not all was measured: {why}", file=sys.stderr)
        return 1
    if options.write:
        (ROOT / "docs").mkdir(exist_ok=True)
        (ROOT / "docs" / "bench.md").write_text(table.page(found))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
