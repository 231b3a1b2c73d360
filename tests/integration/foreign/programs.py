# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of other releases of ansible-core, and collections of other projects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.onlab import ROOT
from tests.unit import tool_modules


def find_programs(group: str) -> Path:
    """Return the folder of the programs of an environment, or a word on why it cannot be had."""
    make = [sys.executable, ROOT / "tests/tools/environments.py", group]
    made = subprocess.run(
        make, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if made.returncode == 3:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


def list_collections() -> str:
    """Return ANSIBLE_COLLECTIONS_PATH with this collection and those of other projects."""
    with tool_modules.reachable():
        import foreign_collections

        return f"{ROOT}/.cache/collections:{foreign_collections.ensure()}"
