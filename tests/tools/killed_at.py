# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that run another one, and do something at a line of its output: kill it with all of its
children, or run a third one.
"""

from __future__ import annotations

import json
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
MEANWHILE = """
import json, subprocess, sys
words, third = sys.argv[1], json.loads(sys.argv[2])
run = subprocess.Popen(sys.argv[3:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for line in run.stdout:
    print(line, end="", flush=True)
    if third and words in line:
        subprocess.run(third, check=True)
        third = None
sys.exit(run.wait())
"""


def done_at(words: str, third: list[str]) -> list[str]:
    """Return what is put before another command, to run a third one beside it.

    The third command runs when the other one has printed these words for the first time.
    """
    return [sys.executable, "-c", MEANWHILE, words, json.dumps(third)]


def killed_at(words: str, count: int = 1) -> list[str]:
    """Return what is put before another command, to kill it when it has printed these words for the
    count-th time.
    """
    return [sys.executable, "-c", PROGRAM, str(count), words]
