# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look connects to no socket of a Docker that does not run: where systemd listens there, to
connect would start it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit import running_host
from tests.unit.running_host import HostProcess
from tests.unit.running_hosts import ENGINES, build

USUAL: dict[str, Any] = {"no_gpu": "prepare", "packages": "ignore"}
SOCKET = "/var/run/systemd.sock"  # stands for one at which systemd listens
PLACES = {"config_path": "/etc/docker/daemon.json", "socket": SOCKET, "service": "docker.service"}


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


@pytest.mark.parametrize("module", ["host", "docker_runtime"])
@pytest.mark.parametrize("given", [{"socket": SOCKET}, PLACES], ids=["socket", "all places"])
@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("runs", [True, False], ids=["runs", "stopped"])
def test_nobody_connects_to_the_socket_of_a_docker_that_does_not_run(
    process: HostProcess, module: str, given: dict[str, Any], state: str, *, runs: bool
) -> None:
    host = build(process, ENGINES["docker"].copy(), 0o644)
    connected: list[str] = []
    host.api(SOCKET, connected.append)
    if not runs:
        shutil.rmtree(host.path(f"/proc/{os.getpid()}"))
    more = {"engines": ["docker"], **USUAL} if module == "host" else {}
    host.task(module, check=True, state=state, **given, **more)
    host.close()
    assert bool(connected) is runs
