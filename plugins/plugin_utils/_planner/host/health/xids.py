# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what an error of the NVIDIA driver (an Xid) asks for, by NVIDIA's own catalogue.

The catalogue names an immediate action for each number. Here each action is a step, and the step
says whether the GPU is sick. A number that the catalogue does not have, or has without an action,
is one for NVIDIA's support: it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

# The step for a person after a finding. none, application: the GPU is as healthy as before.
Step = Literal[
    "none", "application", "driver", "fabric", "update", "reset", "reboot", "replace", "support"
]  # fmt: skip
HARMLESS: tuple[Step, ...] = ("none", "application")
# from the smallest to the largest; the largest of several findings is what helps all of them
ORDER: tuple[Step, ...] = (
    "none",
    "application",
    "driver",
    "fabric",
    "update",
    "reset",
    "reboot",
    "replace",
    "support",
)
CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
# The columns "Code" and "Resolution Bucket (Immediate Action)" of that page, as of October 2025.
# Three kinds of numbers are left out, and count as unknown ones: the page calls them unused, has
# them without an immediate action (162 to 170), or only the driver names them (173 to 176 in
# src/common/sdk/nvidia/inc/nverror.h of open-gpu-kernel-modules 595.45.04). 171 and 172 have no
# action of their own there either: it calls them details of 48, an uncorrectable error of DRAM or
# SRAM, so they have its action.
ACTIONS: Mapping[str, tuple[int, ...]] = {
    "IGNORE": (
        37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 157, 160, 161,
    ),
    "RESTART_APP": (
        8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85,
        86, 88, 89, 94, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 126, 127, 128, 129, 130, 131,
        132, 133, 134, 135, 139,
    ),
    "WORKFLOW_XID_45": (45,),
    "RESET_GPU": (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    "WORKFLOW_XID_48": (48, 171, 172),
    "WORKFLOW_NVLINK_ERR": (74,),
    "WORKFLOW_NVLINK5_ERR": (144, 145, 146, 147, 148, 149, 150),
    "RESTART_BM": (79,),
    "RESTART_VM": (151,),
    "CHECK_MECHANICALS": (54,),
    "UPDATE_SWFW": (78,),
    "CONTACT_SUPPORT": (142,),
    "CHECK_UVM": (159,),
}  # fmt: skip
# The same page and https://docs.nvidia.com/deploy/gpu-debug-guidelines/ say what each word means.
# WORKFLOW_XID_45 is a cleanup after another error, which has a number of its own. WORKFLOW_XID_48
# (double-bit error) and both of NVLink end in a reset.
STEPS: Mapping[str, Step] = {
    "IGNORE": "none",
    "RESTART_APP": "application",
    "WORKFLOW_XID_45": "application",
    "RESET_GPU": "reset",
    "WORKFLOW_XID_48": "reset",
    "WORKFLOW_NVLINK_ERR": "reset",
    "WORKFLOW_NVLINK5_ERR": "reset",
    "RESTART_BM": "reboot",
    "RESTART_VM": "reboot",
    "CHECK_MECHANICALS": "replace",
    "UPDATE_SWFW": "update",
    "CONTACT_SUPPORT": "support",
    "CHECK_UVM": "support",
}
BY_NUMBER: Mapping[int, str] = {xid: action for action, of in ACTIONS.items() for xid in of}
RECOVERY_CHANGED = 154
# The action to which that error changes (src/nvidia/src/kernel/gpu/gpu.c and
# NV2080_CTRL_GPU_RECOVERY_ACTION_* in ctrl2080gpu.h of open-gpu-kernel-modules; NVML has the same
# numbers as nvmlDeviceGpuRecoveryAction_t). 3 asks for an end of peer-to-peer work, 5 for a new
# IMEX domain, 6 for a reset of the PCIe bus, 7 for a reboot of the system.
RECOVERY: Mapping[int, Step] = {
    0: "none",
    1: "reset",
    2: "reboot",
    3: "reset",
    4: "reset",
    5: "fabric",
    6: "reboot",
    7: "reboot",
}
NONFATAL = "nonfatal"


def get_xid_step(xid: int, *, severity: str = "", recovery: int | None = None) -> Step:
    """Return the step that an error asks for.

    severity: the word that errors of NVLink 5 carry (144 to 150); with `nonfatal`, the error asks
    for nothing on this GPU. recovery: the action to which 154 changes.
    """
    if xid == RECOVERY_CHANGED:
        return "support" if recovery is None else RECOVERY.get(recovery, "support")
    action = BY_NUMBER.get(xid, "CONTACT_SUPPORT")
    if action == "WORKFLOW_NVLINK5_ERR" and severity.lower() == NONFATAL:
        return "none"
    return STEPS[action]


def is_sick(step: Step) -> bool:
    """Tell whether a GPU that needs this step is sick."""
    return step not in HARMLESS
