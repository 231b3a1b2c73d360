# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of the playbooks are one action: each has its own options. The action imports at once
the code of the steps that every rollout runs, and the code of another step when it runs.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import playbook_step


def play(
    task_vars: dict[str, Any] | None = None, *, run_once: bool = False, **args: Any
) -> dict[str, Any]:
    action = playbook_step.ActionModule.__new__(playbook_step.ActionModule)
    action._task = types.SimpleNamespace(
        args=args, check_mode=False, diff=False, async_val=0, run_once=run_once
    )
    action._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None))
    found: dict[str, Any] = action.run(task_vars=task_vars or {"inventory_hostname": "gpu1"})
    return found


REFUSED = {
    "no step": ({}, "options.required"),
    "a step that does not exist": ({"step": "rollout_plans"}, "options.choice"),
    "an option of another step": (
        {"step": "keep_failure", "variable": "gpufleet_rollout_failure", "point": "begin"},
        "options.unknown",
    ),
    "an option that is missing": ({"step": "rollout_batch", "point": "begin"}, "options.required"),
}


@pytest.mark.parametrize(("args", "code"), REFUSED.values(), ids=REFUSED)
def test_a_step_takes_its_own_options_alone(args: dict[str, Any], code: str) -> None:
    found = play(**args)
    assert (found["failed"], found["error"]["code"]) == (True, code)


def test_a_step_returns_its_own_result() -> None:
    failed = {"ansible_failed_result": {"msg": "no room"}}
    found = play(failed, step="keep_failure", variable="gpufleet_rollout_failure")
    assert found["kept"]["msg"] == "no room"


RUNS = {
    # hosts of the play, run_once, whether the step begins
    "once for many hosts": (["gpu1", "gpu2"], True, True),
    "for each of many hosts": (["gpu1", "gpu2"], False, False),
    "for the only host": (["gpu1"], False, True),
}


@pytest.mark.parametrize("step", sorted(playbook_step.STEPS))
@pytest.mark.parametrize(("hosts", "run_once", "begins"), RUNS.values(), ids=RUNS)
def test_a_step_that_acts_once_begins_once(
    step: str, hosts: list[str], run_once: bool, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = playbook_step.STEPS[step]
    module = importlib.import_module(playbook_step.PACKAGE + step)
    monkeypatch.setattr(module, name, lambda _action, _task_vars: {"began": True})
    monkeypatch.setattr(playbook_step.validation, "validate", lambda _spec, given: given)
    found = play(
        {"inventory_hostname": "gpu1", "ansible_play_batch": hosts}, run_once=run_once, step=step
    )
    if begins or step not in playbook_step.ONCE:
        assert found["began"]
    else:
        assert found["error"]["code"] == "playbook-step.not-once"


def test_every_step_has_its_function() -> None:
    assert sorted(playbook_step.STEPS) == playbook_step.SPEC["step"]["choices"]
    for step, name in playbook_step.STEPS.items():
        assert callable(getattr(importlib.import_module(playbook_step.PACKAGE + step), name))


def test_loading_the_action_imports_the_steps_of_every_rollout_alone() -> None:
    program = (
        f"import sys, {playbook_step.__name__}; "
        f"print(*(name for name in sys.modules if name.startswith({playbook_step.PACKAGE!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    loaded = {name.removeprefix(playbook_step.PACKAGE) for name in done.stdout.split()}
    assert loaded == set(playbook_step.OF_EVERY_ROLLOUT)
