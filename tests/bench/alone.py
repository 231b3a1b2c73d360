# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner as Ansible runs it: a process for each host's task, made by one that has loaded the
action and planned nothing.

python -m tests.bench.alone FILE, with the observations as JSON, prints milliseconds of processor
time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections"):
    sys.path.insert(0, str(entry))

from ansible_collections.gpufleet.nvidia.plugins.action import host as _loaded  # noqa: F401 what is known before the processes are made
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host

from tests.bench import planner

PROCESSES = 60


def milliseconds(seen: Mapping[str, Observation], folder: Path) -> float:
    """The median over hosts that are like these."""
    file = folder / "observations.json"
    file.write_text(
        json.dumps([{"host": obs.host, "answers": obs.answers} for obs in seen.values()]),
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.alone", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def spent(obs: Observation) -> float:
    wanted = planner.policy()
    begin = time.process_time()
    seen_host.list_host_questions(wanted)
    planner.plan(wanted, obs)
    return 1000 * (time.process_time() - begin)


def of_process(obs: Observation) -> float:
    ours, its = os.pipe()
    child = os.fork()
    if not child:
        os.write(its, json.dumps(spent(obs)).encode())
        os._exit(0)
    os.close(its)
    with os.fdopen(ours) as answer:
        found = float(answer.read())
    os.waitpid(child, 0)
    return found


def main(file: str) -> None:
    kinds: list[dict[str, Any]] = json.loads(Path(file).read_text(encoding="utf-8"))
    hosts = [
        planner.vary(Observation(**kinds[number % len(kinds)]), number)
        for number in range(PROCESSES)
    ]
    print(statistics.median(map(of_process, hosts)))


if __name__ == "__main__":
    main(sys.argv[1])
