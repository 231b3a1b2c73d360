# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest Docker and Podman, from the plan to the way back.

Docker 29 takes the devices of `--gpus` from the CDI spec, and keeps images in containerd's store.
The newest containerd is in the story of all engines (story.py).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tools.onlab import PROBE, Fleet, Run, differing, repository

pytestmark = pytest.mark.lab

DOCKER, PODMAN = "new-docker", "new-podman"
BOTH = (DOCKER, PODMAN)
CONFIG, SPEC = "/etc/docker/daemon.json", "/etc/cdi/nvidia.yaml"
OWN = '{\n  "log-opts": {"max-size": "10m"}\n}\n'
RUN = "docker run --pull=never --network=none --rm"
NODES = "ls /dev | grep -c '^nvidia[0-9]' || true"


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    gpus = {"gpus": 2, "driver": "ok"}
    docker = {"kind": "docker-29", **gpus, "files": {CONFIG: OWN}}
    return boot({DOCKER: docker, PODMAN: {"kind": "podman-5.8", **gpus}})  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def runs(fleet: Fleet) -> dict[str, Run]:
    """Return the plan, the run, a second one and the verification."""
    options = {key.removeprefix("gpufleet_"): value for key, value in repository().items()}
    return {
        "plan": fleet.task("host_info", BOTH, options),
        "run": fleet.task("host", BOTH, options),
        "again": fleet.task("host", BOTH, options),
        "verify": fleet.task("host_verify", BOTH, {"image": PROBE}),
    }


def read_info(fleet: Fleet) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(fleet.shell(DOCKER, "docker info --format '{{json .}}'"))
    return said


@pytest.mark.parametrize("host", BOTH)
def test_the_plan_is_what_is_done_and_a_second_run_changes_nothing(
    runs: dict[str, Run], host: str
) -> None:
    planned = runs["plan"].of("host_info")[host]
    first, second = (runs[name].of("host")[host] for name in ("run", "again"))
    assert planned["problem"] == ""
    assert [(d["path"], d["key"]) for d in planned["differences"]] == [
        (d["path"], d["key"]) for d in first["differences"]
    ]
    assert (first["changed"], second["changed"]) == (True, False)
    assert runs["again"].operations[host] == 1


@pytest.mark.parametrize("host", BOTH)
def test_containers_get_their_gpus_by_cdi(runs: dict[str, Run], host: str) -> None:
    (decision,) = runs["run"].of("host")[host]["decision"]["decisions"]
    assert decision["injection"] == "native-cdi"
    verification = runs["verify"].of("host_verify")[host]
    assert verification["verified"], verification["checks"]
    asked = {check["name"].partition(": ")[2] for check in verification["checks"]}
    assert {"one", "all", "none"} <= asked


def test_docker_takes_gpus_from_the_spec(fleet: Fleet, runs: dict[str, Run]) -> None:
    """The daemon looks for NVIDIA's programs at its start, so the run has restarted it."""
    assert runs["run"].of("host")[DOCKER]["restarted"] == ["docker.service"]
    said = read_info(fleet)
    assert said["ServerVersion"].startswith("29.")
    assert ["driver-type", "io.containerd.snapshotter.v1"] in said["DriverStatus"]
    for asked, number in (("all", 2), ("device=1", 1)):
        assert fleet.shell(DOCKER, f'{RUN} --gpus {asked} {PROBE} sh -c "{NODES}"') == f"{number}\n"
    assert fleet.shell(DOCKER, f'{RUN} {PROBE} sh -c "{NODES}"') == "0\n"


# What a person may have put beside Docker's unit: no daemon starts with our directory.
GUARD = """mkdir -p /etc/systemd/system/docker.service.d
cat >/etc/systemd/system/docker.service.d/guard.conf <<'END'
[Service]
ExecStartPre=/bin/sh -c '! grep -q /srv/cdi /etc/docker/daemon.json'
END
systemctl daemon-reload"""


def test_a_restart_that_fails_is_taken_back(fleet: Fleet, runs: dict[str, Run]) -> None:
    fleet.shell(DOCKER, GUARD)
    before, dirs = fleet.tree(DOCKER, "/etc"), read_info(fleet)["CDISpecDirs"]
    options = {"cdi_spec_dirs": ["/srv/cdi"], "restart": "force"}
    failed = fleet.task("docker_runtime", [DOCKER], options).of("docker_runtime")[DOCKER]
    assert (failed["status"], failed["rolled_back"], failed["changed"]) == ("failed", True, False)
    assert differing(before, fleet.tree(DOCKER, "/etc")) == {}
    assert read_info(fleet)["CDISpecDirs"] == dirs


@pytest.mark.parametrize(
    ("host", "path", "text"), [(DOCKER, CONFIG, OWN), (PODMAN, SPEC, "")], ids=BOTH
)
def test_absent_gives_the_host_back(
    fleet: Fleet, runs: dict[str, Run], host: str, path: str, text: str
) -> None:
    gone = fleet.task("host", [host], {"state": "absent"})
    assert gone.failed == {}, gone.words
    assert fleet.shell(host, f"cat {path} 2>/dev/null || true") == text
    assert fleet.task("host", [host], {"state": "absent"}).changed == {}
