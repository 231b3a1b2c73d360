# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout of many hosts on the controller alone: what their looks become, through classes, waves,
gates and the report.

    python -m tests.bench.fleet HOSTS FILE

Hosts are played, with Ansible's own variables: FILE is the look at a real one. Prints what it took
as JSON.
"""

from __future__ import annotations

import dataclasses as dc
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.bench.stage import Failed, Stage

ROOT = Path(__file__).resolve().parents[2]
SIZES = (1000, 10_000)
UUID = re.compile(r"GPU-[0-9a-f]{8}")
MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA L4", "NVIDIA A100-SXM4-80GB", "NVIDIA T4")
DEAD = 50  # one host of so many does not answer
NEEDED = {
    "max_left_out": "5%",
    "domain": ["rack"],
    "canaries": 2,
    "waves": [1, "10%", "50%", "100%"],
    "max_unavailable": "10%",
}


@dc.dataclass(frozen=True)
class Scale:
    """What a rollout takes on the controller. seconds: processor time; grown: memory of the hosts'
    variables after the looks, in bytes.
    """

    hosts: int
    looks: float  # seconds until Ansible holds them
    plan: float
    gates: float
    report: float
    batches: int
    held: int  # bytes of variables with the looks alone
    grown: int  # bytes that the rollout has added to them
    peak: int

    @property
    def seconds(self) -> float:
        return self.plan + self.gates + self.report


def look(stage: Stage) -> dict[str, Any]:
    """The look at a real host where everything is to be done, as Ansible registers it."""
    run_ = stage.fleet.task("host_info", [stage.hosts[0]])
    found = run_.of("host_info").get(stage.hosts[0]) or {}
    if run_.status or not found.get("differences"):
        raise Failed(f"{stage.hosts[0]} has nothing to do in a rollout: {run_.failed}")
    return found


def measure(look: Mapping[str, Any]) -> list[Scale]:
    """Each size in a process of its own, since memory that was used once is not given back."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(look, file)
        file.flush()
        # Ansible forks for each task; a process that imports it here would be none of the bench's
        # any more.
        return [one(size, file.name) for size in SIZES]


def one(size: int, file: str) -> Scale:
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache/collections"),
        "PYTHONPATH": str(ROOT),
    }
    said = subprocess.run(
        [sys.executable, "-m", "tests.bench.fleet", str(size), file],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=ROOT,
    )
    return Scale(**json.loads(said.stdout.splitlines()[-1]))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def timed(step: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    found = step()
    return found, time.process_time() - begin


class Controller:
    """Ansible's variables of many hosts, and one task of this collection after the other on them."""

    def __init__(self, size: int, look: Mapping[str, Any]) -> None:
        from ansible.inventory.manager import InventoryManager
        from ansible.parsing.dataloader import DataLoader
        from ansible.vars.hostvars import HostVars
        from ansible.vars.manager import VariableManager

        loader = DataLoader()
        self.names = [f"gpu{number:05}" for number in range(size)]
        self.inventory = InventoryManager(loader=loader, sources=[",".join(self.names) + ","])
        self.variables = VariableManager(loader=loader, inventory=self.inventory)
        for number, name in enumerate(self.names):
            self.inventory.get_host(name).set_variable("rack", f"r{number // 20}")
            self.register([name], "gpufleet_host_info", self.look(look, number))
        self.hostvars = HostVars(self.inventory, self.variables, loader)

    @staticmethod
    def look(look: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Another host like that one: its own UUIDs, one of four models, and now and then no
        answer.
        """
        if not number % DEAD:
            return {"unreachable": True, "msg": "no route to host", "changed": False}
        text = UUID.sub(f"GPU-{number:08x}", json.dumps(look))
        found: dict[str, Any] = json.loads(text)
        for gpu in found["driver"]["gpus"]:
            gpu["model"] = MODELS[number % len(MODELS)]
        return found

    def register(self, hosts: list[str], name: str, value: Any) -> None:
        """As Ansible does for `register`; with `run_once` it is the same value for all hosts."""
        for host in hosts:
            self.variables.set_nonpersistent_facts(host, {name: value})

    def step(self, step: str, host: str, **options: Any) -> dict[str, Any]:
        """One step of the playbook rollout that is run once."""
        import importlib

        cls = importlib.import_module(
            "ansible_collections.gpufleet.nvidia.plugins.action.playbook_step"
        ).ActionModule
        action = cls.__new__(cls)
        action._task = types.SimpleNamespace(
            args={"step": step, **options},
            check_mode=False,
            diff=False,
            async_val=0,
            delegate_to=None,
            action="playbook_step",
        )
        action._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None))
        given = {
            "ansible_play_hosts_all": self.names,
            "hostvars": self.hostvars,
            "inventory_hostname": host,
        }
        result: dict[str, Any] = action.run(None, given)
        return result


def roll(controller: Controller, settings: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    """Plan all batches. Each host does what it should."""
    for batch in plan["batches"]:
        hosts = batch["hosts"]
        for point in ("begin", "end"):
            step = controller.step(
                "rollout_batch", hosts[0], point=point, settings=settings, plan=plan
            )
            controller.register(hosts, "gpufleet_rollout_step", step)
            if point == "begin":
                for host in hosts:
                    controller.register(
                        [host], "gpufleet_host_result", {"changed": True, "differences": []}
                    )


def run(size: int, file: str) -> Scale:
    look = json.loads(Path(file).read_text())
    empty = resident()
    controller, looks = timed(lambda: Controller(size, look))
    held = resident()
    settings = controller.step("rollout_settings", controller.names[0], **NEEDED)["settings"]
    plan, planned = timed(
        lambda: controller.step("rollout_plan", controller.names[0], settings=settings)
    )
    controller.register(controller.names, "gpufleet_rollout_plan", plan)
    _none, gates = timed(lambda: roll(controller, settings, plan))
    grown = resident()
    report, reported = timed(
        lambda: controller.step("rollout_report", controller.names[0], plan=plan)
    )
    dead = (size + DEAD - 1) // DEAD
    wanted = {"hosts": size, "left_out": dead, "changed": size - dead}
    assert {key: report["totals"][key] for key in wanted} == wanted, report["totals"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Scale(
        size,
        looks,
        planned,
        gates,
        reported,
        len(plan["batches"]),
        held - empty,
        grown - held,
        peak,
    )


if __name__ == "__main__":
    from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

    _AnsibleCollectionFinder(paths=[str(ROOT / ".cache/collections")])._install()
    print(json.dumps(dc.asdict(run(int(sys.argv[1]), sys.argv[2]))))
