# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts that are measured, and the tasks that are run on them."""

from __future__ import annotations

import dataclasses as dc
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench import spent
from tests.bench.spent import Spent
from tests.tools import onlab

HOST, SPEC = "gpufleet.nvidia.host", "gpufleet.nvidia.cdi_spec"
# The spec is ours in every measurement, since a spec that nvidia-cdi-refresh writes is work that
# nobody here would see.
OURS = {"cdi_owner": "collection"}
FLEET: Mapping[str, Any] = {
    name: {"kind": kind, "gpus": 2, "driver": "ok"}
    for name, kind in {
        "c16": "containerd-1.6",
        "c17": "containerd-1.7",
        "c21": "containerd-2.1",
        "c23": "containerd-2.3",
        "c24": "containerd-2.4",
        "crio": "crio-1.34",
    }.items()
}

# Python keeps compiled forms beside sources unless it is told not to, as where tests are to leave a
# checkout as it is.
KEEPS = {"PYTHONDONTWRITEBYTECODE": ""}
SAVE = "mkdir /root/saved; cd /etc; for d in containerd crio nvidia-container-runtime; do test ! -e $d || cp -a $d /root/saved; done"
# What the plain playbook did is taken back by hand: nvidia-ctk has no way back.
GIVE_BACK = """
cd /etc
rm -rf cdi containerd crio nvidia-container-runtime ansible/facts.d
cp -a /root/saved/. /etc
systemctl restart $(test -e /usr/lib/systemd/system/crio.service && echo crio || echo containerd)
"""


class Failed(Exception):
    """A run that is measured did not do what it should."""


@dc.dataclass(frozen=True)
class Timed:
    run: onlab.Run
    seconds: float
    spent: Spent  # on the controller


@dc.dataclass(frozen=True)
class Stage:
    """Hosts that are up, and how they are reached."""

    fleet: onlab.Fleet
    # further names of the hosts, with their addresses; then tasks run on these
    names: Mapping[str, str] = dc.field(default_factory=dict)

    def named(self, count: int) -> Stage:
        """The same hosts under many names, each of which is a host to Ansible."""
        addresses = [host.address for _name, host in sorted(self.fleet.lab.hosts().items())]
        return dc.replace(
            self, names={f"light{n:02}": addresses[n % len(addresses)] for n in range(count)}
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(sorted(self.fleet.lab.hosts()))

    def play(self, playbook: Any, variables: Mapping[str, Any] | None = None) -> Timed:
        with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
            file = Path(folder, "spent")
            begin = time.perf_counter()
            run = self.fleet.play(
                playbook,
                variables=variables,
                around=spent.around(file),
                arguments=self._arguments(Path(folder)),
                environment=KEEPS,
            )
            seconds = time.perf_counter() - begin
            if run.status:
                raise Failed(
                    f"a run ended with status {run.status}: {run.failed}\n{run.words[-3000:]}"
                )
            return Timed(run, seconds, spent.read(file))

    def _arguments(self, folder: Path) -> list[str]:
        if not self.names:
            return []
        place = folder / "names.json"
        hosts = {name: {"ansible_host": address} for name, address in self.names.items()}
        place.write_text(json.dumps({"gpu_hosts": {"children": {"named": {"hosts": hosts}}}}))
        return ["-i", str(place), "--limit", "named"]

    def task(self, module: str, options: Mapping[str, Any], times: int = 1) -> Timed:
        """One task, or the same task several times in one play."""
        return self.play(
            [{"hosts": "all", "gather_facts": False, "tasks": [{module: dict(options)}] * times}]
        )

    def host(self, options: Mapping[str, Any] | None = None, times: int = 1) -> Timed:
        return self.task(HOST, OURS if options is None else options, times)

    def spec(self, options: Mapping[str, Any] | None = None) -> Timed:
        return self.task(SPEC, OURS if options is None else options)

    def on_all(self, script: str) -> None:
        for host in self.hosts:
            self.fleet.shell(host, script)


def boot(lab: Any, fleet: Mapping[str, Any] = FLEET) -> Stage:
    """A fleet, untouched."""
    if lab.hosts():
        lab.down(sorted(lab.hosts()))
    lab.up({"hosts": dict(fleet)})
    for name, why in lab.skipped.items():
        print(f"left out: {name}, {why}")
    return Stage(onlab.Fleet(lab))


def converged(timed: Timed) -> Timed:
    """The run, when nothing was changed by it."""
    if timed.run.changed:
        raise Failed(f"a run that should change nothing changed {timed.run.changed}")
    return timed


def changed(timed: Timed, hosts: tuple[str, ...]) -> Timed:
    """The run, when every host was changed by it."""
    idle = sorted(set(hosts) - set(timed.run.changed))
    if idle:
        raise Failed(f"a run that should change every host changed nothing on {', '.join(idle)}")
    return timed
