# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of AWX and its users, in an environment of their own, as a user runs them."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / ".cache" / "collections"


@functools.cache
def folder() -> Path:
    """Where the programs are, made at first use."""
    with tool_modules.reachable():
        import environments

        return environments.ensure("awx")


@functools.cache
def awx_collection() -> Path:
    with tool_modules.reachable():
        import awx_collection as found

        return found.ensure()


def environment(place: Path, **more: str) -> dict[str, str]:
    """place: where all of a run's own files go, so that none is left in the home of who runs the
    tests.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANSIBLE_", "CONTROLLER_", "TOWER_"))
    }
    own = {
        "PATH": f"{folder()}:{os.environ['PATH']}",
        "HOME": str(place),
        "ANSIBLE_COLLECTIONS_PATH": str(OWN),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCAL_TEMP": str(place / "tmp"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
        # of awx.awx, which is older than the newest ansible-core
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
    }
    return {**kept, **own, **more}


def run(place: Path, program: str, *arguments: Any, **more: str) -> tuple[int, str]:
    """The exit status and the words."""
    command = [str(folder() / program), *map(str, arguments)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=place,
        env=environment(place, **more),
    )
    words = done.stdout + done.stderr
    assert "Traceback" not in words, words
    return done.returncode, words
