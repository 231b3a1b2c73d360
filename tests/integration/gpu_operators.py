# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts on which the GPU Operator has configured the engine."""

from __future__ import annotations

OURS = {"packages": "ignore"}
# A process of root's with the host's PIDs and mounts of its own, as the DaemonSet's container has
# them.
LIVE = """
mkdir -p /opt/toolkit && cp /bin/sleep /opt/toolkit/nvidia-toolkit
systemd-run --quiet --unit toolkit-container unshare --mount /opt/toolkit/nvidia-toolkit infinity
for n in $(seq 100); do pgrep -x nvidia-toolkit >/dev/null && exit; sleep 0.1; done; exit 1
"""
