# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host pays: how long its engine cannot be reached, and the processor time of a look at a
converged host.
"""

from __future__ import annotations

import dataclasses as dc
import json
import shlex
import statistics
import subprocess
import uuid
from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport

from tests.faults.victim import ABSENT, Door, Victim
from tests.lab import hosts
from tests.lab.lab import Lab
from tests.tools import wire

ROUNDS = 5
LOOKS = 10

# Runs inside the host until its stdin ends: the longest time in which nobody could connect to the
# socket.
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
# Runs inside the host: the same script again and again, and the processor time that it took, its
# children's too.
COST = r"""
import json, resource, subprocess, sys
script, times = open(sys.argv[1], "rb").read(), []
for turn in range(int(sys.argv[2])):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(json.loads(sys.argv[3]), input=script, stdout=subprocess.DEVNULL, check=True)
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
    first: float  # compiled there
    milliseconds: float  # with the compiled form that the host has kept
    started: float  # of its Python alone, which shows the machine's pace
    aim: float = 50.0

    @property
    def ratio(self) -> float:
        return self.milliseconds / self.started


@dc.dataclass(frozen=True)
class Start(Look):
    """The same of a change's program, in check mode and with nothing to change: its start, most of
    all.
    """

    aim: float = 60.0


def unreachable(victim: Victim, act: Callable[[], Any]) -> float:
    """Watch the socket while something happens."""
    path = SOCKETS[victim.kind.split("-")[0]]
    victim.shell(f"cat >/run/bench-watch.py <<'EOF'\n{WATCH}\nEOF")
    command = hosts.entry(victim.lab.host(victim.name), ["python3", "/run/bench-watch.py", path])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdin
        assert watch.stdout
        watch.stdout.readline()
        act()
        victim.shell(victim.until_it_serves())
        watch.stdin.close()
        return float(json.loads(watch.stdout.read()))


def outage(victim: Victim) -> Outage:
    """A transaction and a bare restart in turn, so what else the machine does is in both.

    Both end with the same configuration: at each of its starts containerd 2.x runs every handler's
    program to ask what it can.
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


@dc.dataclass(frozen=True)
class Sent:
    """Bytes that go over the connection's stdin to a host, and the aim for them."""

    what: str
    engine: str
    sent: int
    answered: int
    aim: int


class Copying(Door):
    """A way to the host that keeps what goes over it, there and back."""

    def __init__(self, lab: Lab, name: str) -> None:
        super().__init__(lab, name)
        self.looked, self.changed = (b"", 0), (b"", 0)

    @property
    def script(self) -> bytes:
        return self.looked[0]

    def _low_level_execute_command(self, line: str, in_data: bytes) -> dict[str, Any]:
        answer = super()._low_level_execute_command(line, in_data)
        found = (in_data, len(answer["stdout"]))
        if wire.job(in_data)["main"] == "observe":
            self.looked = found
        else:
            self.changed = found
        return answer


def sent(victim: Victim) -> tuple[Sent, Sent]:
    """From a host where everything is to be done to a converged one."""
    door: Any = Copying(victim.lab, victim.name)
    victim.converge(door)
    change = door.changed
    victim.converge(door)
    return (
        Sent("a look", victim.kind, len(door.looked[0]), door.looked[1], 20_000),
        Sent("a change", victim.kind, len(change[0]), change[1], 40_000),
    )


def cost(victim: Victim, script: bytes) -> tuple[float, float, float]:
    """Milliseconds: when it is compiled there, when the compiled form is there, and for a start of
    Python alone.
    """
    bases = (None, wire.job(script)["base"])
    scripts = [wire.with_job(script, {**wire.job(script), "base": base}) for base in bases]
    there = wire.argv("/usr/bin/python3")
    first, kept = (run_often(victim, one, there) for one in scripts)
    return first, kept, run_often(victim, b"", [*there[: there.index("-c")], "-c", "pass"])


def run_often(victim: Victim, script: bytes, program: list[str]) -> float:
    """Return the milliseconds that a program takes on the host with this input."""
    done = victim.lab.exec(victim.name, ["sh", "-c", "cat >/run/bench-script"], stdin=script)
    assert done.returncode == 0, done.stderr
    victim.shell(f"cat >/run/bench-cost.py <<'EOF'\n{COST}\nEOF")
    words = ["python3", "/run/bench-cost.py", "/run/bench-script", str(LOOKS), json.dumps(program)]
    return 1000 * float(json.loads(victim.shell(shlex.join(words))))


def look(victim: Victim) -> Look:
    door: Any = Copying(victim.lab, victim.name)
    victim.converge(door)
    return Look(victim.kind, *cost(victim, door.script))


def start(victim: Victim) -> Start:
    request = {
        "schema": 1,
        "id": uuid.uuid4().hex,
        "root": "/",
        "reason": "bench",
        "changes": [],
        "check": True,
    }
    return Start(
        victim.kind,
        *cost(victim, transport.build_interpreter_input("transaction", request, "M:", keep=True)),
    )


def measure(
    lab: Lab, kinds: dict[str, str]
) -> tuple[tuple[Outage, ...], tuple[Look, ...], tuple[Start, ...], tuple[Sent, ...]]:
    """kinds: name of a host -> its kind."""
    lab.up({"hosts": {name: {"kind": kind, "gpus": 2} for name, kind in kinds.items()}})
    outages, looks, starts, bytes_sent = [], [], [], []
    for name in kinds:
        victim = Victim(lab, name)
        victim.prepare()
        outages.append(outage(victim))
        bytes_sent += sent(victim)
        looks.append(look(victim))
        starts.append(start(victim))
    return tuple(outages), tuple(looks), tuple(starts), tuple(bytes_sent)
