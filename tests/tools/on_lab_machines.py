# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command that needs the lab's hosts, or report what this machine lacks.

    on_lab_machines.py [--lab NAME] COMMAND...

With --lab the command finds in GPUFLEET_LAB_NAME a lab for this run alone, which is taken down
afterwards.

A machine that cannot carry the lab is not a failure of the collection: the summary reports it, and
what can be run is run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from environments import ROOT
from everything import tie_to_this_process

sys.path.insert(0, str(ROOT))

from tests.lab import doctor, inventory
from tests.lab.lab import Lab


def main(command: list[str]) -> int:
    """Run the command, or name the obstacle."""
    obstacle = doctor.machine_obstacle() or (
        "" if doctor.has_go() else "there is no Go, which NVIDIA's packages are built with"
    )
    if obstacle:
        print(f"not run here: {' '.join(command)} ({obstacle})")
        return 0
    os.chdir(ROOT)
    os.environ.update(inventory.imitated())
    if command[:1] != ["--lab"]:
        # no process in between: it alone is interrupted, and tidies up
        os.execvp(command[0], command)
    with Lab.of_run(command[1]) as lab:
        lab.hold()
        child = subprocess.Popen(
            tie_to_this_process(command[2:]), env={**os.environ, "GPUFLEET_LAB_NAME": lab.name}
        )
        # a terminal's goes to both; the hosts are taken down when the child is done
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
        ):
            signal.signal(
                number,
                lambda number, _frame: (
                    child.send_signal(number) if number == signal.SIGTERM else None
                ),
            )
        return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
