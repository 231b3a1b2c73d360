# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CDI spec for many GPUs with many MIG devices: the planner's time against that of nvidia-ctk on
the same host, and how it grows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.action import cdi_spec
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import version

from tests.bench import planner
from tests.bench.counts import REPOSITORY
from tests.bench.ratios import Ratio
from tests.bench.stage import Failed, Stage
from tests.tools import onlab

MIGS = 7
GPUS = {"gen8": 8, "gen16": 16}
FLEET = {
    name: {"kind": "containerd-2.4", "gpus": [{"mig": "on", "migs": MIGS}] * count}
    for name, count in GPUS.items()
}
INSTALL = "apt-get -qq update; apt-get -qq install -y nvidia-container-toolkit-base >/dev/null 2>&1"
REPEATED = 9
# Processor time of a program, less what it takes to start and end: the median of several.
THEIRS = """
import json, os, statistics, subprocess, sys
def taken(*argv):
    before = os.times()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
def typical(*argv):
    return statistics.median(taken(*argv) for _ in range(int(sys.argv[1])))
made = subprocess.run(["nvidia-ctk", "cdi", "generate", "--format=json"], check=True, capture_output=True, text=True).stdout
print(json.dumps([typical("nvidia-ctk", "cdi", "generate") - typical("nvidia-ctk", "--version"), json.loads(made)]))
"""


def measure(stage: Stage) -> list[Ratio]:
    """The stage has the hosts of FLEET, untouched."""
    stage.play(REPOSITORY, onlab.repository())
    stage.on_all(INSTALL)
    seen = {
        name: planner.look(stage, name, cdi_spec.list_cdi_spec_questions, plan) for name in GPUS
    }
    ours = {
        name: typical(lambda obs=obs: plan(planner.policy(), obs)) for name, obs in seen.items()
    }  # type: ignore[misc]
    theirs, made = of_theirs(stage, "gen8")
    files = len(made["containerEdits"].get("mounts", ()))
    what = f"CDI spec of {GPUS['gen8']} GPUs with {MIGS} MIG devices each and {files} files, to `nvidia-ctk cdi generate`"
    return [
        Ratio(what, 1.0, ours["gen8"] * 1000, theirs * 1000, "ms"),
        Ratio(
            "the same with 16 GPUs, to that with 8",
            2.0,
            ours["gen16"] * 1000,
            ours["gen8"] * 1000,
            "ms",
        ),
    ]


def plan(wanted: Policy, obs: Observation) -> Any:
    return cdi_spec.plan_cdi_spec(wanted, obs, version.UNKNOWN_CAP)


def typical(act: Callable[[], Any]) -> float:
    """Processor time, as on the other side."""
    found = []
    for _time in range(REPEATED):
        begin = time.process_time()
        act()
        found.append(time.process_time() - begin)
    return median(found)


def of_theirs(stage: Stage, name: str) -> tuple[float, dict[str, Any]]:
    done = stage.fleet.lab.exec(name, ["python3", "-c", THEIRS, str(REPEATED)])
    if done.returncode:
        raise Failed(f"nvidia-ctk on {name}: {done.stderr}")
    seconds, made = json.loads(done.stdout)
    return float(seconds), made
