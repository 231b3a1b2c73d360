# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which lines of a kernel's log tell of a GPU's health, what of them leaves the host, and which step
each asks for.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    log_lines,
    xids,
)
from hypothesis import given
from hypothesis import strategies as st


def xid(number: int, step: str, pci: str = "0000:41:00") -> dict[str, Any]:
    return {"xid": number, "pci": pci, "step": step}


def line(kind: str, pci: str, step: str = "reboot", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "pci": pci, "step": step, **more}


LOST = xid(79, "reboot")
# As /dev/kmsg writes a record of three lines.
OFF_BUS = (
    r"NVRM: The NVIDIA GPU {}.0\x0aNVRM: (PCI ID: 10de:{}) installed in this system has"
    r"\x0aNVRM: fallen off the bus and is not responding to commands."
)
OFF_BUS_BEFORE = (
    r"NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5)\x0aNVRM: installed in this system has"
    r"\x0aNVRM: fallen off the bus and is not responding to commands."
)
NETIR = "(0x021425c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
# A line of the log by its text, restated from the place named above it, and what it tells.
LINES: list[tuple[str, dict[str, Any] | None]] = [
    ("NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus.", LOST),
    ("NVRM: Xid (0000:41:00): 79, GPU has fallen off the bus.", LOST),
    ("NVRM: Xid (PCI:0000:41:00 GPU-I:05): 79, pid=17, name=x", LOST),
    ("NVRM: Xid (PCI:0000:41:00 GPU-I:05 GPU-CI:00): 94, pid=7194, Contained: CE User Channel (0x9)", xid(94, "application")),
    ("NVRM: Xid (PCI:00000001:C6:00): 31, pid='<unknown>', name=<unknown>, Ch 00000010", xid(31, "application", "00000001:c6:00")),
    # github.com/vllm-project/vllm/issues/40652
    ("NVRM: Xid (PCI:0001:6c:00): 119, pid=10200, name=NvmlTaskRunner, Timeout after 45s of waiting for RPC response from GPU5 GSP!",
     xid(119, "reset", "0001:6c:00")),
    # github.com/NVIDIA/open-gpu-kernel-modules/issues/1150
    ("NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149",
     xid(45, "application", "0000:dc:00")),
    # github.com/leptonai/gpud/pull/1174 and its tests, of GB200
    (f"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 {NETIR}", xid(149, "reset", "0009:01:00")),
    (f"NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1 {NETIR}", xid(149, "reset", "0019:01:00")),
    (f"NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 {NETIR}", xid(145, "none", "0018:01:00")),
    (f"NVRM: Xid (PCI:0018:01:00): 145, pid=17, name=python, RLW_RXPIPE Nonfatal XC0 i0 Link 13 {NETIR}", xid(145, "none", "0018:01:00")),
    (f"NVRM: Xid (PCI:0018:01:00): 145, pid=17, name=, AB Nonfatal , RLW_RXPIPE Fatal XC0 i0 Link 03 {NETIR}",
     xid(145, "reset", "0018:01:00")),
    # a process' name is not a severity: 15 bytes of it, before a text without one
    ("NVRM: Xid (PCI:0018:01:00): 145, pid=17, name=, AB Nonfatal X, an error", xid(145, "reset", "0018:01:00")),
    ("NVRM: Xid (PCI:0018:01:00): 149, pid=17, name=, A_ Nonfatal XC, Placeholder message", xid(149, "reset", "0018:01:00")),
    ("NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
     xid(154, "reset", "0009:01:00")),
    ("NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)",
     xid(154, "reset", "0019:01:00")),
    ("NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)",
     xid(154, "reboot", "0019:01:00")),
    ("NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
     xid(154, "none", "0019:01:00")),
    # a rule of the packet filter has written the beginning of such a line
    ("NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x1 (x) to 0x0 (None)IN=eth0 OUT= SRC=192.0.2.1",
     xid(154, "support", "0019:01:00")),
    # github.com/NVIDIA/NVSentinel/issues/155: no Xid goes with these
    (OFF_BUS.format("0000:b3:00", "26b5"), line("off_bus", "0000:b3:00")),
    # the same of drivers before, and as three records
    (OFF_BUS_BEFORE, line("off_bus", "0000:b3:00")),
    ("NVRM: fallen off the bus and is not responding to commands.", line("off_bus", "")),
    ("NVRM: RmInitAdapter failed! (0x26:0xffff:1127)", line("not_started", "")),
    ("NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5)", None),
    # github.com/NVIDIA/open-gpu-kernel-modules/issues/696: the first words are of another condition
    (r"NVRM: The NVIDIA GPU 0000:03:00.0 (PCI ID: 10de:1bb3)\x0aNVRM: installed in this system is not supported by open", None),
    ("NVRM: The NVIDIA probe routine failed for 1 device(s).", None),
    # github.com/NVIDIA/open-gpu-kernel-modules/issues/1151
    ("NVRM: GPU 0000:2b:00.0: GPU has fallen off the bus.", line("fell_off", "0000:2b:00")),
    # github.com/Bumblebee-Project/Bumblebee/issues/554, of a driver of 2014
    ("NVRM: GPU at 0000:01:00.0 has fallen off the bus.", line("fell_off", "0000:01:00")),
    # github.com/NVIDIA/gpu-operator/issues/1146
    ("NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x24:0x72:1568)", line("not_started", "0000:0a:00")),
    ("NVRM: GPU 0000:0a:00.0: rm_init_adapter failed, device minor number 5", None),
    # drivers/base/dd.c before Linux 6.10, and since
    ("nvidia: probe of 0000:01:00.0 failed with error -1", line("not_probed", "0000:01:00")),
    ("nvidia 0000:01:00.0: probe with driver nvidia failed with error -1", line("not_probed", "0000:01:00")),
    ("nvidia-gpu 0000:01:00.3: i2c timeout error e0000000", None),
    # github.com/leptonai/gpud, components/accelerator/nvidia/sxid/kmsg_test.go
    ("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", line("switch", "0000:a9:00", sxid=20034)),
    ("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Data {0x50610002, 0x10100030}", None),
    # github.com/NVIDIA/nvtrust/issues/124
    ("nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt", None),
    ("NVRM: GPU at PCI:0000:41:00: GPU-1ab0b0e7", None),
    ("audit: comm=\"NVRM: Xid (PCI:0000:41:00): 79\"", None),
    ("NVRM: Xid (PCI:0000:41:00): soon", None),
    # github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/982, of a GB200; newer drivers name the GPU by its number
    ("NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from a @ b.c:2827",
     line("reset_due", "", "reset")),
    ("NVRM: GPU2 nvCheckOkFailedNoLog: Check failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from x @ y.c:1",
     line("reset_due", "", "reset")),
    ("NVRM: nvAssertFailedNoLog: Assertion failed: 0 @ kernel_gsp.c:1476", None),
    # what a healthy H100 with driver 580.159.04 logs at its boot
    ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (a@b)  ", None),
    ("NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected. Clearing it.", None),
    ("NVRM: Persistence mode is deprecated and will be removed in a future release. Please use nvidia-persistenced instead.", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), LINES)
def test_a_line_tells_its_device_and_its_step(text: str, told: dict[str, Any] | None) -> None:
    assert log_lines.find_line(text) == told


def test_of_a_line_only_numbers_addresses_and_a_severity_leave() -> None:
    for text, _told in LINES:
        found = re.search(log_lines.PATTERN, text)
        left = "".join(v for v in (found.groupdict() if found else {}).values() if v)
        assert not re.search(r"python|NvmlTaskRunner|pid", left)


@given(
    st.dictionaries(
        st.sampled_from(sorted(re.compile(log_lines.PATTERN).groupindex)), st.text() | st.none()
    )
)
def test_groups_of_any_text_are_a_line_or_none(groups: dict[str, str | None]) -> None:
    told = log_lines.parse_line(groups)
    assert told is None or told["pci"] == "" or re.fullmatch(log_lines.ADDRESS, told["pci"])


# An Xid, what else its line tells, the step.
XIDS = [
    (13, {}, "application"), (31, {}, "application"), (43, {}, "none"), (45, {}, "application"),
    (48, {}, "reset"), (54, {}, "replace"), (62, {}, "reset"),
    (63, {}, "none"),  # a row was remapped
    (64, {}, "reset"),  # and could not be
    (68, {}, "application"), (74, {}, "reset"), (78, {}, "update"), (79, {}, "reboot"), (92, {}, "none"),
    (94, {}, "application"), (95, {}, "reset"), (109, {}, "reset"), (119, {}, "reset"), (120, {}, "reset"),
    (140, {}, "reset"), (143, {}, "reset"), (151, {}, "reboot"), (158, {}, "reset"),
    (145, {"severity": "Nonfatal"}, "none"), (145, {"severity": "Fatal"}, "reset"), (145, {}, "reset"),
    (154, {"recovery": 0}, "none"), (154, {"recovery": 4}, "reset"), (154, {"recovery": 9}, "support"), (154, {}, "support"),
    (171, {}, "reset"), (172, {}, "reset"),  # details of 48
    (1, {}, "support"),  # unused
    *((number, {}, "support") for number in range(162, 171)),  # without an action in the catalogue
    *((number, {}, "support") for number in range(173, 177)),  # of drivers that are newer than it
    (9999, {}, "support"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "more", "step"), XIDS)
def test_an_xid_asks_for_what_the_catalogue_says(
    number: int, more: dict[str, Any], step: str
) -> None:
    assert xids.get_xid_step(number, **more) == step
    assert xids.is_sick(xids.get_xid_step(number, **more)) == (step not in ("none", "application"))


def test_the_catalogue_names_each_number_once_and_each_action_has_a_step() -> None:
    every = [number for of in xids.ACTIONS.values() for number in of]
    assert len(every) == len(set(every))
    assert set(xids.ACTIONS) == set(xids.STEPS)
    assert set(xids.STEPS.values()) | set(xids.RECOVERY.values()) <= set(xids.ORDER)
