# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection awx.awx, which is optional for users and needed by tests. It comes with an older
package `ansible` of the index.
"""

from __future__ import annotations

from pathlib import Path

import kubernetes_core

PACKAGE = "ansible==11.13.0"  # with awx.awx 24.6.1; the packages from 12 on have none
WHEEL = "sha256:7f1c9c6a6026ff214d9240647e4d2b019b2a9d4c7a2bc733932bcf92af80ab04"
PART = "ansible_collections/awx/awx/"


def ensure() -> Path:
    """Return the folder for ANSIBLE_COLLECTIONS_PATH, after making it if it is missing."""
    return kubernetes_core.ensure(PACKAGE, WHEEL, PART, "awx")
