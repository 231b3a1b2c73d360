# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An act of the demo: unattended-upgrades moves a driver under its loaded module, and the plan says
so.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.lab import driver_hosts, userland
from tests.lab.driver_hosts import DEBIAN
from tests.lab.lab import Lab

HOST = "moved"
# as apt's timer starts it
MOVE = "unattended-upgrade --verbose"
SAID = re.compile(r"Packages that will be upgraded: .*")
Run = Callable[..., str]


class MoveFailed(Exception):
    """A driver that did not move, or a plan that does not say so."""


def boot(lab: Lab) -> None:
    """Boot one more host, with Debian's driver 535. Its repository then gets 550."""
    lab.up({"hosts": {HOST: driver_hosts.DEBIAN_HOST}})
    driver_hosts.install_on_debian(lab, HOST, userland.MOVER)
    driver_hosts.offer_on_debian(lab, HOST)


def show(lab: Lab, run: Run) -> None:
    """Let the program run that moves packages by itself, and show the plan for the host.

    MoveFailed unless the plan names both versions and the reboot.
    """
    print(f"{HOST}: {MOVE}")
    done = lab.exec(HOST, ["sh", "-c", f"apt-get -q update && {MOVE}"])
    moved = SAID.search(done.stdout)
    if not moved:
        raise MoveFailed(f"unattended-upgrades has moved nothing:\n{done.stdout}{done.stderr}")
    print(f"{HOST}: {moved[0]}\n")
    words = run("ansible-playbook", "gpufleet.nvidia.plan", "--limit", HOST)
    missing = [said for said in (DEBIAN.old, DEBIAN.new, "Reboot") if said not in words]
    if missing:
        raise MoveFailed(f"the plan does not say {', '.join(missing)}")
