# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts are a host's own words: none of them sets an option of a task of this collection."""

from __future__ import annotations

import importlib
import types
from typing import Any

import pytest
from ansible.plugins.action.command import ActionModule as Command
from ansible_collections.gpufleet.nvidia.plugins.action import variables_check
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    fact_variables,
    omitted_options,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.steps import rollout_soak
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

OWN = f"{arguments.OWN_TASKS[0]}drain/tasks/check.yml:5"
USERS = "/etc/site.yml:3"
COMMANDS = {"gpufleet_drain_commands": {"before": ["id"]}}
NONE: dict[str, Any] = {}
# The action, the file of its task, the host's facts, whether Ansible makes variables of facts,
# whether the task is refused.
TASKS: list[tuple[str, str, Any, bool, bool]] = [
    ("drain", OWN, COMMANDS, True, True),
    # no option of this module, and a template may read it
    (
        "drain",
        OWN,
        {"gpufleet_root": "/x"},
        True,
        True,
    ),
    ("fleet_report", OWN, {"gpufleet_report_publish": "https://x"}, True, True),
    ("drain", OWN, {"hostname": "x", "own_gpufleet_drain": "x", "local": COMMANDS}, True, False),
    ("drain", OWN, None, True, False),  # nothing was gathered
    ("drain", OWN, "x", True, False),
    ("drain", OWN, COMMANDS, False, False),
    ("drain", USERS, COMMANDS, True, False),
    # a rollout keeps its gate and its report
    ("playbook_step: rollout_batch", OWN, COMMANDS, True, False),
    ("playbook_step: rollout_report", OWN, COMMANDS, True, False),
    ("playbook_step: keep_failure", OWN, COMMANDS, True, False),
    ("playbook_step: rollout_settings", OWN, COMMANDS, True, True),
]


def action_of(module: str, path: str) -> Any:
    """Return an action of one of this collection's modules, for a task in a file."""
    module, _colon, step = module.partition(": ")
    whole = f"ansible_collections.gpufleet.nvidia.plugins.action.{module}"
    found: Any = type("ActionModule", (), {"__module__": importlib.import_module(whole).__name__})()
    found._task = types.SimpleNamespace(args={"step": step} if step else {}, get_path=lambda: path)
    return found


@pytest.mark.parametrize(("module", "path", "facts", "injected", "refused"), TASKS)
def test_no_task_begins_with_options_that_facts_set(
    module: str,
    path: str,
    facts: Any,
    injected: bool,
    refused: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fact_variables.constants, "INJECT_FACTS_AS_VARS", injected)
    ran: list[str] = []
    begun = omitted_options.read_variables_first(lambda *_args, **_more: ran.append(module) or {})
    variables = {"ansible_facts": facts, "inventory_hostname": "gpu1"}
    if not refused:
        assert (begun(action_of(module, path), task_vars=variables), ran) == ({}, [module])
        return
    with pytest.raises(PlanError) as caught:
        begun(action_of(module, path), task_vars=variables)
    assert (caught.value.code, caught.value.values["names"], ran) == (
        "variables.from-facts",
        ", ".join(facts),
        [],
    )


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        (COMMANDS, ["variables.from-facts"]),
        ({"gpufleet_x": 1}, ["variables.from-facts"]),
        ({"x": 1}, []),
        (NONE, []),
    ],
)
def test_a_run_does_not_begin_with_variables_that_facts_set(
    facts: dict[str, Any], codes: list[str]
) -> None:
    assert [
        message.code for message in variables_check.list_wrong_host_values({"ansible_facts": facts})
    ] == codes


ANSWERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # what the host's Python returned for the command, and what of it leaves the task
    ({"rc": 0, "stdout": "ok", "changed": True}, {"rc": 0, "stdout": "ok", "changed": True}),
    ({"unreachable": True, "msg": "x"}, {"unreachable": True, "msg": "x"}),
    ({"rc": 0, "ansible_facts": COMMANDS}, {"rc": 0}),
    ({"rc": 0, "add_host": {"host_name": "x"}, "add_group": "y"}, {"rc": 0}),
    ({"rc": 0, "ansible_stats": {"data": {"x": 1}}}, {"rc": 0}),
]


@pytest.mark.parametrize(("answer", "kept"), ANSWERS)
def test_a_host_adds_nothing_to_the_result_of_a_command(
    answer: dict[str, Any], kept: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Command, "run", lambda *_args, **_more: answer)
    command = Command.__new__(Command)
    loader = types.SimpleNamespace(get=lambda *_args, **_more: command)
    own = ("_connection", "_play_context", "_loader", "_templar")
    action: Any = types.SimpleNamespace(
        _task=types.SimpleNamespace(args={"step": "rollout_soak", "argv": ["true"]}),
        _shared_loader_obj=types.SimpleNamespace(action_loader=loader),
        **dict.fromkeys(own),
    )
    assert rollout_soak.run_soak_command(action, {}) == kept
