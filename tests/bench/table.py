# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was measured, as one table for the terminal and for the documentation."""

from __future__ import annotations

import dataclasses as dc
import os
import platform
import time
from collections.abc import Mapping, Sequence
from importlib import metadata

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host

from tests.bench import bounds, host, whole
from tests.bench.alone import PROCESSES
from tests.bench.counts import Count
from tests.bench.fleet import Scale
from tests.bench.planner import Speed, policy
from tests.bench.ratios import FIRST_ROUNDS, MANY, ROUNDS, TASKS, Ratio
from tests.bench.stage import Stage
from tests.bench.worst import Worst
from tests.lab import aptrepo


@dc.dataclass(frozen=True)
class Measured:
    counts: tuple[Count, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    speeds: tuple[Speed, ...] = ()
    outages: tuple[host.Outage, ...] = ()
    looks: tuple[host.Look, ...] = ()
    starts: tuple[host.Start, ...] = ()
    sent: tuple[host.Sent, ...] = ()
    worst: tuple[Worst, ...] = ()
    scales: tuple[Scale, ...] = ()
    whole: tuple[whole.Whole, ...] = ()
    versions: Mapping[str, str] = dc.field(default_factory=dict)

    @property
    def bounded(self) -> dict[str, float]:
        """The values that a bound may limit, by the names of their rows."""
        return {
            **{r.what: r.value for r in self.ratios},
            **{name_whole(w): w.ratio for w in self.whole},
            **{f"planner, {s.what}": s.ratio for s in self.speeds if s.ratio is not None},
            **{f"a look, {look.engine}": look.ratio for look in self.looks},
            **{f"bytes of {s.what}, {s.engine}": float(s.sent) for s in self.sent},
        }


def name_whole(row: whole.Whole) -> str:
    return f"`{row.playbook}`, {row.state}, {row.hosts} hosts"


def versions(stage: Stage, seen: Mapping[str, Observation]) -> dict[str, str]:
    """Of everything that the numbers depend on."""
    engines = {
        f"{i.engine} {i.version}"
        for obs in seen.values()
        for i in seen_host.see(policy(), obs).instances
    }
    ssh = stage.fleet.shell(stage.hosts[0], "dpkg-query -f '${Version}' -W openssh-server")
    return {
        "ansible-core": metadata.version("ansible-core"),
        "Python on the controller": platform.python_version(),
        "tomlkit": metadata.version("tomlkit"),
        "engines": ", ".join(sorted(engines)),
        "NVIDIA Container Toolkit": aptrepo.VERSION,
        "OpenSSH": ssh.strip(),
        "machine": f"{os.cpu_count()} cores, which carry the controller and all {len(stage.hosts)} hosts",
        "pace of its Python": f"20 million turns of an empty loop in {time_loop():.1f} s",
        "load average": f"{os.getloadavg()[0]:.0f}; above the number of cores, other work ran beside and times are longer",
    }


def time_loop() -> float:
    """Return the seconds in which this Python passes 20 million turns of an empty loop."""
    begin, turn = time.process_time(), 0
    while turn < 20_000_000:
        turn += 1
    return time.process_time() - begin


def text(measured: Measured) -> str:
    """The tables in Markdown, which is readable on a terminal as well; those in which nothing is
    yet are left out.
    """
    counted = [[c.what, c.words, "" if c.aim is None else str(c.aim)] for c in measured.counts]
    return "\n\n".join(filter(None, [
        rows(["SSH operations per host", "counted", "promised"], counted),
        rows(
            ["time as a ratio", "ratio", "aim", "bound", "ours", "theirs"],
            [
                [r.what, f"{r.value:.2f}", r.aimed, bounds.show_bound(r.what), f"{r.ours:.1f} {r.unit}", f"{r.theirs:.1f} {r.unit}"]
                for r in measured.ratios
            ],
        ),
        compared(measured.whole),
        rows(
            ["planner, per host", "ms", "aim in ms", "to a copy of the answers", "bound"],
            [
                [s.what, f"{s.milliseconds:.1f}", s.aimed, s.paced, bounds.show_bound(f"planner, {s.what}")]
                for s in measured.speeds
            ],
        ),
        rows(
            ["engine's socket out of reach, to a bare `systemctl restart`", "ratio", "aim", "ours", "bare"],
            [[o.engine, f"{o.ratio:.2f}", f"{o.aim:.1f}", f"{o.ours:.2f} s", f"{o.bare:.2f} s"] for o in measured.outages],
        ),
        spent("processor time on a converged host, for one look", measured.looks),
        spent("processor time for the start of a change's program", measured.starts),
        rows(
            ["bytes on the wire", "engine", "sent", "aim", "bound", "answered"],
            [
                [
                    s.what, s.engine, f"{s.sent:,}".replace(",", " "), f"{s.aim:,}".replace(",", " "),
                    bounds.show_bound(f"bytes of {s.what}, {s.engine}"), str(s.answered),
                ]
                for s in measured.sent
            ],
        ),
        extremes(measured.worst),
        scaled(measured.scales),
    ]))  # fmt: skip


def spent(what: str, looks: Sequence[host.Look]) -> str:
    head = [what, "ms", "aim in ms", "to a start of Python", "bound", "ms, compiled there"]
    return rows(
        head,
        [
            [
                look.engine,
                f"{look.milliseconds:.0f}",
                f"{look.aim:.0f}",
                f"{look.ratio:.2f}",
                "" if isinstance(look, host.Start) else bounds.show_bound(f"a look, {look.engine}"),
                f"{look.first:.0f}",
            ]
            for look in looks
        ],
    )


def compared(measured: Sequence[whole.Whole]) -> str:
    head = [
        "controller's processor time of a whole run, to one with a single `ping`",
        "hosts",
        "worker processes per host",
        "ratio",
        "aim",
        "bound",
        "ours, per host",
        "ping, per host",
    ]
    body = [
        [
            f"`{w.playbook}`, {w.state}",
            str(w.hosts),
            str(w.workers),
            f"{w.ratio:.2f}",
            f"{w.aim:g}",
            bounds.show_bound(name_whole(w)),
            f"{w.ours:.1f} ms",
            f"{w.theirs:.1f} ms",
        ]
        for w in measured
    ]
    return rows(head, body)


def extremes(worst: tuple[Worst, ...]) -> str:
    head = ["the worst input within the limits", "processor time", "memory", "bound"]
    return rows(
        head, [[w.what, f"{w.seconds:.1f} s", f"{w.mib:.0f} MiB", f"{w.bound} MiB"] for w in worst]
    )


def scaled(scales: Sequence[Scale]) -> str:
    head = [
        "a rollout on the controller, per host",
        "plan",
        "gates",
        "report",
        "variables of the looks",
        "what the rollout adds",
        "peak",
    ]
    body = [
        [
            f"{s.hosts} hosts in {s.batches} batches",
            *(f"{1000 * seconds / s.hosts:.1f} ms" for seconds in (s.plan, s.gates, s.report)),
            *(f"{size / s.hosts / 1024:.1f} KiB" for size in (s.held, s.grown)),
            f"{s.peak / (1 << 20):.0f} MiB in all",
        ]
        for s in scales
    ]
    return rows(head, [*body, *grown(scales)])


def grown(scales: Sequence[Scale]) -> list[list[str]]:
    """How much more a host of the largest fleet takes than one of the smallest: 1 where it is
    linear.
    """
    if len(scales) < 2:
        return []
    small, large = scales[0], scales[-1]
    values = ("plan", "gates", "report", "held", "grown")
    ratios = [
        (getattr(large, name) / large.hosts) / max(getattr(small, name) / small.hosts, 1e-9)
        for name in values
    ]
    return [["the ratio of the two", *(f"{ratio:.2f}" for ratio in ratios), ""]]


def rows(head: list[str], body: list[list[str]]) -> str:
    if not body:
        return ""
    width = [max(len(row[i]) for row in (head, *body)) for i in range(len(head))]
    lines = [head, ["-" * w for w in width], *body]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)) + " |"
        for row in lines
    )


def summarize(measured: Measured) -> str:
    """Return the figures that people come for, as a list."""
    runs = [
        f"- `{run.playbook}` for {run.hosts} hosts takes the controller {seconds:.0f} s of processor time ({run.state})."
        for run in measured.whole
        for seconds in [run.ours * run.hosts / 1000]
    ]
    away = max((outage.ratio for outage in measured.outages), default=0)
    seconds = sorted(outage.ours for outage in measured.outages) or [0]
    outages = [
        (
            f"- During a change, the engine is away for {seconds[0]:.2f} to {seconds[-1]:.2f} s, at most {away:.2f} times as long"
            " as in a bare `systemctl restart`. Docker is left out."
        )
    ]
    return "\n".join(["In short:", "", *runs, *(outages if away else [])])


INTRODUCTION = """\
To measure all of this again on your machine, and to write this page:

```shell
make bench WRITE=1
```

Counts hold on your machine, too, and the bench fails when one grows.
Ratios compare two things measured in the same run: with 0.5, ours takes half the time. Seconds tell you little about your own machine.
Your run of `plan` or `rollout` takes at least the controller's processor time, divided by its cores.
Its whole duration also depends on `forks`, your network, and your hosts, so the bench leaves it out.
To measure that yourself:

```shell
time ansible-playbook -i inventory gpufleet.nvidia.plan --forks 50
```

A row that misses its aim has a bound instead: the median of an earlier run plus 10 % (`tests/bench/bounds.py`).
The bench fails above that bound."""

EXPLANATION = f"""\
How it is measured:

- Hosts: six, with two GPUs each, one per engine release. A wrapper in place of `ssh` counts the operations.
  To count them on a host of yours, here on a converged one:

  ```shell
  ansible-playbook -i inventory gpufleet.nvidia.plan --limit gpu1 -vvv | grep -c 'SSH: EXEC'
  ```

  ```text
  1
  ```

- Ping: {TASKS} tasks in one play, with pipelining and connections that are kept.
  Both sides run in turn, in {ROUNDS} rounds, and the median of each counts.
  To see what a ping of your hosts takes:

  ```shell
  time ansible -i inventory gpu_hosts -m ansible.builtin.ping
  ```

  The controller's processor time is that of `ansible-playbook` and all that it starts, less that of a play without a task.
  Its memory is that of the largest of these processes.
  The {MANY} hosts are further names of the six: they show the work of the controller.
- Whole runs: all processor time of `ansible-playbook` and of what it starts, for each host. The start of both is part of it.
  With {whole.FEW} hosts, it is the median of {whole.ROUNDS} rounds in turn. With {whole.MANY} hosts, there is one round.
  All hosts are names of one host of the lab. OpenSSH reaches its one sshd over a connection that is kept.
  In a rollout, each name answers with the kept answers of that host. Your controller would do the same work for so many real hosts.
  Workers are the processes that Ansible makes for a host, besides the ones that it makes once for all.
  A rollout changes and verifies each host. Drain and soak are off.
- Plain playbook: `tests/bench/naive.yml`, in {FIRST_ROUNDS} rounds in turn, with the median of each.
  Both sides begin with installed packages.
  They restart every engine, and that time is in both numbers.
- CDI spec: processor time of the planner for the whole task, to that of `nvidia-ctk` on the same host, less the start of the program.
  If `nvidia-ctk` asks NVML, the planner has its answer in the observation.
- The engine's socket: a program on the host tries to connect every 2 ms during a whole transaction.
  It does the same during a bare restart with the configuration that the transaction leaves.
  Both happen in turn, in {host.ROUNDS} rounds, and the median of the longest time out of reach counts.
- The look (the first query of a run to a host): the same script {host.LOOKS} times there.
  The median of user and system time counts, its children's included.
  `ms` uses the compiled form that a host keeps after this collection has changed something there.
  `ms, compiled there` is the time if the host has to compile it first.
  Its bound is in starts of the host's Python, which are measured beside it, so it holds on a slower machine, too.
- The start of a change's program: the same for an empty transaction in check mode.
- Bytes on the wire: the bytes that go over the connection's stdin and back, before the connection's own compression.
- The worst input: on the controller, files of 1 MiB, the largest that it reads.
  On the host, more than an answer may hold, for the program that looks.
- Planner: observations of these hosts, varied into 1000 hosts with other UUIDs and configurations.
  Its bound is in copies of a host's answers by Python's `copy.deepcopy`, which are made in turn with the plans.
  Aims in milliseconds are those of a machine on which Python passes 20 million turns of an empty loop in 1.1 seconds.
  In a process of its own: as Ansible runs a task, with an empty memory of the hosts before, as the median of {PROCESSES} processes.
- A rollout: the look at one of these hosts, varied into so many hosts, in Ansible's own variables. 2 % of the hosts are silent.
  The time is that of the tasks that run once, over all batches.
  The work for each host (look, drain, convergence, verification) is in the rows above, and depends on that host alone.
  The peak holds all looks at the same time."""


def page(measured: Measured) -> str:
    """docs/bench.md."""
    used = "\n".join(f"- {what}: {value}" for what, value in measured.versions.items())
    return f"""# Speed

{INTRODUCTION}

{summarize(measured)}

{text(measured)}

{EXPLANATION}

Versions:

{used}
"""
