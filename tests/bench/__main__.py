# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts, ratios and the planner's speed on real hosts; docs/bench.md is written from here.

    python -m tests.bench [--write]

Only counts can fail the run: they are the same on every machine. Ratios and milliseconds are printed with their aims.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections"):
    sys.path.insert(0, str(entry))

from tests.bench import counts, generation, node, planner, ratios, table, worst
from tests.bench.stage import Failed, boot
from tests.lab import doctor
from tests.lab.artefacts import LabError
from tests.lab.lab import Lab


def say(words: str) -> None:
    print(words, flush=True)


def measure(lab: Lab) -> table.Measured:
    say("site on untouched hosts ...")
    of_site = counts.of_site(boot(lab))
    say("node, counted ...")
    stage = boot(lab)
    of_node = counts.of_node(stage)
    say("node against ping ...")
    found = [ratios.against_ping(stage)]
    say("node against a plain playbook ...")
    found.append(ratios.against_plain(stage))
    say("the planner ...")
    fresh = planner.record(stage)
    stage.node()
    done = planner.record(stage)
    speeds = [planner.speed("a converged host", done), planner.speed("a host where everything is to be done", fresh)]
    versions = table.versions(stage, done)
    say("CDI specs of many GPUs ...")
    found += generation.measure(boot(lab, generation.FLEET))
    found += worst.growth()
    say("what a host pays ...")
    lab.down()
    outages, looks, sent = node.measure(lab, {"bench17": "containerd-1.7", "bench23": "containerd-2.3", "benchcrio": "crio-1.34"})
    return table.Measured((*of_node, *of_site), tuple(found), tuple(speeds), outages, looks, sent, worst.measure(), versions)


def main(arguments: list[str]) -> int:
    obstacle = doctor.machine_obstacle()
    if obstacle:
        say(f"not run here: the bench ({obstacle})")
        return 0
    try:
        with Lab.of_run("bench") as lab:
            measured = measure(lab)
    except (Failed, LabError) as why:
        print(f"bench: {why}", file=sys.stderr)
        return 1
    say("\n" + table.text(measured))
    if "--write" in arguments:
        (ROOT / "docs").mkdir(exist_ok=True)
        (ROOT / "docs" / "bench.md").write_text(table.page(measured))
    missed = [c.what for c in measured.counts if not c.kept]
    for what in missed:
        print(f"bench: more SSH operations than promised: {what}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
