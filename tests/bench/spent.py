# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a command takes of the machine that it runs on: a process of its own around it, whose only
children are the command's.

python spent.py FILE COMMAND...
"""

from __future__ import annotations

import dataclasses as dc
import json
import resource
import subprocess
import sys
from pathlib import Path


@dc.dataclass(frozen=True)
class Spent:
    """seconds: of processor time, all processes together. mib: resident at most, in the largest of
    them.
    """

    seconds: float
    mib: float


def around(file: Path) -> list[str]:
    """What goes before a command."""
    return [sys.executable, str(Path(__file__).resolve()), str(file)]


def read(file: Path) -> Spent:
    return Spent(**json.loads(file.read_text(encoding="utf-8")))


def main(file: str, command: list[str]) -> int:
    status = subprocess.run(command, check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = Spent(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)  # Linux counts KiB
    Path(file).write_text(json.dumps(dc.asdict(spent)), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
