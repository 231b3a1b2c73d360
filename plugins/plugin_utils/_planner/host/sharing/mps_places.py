# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directories of an MPS daemon and its clients. They are root's, unlike /tmp/nvidia-mps, which
any user may make first.
"""

from __future__ import annotations

from collections.abc import Mapping

TOPS = RUN, LOGS = ("/run/gpufleet-mps", "/var/lib/gpufleet-mps")
ROOT = f"{RUN}/"  # a directory for each GPU
KINDS: Mapping[str, str] = {
    "pipe": ROOT + "{gpu}/pipe",
    "shm": ROOT + "{gpu}/shm",
    # Not in /var/log, which Ubuntu's rsyslog gives to the group syslog (mode 0775, 00rsyslog.conf):
    # root would follow what that puts there.
    "log": LOGS + "/{gpu}",
}


def get_mps_directory(gpu: str, kind: str) -> str:
    return KINDS[kind].format(gpu=gpu)


def get_mps_environment(gpu: str) -> dict[str, str]:
    """Return the variables for a daemon and its clients, which are the same, as NVIDIA's
    documentation of MPS has it.
    """
    return {
        "CUDA_MPS_PIPE_DIRECTORY": get_mps_directory(gpu, "pipe"),
        "CUDA_MPS_LOG_DIRECTORY": get_mps_directory(gpu, "log"),
    }
