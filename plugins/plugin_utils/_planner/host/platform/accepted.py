# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the findings that the owner of a host can accept, of its GPUs and of the units they need."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    messages as health_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import messages

# About one GPU. The number of GPUs is said by gpufleet_gpus, so that one more that is lost is still
# found.
BY_ADDRESS: tuple[Sentence, ...] = (
    health_messages.NOT_SERVED,
    health_messages.LOG_TELLS,
    health_messages.GPU_LOST,
    health_messages.RESET_REQUIRED,
    health_messages.RECOVERY_DUE,
    health_messages.ROWS_FAILED,
    health_messages.LINKS_DOWN,
    health_messages.FABRIC_NOT_JOINED,
    health_messages.FABRIC_FAILED,
    health_messages.FABRIC_ROUTE,
    health_messages.FABRIC_TIMEOUT,
    health_messages.FABRIC_CONFIGURATION,
    health_messages.POWER_BRAKE,
    health_messages.THERMAL_BRAKE,
)
# About one GPU that NVML does not tell the address of, by NVML's number.
BY_NUMBER = (health_messages.NO_HANDLE, health_messages.SILENT_GPU)
OF_HOST: tuple[Sentence, ...] = (
    messages.FM_ABSENT,
    messages.FM_OTHER_VERSION,
    messages.FM_OFF,
    messages.FM_FAILED,
    messages.NVLSM_ABSENT,
)
ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
# Of each code, what names the device.
DEVICES = {
    **{row.code: re.compile(ADDRESS) for row in BY_ADDRESS},
    **{row.code: re.compile("0|[1-9][0-9]{0,3}") for row in BY_NUMBER},
    **{row.code: re.compile("") for row in OF_HOST},
}


def is_acceptable(entry: object) -> bool:
    """Tell whether an entry of the option names one finding: `CODE` of the host as a whole, `CODE
    GPU` of one GPU.
    """
    code, space, device = str(entry).partition(" ")
    pattern = DEVICES.get(code)
    return pattern is not None and bool(space) is bool(device) and bool(pattern.fullmatch(device))
