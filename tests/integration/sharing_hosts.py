# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose GPUs are shared: what they have beside their engine, and the module's run on one of
them.
"""

from __future__ import annotations

from typing import Any

from tests.tools.onlab import RUNTIME, Fleet, Run

OPTIONS = {"packages": "ignore", "cdi_owner": "collection"}
MODES = "nvidia-smi --query-gpu=compute_mode --format=csv,noheader"


def stand_in_for_the_toolkit(fleet: Fleet, host: str) -> None:
    """Put a stand-in for the program of Docker's handler into a host.

    The handler needs it. It is never run, since devices are asked for by CDI here.
    """
    fleet.shell(host, RUNTIME)


def uuids_of(fleet: Fleet, host: str) -> list[str]:
    return fleet.shell(host, "nvidia-smi --query-gpu=uuid --format=csv,noheader").split()


def run(fleet: Fleet, host: str, *arguments: str, **options: Any) -> Run:
    found = fleet.task("host", [host], {**OPTIONS, **options}, arguments=arguments)
    assert found.failed == {}, (
        fleet.shell(host, "journalctl -b -o cat -u 'gpufleet-*' | tail -50") + found.words
    )
    return found
