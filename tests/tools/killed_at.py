# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command that runs another one, and kills it with all of its children at a line of its output."""

from __future__ import annotations

import sys

PROGRAM = """
import os, signal, subprocess, sys
left, words = int(sys.argv[1]), sys.argv[2]
run = subprocess.Popen(sys.argv[3:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
for line in run.stdout:
    print(line, end="", flush=True)
    left -= words in line
    if not left:
        os.killpg(run.pid, signal.SIGKILL)
        break
sys.exit(run.wait() != 0)
"""


def killed_at(words: str, count: int = 1) -> list[str]:
    """What is put before the other command, which is killed when it has printed these words for the count-th time."""
    return [sys.executable, "-c", PROGRAM, str(count), words]
