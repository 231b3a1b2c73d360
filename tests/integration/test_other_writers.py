# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real CRI-O host on which others write as well: one owner of the CDI spec, across a reboot as
well, files in wrong places.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration import containers
from tests.integration.containers import CRI_CONTAINER, CRICTL, POD
from tests.tools.onlab import Fleet, Run, differing, repository

pytestmark = pytest.mark.lab

HOST = "writers"
DROP_INS = "/etc/crio/crio.conf.d"
OURS, THEIRS = "/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"
UNITS = "nvidia-cdi-refresh.path nvidia-cdi-refresh.service"
SPECS = f"ls {OURS} {THEIRS} 2>/dev/null || true"


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    """One host with NVIDIA's base package as its administrator installed it: nvidia-cdi-refresh is
    enabled and has written its file.
    """
    found: Fleet = boot({HOST: {"kind": "crio-1.34", "gpus": 2, "driver": "ok"}})
    role = [{"hosts": HOST, "gather_facts": False, "roles": ["gpufleet.nvidia.toolkit"]}]
    assert found.play(role, [HOST], variables=repository()).status == 0
    found.shell(
        HOST,
        "apt-get -q update; DEBIAN_FRONTEND=noninteractive apt-get -q install -y nvidia-container-toolkit-base",
    )
    return found


def run_host(fleet: Fleet, **options: Any) -> Run:
    run = fleet.task("host", [HOST], options)
    assert run.failed == {}, run.words
    return run


def test_where_both_would_write_only_one_does(fleet: Fleet) -> None:
    assert fleet.shell(HOST, SPECS).split() == [THEIRS]
    before = fleet.tree(HOST)
    assert run_host(fleet).of("host")[HOST]["decision"]["cdi_owner"] == "toolkit"
    assert fleet.shell(HOST, SPECS).split() == [THEIRS]
    assert run_host(fleet).changed == {}

    # nvidia-ctk records the number of nvidia-uvm, which a boot may change: theirs is judged as
    # well, and made again by their own unit.
    fleet.shell(HOST, "rm /dev/nvidia-uvm; mknod -m 666 /dev/nvidia-uvm c 500 0")
    stale = fleet.task("host", [HOST], arguments=["--check"]).of("host")[HOST]
    assert [(v["writer"], v["state"]) for v in stale["freshness"]] == [("toolkit", "stale")]
    assert "cdi.node-changed" in [
        reason["code"] for verdict in stale["freshness"] for reason in verdict["reasons"]
    ]
    assert "500:0" in stale["row"]["why"]
    assert (
        "systemctl start nvidia-cdi-refresh.service" in run_host(fleet).of("host")[HOST]["actions"]
    )
    fresh = run_host(fleet)
    assert (fresh.changed, [v["state"] for v in fresh.of("host")[HOST]["freshness"]]) == (
        {},
        ["fresh"],
    )
    assert fresh.operations[HOST] == 1
    fleet.shell(
        HOST,
        "rm /dev/nvidia-uvm; mknod -m 666 /dev/nvidia-uvm c 511 0; systemctl start nvidia-cdi-refresh.service",
    )

    run_host(fleet, cdi_owner="collection")
    assert fleet.shell(HOST, SPECS).split() == [OURS]
    assert run_host(fleet, cdi_owner="collection").changed == {}
    fleet.lab.kill(HOST)
    fleet.lab.boot(HOST)
    # The udev rule of toolkit 1.20.1 starts even a disabled service when the driver's module is
    # loaded.
    assert "masked" in fleet.shell(HOST, "systemctl start nvidia-cdi-refresh.service 2>&1 || true")
    assert fleet.shell(HOST, SPECS).split() == [OURS]
    assert run_host(fleet).changed == {}  # `auto` stays with what is

    run_host(fleet, state="absent")
    after = fleet.tree(HOST)
    assert {p: e for p, e in after.items() if "/cdi" not in p} == {
        p: e for p, e in before.items() if "/cdi" not in p
    }
    assert fleet.shell(HOST, f"systemctl is-enabled {UNITS}").split() == ["enabled", "enabled"]


BYSTANDER = {**POD, "metadata": {**POD["metadata"], "name": "by", "uid": "by"}}
CONFIGURED = f"""
set -e
systemctl daemon-reload
systemctl restart nvidia-cdi-refresh.service
nvidia-ctk --quiet runtime configure --runtime=crio --set-as-default
nvidia-ctk --quiet cdi generate --output=/etc/cdi/gpus.yaml
systemctl restart crio
printf %s '{json.dumps(BYSTANDER)}' >/run/by.json
printf %s '{json.dumps(CRI_CONTAINER)}' >/run/by-container.json
{CRICTL} runp /run/by.json >/run/by.id
{CRICTL} create --no-pull $(cat /run/by.id) /run/by-container.json /run/by.json >/run/by-container.id
{CRICTL} start $(cat /run/by-container.id) >/dev/null
"""
OWN = {"cdi_owner": "collection", "cdi_profile": "devices"}
SLEEPS = (
    f"{CRICTL} inspect -o go-template --template '{{{{.info.pid}}}}' $(cat /run/by-container.id)"
)


def test_what_nvidia_ctk_left_is_taken_over_by_one_run_and_given_back(fleet: Fleet) -> None:
    """Its drop-in, its default, its spec of another name, and its unit: what runs goes on, and the
    host is as one that nobody touched.
    """
    fleet.shell(HOST, CONFIGURED)
    before, starts, sleeps = fleet.tree(HOST), fleet.starts(HOST, "crio"), fleet.shell(HOST, SLEEPS)
    planned = fleet.play(
        "plan", [HOST], variables={f"gpufleet_{name}": value for name, value in OWN.items()}
    )
    assert f"{HOST}: {DROP_INS}/99-nvidia.toml, by nvidia-ctk: will be taken over" in planned.words
    done = run_host(fleet, **OWN).of("host")[HOST]
    assert {(left["tool"], left["path"], left["fate"]) for left in done["leftovers"]} == {
        ("nvidia-ctk", f"{DROP_INS}/99-nvidia.toml", "adopted"),
        ("nvidia-ctk", "/etc/cdi/gpus.yaml", "adopted"),
        ("nvidia-cdi-refresh", THEIRS, "adopted"),
        ("nvidia-cdi-refresh", "/lib/systemd/system/nvidia-cdi-refresh.service", "adopted"),
    }
    assert (done["restarted"], fleet.starts(HOST, "crio")) == (["crio.service"], starts + 1)
    assert fleet.shell(HOST, f"ls {DROP_INS} /etc/cdi").split() == [
        "/etc/cdi:",
        "nvidia.yaml",
        f"{DROP_INS}:",
        "10-crio.conf",
        "90-gpufleet.conf",
    ]
    assert (
        fleet.shell(HOST, SLEEPS),
        fleet.shell(HOST, f"kill -0 {sleeps.strip()} && echo lives"),
    ) == (sleeps, "lives\n")
    assert containers.start(fleet.lab, HOST, ["nvidia.com/gpu=0"]).refused == ""
    again = run_host(fleet, **OWN)
    second = again.of("host")[HOST]
    assert (second["differences"], again.changed, second["leftovers"]) == ([], {}, [])
    assert run_host(fleet, state="absent").of("host")[HOST]["restarted"] == ["crio.service"]
    assert differing(before, fleet.tree(HOST)) == {}
    fleet.shell(
        HOST,
        f"{CRICTL} rmp --force $(cat /run/by.id); rm {DROP_INS}/99-nvidia.toml /etc/cdi/gpus.yaml; systemctl restart crio",
    )


HANDLER = '[crio.runtime.runtimes.nvidia]\nruntime_path = "/usr/bin/nvidia-container-runtime"\n'


@pytest.mark.parametrize(
    ("name", "text", "place", "code"),
    [
        ("README", "Put your drop-ins here.\n", f"{DROP_INS}/README:1: ", "crio.drop-in-refused"),
        (
            "10-crio.conf.rpmnew",
            "[crio.runtime\n",
            f"{DROP_INS}/10-crio.conf.rpmnew:1: ",
            "crio.drop-in-refused",
        ),
        ("99-site.conf.bak", HANDLER, f"{DROP_INS}/99-site.conf.bak: ", "crio.read-later"),
    ],
)
def test_a_stray_file_is_named_and_nothing_is_touched(
    fleet: Fleet, name: str, text: str, place: str, code: str
) -> None:
    fleet.shell(HOST, f"printf %s '{text}' > {DROP_INS}/{name}")
    before = fleet.tree(HOST)
    try:
        failed = fleet.task("crio_runtime", [HOST]).failed[HOST]
        assert fleet.tree(HOST) == before
    finally:
        fleet.shell(HOST, f"rm {DROP_INS}/{name}")
    assert place in failed
    assert f"[{code}]" in failed


def test_nvidias_own_drop_in_is_left_to_its_owner(fleet: Fleet) -> None:
    fleet.shell(HOST, f"printf %s '{HANDLER}' > {DROP_INS}/99-nvidia.toml")
    try:
        advice = fleet.task("host", [HOST], arguments=["--check"]).of("host")[HOST]["advice"]
    finally:
        fleet.shell(HOST, f"rm {DROP_INS}/99-nvidia.toml")
    assert [a for a in advice if "99-nvidia.toml" in a and "nvidia-ctk" in a]


def test_a_stopped_crio_is_left_alone(fleet: Fleet) -> None:
    fleet.shell(HOST, "systemctl stop crio 2>/dev/null")
    before = fleet.tree(HOST)
    try:
        failed = fleet.task("crio_runtime", [HOST]).failed[HOST]
        assert fleet.tree(HOST) == before
    finally:
        fleet.shell(HOST, "systemctl start crio 2>/dev/null")
    assert "installed but not running" in failed
