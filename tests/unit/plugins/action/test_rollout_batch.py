# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a rollout has come is known by its hosts: a gate that does not know it lets nobody start."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    batch_gates,
    batch_hosts,
    host_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import (
    rollout_report,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import outcomes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    progress,
    rollout,
    settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

PLAN = {
    "batches": [{"wave": "canaries", "hosts": ["gpu1", "gpu2"]}, {"wave": "1", "hosts": ["gpu3"]}]
}
BEGUN, ENDED = (
    {"point": point, "progress": {"done": done}} for point, done in (("begin", 0), ("end", 2))
)


def hosts(**steps: Any) -> dict[str, dict[str, Any]]:
    return {
        host: {registered.ROLLOUT_STEP: steps[host]} if host in steps else {}
        for host in ("gpu1", "gpu2", "gpu3")
    }


@pytest.mark.parametrize(
    ("number", "steps", "done"),
    [
        (0, {}, 0),
        (0, {"gpu1": BEGUN, "gpu2": BEGUN}, 0),
        (1, {"gpu1": ENDED, "gpu2": ENDED}, 2),
        (1, {"gpu2": ENDED}, 2),  # the other was lost
        (1, {"gpu1": BEGUN, "gpu2": ENDED}, 2),  # the other was lost within the batch
        (1, {"gpu1": ENDED, "gpu3": {"point": "begin", "progress": {"done": 2}}}, 2),
    ],
)
def test_a_gate_goes_on_from_the_batch_before(
    number: int, steps: dict[str, Any], done: int
) -> None:
    assert batch_hosts.get_progress_before_batch(PLAN, number, hosts(**steps)).done == done


@pytest.mark.parametrize(
    "steps",
    [{}, {"gpu1": BEGUN}, {"gpu1": {"skipped": True}}, {"gpu1": {"failed": True, "msg": "no"}}],
)
def test_a_gate_that_does_not_know_what_was_lost_lets_nobody_start_and_the_report_comes(
    steps: dict[str, Any],
) -> None:
    found = batch_hosts.get_progress_before_batch(PLAN, 1, hosts(**steps))
    assert "the result of batch 1 of the rollout is not known" in found.ended
    assert not found.paused
    assert set(progress.map_held_hosts(found, {"gpu3": "a"})) == {"gpu3"}


@pytest.mark.parametrize(
    ("steps", "done"),
    [
        ({}, 0),
        ({"gpu2": ENDED}, 2),
        ({"gpu1": BEGUN, "gpu2": ENDED}, 2),
        ({"gpu1": ENDED, "gpu3": {"point": "end", "progress": {"done": 3}}}, 3),
    ],
)
def test_the_report_has_the_last_step_that_any_host_knows(steps: dict[str, Any], done: int) -> None:
    assert batch_hosts.get_reached_progress(PLAN, hosts(**steps)).done == done


ABOUT = {"class": "a", "state": rollout.DO}
BEGIN: dict[str, Any] = {"point": "begin", "progress": {}, "ended": "", "held": {}}


@pytest.mark.parametrize(
    ("step", "bad", "said"),
    [
        ({}, {}, "pending"),
        (BEGIN, {}, "lost"),  # its batch was lost with all its hosts
        ({**BEGIN, "held": {"gpu1": "its class has stopped"}}, {}, "pending"),
        ({**BEGIN, "ended": "the window is closed"}, {}, "pending"),
        (BEGIN, {"gpu1": "lost"}, "lost"),  # the gate has seen it in the others' batch
        ({**BEGIN, "point": "end"}, {}, "pending"),
    ],
)
def test_a_host_that_started_and_has_no_result_is_lost_and_not_pending(
    step: dict[str, Any], bad: dict[str, str], said: str
) -> None:
    plan = {**PLAN, "hosts": {"gpu1": ABOUT}}
    found = rollout_report.get_rollout_result(
        "gpu1", plan, {registered.ROLLOUT_STEP: step}, progress.Progress(bad=bad)
    )
    assert outcomes.explain_trouble(found) == said


@pytest.mark.parametrize(
    ("variables", "said"), [({}, "lost"), ({registered.CONVERGED: {"changed": False}}, "no")]
)
def test_a_gate_takes_a_host_that_started_and_has_no_result_for_lost(
    variables: dict[str, Any], said: str
) -> None:
    assert batch_hosts.get_host_word(variables, check=False) == said


@pytest.mark.parametrize(
    ("failure", "lost"),
    [
        ({}, False),
        ({"failed": True, "msg": "no such file", "timedout": {}}, False),
        ({"failed": True, "msg": "Timed out after 5 second(s).", "timedout": {"period": 5}}, True),
        # 2.16
        (
            {
                "failed": True,
                "msg": "The node action failed to execute in the expected time frame (5) and was terminated",
            },
            True,
        ),
        # a host that does not come back from a reboot of the user's own file
        ({"failed": True, "msg": "Timed out waiting for last boot time check (timeout=900)"}, True),
        ({"failed": True, "msg": "timed out waiting for ping module test: no route"}, True),
        # one that came back, and whose test of its driver fails
        (
            {"failed": True, "msg": "Timed out waiting for post-reboot test command (timeout=9)"},
            False,
        ),
    ],
)
def test_a_host_that_took_longer_than_it_may_is_lost(failure: dict[str, Any], lost: bool) -> None:
    found = batch_hosts.get_converged_result(
        {registered.FAILURE: {"kept": failure}, registered.CONVERGED: {"changed": True}}
    )
    assert bool(found.get("unreachable")) is lost


FAR = [
    ("end", 0, ""),
    ("end", 1, ""),
    ("canaries", 0, ""),
    ("canaries", 1, "its canaries are done"),
    ("canaries", 2, "its canaries"),
]


@pytest.mark.parametrize(("until", "wave", "why"), FAR)
def test_a_run_until_its_canaries_pauses_before_the_first_wave(
    until: str, wave: Any, why: str
) -> None:
    found = batch_gates.limit_to_wave(
        progress.Progress(), settings.build_rollout_settings({"until": until}), wave
    )
    assert (found.ended.startswith(why), bool(found.ended), found.paused) == (
        True,
        bool(why),
        bool(why),
    )


class Counted(dict[str, Any]):
    """Variables of a host that count how often a value is read: Ansible templates it each time."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.reads: Counter[str] = Counter()

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)  # a name without a value costs nothing
        self.reads[name] += 1
        return value


class Rendering(dict[str, Any]):
    """Variables of hosts, which Ansible renders for the code that reads them. Its own reads are not
    counted.
    """

    def raw_get(self, host: str) -> dict[str, Any]:
        return dict(self[host])


def test_each_value_of_a_host_is_read_once_for_its_line_in_the_report() -> None:
    variables = Counted(
        {
            registered.LOOK: {"decision": {}},  # may have templates, as far as is known
            registered.CONVERGED: {"changed": True},
            registered.ROLLOUT_STEP: BEGIN,
        }
    )
    planned = {"class": "a", "state": rollout.DO, "gpus": 1, "running": []}
    found = rollout_report.get_rollout_result(
        "gpu1",
        {"hosts": {"gpu1": planned}},
        host_variables.HostVariables(Rendering(gpu1=variables), "gpu1"),
        progress.Progress(),
    )
    assert found["changed"]
    assert max(variables.reads.values()) == 1
