# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of the newest Kubernetes with the newest containerd, from the plan to the way back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.kube import Kube
from tests.lab.kubernetes import NEWEST, Cluster
from tests.lab.lab import Lab
from tests.tools.onlab import PROBE, Fleet, differing, repository

pytestmark = pytest.mark.lab

NODE = "new-node"
# What a person may have put beside the unit: no daemon starts with our file.
GUARD = "/etc/systemd/system/containerd.service.d/guard.conf"
DROP_IN = "/etc/containerd/conf.d/90-gpufleet.toml"
WITH_GUARD = f"""mkdir -p $(dirname {GUARD})
cat >{GUARD} <<'END'
[Service]
ExecStartPre=/bin/sh -c '! test -e {DROP_IN}'
END
systemctl daemon-reload"""
WITHOUT_GUARD = f"rm {GUARD}; systemctl daemon-reload"


@pytest.fixture(scope="module")
def cluster(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    found = Cluster(lab, tmp_path_factory.mktemp("cluster"), NEWEST)
    node = {"kind": "containerd-2.4", "gpus": 2, "driver": "ok", "files": found.files(NODE)}
    lab.up({"hosts": {NODE: node}})
    found.start([NODE])
    yield Kube(Fleet(lab), found)
    lab.down([NODE])


def get_options() -> dict[str, Any]:
    return {key.removeprefix("gpufleet_"): value for key, value in repository().items()}


def run_host(cluster: Kube, **more: Any) -> dict[str, Any]:
    run = cluster.fleet.task("host", [NODE], {**get_options(), **more})
    answer: dict[str, Any] = run.of("host")[NODE]
    return answer


def test_a_node_is_converged_verified_and_given_back(cluster: Kube) -> None:
    fleet = cluster.fleet
    version = cluster.cluster.get("node", NODE)["status"]["nodeInfo"]["kubeletVersion"]
    assert version == "v1.37.2"
    untouched = fleet.tree(NODE, "/etc/containerd")
    planned = fleet.task("host_info", [NODE], get_options()).of("host_info")[NODE]
    assert planned["problem"] == ""

    fleet.shell(NODE, WITH_GUARD)
    failed = run_host(cluster)
    assert (failed["status"], failed["rolled_back"]) == ("failed", True)
    assert differing(untouched, fleet.tree(NODE, "/etc/containerd")) == {}
    fleet.shell(NODE, WITHOUT_GUARD)

    first, again = run_host(cluster), fleet.task("host", [NODE], get_options())
    second = again.of("host")[NODE]
    (decision,) = first["decision"]["decisions"]
    assert (first["status"], first["changed"], decision["injection"]) == ("ok", True, "native-cdi")
    for told in (planned, first):
        assert DROP_IN in {difference["path"] for difference in told["differences"]}
    assert (second["status"], second["changed"], again.operations[NODE]) == ("ok", False, 1)
    verification = fleet.task("host_verify", [NODE], {"image": PROBE}).of("host_verify")[NODE]
    assert verification["verified"], verification["checks"]

    cluster.cluster.ready([NODE])
    applied = cluster.apply(nodes=[NODE])
    assert (applied.status, applied.failed) == (0, {}), applied.words
    assert cluster.said(NODE)["deviceListStrategy"] == ["cdi-cri"]
    cluster.plugin(NODE)
    cluster.alone(NODE)

    gone = run_host(cluster, state="absent")
    assert gone["status"] == "ok"
    assert differing(untouched, fleet.tree(NODE, "/etc/containerd")) == {}
