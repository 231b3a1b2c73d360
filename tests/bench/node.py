# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host pays: how long its engine cannot be reached, and the processor time of a look at a converged host."""

from __future__ import annotations

import dataclasses as dc
import json
import statistics
import subprocess
from collections.abc import Callable
from typing import Any

from tests.faults.victim import ABSENT, Door, Victim, program
from tests.lab import hosts
from tests.lab.lab import Lab

ROUNDS = 5
LOOKS = 10

# Runs inside the host until its stdin ends: the longest time in which nobody could connect to the socket.
WATCH = r"""
import json, select, socket, sys, time
path, longest, since = sys.argv[1], 0.0, None
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.002)[0]:
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(path)
        if since is not None:
            longest, since = max(longest, time.monotonic() - since), None
    except OSError:
        since = since or time.monotonic()
    finally:
        client.close()
print(json.dumps(longest))
"""
# Runs inside the host: the same script again and again, and the processor time that it took, its children's too.
COST = r"""
import json, resource, subprocess, sys
script, times = open(sys.argv[1], "rb").read(), []
for turn in range(int(sys.argv[2])):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-"], input=script, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
print(json.dumps(sorted(times)[len(times) // 2]))
"""
SOCKETS = {"containerd": "/run/containerd/containerd.sock", "crio": "/run/crio/crio.sock"}


@dc.dataclass(frozen=True)
class Outage:
    """Seconds in which the engine's socket cannot be reached, the median of some rounds."""

    engine: str
    bare: float  # systemctl restart alone, with the configuration that we leave
    ours: float
    aim: float = 1.2

    @property
    def ratio(self) -> float:
        return self.ours / self.bare


@dc.dataclass(frozen=True)
class Look:
    """Milliseconds of processor time on the host for one look at it when it is converged."""

    engine: str
    milliseconds: float
    aim: float = 150.0


def unreachable(victim: Victim, act: Callable[[], Any]) -> float:
    """Watch the socket while something happens."""
    path = SOCKETS[victim.kind.split("-")[0]]
    victim.shell(f"cat >/run/bench-watch.py <<'EOF'\n{WATCH}\nEOF")
    command = hosts.entry(victim.lab.host(victim.name), ["python3", "/run/bench-watch.py", path])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdin
        assert watch.stdout
        watch.stdout.readline()
        act()
        victim.shell(victim.until_it_serves())
        watch.stdin.close()
        return float(json.loads(watch.stdout.read()))


def outage(victim: Victim) -> Outage:
    """A transaction and a bare restart in turn, so that what else the machine does is in both.

    Both end with the same configuration: at each of its starts containerd 2.x runs every handler's program to ask what it can.
    """
    bare, ours = [], []
    old = victim.look()
    restart = f"systemctl reset-failed {victim.unit} || true; systemctl restart {victim.unit}"
    for _round in range(ROUNDS):
        ours.append(unreachable(victim, victim.run))
        bare.append(unreachable(victim, lambda: victim.shell(restart)))
        victim.run(policy=ABSENT)
        victim.put_back(old, victim.look())
    return Outage(victim.kind, statistics.median(bare), statistics.median(ours))


class Copying(Door):
    """A way to the host that keeps the script of the look."""

    script = b""

    def _low_level_execute_command(self, line: str, in_data: bytes) -> dict[str, Any]:
        if program(in_data) == "observe":
            self.script = in_data
        return super()._low_level_execute_command(line, in_data)


def look(victim: Victim) -> Look:
    victim.run()
    door: Any = Copying(victim.lab, victim.name)
    victim.converge(door)
    done = victim.lab.exec(victim.name, ["sh", "-c", "cat >/run/bench-look.py"], stdin=door.script.decode())
    assert done.returncode == 0, done.stderr
    victim.shell(f"cat >/run/bench-cost.py <<'EOF'\n{COST}\nEOF")
    return Look(victim.kind, 1000 * float(json.loads(victim.shell(f"python3 /run/bench-cost.py /run/bench-look.py {LOOKS}"))))


def measure(lab: Lab, kinds: dict[str, str]) -> tuple[tuple[Outage, ...], tuple[Look, ...]]:
    """kinds: name of a host -> its kind."""
    lab.up({"hosts": {name: {"kind": kind, "gpus": 2} for name, kind in kinds.items()}})
    outages, looks = [], []
    for name in kinds:
        victim = Victim(lab, name)
        victim.prepare()
        outages.append(outage(victim))
        looks.append(look(victim))
    return tuple(outages), tuple(looks)
