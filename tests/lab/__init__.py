# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet of real hosts on one Debian machine: real systemd, sshd and container engines in
systemd-nspawn.
"""

from __future__ import annotations

from .artefacts import LabError
from .hosts import Host
from .lab import Lab

__all__ = ["Host", "Lab", "LabError"]
