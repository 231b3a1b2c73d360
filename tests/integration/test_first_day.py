# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a new user meets on the first day: a host whose only engine is Podman."""

from __future__ import annotations

import pytest

from tests.tools.onlab import PROBE, Fleet, Run

pytestmark = pytest.mark.lab

PODMAN = "first-podman"


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    return boot({PODMAN: {"kind": "podman-5.4", "gpus": 2, "driver": "ok"}})  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def podman(fleet: Fleet) -> tuple[Run, Run, Run, Run]:
    """The plan, the run, a second run, and the proof."""
    return (
        fleet.task("node_info", [PODMAN]),
        fleet.task("node", [PODMAN]),
        fleet.task("node", [PODMAN]),
        fleet.task("node_check", [PODMAN], {"image": PROBE}),
    )


def test_a_host_with_podman_alone_is_planned_made_and_proven(fleet: Fleet, podman: tuple[Run, Run, Run, Run]) -> None:
    modules = ("node_info", "node", "node", "node_check")
    planned, first, second, proof = (run.of(module)[PODMAN] for run, module in zip(podman, modules, strict=True))
    assert planned["problem"] == ""
    assert [d["path"] for d in planned["differences"]] == [d["path"] for d in first["differences"]]
    assert (first["changed"], second["changed"], first["restarted"]) == (True, False, [])
    assert podman[2].operations[PODMAN] == 1
    assert {c["name"]: c["ok"] for c in proof["checks"]} == {"podman: one": True, "podman: all": True, "podman: none": True}
    assert fleet.shell(PODMAN, "podman ps -aq") == ""
    assert fleet.shell(PODMAN, "test -e /etc/nvidia-container-runtime || echo none").strip() == "none"
