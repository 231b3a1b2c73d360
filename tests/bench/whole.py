# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What whole runs of the playbooks cost the controller, against a playbook with one ping.

    python -m tests.bench.whole [HOSTS...]

All hosts are names of one host of the lab, reached by OpenSSH at one sshd. Their answers were kept
from that host in a rollout before (tests/bench/stand_in.py). So a host costs its machine a few
milliseconds, and the controller all that a real one costs it.
"""

from __future__ import annotations

import dataclasses as dc
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections"):
    sys.path.insert(0, str(entry))

from tests.bench import spent, stand_in
from tests.bench.stage import KEEPS, OURS, Failed
from tests.lab import inventory
from tests.lab.lab import Lab
from tests.tools import onlab

HOST = "recorded"
FLEET: Mapping[str, Any] = {HOST: {"kind": "containerd-1.7", "gpus": 2, "driver": "ok"}}
FEW, MANY = 40, 1000
ROUNDS = 3  # each runs everything in turn
SIZES: Mapping[int, int] = {FEW: ROUNDS, MANY: 1}
AIMS: Mapping[str, float] = {"plan": 1.2, "rollout": 3.0}
DUE, DONE = "each host is to be changed", "each host is as desired"
PING = [{"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.ping": {}}]}]
SETTINGS = {"gpufleet_cdi_owner": OURS["cdi_owner"]}
RECAP = re.compile(
    r"^(\S+) +: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", re.MULTILINE
)
FORKS = 10


@dc.dataclass(frozen=True)
class Whole:
    """Milliseconds of the controller's processor time for a host, the start of ansible-playbook included.

    workers: the processes that Ansible makes for a host, without the ones that it makes once for
    all.
    """

    playbook: str
    state: str
    hosts: int
    workers: int
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def aim(self) -> float:
        return AIMS[self.playbook]


@dc.dataclass(frozen=True)
class Cost:
    """seconds: of processor time, of all processes of a run. workers: by host."""

    seconds: float
    workers: Mapping[str, int]


@dc.dataclass(frozen=True)
class Crowd:
    """Many names of a host that is up."""

    lab: Lab
    names: tuple[str, ...]
    folder: Path

    def prepare(self) -> None:
        """Give each name an interpreter of its own on the host."""
        make = "\n".join(
            [
                "set -e",
                f"cd {stand_in.PLACE}",
                *(
                    f"mkdir -p {n}; ln -sf {stand_in.PLACE}/stand_in.py {n}/python3"
                    for n in self.names
                ),
            ]
        )
        execute(self.lab, make)
        self.inventory.write_text(
            json.dumps(
                {
                    "gpu_hosts": {
                        "vars": self.common,
                        "hosts": {name: self.variables(name) for name in self.names},
                    }
                }
            )
        )

    @property
    def inventory(self) -> Path:
        return self.folder / f"{len(self.names)}.json"

    @property
    def common(self) -> dict[str, Any]:
        control = str(self.lab.runtime / "cp")
        given = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.lab.key),
            "ansible_control_path_dir": control,
        }
        return {
            **given,
            "ansible_ssh_common_args": inventory.SSH_ARGUMENTS,
            "ansible_ssh_pipelining": True,
        }

    def variables(self, name: str) -> dict[str, str]:
        return {
            "ansible_host": self.lab.host(HOST).address,
            "ansible_python_interpreter": f"{stand_in.PLACE}/{name}/python3",
        }

    def take_back(self) -> None:
        """Make each host one that is to be changed."""
        execute(self.lab, f"rm -f {stand_in.PLACE}/*/changed")

    def run(self, playbook: Any, variables: Mapping[str, Any], changed: bool) -> Cost:
        """Run a playbook on all names, and return what it cost.

        changed: whether it has to change every host.
        """
        path = (
            ROOT / "playbooks" / f"{playbook}.yml"
            if isinstance(playbook, str)
            else self.folder / "play.json"
        )
        if not isinstance(playbook, str):
            path.write_text(json.dumps(playbook))
        (self.folder / "variables.json").write_text(json.dumps(dict(variables)))
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [
            *spent.around(self.folder / "spent"),
            str(program),
            "-i",
            str(self.inventory),
            str(path),
        ]
        command = self.lab.inside(
            [*command, "-e", f"@{self.folder}/variables.json"]
        )  # there ssh is the program itself, without a wrapper
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
        )
        rows = RECAP.findall(done.stdout)
        wrong = [
            name
            for name, changes, *troubles in rows
            if any(map(int, troubles)) or (int(changes) > 0) != changed
        ]
        missing = set(self.names) - {name for name, *_counts in rows}
        if done.returncode or wrong or missing:
            raise Failed(
                f"{playbook} on {len(self.names)} hosts: status {done.returncode}\n{(done.stdout + done.stderr)[:3000]}"
            )
        workers = {
            name: len(tasks)
            for name, tasks in json.loads((self.folder / "workers").read_text()).items()
        }
        return Cost(spent.read(self.folder / "spent").seconds, workers)

    def _environment(self) -> dict[str, str]:
        settings = {
            **inventory.imitated(),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache/collections"),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/tools/callbacks"),
            "ANSIBLE_FORKS": str(FORKS),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "GPUFLEET_WORKERS": str(self.folder / "workers"),
        }
        return {**os.environ, **settings, **KEEPS}


def execute(lab: Lab, script: str) -> None:
    done = lab.exec(HOST, ["sh", "-s"], stdin=script)
    if done.returncode:
        raise Failed(f"{HOST}: {done.stdout}{done.stderr}")


def boot(lab: Lab) -> None:
    """Boot the host, and keep what it answers while a rollout changes it."""
    lab.up({"hosts": dict(FLEET)})
    source = Path(stand_in.__file__).read_text(encoding="utf-8")
    program = f"#!/usr/bin/python3 -IS\n{source}"
    execute(lab, f"mkdir -p {stand_in.PLACE}/{stand_in.RECORDED}")
    done = lab.exec(
        HOST,
        ["sh", "-c", f"cat >{stand_in.PLACE}/stand_in.py; chmod 755 {stand_in.PLACE}/stand_in.py"],
        stdin=program,
    )
    assert done.returncode == 0, done.stderr
    execute(lab, f"ln -s {stand_in.PLACE}/stand_in.py {stand_in.PLACE}/{stand_in.RECORDED}/python3")
    # One connection carries the operations of all names.
    execute(
        lab,
        "echo 'MaxSessions 1000' >/etc/ssh/sshd_config.d/bench.conf; systemctl reload ssh || systemctl reload sshd",
    )
    fleet = onlab.Fleet(lab)
    fleet.play(
        [{"hosts": "all", "gather_facts": False, "roles": ["gpufleet.nvidia.toolkit"]}],
        variables=onlab.repository(),
    )
    interpreter = {"ansible_python_interpreter": f"{stand_in.PLACE}/{stand_in.RECORDED}/python3"}
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        done_run = fleet.play(
            "rollout",
            variables={**rollout_settings(), **interpreter},
            environment={"ANSIBLE_HOME": folder},
        )
    if done_run.status or HOST not in done_run.changed:
        raise Failed(f"the rollout that is kept: {done_run.failed}\n{done_run.words[:3000]}")
    look = fleet.play("plan", variables={**SETTINGS, **interpreter})
    if look.status:
        raise Failed(f"the look that is kept: {look.failed}\n{look.words[-3000:]}")


def rollout_settings() -> dict[str, Any]:
    return {**SETTINGS, "gpufleet_verify_image": onlab.PROBE}


def measure(lab: Lab, sizes: Mapping[int, int] | None = None) -> list[Whole]:
    """Boot the host, and run everything in turn, so that what else the machine does falls on all."""
    boot(lab)
    found = []
    for size, rounds in (sizes or SIZES).items():
        with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
            crowd = Crowd(lab, tuple(f"light{number:04}" for number in range(size)), Path(folder))
            crowd.prepare()
            found += compare(crowd, rounds)
    return found


def compare(crowd: Crowd, rounds: int) -> list[Whole]:
    runs: dict[tuple[str, str], list[Cost]] = {}

    def run(name: str, state: str, playbook: Any, settings: Mapping[str, Any]) -> None:
        cost = crowd.run(playbook, settings, changed=name == "rollout")
        runs.setdefault((name, state), []).append(cost)

    crowd.run(PING, {}, changed=False)  # opens the connection
    for _round in range(rounds):
        crowd.take_back()
        run("ping", "", PING, {})
        run("plan", DUE, "plan", SETTINGS)
        run("rollout", DUE, "rollout", rollout_settings())
        run("plan", DONE, "plan", SETTINGS)
    size = len(crowd.names)
    cost = {
        row: 1000 * median(one.seconds for one in several) / size for row, several in runs.items()
    }
    return [
        Whole(
            name, state, size, find_usual(several[0].workers), cost[name, state], cost["ping", ""]
        )
        for (name, state), several in runs.items()
        if name in AIMS
    ]


def find_usual(workers: Mapping[str, int]) -> int:
    """Return the number of processes of most hosts.

    The first host also gets the processes that Ansible makes once for all.
    """
    return Counter(workers.values()).most_common(1)[0][0]


def main(sizes: Sequence[str]) -> None:
    with Lab.of_run("bench") as lab:
        for whole in measure(lab, {int(size): SIZES.get(int(size), 1) for size in sizes}):
            print(whole, f"{whole.ratio:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
