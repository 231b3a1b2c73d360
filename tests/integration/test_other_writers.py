# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real CRI-O host on which others write, too: one owner of the CDI spec, also across a reboot, and files that lie in the wrong place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.onlab import Fleet, Run, repository

pytestmark = pytest.mark.lab

HOST = "writers"
DROP_INS = "/etc/crio/crio.conf.d"
OURS, THEIRS = "/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"
UNITS = "nvidia-cdi-refresh.path nvidia-cdi-refresh.service"
SPECS = f"ls {OURS} {THEIRS} 2>/dev/null || true"


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    """One host with NVIDIA's base package as its administrator installed it: nvidia-cdi-refresh is enabled and has written its file."""
    found: Fleet = boot({HOST: {"kind": "crio-1.34", "gpus": 2, "driver": "ok"}})
    role = [{"hosts": HOST, "gather_facts": False, "roles": ["gpufleet.nvidia.toolkit"]}]
    assert found.play(role, [HOST], variables=repository()).status == 0
    found.shell(HOST, "apt-get -q update; DEBIAN_FRONTEND=noninteractive apt-get -q install -y nvidia-container-toolkit-base")
    return found


def node(fleet: Fleet, **options: Any) -> Run:
    run = fleet.task("node", [HOST], options)
    assert run.failed == {}, run.words
    return run


def test_where_both_would_write_only_one_does(fleet: Fleet) -> None:
    assert fleet.shell(HOST, SPECS).split() == [THEIRS]
    before = fleet.tree(HOST)
    assert node(fleet).of("node")[HOST]["decision"]["cdi_owner"] == "theirs"
    assert fleet.shell(HOST, SPECS).split() == [THEIRS]
    assert node(fleet).changed == {}

    # nvidia-ctk records the number of nvidia-uvm, which a boot may change: theirs is judged, too, and made anew by their own unit.
    fleet.shell(HOST, "rm /dev/nvidia-uvm; mknod -m 666 /dev/nvidia-uvm c 500 0")
    stale = fleet.task("node", [HOST], arguments=["--check"]).of("node")[HOST]
    assert [(v["writer"], v["state"]) for v in stale["freshness"]] == [("theirs", "stale")]
    assert "records /dev/nvidia-uvm as 511:0, and it is 500:0 now" in stale["row"]["why"]
    assert "systemctl start nvidia-cdi-refresh.service" in node(fleet).of("node")[HOST]["actions"]
    fresh = node(fleet)
    assert (fresh.changed, [v["state"] for v in fresh.of("node")[HOST]["freshness"]]) == ({}, ["fresh"])
    assert fresh.operations[HOST] == 1
    fleet.shell(HOST, "rm /dev/nvidia-uvm; mknod -m 666 /dev/nvidia-uvm c 511 0; systemctl start nvidia-cdi-refresh.service")

    node(fleet, cdi_owner="ours")
    assert fleet.shell(HOST, SPECS).split() == [OURS]
    assert node(fleet, cdi_owner="ours").changed == {}
    fleet.lab.kill(HOST)
    fleet.lab.boot(HOST)
    # The udev rule of toolkit 1.20.1 starts even a disabled service when the driver's module is loaded.
    assert "masked" in fleet.shell(HOST, "systemctl start nvidia-cdi-refresh.service 2>&1 || true")
    assert fleet.shell(HOST, SPECS).split() == [OURS]
    assert node(fleet).changed == {}  # `auto` stays with what is

    node(fleet, state="absent")
    after = fleet.tree(HOST)
    assert {p: e for p, e in after.items() if "/cdi" not in p} == {p: e for p, e in before.items() if "/cdi" not in p}
    assert fleet.shell(HOST, f"systemctl is-enabled {UNITS}").split() == ["enabled", "enabled"]


NOT_TOML = "CRI-O would refuse to start"
HANDLER = '[crio.runtime.runtimes.nvidia]\nruntime_path = "/usr/bin/nvidia-container-runtime"\n'


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("README", "Put your drop-ins here.\n", f"{DROP_INS}/README:1: {NOT_TOML}"),
        ("10-crio.conf.rpmnew", "[crio.runtime\n", f"{DROP_INS}/10-crio.conf.rpmnew:1: {NOT_TOML}"),
        ("99-site.conf.bak", HANDLER, f"{DROP_INS}/99-site.conf.bak: this file is read after our drop-in"),
    ],
)
def test_a_stray_file_is_named_and_nothing_is_touched(fleet: Fleet, name: str, text: str, sentence: str) -> None:
    fleet.shell(HOST, f"printf %s '{text}' > {DROP_INS}/{name}")
    before = fleet.tree(HOST)
    try:
        failed = fleet.task("crio_runtime", [HOST]).failed[HOST]
        assert fleet.tree(HOST) == before
    finally:
        fleet.shell(HOST, f"rm {DROP_INS}/{name}")
    assert sentence in failed


def test_nvidias_own_drop_in_is_left_to_its_owner(fleet: Fleet) -> None:
    fleet.shell(HOST, f"printf %s '{HANDLER}' > {DROP_INS}/99-nvidia.toml")
    try:
        advice = fleet.task("node", [HOST], arguments=["--check"]).of("node")[HOST]["advice"]
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
