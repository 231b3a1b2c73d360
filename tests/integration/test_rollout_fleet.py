# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One fleet of twelve hosts in five classes through a bad week: six real hosts, and six directory
trees that fill up the number.

Monday: the plan is approved. Tuesday: one host has moved since, one is in maintenance by hand, a
canary does not live with its change, and a host is lost in the second wave. Wednesday: the
controller is killed between two batches. Thursday: an engine crashes during the soak, and a GPU
falls off the bus. Friday: all is mended. Everything happens once, the tests read.
"""

from __future__ import annotations

import dataclasses as dc
import itertools
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import order

from tests.integration.conftest import Boot
from tests.integration.slurm_files import FILES
from tests.integration.trapped_hosts import DROP_IN, TRAP
from tests.lab.inventory import KERNEL_LOG
from tests.tools.killed_at import killed_at
from tests.tools.onlab import ROOT, Fleet, Run
from tests.tools.tables import read_column

pytestmark = pytest.mark.lab

NEW, OLD, SLURM = ["f17a", "f17b", "f17c"], ["f16a", "f16b"], "fslurm"  # three kinds of real hosts
REAL = [*NEW, *OLD, SLURM]
TREES = {
    **dict.fromkeys(["t1", "t2", "t3", "t4"], "1.7.24"),
    **dict.fromkeys(["t5", "t6"], "1.6.33"),
}
HOSTS = [*REAL, *TREES]
XID = "3,0,1000000,-;NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"
# Somebody has done by hand a part of what was approved.
HALF = 'version = 2\\n[plugins."io.containerd.grpc.v1.cri"]\\nenable_cdi = true\\n'
# NVIDIA's diagnosis as dcgmi prints it.
DCGMI = """cat >/usr/bin/dcgmi <<'END'
#!/bin/sh
echo "Successfully ran diagnostic for group."
echo "| Diagnostic                | Result                                         |"
echo "| Denylist                  | {verdict}                                           |"
exit {status}
END
chmod 755 /usr/bin/dcgmi"""
# What listens where dcgmi expects nv-hostengine. dcgmi is run only if that is the service of root's.
SERVER = """cp "$(readlink -f /usr/bin/python3)" /usr/bin/nv-hostengine
systemd-run -q --unit=nv-hostengine /usr/bin/nv-hostengine -c '
import socket
server = socket.socket()
server.bind(("127.0.0.1", 5555))
server.listen(8)
while True:
    server.accept()[0].close()'
until grep -q ":15B3 " /proc/net/tcp; do :; done"""
CRASHES = "[Service]\nExecStartPre=/bin/false\n"
# Packages are there already, so all that differs is ours. Work ends on no host, so no host of these
# has to be drained.
SETTINGS = {
    "gpufleet_packages": "ignore",
    "gpufleet_rollout_waves": [1, "100%"],
    "gpufleet_rollout_max_left_out": "50%",
}
BUDGET = 3


def batches(run: Run) -> list[list[str]]:
    return [batch["hosts"] for batch in next(iter(run.of("rollout_plan").values()))["batches"]]


def seed() -> str:
    """An order in which the first host after the canaries is a tree, so the real ones come in the
    second wave.
    """
    for text in map(str, itertools.count()):
        line = order.order_by_domain(HOSTS, {}, text)
        first = [
            next(h for h in line if h in of_class)
            for of_class in (NEW, OLD, [SLURM], [*TREES][:4], [*TREES][4:])
        ]
        rest = [h for h in line if h not in first]
        if rest[0] in TREES:
            return text
    raise AssertionError


@dc.dataclass(frozen=True)
class Week:
    """The runs by day, the hosts by what happened to them, and what was on them afterwards."""

    runs: Mapping[str, Run]
    canary: str  # the one of the class OLD, which is rolled back
    moved: str  # plans something else than what was approved
    lost: str  # in the second wave
    crashed: str
    sick: str
    converged: Mapping[str, set[str]]
    slurm: Mapping[str, str]  # what Slurm says of its node
    starts: Mapping[str, int]

    def word(self, day: str, host: str) -> str:
        """What became of a host, by the table."""
        return read_column(self.runs[day].words, "CHANGED")[host]


class Scene:
    def __init__(self, up: Fleet, place: Path) -> None:
        self.up, self.place = up, place
        hosts = {}
        for name, version in TREES.items():
            tree = place / name
            (tree / "etc/containerd").mkdir(parents=True)
            (tree / "etc/containerd/config.toml").write_text("version = 2\n")
            local = {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "ansible_become": False,
            }
            hosts[name] = {
                **local,
                "gpufleet_root": str(tree),
                "gpufleet_engine_version": version,
                "gpufleet_no_gpu": "prepare",
            }
        # A node of Slurm's is taken out of service for every change: that is how the rollout learns
        # that somebody else has done so.
        drained = {
            "gpufleet_drain": "always",
            "gpufleet_drain_by": ["slurm"],
            "gpufleet_drain_delegate": SLURM,
            "gpufleet_restart": "never",
        }
        data = {"all": {"children": {"gpu_hosts": {"hosts": {**hosts, SLURM: drained}}}}}
        (place / "more.json").write_text(json.dumps(data))
        self.variables = {
            **SETTINGS,
            "gpufleet_rollout_seed": seed(),
            "gpufleet_rollout_id": "week",
        }

    def rollout(self, *arguments: str, around: Sequence[str] = (), **more: Any) -> Run:
        """The runs after a killed one find what it has left, and no other rollout of this machine
        does.
        """
        variables, home = {**self.variables, **more}, {"ANSIBLE_HOME": str(self.place / "home")}
        trees = ["-i", str(self.place / "more.json"), *arguments]
        return self.up.play(
            "rollout", HOSTS, variables=variables, arguments=trees, around=around, environment=home
        )

    def tasks(self, name: str, tasks: list[dict[str, Any]]) -> str:
        path = self.place / f"{name}.yml"
        path.write_text(json.dumps(tasks))
        return str(path)

    def converged(self) -> set[str]:
        real = {
            h
            for h in NEW + OLD
            if "nvidia" in self.up.shell(h, "cat /etc/containerd/config.toml 2>/dev/null || true")
        }
        docker = (
            {SLURM}
            if "nvidia" in self.up.shell(SLURM, "cat /etc/docker/daemon.json 2>/dev/null || true")
            else set()
        )
        return (
            real
            | docker
            | {
                h
                for h in TREES
                if "nvidia" in (self.place / h / "etc/containerd/config.toml").read_text()
            }
        )


@pytest.fixture(scope="module")
def week(boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Week:
    kinds = {**dict.fromkeys(NEW, "containerd-1.7"), **dict.fromkeys(OLD, "containerd-1.6")}
    more = {
        SLURM: {
            "kind": "slurm-22.05",
            "gpus": 1,
            "driver": "ok",
            "files": {k: v.replace("gpu1", SLURM) for k, v in FILES.items()},
        }
    }
    up = boot(
        {
            **{name: {"kind": kind, "gpus": 1, "driver": "ok"} for name, kind in kinds.items()},
            **more,
        }
    )
    return told(Scene(up, tmp_path_factory.mktemp("week")))


def told(scene: Scene) -> Week:
    up, runs, converged = scene.up, {}, {}
    for host in REAL:
        up.shell(host, "cp /usr/bin/runc /usr/bin/nvidia-container-runtime")
    before = {host: up.starts(host, "containerd.service") for host in NEW + OLD}
    up.shell(
        SLURM,
        f"timeout 60 sh -c 'until scontrol show node {SLURM} | grep -qF \" State=IDLE \"; do sleep 0.2; done'",
    )
    plan = str(scene.place / "plan.json")
    runs["monday"] = scene.rollout("--check", gpufleet_rollout_plan_file=plan)
    first, _one, rest = batches(runs["monday"])
    canary, lost = next(h for h in first if h in OLD), next(h for h in rest if h in NEW)
    moved = next(h for h in rest if h in NEW and h != lost)

    for host in OLD:
        up.shell(
            host,
            f'mkdir -p $(dirname {DROP_IN}); printf %s "{TRAP}" >{DROP_IN}; systemctl daemon-reload',
        )
    up.shell(moved, f"mkdir -p /etc/containerd; printf '{HALF}' >/etc/containerd/config.toml")
    up.shell(SLURM, f"scontrol update nodename={SLURM} state=drain reason='fan, Alice'")
    cut = {
        "ansible.builtin.command": {
            "argv": [sys.executable, "-m", "tests.lab", "link", lost, "down"],
            "chdir": str(ROOT),
        }
    }
    here = {
        "delegate_to": "localhost",
        "vars": {"ansible_connection": "local"},
        "environment": {"GPUFLEET_LAB_NAME": up.lab.name},
    }
    cuts = [{**cut, **here, "when": f"inventory_hostname == '{lost}'"}]
    runs["tuesday"] = scene.rollout(
        gpufleet_rollout_approved=plan,
        gpufleet_rollout_max_failed=BUDGET,
        gpufleet_rollout_tasks={"before": scene.tasks("cut", cuts)},
    )
    up.lab.link(lost, "up")
    converged["tuesday"] = scene.converged()

    for host in OLD:
        up.shell(host, f"rm -f {DROP_IN}; systemctl daemon-reload")
    up.shell(SLURM, f"scontrol update nodename={SLURM} state=resume")
    up.shell(
        SLURM,
        f"timeout 60 sh -c 'until scontrol show node {SLURM} | grep -qF \" State=IDLE \"; do sleep 0.2; done'",
    )
    up.shell(SLURM, DCGMI.format(verdict="Fail", status=226))
    up.shell(SLURM, SERVER)
    soak = {"gpufleet_rollout_soak": 1, "gpufleet_rollout_max_failed": BUDGET}
    runs["wednesday"] = scene.rollout(**soak, around=killed_at("TASK [Begin the batch]", 2))
    converged["wednesday"] = scene.converged()
    slurm = {"wednesday": up.shell(SLURM, f"scontrol show node {SLURM}")}
    up.shell(SLURM, DCGMI.format(verdict="Pass", status=0))

    left = [h for h in NEW + OLD if h not in converged["wednesday"]]
    crashed, sick = left[0], left[1]
    crash = f"mkdir -p $(dirname {DROP_IN}); printf %s '{CRASHES}' >{DROP_IN}; systemctl daemon-reload; systemctl kill -s KILL containerd"
    ill = f"printf %s '{XID}' >{KERNEL_LOG}".replace("\n", "\\n")
    after = [
        {"ansible.builtin.shell": crash, "when": f"inventory_hostname == '{crashed}'"},
        {"ansible.builtin.shell": ill, "when": f"inventory_hostname == '{sick}'"},
    ]
    runs["thursday"] = scene.rollout(
        **soak, gpufleet_rollout_tasks={"after": scene.tasks("after", after)}
    )
    slurm["thursday"] = up.shell(SLURM, f"scontrol show node {SLURM}")
    up.shell(
        crashed,
        f"rm -f {DROP_IN}; systemctl daemon-reload; systemctl reset-failed; systemctl restart containerd",
    )
    runs["friday"] = scene.rollout()
    up.shell(sick, f": >{KERNEL_LOG}")  # as a reboot does
    runs["saturday"] = scene.rollout()
    converged["friday"] = scene.converged()
    starts = {host: up.starts(host, "containerd.service") - before[host] for host in NEW + OLD}
    return Week(runs, canary, moved, lost, crashed, sick, converged, slurm, starts)


def test_the_plan_has_five_classes_with_a_canary_each(week: Week) -> None:
    plan = next(iter(week.runs["monday"].of("rollout_plan").values()))
    assert week.runs["monday"].status == 0, week.runs["monday"].words
    assert (
        len({host["class"] for host in plan["hosts"].values()})
        == len(batches(week.runs["monday"])[0])
        == 5
    )
    assert set(plan["hosts"]) == set(HOSTS)


def test_hosts_that_moved_or_that_somebody_drained_are_left_out(week: Week) -> None:
    words = " ".join(week.runs["tuesday"].words.split())
    assert {week.word("tuesday", h) for h in (week.moved, SLURM)} == {"left out"}, week.runs[
        "tuesday"
    ].words
    assert "it plans something else than what was approved" in words
    assert "fan, Alice" in words
    assert not {week.moved, SLURM} & week.converged["tuesday"]


def test_a_canary_stops_its_class_and_a_lost_host_counts_and_all_others_are_done(
    week: Week,
) -> None:
    run = week.runs["tuesday"]
    assert run.status == 2, run.words
    assert (week.word("tuesday", week.canary), week.word("tuesday", week.lost)) == (
        "rolled back",
        "lost",
    ), run.words
    other = next(h for h in OLD if h != week.canary)
    assert week.word("tuesday", other) == "pending"
    assert week.converged["tuesday"] == set(HOSTS) - {*OLD, week.lost, week.moved, SLURM}


def test_a_controller_that_is_killed_between_two_batches_has_done_the_first_one(week: Week) -> None:
    run = week.runs["wednesday"]
    assert run.status != 0
    first = set(batches(run)[0])
    assert week.converged["wednesday"] == week.converged["tuesday"] | first, run.words
    assert week.canary in first or set(OLD) & first, (
        "the class that had stopped begins with a canary again"
    )


def test_a_host_whose_gpus_fail_the_diagnosis_stays_out_of_service_until_they_pass(
    week: Week,
) -> None:
    assert "DRAIN" in week.slurm["wednesday"]
    assert "dcgmi diag -r 1 failed: Denylist" in week.slurm["wednesday"]
    assert "DRAIN" not in week.slurm["thursday"], week.runs["thursday"].words
    assert SLURM in batches(week.runs["thursday"])[0], "hosts that are out of service come first"
    assert week.word("thursday", SLURM) == "no"


def test_a_soak_finds_an_engine_that_crashed_and_a_gpu_that_was_lost(week: Week) -> None:
    run = week.runs["thursday"]
    words = " ".join(run.words.split())
    assert run.status == 2, run.words
    assert {week.word("thursday", h) for h in (week.crashed, week.sick)} == {"failed"}, run.words
    # Whoever is first: the host's own watch takes the change back, or the look finds the engine
    # down.
    assert re.search(
        "its change was rolled back since by|containerd is installed but not running|containerd.service does not run",
        words,
    )
    assert "its GPU driver reports Xid 79 of the GPU 0000:01:00" in words


def test_a_host_that_is_still_sick_is_left_out_and_not_blamed_again(week: Week) -> None:
    words = " ".join(week.runs["friday"].words.split())
    assert week.word("friday", week.sick) == "left out", week.runs["friday"].words
    assert "its GPUs were sick before the rollout began" in words
    assert "Xid 79 of the GPU 0000:01:00" in words


def test_in_the_end_all_hosts_are_done_and_nothing_is_left_to_do(week: Week) -> None:
    assert week.runs["friday"].status == 0, week.runs["friday"].words
    assert week.converged["friday"] == set(HOSTS)
    last = week.runs["saturday"]
    assert last.status == 0, last.words
    assert batches(last) == []
    undisturbed = {*NEW, *OLD} - {week.canary, week.crashed}
    assert {week.starts[host] for host in undisturbed} == {1}, (
        "for its change alone, whatever was lost, killed or begun again"
    )
