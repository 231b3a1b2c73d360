# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the one file that measures a machine share: the file, a run of it, a measurement
that is played, and what a machine answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import (
    build,
    main,
)
from tests.lab import recorded

SEEN = {name: node for name, node in recorded.nodes().items() if node.seen}
NODE = next(iter(SEEN.values()))
# Another account's packages, and the environment, are not there.
BARE = [sys.executable, "-I", "-S", "-B"]
OWN = {
    "driver": "580.159.04",
    "gpus": [
        {"index": 0, "minor": 0, "uuid": "GPU-1", "bus": "0000:00:06.0", "name": "H", "mig": True,
         "migs": ["MIG-1"], "places": [[1, 0]]},
    ],
}  # fmt: skip
INSIDE: dict[str, Any] = {
    "nodes": [["/dev/nvidia0", ""], ["/dev/nvidiactl", ""]],
    "before": ["/dev/nvidia0", "/dev/nvidiactl"],
    "after": ["/dev/nvidia0", "/dev/nvidiactl"],
    "others": [["/dev/nvidia1", "EPERM"]],
    "rules": "",
    "nvml": {"gpus": [{}], "errors": []},
    "cuda": {"code": 0, "count": 1},
}


def build_program(folder: Path) -> Path:
    """Build the one file in a folder."""
    file = folder / "gpufleet-gpu.pyz"
    build.write(file)
    return file


def run_program(
    command: Sequence[object], request: object = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        input=json.dumps(request or {}),
        capture_output=True,
        text=True,
        check=False,
    )


def build_measurement(given: Namespace | None = None) -> main.Measurement:
    return main.Measurement(given or Namespace(nvidia_ctk="", change=False), "gpufleet.nvidia 1")


def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """Let steps be those of a program that does this."""
    file = tmp_path / "program.py"
    file.write_text(text)
    monkeypatch.setattr(main, "PROGRAM", str(file))
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 0.3))
