# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of a rollout that break at a chosen moment."""

from __future__ import annotations

DROP_IN = "/etc/systemd/system/containerd.service.d/trap.conf"
TRAP = "[Service]\nExecStartPre=/bin/sh -c '! grep -rq nvidia /etc/containerd'\n"
