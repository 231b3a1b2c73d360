# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which lines of a kernel's log are errors of a GPU, and what of them leaves the host."""

from __future__ import annotations

import re

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import gpu_health

XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus."
LOST = {"pci": "0000:41:00", "xid": "79"}
# A line of the log by its text, and what of it leaves the host.
LINES = [
    (XID, LOST),
    ("NVRM: Xid (0000:41:00): 79, GPU has fallen off the bus.", LOST),
    ("NVRM: Xid (PCI:0000:41:00 GPU-I:05): 79, pid=17, name=x", LOST),
    ("NVRM: Xid (PCI:00000001:C6:00): 31, pid='<unknown>', name=<unknown>, Ch 00000010", {"pci": "00000001:C6:00", "xid": "31"}),
    ("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal", None),
    ("NVRM: GPU at PCI:0000:41:00: GPU-1ab0b0e7", None),
    ("audit: comm=\"NVRM: Xid (PCI:0000:41:00): 79\"", None),
    ("NVRM: Xid (PCI:0000:41:00): soon", None),
    # what a healthy H100 with driver 580.159.04 logs at its boot
    ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (a@b)  ", None),
    ("NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected. Clearing it.", None),
    ("NVRM: Persistence mode is deprecated and will be removed in a future release. Please use nvidia-persistenced instead.", None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "groups"), LINES)
def test_of_a_line_its_number_and_address_leave(line: str, groups: dict[str, str] | None) -> None:
    found = re.search(gpu_health.XID, line)
    assert (found and found.groupdict()) == groups
