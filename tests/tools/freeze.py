# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what this release writes, for the tests of upgrades and downgrades.

    freeze.py VERSION      writes tests/fixtures/releases/VERSION/, which later releases read

Kept are hosts that were changed, with the journal and the status files, the plan of a rollout, the
report of a fleet, and the record of a rollout that was killed. All but that record are written by
whole tasks and playbooks; the record by the function that a rollout calls.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections", Path(__file__).parent):
    sys.path.insert(0, str(entry))

import semantic_versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import claims
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import change

RELEASES = ROOT / "tests/fixtures/releases"
TREES = ("gpu1", "gpu2")


def freeze_hosts(target: Path) -> None:
    """Keep a host of each engine, converged by the module host, with the digest that an approval of
    its change has.
    """
    released_hosts: Any = importlib.import_module("tests.unit.released_hosts")
    running_host: Any = importlib.import_module("tests.unit.running_host")
    for process in running_host.start_process():
        for engine in released_hosts.ENGINES:
            host = released_hosts.build_released_host(process, engine)
            try:
                looked = host.task("host_info", **released_hosts.OPTIONS)
                approved = {"approved_change": change.digest_change(looked, "gpu1")}
                options = {**released_hosts.OPTIONS, **approved}
                kept = {**approved, **released_hosts.keep_host(host, options)}
            finally:
                host.close()
            write_json(target / f"host-{engine}.json", kept)


def freeze_controller_files(target: Path) -> None:
    """Keep the files that runs leave on the controller, for two hosts that are trees."""
    bare: Any = importlib.import_module("tests.unit.playbooks.bare")
    with tempfile.TemporaryDirectory(prefix="gpufleet-freeze-") as folder:
        place = Path(folder)
        inventory = write_inventory(place, bare)
        made = {"gpufleet_rollout_plan_file": place / "plan.json", "gpufleet_report_dir": place}
        status, words = bare.play(
            place, inventory, "plan", **{key: str(path) for key, path in made.items()}
        )
        if status:
            raise SystemExit(f"freeze.py: plan failed: {words}")
        shutil.copy2(place / "plan.json", target / "plan-file.json")
        report = json.loads((place / "report.json").read_text())
        write_json(target / "report.json", report)


def write_inventory(place: Path, bare: Any) -> Path:
    hosts = {host: bare.variables(place, host) for host in TREES}
    found: Path = bare.written(
        place / "hosts.yml",
        yaml.safe_dump({"all": {"children": {"gpu_hosts": {"hosts": hosts}}}}),
    )
    return found


def freeze_claim(target: Path) -> None:
    """Keep the record of a rollout whose process is dead: one that had this number before."""
    owner = claims.Process(os.getpid(), "1", "controller", "", "")
    claim = {"hosts": {f"{host} boot": host for host in TREES}, "ended": ["gpu1 boot"]}
    path = target / "claim.json"
    claims._write(path, {**claim, "begun": "2026-11-26T20:00:00Z", "about": ""}, owner)


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def main(given: Sequence[str]) -> int:
    """Write the files of a release, whole or not at all."""
    version = given[0] if len(given) == 1 else ""
    if not semantic_versions.VERSION.fullmatch(version):
        print("usage: freeze.py VERSION, such as 0.1.0-rc.1", file=sys.stderr)
        return 2
    target = RELEASES / version
    with tempfile.TemporaryDirectory(prefix="gpufleet-freeze-") as folder:
        made = Path(folder)
        freeze_hosts(made)
        freeze_controller_files(made)
        freeze_claim(made)
        target.mkdir(parents=True, exist_ok=True)
        for path in sorted(made.iterdir()):
            shutil.copy2(path, target / path.name)
            print((target / path.name).relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
