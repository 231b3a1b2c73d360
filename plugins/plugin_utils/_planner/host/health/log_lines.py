# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise the lines of a kernel log that tell of a GPU's health.

Each row has the form of one line and the place in the source that writes it. All rows are one
pattern, which goes to the host: of a line, only what the pattern names leaves it.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.whole import read_whole
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    messages,
    xids,
)

HEXADECIMAL = re.compile(r"[0-9a-f]{1,8}")
ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}"
# /dev/kmsg escapes the end of a line within a record (msg_print_ext_body in
# kernel/printk/printk.c).
BREAK = r"\\x0a"


@dc.dataclass(frozen=True)
class LineForm:
    """The form of a line about a device.

    kind: its name, which is also the group that holds the device's address. pattern: with {a} for
    the address; of a line without one, with a group unnamed_KIND. step: what a person does about it. row: its sentence.
    """

    kind: str
    pattern: str
    step: xids.Step
    row: Sentence


# Sources are files of github.com/NVIDIA/open-gpu-kernel-modules, and Linux's drivers/base/dd.c.
FORMS: tuple[LineForm, ...] = (
    # one call of nv_printf in RmCheckDevice, src/nvidia/arch/nvalloc/unix/src/osapi.c: one record
    # of three lines. No Xid goes with it: the driver has not begun to serve the GPU.
    LineForm(
        "off_bus",
        rf"NVRM: The NVIDIA GPU {{a}}\.[0-7](?: \(PCI ID: [0-9a-f:]+\))?"
        rf"{BREAK}NVRM: .{{{{1,60}}}}has{BREAK}NVRM: fallen off the bus and is not responding",
        "reboot",
        messages.OFF_BUS,
    ),
    # osHandleGpuLost, src/nvidia/arch/nvalloc/unix/src/osinit.c; without an Xid where the caller
    # wants none. Older drivers write `NVRM: GPU at 0000:01:00.0 has fallen off the bus.`
    LineForm(
        "fell_off",
        r"NVRM: GPU (?:at (?:PCI:)?)?{a}(?:\.[0-7])?(?:: GPU)? has fallen off the bus",
        "reboot",
        messages.FELL_OFF,
    ),
    # the same file: the GPU is on the bus, and could not be started
    LineForm(
        "not_started",
        r"NVRM: GPU (?:at (?:PCI:)?)?{a}(?:\.[0-7])?: RmInitAdapter failed!",
        "reboot",
        messages.DRIVER_NOT_STARTED,
    ),
    # call_driver_probe in Linux's drivers/base/dd.c, before 6.10 and since
    LineForm(
        "not_probed",
        r"nvidia(?:: probe of)? {a}\.[0-7](?:: probe with driver nvidia)? failed with error",
        "reboot",
        messages.NOT_PROBED,
    ),
)
# NVSWITCH_PRINT_SXID in src/common/nvswitch/kernel/inc/common_nvswitch.h, and the words of
# NVSWITCH_REPORT_FATAL and NVSWITCH_REPORT_NONFATAL in intr_nvswitch.h: `nvidia-nvswitch0: SXid
# (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up`. Lines with data follow, without that
# word.
SWITCH = r"nvidia-nvswitch\d{1,3}: SXid \(PCI:(?P<switch>" + ADDRESS + r")\.[0-7]\): "
SXID = SWITCH + r"(?P<sxid>\d{1,5}), Fatal\b"
# krcErrorLog in src/nvidia/src/kernel/gpu/rc/kernel_rc.c: `NVRM: Xid (PCI:0000:41:00): 79,
# pid=1234, name=python, ...`; with MIG the instance follows the address, older drivers have no
# `PCI:`. Errors of NVLink 5 tell their severity, and 154 its new action (gpu/gpu.c). A process may
# have any name of 15 bytes, which stands before the severity. So that counts only with the words
# after it, for which such a name has no room, and of several the last one. A line of 154 ends with
# the action: others can begin like it, as a rule of the packet filter that writes to the log.
XID = (
    r"NVRM: Xid \((?:PCI:)?(?P<pci>" + ADDRESS + r")[^)]{0,40}\): (?P<xid>\d{1,5})\b"
    r"(?:, GPU recovery action changed from 0x[0-9a-f]{1,8} \([^)]{0,60}\) to 0x(?P<recovery>[0-9a-f]{1,8}) \([^)]{0,60}\)$"
    r"|.{0,120}, ?[A-Z_0-9/]{2,60} {1,4}(?P<severity>Nonfatal|Fatal) {1,4}XC\d{1,3} i\d{1,3} Link -?\d{1,3}\b)?"
)
# Lines without an address: the last of the three that some drivers write as a record each, how
# drivers before branch 430 told of a GPU that could not be started (microsoft/pai#4344), and what
# the open modules write where GSP, the GPU's own processor, serves no channel any more
# (src/nvidia/src/libraries/utils/nvassert.c; _kgspRpcSanityCheck in gpu/gsp/kernel_gsp.c).
UNNAMED: tuple[LineForm, ...] = (
    LineForm(
        "off_bus",
        "NVRM: (?P<unnamed_off_bus>fallen) off the bus and is not responding",
        "reboot",
        messages.OFF_BUS_UNNAMED,
    ),
    LineForm(
        "not_started",
        "NVRM: (?P<unnamed_not_started>RmInitAdapter) failed!",
        "reboot",
        messages.DRIVER_NOT_STARTED_UNNAMED,
    ),
    LineForm(
        "reset_due",
        r"NVRM: (?:GPU\d{1,4} )?(?P<unnamed_reset_due>nv(?:Assert|Check)\w{1,30}): "
        r"(?:Assertion|Check) failed: Reset required \[NV_ERR_RESET_REQUIRED\]",
        "reset",
        messages.RESET_DUE_UNNAMED,
    ),
)
OTHERS = (form.pattern.format(a=f"(?P<{form.kind}>{ADDRESS})") for form in FORMS)
PATTERN = f"^(?:{'|'.join((XID, SXID, *(form.pattern for form in UNNAMED), *OTHERS))})"
BY_KIND: Mapping[str, LineForm] = {form.kind: form for form in FORMS}
BY_KIND_UNNAMED: Mapping[str, LineForm] = {form.kind: form for form in UNNAMED}


def parse_line(groups: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a line tells, by the groups of the pattern that the host found in it. None for
    groups that this pattern cannot have.
    """
    texts = {name: str(text) for name, text in groups.items() if text is not None}
    if "xid" in texts:
        return parse_xid(texts)
    if "sxid" in texts:
        # A fatal error of a switch asks for a reset of all GPUs and switches of its host (Fabric
        # Manager's user guide, appendix "SXid errors"), which a reboot does.
        number = read_whole(texts["sxid"])
        told = {"kind": "switch", "sxid": number, "pci": texts.get("switch", ""), "step": "reboot"}
        return check_address(told) if number is not None else None
    unnamed = next((form for form in UNNAMED if f"unnamed_{form.kind}" in texts), None)
    if unnamed:
        return {"kind": unnamed.kind, "pci": "", "step": unnamed.step}
    form = next((form for form in FORMS if form.kind in texts), None)
    if form is None:
        return None
    return check_address({"kind": form.kind, "pci": texts[form.kind], "step": form.step})


def parse_xid(texts: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what the line of an Xid tells. texts: the groups that matched."""
    number = read_whole(texts["xid"])
    if number is None:
        return None
    action = texts.get("recovery")
    recovery = int(action, 16) if action and HEXADECIMAL.fullmatch(action) else None
    step = xids.get_xid_step(number, severity=texts.get("severity", ""), recovery=recovery)
    return check_address({"xid": number, "pci": texts.get("pci", ""), "step": step})


def check_address(line: dict[str, Any]) -> dict[str, Any] | None:
    """Return a line with its address in small letters; None if that is not an address."""
    address = str(line["pci"]).lower()
    return {**line, "pci": address} if re.fullmatch(ADDRESS, address) else None


def find_line(text: str) -> dict[str, Any] | None:
    """Return what a line tells, as a host searches for it; None for a line of another form."""
    match = re.search(PATTERN, text)
    return parse_line(match.groupdict()) if match else None


def describe_line(line: Mapping[str, Any]) -> str:
    """Return what a line says, in words: `Xid 79 of the GPU 0000:41:00`."""
    values = {"pci": line["pci"], "time": line["time"]}
    if "xid" in line:
        return messages.XID.fill(xid=line["xid"], **values)
    if line["kind"] == "switch":
        return messages.SXID.fill(sxid=line["sxid"], **values)
    if not line["pci"]:
        return BY_KIND_UNNAMED[str(line["kind"])].row.fill(time=line["time"])
    return BY_KIND[str(line["kind"])].row.fill(**values)
