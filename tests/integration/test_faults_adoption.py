# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction in which nvidia-ctk's file goes and ours comes, killed at a sample of its system
calls; `make soak` strikes all of them.

The real nvidia-ctk 1.20 has configured the hosts before. Old is then its file with its handler in
force, new is ours with ours.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults import sweep
from tests.faults.victim import Victim
from tests.integration.conftest import Boot
from tests.lab.lab import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="nvidia-ctk is built with Go, which is not here"
    ),
]

HOSTS = {"adopt24": "containerd-2.4", "adoptcrio": "crio-1.34"}
THEIRS = {
    "adopt24": "/etc/containerd/conf.d/99-nvidia.toml",
    "adoptcrio": "/etc/crio/crio.conf.d/99-nvidia.toml",
}
OURS = {
    "adopt24": "/etc/containerd/conf.d/90-gpufleet.toml",
    "adoptcrio": "/etc/crio/crio.conf.d/90-gpufleet.conf",
}
# who takes it back: how many calls are tried, spread over all that there are
SAMPLE = {
    "systemd": 10,
    "next": 2,
}


def struck(victim: Victim) -> tuple[sweep.Sides, list[sweep.Try]]:
    victim.configure()
    victim.prepare()
    both, points = sweep.sides(victim)
    seen, tries = sweep.Seen(), []
    for row, (by, count) in enumerate(SAMPLE.items()):
        step = len(points) // count
        for point in points[row * step // len(SAMPLE) :: step][:count]:
            tries.append(sweep.strike(victim, both, point, sweep.KILL, by, seen))
    return both, tries


def test_killed_anywhere_all_is_as_before_or_all_is_taken_over(boot: Boot, lab: Lab) -> None:
    boot({name: {"kind": kind, "gpus": 1} for name, kind in HOSTS.items()})
    with ThreadPoolExecutor(len(HOSTS)) as pool:
        found = dict(
            zip(HOSTS, pool.map(lambda name: struck(Victim(lab, name)), HOSTS), strict=True)
        )
    for host, (both, tries) in found.items():
        print(f"{host}: {sweep.totals(tries)}")
        assert {THEIRS[host], OURS[host]} <= set(both.paths)
        assert (THEIRS[host] in both.old.files, THEIRS[host] in both.new.files) == (True, False)
        assert (OURS[host] in both.old.files, OURS[host] in both.new.files) == (False, True)
        assert [str(one) for one in tries if not (one.fine and one.hit)] == []
        assert sweep.totals(tries)["old"], "no try was early enough to be taken back"
        assert sweep.totals(tries)["new"], "no try was late enough to go on"
