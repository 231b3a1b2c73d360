# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of GPUs and the units of a machine on a real host whose GPUs are imitated: by the count
of the inventory, by lines of the kernel log, by systemd; and nvidia-persistenced before the engine.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.inventory import KERNEL_LOG
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

HOST = "health"
OPTIONS = {"packages": "ignore", "cdi_owner": "collection"}
# As /dev/kmsg writes the record (github.com/NVIDIA/NVSentinel/issues/155), of a GPU that is gone.
OFF_BUS = (
    r"3,1,1000000,-;NVRM: The NVIDIA GPU 0000:b3:00.0\x0aNVRM: (PCI ID: 10de:26b5) installed in this system has"
    r"\x0aNVRM: fallen off the bus and is not responding to commands."
)
RESET = "3,2,2000000,-;NVRM: Xid (PCI:0000:c1:00): 119, pid=7, name=x, Timeout after 45s of waiting for RPC response"
WELL = "3,3,3000000,-;NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
UNITS = "/etc/systemd/system"
UNIT = "[Unit]\nDescription=imitated\n[Service]\nExecStart=/bin/sleep infinity\n"
SWITCH = "/opt/fakegpu/sys/bus/pci/devices/0000:05:00.0"
STARTED = "systemctl show -p ActiveEnterTimestampMonotonic --value {}"


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot({HOST: {"kind": "containerd-1.7", "gpus": [{}, {}]}})
    return found


def look(fleet: Fleet, **options: Any) -> dict[str, Any]:
    run = fleet.task("host_info", [HOST], {**OPTIONS, **options})
    assert run.failed == {}, run.words
    return run.of("host_info")[HOST]


def found(health: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (f["code"].removeprefix("gpu-health."), f["gpu"], f["step"]) for f in health["findings"]
    ]


def write(fleet: Fleet, path: str, *lines: str) -> None:
    text = "\n".join(lines) + ("\n" if lines else "")
    fleet.shell(HOST, f"mkdir -p $(dirname {path}); cat >{path} <<'END'\n{text}END")


def test_gpus_that_the_inventory_has_and_the_host_has_not(fleet: Fleet) -> None:
    assert found(look(fleet, gpus=2)["health"]) == []
    missed = look(fleet, gpus=3)
    assert found(missed["health"]) == [("fewer-on-bus", "", "replace")]
    assert "gpufleet_gpus" not in str(missed["advice"]), "an option is called as the task calls it"
    assert "only 2 are on the PCI bus" in str(missed["advice"])
    refused = fleet.task("host_verify", [HOST], {"image": "none:1", "gpus": 3}).failed[HOST]
    assert "[host.sick-gpus]" in refused


def test_lines_of_the_kernel_log_count_until_the_gpu_is_well(fleet: Fleet) -> None:
    write(fleet, KERNEL_LOG, OFF_BUS, RESET)
    told = look(fleet)["health"]
    assert found(told) == [
        ("log-tells", "0000:b3:00", "reboot"),
        ("log-tells", "0000:c1:00", "reset"),
    ]
    write(fleet, KERNEL_LOG, OFF_BUS, RESET, WELL)
    assert found(look(fleet)["health"]) == [("log-tells", "0000:b3:00", "reboot")]
    lines = fleet.task("gpu_health_info", [HOST], {"nvml": True}).of("gpu_health_info")[HOST]
    assert [line["kind"] for line in lines["kernel_log"]["lines"]] == ["off_bus"]
    assert lines["nvml"]["findings"] == [], "the imitated library has no such state"
    write(fleet, KERNEL_LOG)
    assert found(look(fleet)["health"]) == []


def test_an_nvswitch_wants_fabric_manager(fleet: Fleet) -> None:
    assert look(fleet)["platform"]["kind"] == "pcie"
    write(fleet, f"{SWITCH}/vendor", "0x10de")
    write(fleet, f"{SWITCH}/class", "0x068000")
    without = look(fleet)
    assert without["platform"]["kind"] == "nvswitch"
    assert found(without["health"]) == [("platform.fabric-manager-absent", "", "fabric")]
    write(fleet, f"{UNITS}/nvidia-fabricmanager.service", UNIT)
    assert found(look(fleet)["health"]) == [("platform.fabric-manager-off", "", "fabric")]
    fleet.shell(HOST, "systemctl start nvidia-fabricmanager.service")
    running = look(fleet)
    assert found(running["health"]) == []
    states = {need["unit"]: need["state"] for need in running["platform"]["needs"]}
    assert states["nvidia-fabricmanager.service"] == "running"
    fleet.shell(
        HOST,
        f"systemctl stop nvidia-fabricmanager.service; rm -r {UNITS}/nvidia-fabricmanager.service {SWITCH}",
    )


def test_persistenced_starts_before_the_engine_and_is_given_back(fleet: Fleet) -> None:
    write(fleet, f"{UNITS}/nvidia-persistenced.service", UNIT)
    assert "nvidia-persistenced" in str(look(fleet)["advice"])
    assert "nvidia-persistenced" not in str(look(fleet, persistence="ignore")["advice"])
    before = fleet.tree(HOST)
    enabled = {**OPTIONS, "persistence": "enabled"}
    done = fleet.task("host", [HOST], enabled)
    assert done.failed == {}, done.words
    assert fleet.shell(HOST, "systemctl is-active nvidia-persistenced").strip() == "active"
    again = fleet.task("host", [HOST], enabled)
    assert again.changed == {}, again.words

    fleet.lab.kill(HOST)
    fleet.lab.boot(HOST)
    unit, engine = (
        int(fleet.shell(HOST, STARTED.format(name)))
        for name in ("nvidia-persistenced.service", "containerd.service")
    )
    assert 0 < unit <= engine
    assert fleet.task("host", [HOST], enabled).changed == {}

    back = fleet.task("host", [HOST], {**OPTIONS, "state": "absent"})
    assert back.failed == {}, back.words
    assert fleet.tree(HOST) == before
