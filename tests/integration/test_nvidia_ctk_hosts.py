# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real containerds that the real nvidia-ctk 1.20 has configured: taken over with one restart while
a container runs, and given back.
"""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.integration import story
from tests.lab import artefacts
from tests.tools.onlab import Fleet, differing, settings

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="nvidia-ctk is built with Go, which is not here"
    ),
]

HOSTS = {"left17": "containerd-1.7", "left24": "containerd-2.4"}
THEIRS = "/etc/containerd/conf.d/99-nvidia.toml"
# 1.20's default, with the two flags that most guides have; a site's mirror is copied with all the
# rest.
CONFIGURE = f"""
set -e
install -d /etc/containerd/conf.d
/usr/bin/nvidia-ctk --quiet runtime configure --runtime=containerd --set-as-default --cdi.enabled
chmod 640 {THEIRS}
systemctl restart containerd
for n in $(seq 100); do /opt/lab/bin/crictl version >/dev/null 2>&1 && exit; sleep 0.1; done; exit 1
"""
DUMP = "containerd config dump 2>/dev/null"


@pytest.fixture(scope="module")
def fleet(boot: Any, lab: Any) -> Fleet:
    found: Fleet = boot(
        {name: {"kind": kind, "gpus": 1, "driver": "ok"} for name, kind in HOSTS.items()}
    )
    # the packages, with NVIDIA's tool
    assert found.play("site", list(HOSTS), variables=settings()).failed == {}
    assert found.play("rollback", list(HOSTS), variables=settings()).failed == {}
    for host in HOSTS:
        found.shell(host, CONFIGURE)
        story.start_bystander(found, host)
    return found


def test_it_is_taken_over_with_one_restart_and_given_back(fleet: Fleet) -> None:
    assert artefacts.GO_TOOLS["nvidia-toolkit"].stamps[0][1].startswith("1.20")
    hosts = list(HOSTS)
    trees = {host: fleet.tree(host) for host in hosts}
    starts = {host: fleet.starts(host, "containerd") for host in hosts}
    running = {host: story.bystander(fleet, host) for host in hosts}
    assert all(THEIRS in trees[host] and running[host] for host in hosts)

    run = fleet.play("site", hosts, variables=settings())
    assert run.failed == {}, run.words
    for host in hosts:
        answer = run.of("host")[host]
        left = [
            (x["tool"], x["path"], x["exact"], x["fate"])
            for x in answer["leftovers"]
            if x["path"] == THEIRS
        ]
        assert left == [("nvidia-ctk", THEIRS, True, "adopted")]
        assert answer["restarted"] == ["containerd.service"]
        assert run.of("host_verify")[host]["verified"]
        assert THEIRS not in fleet.tree(host)
        assert fleet.starts(host, "containerd") == starts[host] + 1
        assert story.bystander(fleet, host) == running[host]
        assert "nvidia-container-runtime" in fleet.shell(host, DUMP)

    again = fleet.play("site", hosts, variables=settings())
    assert again.changed == {}, again.words

    back = fleet.play("rollback", hosts, variables=settings())
    assert back.failed == {}, back.words
    for host in hosts:
        assert {
            p: both
            for p, both in differing(trees[host], fleet.tree(host)).items()
            if "/containerd/" in p
        } == {}
        assert story.bystander(fleet, host) == running[host]
