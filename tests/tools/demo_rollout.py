# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An act of the demo: a change goes through the fleet by canaries and waves, an alert stops it, and
it goes on later.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

# what goes through the fleet: the handler nvidia as every engine's default
CHANGE = "gpufleet_set_as_default=enabled"
# One class, so that there are hosts left after the canary; by default each host of the demo is of a
# class of its own.
CLASSES = "gpufleet_rollout_class=os.id"
GONE_ON = re.compile(r"^batch \d+ of \d+, (canaries|wave \d+):", re.MULTILINE)

Run = Callable[..., str]


class RolloutFailed(Exception):
    """A rollout that did not do what it should."""


def show(run: Run, settings: Path, place: Path) -> None:
    """Let a check outside stop the rollout, and go on once all is well.

    run: runs an Ansible command, and takes the exit status that it has to end with.
    """
    quiet, begun, report = place / "no-alert", place / "begun", place / "report"
    quiet.unlink(missing_ok=True)
    shutil.rmtree(begun, ignore_errors=True)
    # Well before the first batch, when the directory can be made, and not after it.
    alert = f"test -e {quiet} || mkdir {begun} 2>/dev/null"
    check = f'{{"gpufleet_rollout_gate_check": ["sh", "-c", "{alert}"], "gpufleet_rollout_gate_retries": 0}}'
    command = [
        "ansible-playbook",
        "gpufleet.nvidia.rollout",
        "-e",
        f"@{settings}",
        "-e",
        CHANGE,
        "-e",
        CLASSES,
        "-e",
        check,
    ]
    command += ["-e", f"gpufleet_report_dir={report}"]
    print("After each batch the gate asks outside whether all is well. An alert fires:\n")
    require(run(*command, status=2), ["canaries"])
    print("\nThe alert is over. The same command again goes on where it stopped:\n")
    quiet.touch()
    require(run(*command), ["wave 1", "wave 2"])
    if not (report / "report.html").is_file():
        raise RolloutFailed(f"there is no page in {report}")
    print(
        f"\nThe page for others, one file without anything from outside: {report / 'report.html'}"
    )


def require(words: str, batches: list[str]) -> None:
    """Raise RolloutFailed unless the rollout has gone through these batches.

    A run that stops after its canaries has gone through no waves.
    """
    found = list(dict.fromkeys(GONE_ON.findall(re.sub(r"\x1b\[[0-9;]*m", "", words))))
    if not set(batches) <= set(found) or (found[1:] and "canaries" in batches):
        raise RolloutFailed(
            f"the rollout has gone through {', '.join(found) or 'nothing'}, and should have gone through {', '.join(batches)}"
        )
