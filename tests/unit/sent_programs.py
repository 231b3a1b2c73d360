# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request for the observer, the Python that runs it here, and what that Python prints first."""

from __future__ import annotations

import sys

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    transport,
)

REQUEST = {
    "schema": 1,
    "root": "/",
    "questions": [
        {"id": "file:/etc/hostname", "kind": "file", "path": "/etc/hostname", "content": False}
    ],
}
PYTHON = {"ansible_python_interpreter": sys.executable}


def begun(version: int = sys.hexversion) -> bytes:
    """Return what an interpreter prints first."""
    return f"{transport.BEGUN} {version >> 16}\n".encode()
