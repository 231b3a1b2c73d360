# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look at a host shows of the health of its GPUs, and how a rollout takes it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import left_out
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import options
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    host_health,
    kernel_log,
    log_lines,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import accepted

from tests.unit import builders, gpus
from tests.unit.coded import read_coded
from tests.unit.rollout_looks import looked

THIRD = gpus.BUSES[2]
SECOND = gpus.BUSES[1]
INFORMATION = "/proc/driver/nvidia/gpus/{}/information"


def groups(text: str) -> dict[str, str | None]:
    found = re.search(log_lines.PATTERN, text)
    assert found, text
    return found.groupdict()


def log(*texts: str) -> dict[str, Any]:
    """The answer of a host whose kernel log has these lines."""
    found = [
        {"sequence": at, "time": 1769878724, "groups": groups(text)}
        for at, text in enumerate(texts)
    ]  # fmt: skip
    value = {"boot": "b", "first": 0, "last": 99, "complete": True, "found": found}
    return {str(kernel_log.log_question("/dev/kmsg")["id"]): {"value": value}}


def judge(
    files: dict[str, Any],
    answers: dict[str, Any] | None = None,
    expected: int | None = None,
    accepted: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return what a result shows of the health of a host with these files."""
    policy = Policy(gpus=expected, accepted_findings=accepted)
    seen: Observation = builders.obs(files=files, answers=answers or {})
    facts = host_health.read_health_facts(policy, seen)
    return host_health.report_health(policy, facts, driver_state.read_driver(policy, seen))


# The files of a host, how many GPUs the inventory says, and of each finding code, GPU and step.
LOST = {**gpus.host(2), **gpus.pci(3)}
EXCLUDED = {
    **gpus.host(2),
    INFORMATION.format(SECOND): gpus.information(SECOND, 1, gpus.UUIDS[1], **{"GPU Excluded": "Yes"}),
}  # fmt: skip
UNLOADED = gpus.pci(2)
COUNTS: list[tuple[dict[str, Any], int | None, list[tuple[str, str, str]]]] = [
    (gpus.host(2), None, []),
    (gpus.host(2), 2, []),
    (gpus.host(2), 1, []),  # more than the inventory says is fine
    (gpus.host(2), 3, [("fewer-on-bus", "", "replace")]),
    (LOST, None, [("not-served", THIRD, "reset")]),
    (LOST, 3, [("not-served", THIRD, "reset"), ("fewer-served", "", "reset")]),
    (EXCLUDED, None, []),  # a person wants that
    (EXCLUDED, 2, [("fewer-served", "", "reset")]),
    (UNLOADED, None, []),  # the state of the driver says it
    (UNLOADED, 2, [("fewer-served", "", "driver")]),
    ({}, None, []),
    ({}, 8, [("fewer-on-bus", "", "replace")]),
]


@pytest.mark.parametrize(("files", "expected", "found"), COUNTS)
def test_gpus_are_missed_by_the_bus_and_by_the_inventory(
    files: dict[str, Any], expected: int | None, found: list[tuple[str, str, str]]
) -> None:
    health = judge(files, expected=expected)
    assert [(f["code"], f["gpu"], f["step"]) for f in health["findings"]] == [
        (f"gpu-health.{code}", gpu, step) for code, gpu, step in found
    ]
    assert health["log"] == {
        "known": False, "why": "this run did not read the kernel log", "code": "gpu-health.log-not-read",
    }  # fmt: skip


XID = "NVRM: Xid (PCI:{}): {}, pid=7, name=x, said"
RECOVERED = "NVRM: Xid (PCI:{}): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
OFF_BUS = (
    r"NVRM: The NVIDIA GPU {}\x0aNVRM: (PCI ID: 10de:26b5) installed in this system has"
    r"\x0aNVRM: fallen off the bus and is not responding to commands."
)
UNNAMED = "NVRM: fallen off the bus and is not responding to commands."
A, B = "0000:17:00", "0000:43:00"
# Lines of the kernel log of a host with two GPUs, and of each finding GPU and step.
LOGS: list[tuple[list[str], list[tuple[str, str]]]] = [
    ([], []),
    ([XID.format(A, 31)], []),  # of an application
    ([XID.format(A, 79)], [(A, "reboot")]),
    ([XID.format(A, 119), XID.format(A, 79)], [(A, "reboot")]),
    ([XID.format(B, 48), XID.format(A, 119)], [(A, "reset"), (B, "reset")]),
    ([XID.format(A, 119), RECOVERED.format(A)], []),  # the driver says that it is well again
    ([XID.format(A, 119), RECOVERED.format(B)], [(A, "reset")]),
    ([RECOVERED.format(A), XID.format(A, 119)], [(A, "reset")]),
    # the driver could not begin with it, and serves it now
    ([OFF_BUS.format(SECOND)], []),
    (["nvidia: probe of 0000:43:00.0 failed with error -1"], []),
    ([UNNAMED], []),
    # and does not
    ([OFF_BUS.format(THIRD)], [("0000:65:00", "reboot")]),
    (["NVRM: GPU 0000:43:00.0: RmInitAdapter failed! (0x24:0x72:1568)"], [(B, "reboot")]),
    (["nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"], [("0000:a9:00", "reboot")]),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "found"), LOGS)
def test_a_line_counts_until_a_later_one_says_that_the_gpu_is_well(
    lines: list[str], found: list[tuple[str, str]]
) -> None:
    health = judge(gpus.host(2), log(*lines))
    assert [(f["gpu"], f["step"]) for f in health["findings"]] == found
    assert {f["source"] for f in health["findings"]} <= {"log"}
    assert health["log"] == {"known": True, "why": "", "code": ""}


def test_a_line_without_an_address_counts_where_a_gpu_is_missed() -> None:
    health = judge(LOST, log(UNNAMED))
    assert [(f["gpu"], f["source"]) for f in health["findings"]] == [(THIRD, "files"), ("", "log")]


@pytest.mark.parametrize("files", [gpus.host(2), LOST])
def test_a_rollout_leaves_out_what_was_sick_before_it(files: dict[str, Any]) -> None:
    health = judge(files)
    why = left_out.explain_left_out(looked(health=health))
    if not health["findings"]:
        assert why == ""
        return
    code, values = read_coded(why)
    assert code == "left-out.sick-before"
    assert values["found"].endswith("[gpu-health.not-served]")
    assert values["step"] == health["findings"][0]["next"]


# What the owner accepts of a host that has lost its third GPU and whose log tells of Xid 79 of the
# second, and the findings that still stop a wave.
LOST_SAYS, LOG_SAYS = "gpu-health.not-served", "gpu-health.log-tells"
ACCEPTED: list[tuple[tuple[str, ...], list[str]]] = [
    ((), [LOST_SAYS, LOG_SAYS]),
    ((f"{LOST_SAYS} {THIRD}",), [LOG_SAYS]),
    ((f"{LOST_SAYS} 0000{THIRD.upper()}",), [LOG_SAYS]),  # as NVML writes it
    ((f"{LOST_SAYS} {SECOND}",), [LOST_SAYS, LOG_SAYS]),  # of another GPU
    ((f"{LOG_SAYS} {THIRD}",), [LOST_SAYS, LOG_SAYS]),
    ((f"{LOG_SAYS} {SECOND}",), [LOST_SAYS]),
    ((f"{LOG_SAYS} {SECOND}", f"{LOST_SAYS} {THIRD}"), []),
]


@pytest.mark.parametrize(("names", "stopping"), ACCEPTED)
def test_what_the_owner_accepts_is_shown_and_stops_nothing(
    names: tuple[str, ...], stopping: list[str]
) -> None:
    health = judge(LOST, log(XID.format(B, 79)), accepted=names)
    found = health["findings"]
    assert [entry["code"] for entry in found] == [LOST_SAYS, LOG_SAYS]
    assert [entry["code"] for entry in found if entry["stops"]] == stopping
    assert [entry["code"] for entry in found if not entry["accepted"]] == stopping
    assert health["accepted"] == list(names)
    assert bool(left_out.explain_sick_host({"health": health})) is bool(stopping)


ENTRIES = [
    ("platform.fabric-manager-absent", True),
    ("platform.fabric-manager-off", True),
    ("gpu-health.not-served 0000:43:00.0", True),
    ("gpu-health.not-served 00000000:43:00.0", True),
    ("gpu-health.log-tells 0000:43:00", True),
    ("gpu-health.no-handle 3", True),  # NVML tells no address of it
    ("", False),
    ("gpu-health", False),
    ("gpu-health.xid 0000:43:00.0", False),  # the code of a line, and of no finding
    ("gpu-health.not-served", False),  # about each GPU
    ("gpu-health.not-served ", False),
    ("gpu-health.not-served 3", False),
    ("gpu-health.not-served 43:00.0", False),
    ("gpu-health.not-served 0000:43:00.0 ", False),
    ("gpu-health.not-served 0000:43:00.0\n", False),
    ("platform.fabric-manager-absent 0000:43:00.0", False),
    ("gpu-health.fewer-on-bus", False),  # gpufleet_gpus says how many there are
    ("platform.imex-twice", False),  # stops no wave
    (7, False),
]


@pytest.mark.parametrize(("entry", "good"), ENTRIES)
def test_an_entry_names_one_finding(entry: object, good: bool) -> None:
    assert accepted.is_acceptable(entry) is good
    if not good:
        with pytest.raises(PlanError) as refused:
            options.check_options({"accepted_findings": [entry]})
        assert refused.value.code == "options.accepted-finding"
