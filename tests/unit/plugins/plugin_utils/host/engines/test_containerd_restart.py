# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a containerd is restarted, and when that is left to the user."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)

from tests.unit.containerd_plans import NVIDIA, OLD, OPTIONS, ROOT, loaded, plan, write_old


def test_a_change_restarts_the_unit_and_asks_cri_for_the_handler() -> None:
    found = plan("1.7.24", {ROOT: OLD}, running=True, cri=loaded(runc={"SystemdCgroup": True}))
    assert [(r.unit, r.action) for r in found.restarts] == [("containerd.service", "restart")]
    assert found.expect_units == {"containerd.service": "abc"}
    (health,) = found.health
    wanted = {
        "path": ["config", "containerd", "runtimes", "nvidia", "options", "BinaryName"],
        "equals": NVIDIA,
        "folded": True,
    }
    assert wanted in health["require"]


def test_a_property_that_the_daemon_does_not_work_with_yet_takes_a_restart() -> None:
    """A handler that was there before, of nvidia-ctk or of a node image, often lacks just the
    annotations.
    """
    without = loaded(runc={"SystemdCgroup": True}, nvidia=OPTIONS)
    (status,) = without.values()
    status["info"]["config"]["containerd"]["runtimes"]["nvidia"]["ContainerAnnotations"] = []
    found = plan("1.7.24", write_old(), running=True, cri=without)
    assert [(r.unit, r.action) for r in found.restarts] == [("containerd.service", "restart")]
    before = {
        ROOT: write_old()[ROOT].replace('container_annotations = ["nvidia.cdi.k8s.io/*"]', "")
    }
    assert plan("1.7.24", before, running=True, cri=without).restarts


def test_nothing_changes_and_nothing_restarts_where_all_is_in_force() -> None:
    found = plan(
        "1.7.24",
        write_old(),
        running=True,
        cri=loaded(runc={"SystemdCgroup": True}, nvidia=OPTIONS),
    )
    assert found == Plan()


@pytest.mark.parametrize(
    "cri",
    [loaded(runc={}), loaded("nvidia", runc={}, nvidia=OPTIONS)],
    ids=["no handler yet", "still the default"],
)
def test_right_files_that_the_daemon_has_not_loaded_are_a_difference(cri: Any) -> None:
    found = plan("1.7.24", write_old(), running=True, cri=cri)
    assert not found.changes
    assert [(d.what, d.path) for d in found.differences] == [("unit", "containerd.service")]
    assert [r.unit for r in found.restarts] == ["containerd.service"]


UNITS_LEFT: list[dict[str, str]] = [
    {},
    {"KillMode": "process"},
    {"KillMode": "mixed"},  # a restart is refused, with `never` as the next step
    {"LoadState": "masked"},  # as well
]


@pytest.mark.parametrize("unit", UNITS_LEFT)
def test_restart_never_leaves_the_restart_however_it_would_end(unit: dict[str, str]) -> None:
    found = plan(
        "1.7.24",
        {ROOT: OLD},
        Policy(restart="never"),
        running=True,
        cri=loaded(runc={}),
        units={"containerd.service": unit},
    )
    assert found.changes
    assert (found.restarts, found.health) == ((), ())
    assert found.pending == ("containerd.service",)
    assert get_code(found.advice[-1]) == "containerd.restart-left-to-you"


def test_no_restart_is_left_where_none_is_due() -> None:
    """Neither of a daemon that works with it already, nor of one that is stopped, nor of a tree."""
    never, served = Policy(restart="never"), loaded(runc={"SystemdCgroup": True}, nvidia=OPTIONS)
    assert plan("1.7.24", write_old(), never, running=True, cri=served) == Plan()
    assert plan("1.7.24", {ROOT: OLD}, never).pending == ()
    assert plan("1.7.24", {ROOT: OLD}, running=True, cri=loaded(runc={})).pending == ()


def test_a_stopped_daemon_stays_stopped() -> None:
    found = plan("1.7.24", {ROOT: OLD})
    assert found.changes
    assert not found.restarts
    assert get_code(found.advice[-1]) == "containerd.takes-effect-at-next-start"


def test_a_unit_that_would_kill_containers_is_not_restarted() -> None:
    with pytest.raises(PlanError) as caught:
        plan(
            "1.7.24",
            {ROOT: OLD},
            running=True,
            cri=loaded(runc={}),
            units={"containerd.service": {"KillMode": "mixed"}},
        )
    assert (caught.value.where, caught.value.code) == (
        "containerd.service",
        "containerd.restart-kills-containers",
    )
