# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-persistenced on a host that is played: the drop-ins, their way back, and check mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    persistence,
)

from tests.unit import running_host
from tests.unit.running_host import Host, HostProcess
from tests.unit.running_hosts import ENGINES, build

WANTED = {"no_gpu": "prepare", "packages": "ignore", "persistence": "enabled"}


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


@pytest.fixture
def host(process: HostProcess) -> Iterator[Host]:
    """A host whose nvidia-persistenced runs, and is not wanted by anything."""
    made = build(process, ENGINES["containerd, GPU"].copy(), 0o644)
    begins, status, out, err = next(row for row in made.known if row[0] == "systemctl show")
    block = (
        f"Id={persistence.UNIT}\nNames={persistence.UNIT}\nLoadState=loaded\nActiveState=active\n"
    )
    made.known.insert(0, (begins, status, f"{str(out).rstrip()}\n\n{block}", err))
    yield made
    made.close()


def read(host: Host) -> dict[str, str | None]:
    files = {path: host.path(path) for path in persistence.TEXTS}
    return {path: file.read_text() if file.is_file() else None for path, file in files.items()}


def test_the_drop_ins_come_stay_and_go(host: Host) -> None:
    nothing = dict.fromkeys(persistence.TEXTS)
    planned = host.task("host", check=True, **WANTED)
    assert (planned["changed"], read(host)) == (True, nothing), planned.get("msg")
    changed = host.task("host", **WANTED)
    assert (changed["changed"], read(host)) == (True, persistence.TEXTS), changed.get("msg")
    assert persistence.UNIT not in changed["restarted"]
    again = host.task("host", **WANTED)
    assert again["changed"] is False, again.get("differences")
    left = host.task("host", **{**WANTED, "persistence": "advise"})
    assert (left["changed"], read(host)) == (False, persistence.TEXTS)
    back = host.task("host", state="absent")
    assert (back["changed"], read(host)) == (True, nothing), back.get("msg")
