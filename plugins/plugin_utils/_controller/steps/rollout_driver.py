# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do for one host of a rollout what a change of its driver by the user's tasks needs around it.

Before the change the packages of the driver are kept, and the hold of this collection is released.
After it the host is judged. When it has come through, the host's own record says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    host_look,
    transport,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    end_with_code,
    join_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    driver_change,
    left_out,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    kept_driver,
    kept_messages,
)


def change_driver(action: ActionBase, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Keep, judge or settle, as the option `point` says. In a tree nothing runs."""
    args = arguments.read_step_options(action, "rollout_driver")
    if args["root"] != "/" or action._task.check_mode:
        return {"changed": False, "point": args["point"], "skips": True}
    of_point = {"keep": keep_driver, "judge": judge_driver, "settle": settle_driver}
    try:
        result = of_point[args["point"]](action, task_vars, args)
    except AnsibleConnectionFailure as error:
        # A host that cannot be reached must not go on to the user's tasks or into service.
        raise PlanError(kept_messages.KEEPING_UNREACHABLE.fill(problem=str(error))) from None
    return {"changed": False, "point": args["point"], **result}


def keep_driver(
    action: ActionBase, task_vars: dict[str, Any], args: Mapping[str, Any]
) -> dict[str, Any]:
    """Keep the packages of the host's driver, note the change that begins, and release the hold.

    Raise PlanError if that fails, if nothing is known of the driver of now, or if a package is not
    kept and the settings demand it. The host judges the demand, before it releases anything.
    """
    look = task_vars.get(registered.LOOK) or {}
    unknown = left_out.explain_unknown_host(look)
    if unknown:
        raise PlanError(kept_messages.KEEPING_UNREACHABLE.fill(problem=unknown))
    policy = arguments.build_policy({"driver": args["driver"]})
    needs: kept_driver.KeepingNeeds = host_look.learn(
        action,
        task_vars,
        Policy(),
        kept_driver.list_keeping_questions(),
        lambda seen: kept_driver.read_keeping_needs(policy, seen),
        args["transport"],
    )
    keeping = str(args["settings"].get("keep_packages") or "try")
    before = driver_change.list_codes_before(look)
    owner = kept_driver.Owner(uuid.uuid4().hex, args["rollout"])
    request = kept_driver.build_keeping_request(needs, keeping, look["driver"], before, owner)
    answer = send(action, task_vars, args, request)
    if answer["error"]:
        raise PlanError(kept_messages.KEEPING_FAILED.fill(problem=answer["error"]["message"]))
    notes = describe_keeping(answer, needs, keeping)
    if answer["refused"]:
        causes = join_texts("; ", [end_with_code(note.drop_step()) for note in notes])
        raise PlanError(kept_messages.PACKAGES_DEMANDED.fill(causes=causes))
    if needs.others:
        held = names.show_few_texts(needs.others, kept_driver.SHOWN, ", ")
        notes.append(kept_messages.HELD_BY_PERSON.fill(packages=held))
    notes += needs.advice
    cut_off = kept_driver.parse_change(look.get("driver_change") or {}).releasing
    if cut_off and policy.driver != "hold":
        notes.append(kept_messages.RELEASE_CUT_OFF.fill())
    if needs.released and policy.driver != "hold":
        ours = names.show_few_texts(needs.released, kept_driver.SHOWN, ", ")
        notes.append(kept_messages.HOLD_ENDS.fill(packages=ours, policy=policy.driver))
    return {
        "run": owner.run,
        "again": answer["again"],
        "kept": answer["kept"],
        "left": answer["left"],
        "released": [" ".join(command["argv"]) for command in answer["ran"]],
        "manager": needs.manager,
        **show_notes(task_vars, notes),
    }


def describe_keeping(
    answer: Mapping[str, Any], needs: kept_driver.KeepingNeeds, keeping: str
) -> list[Message]:
    """Return what a person should know of the packages, kept or not."""
    notes = kept_driver.describe_left_packages(answer["left"])
    if answer["unread"]:
        notes.append(kept_messages.RECORD_UNREAD.fill(path=kept_driver.DIRECTORY))
    elif answer["again"]:
        counts = {"kept": len(answer["kept"]), "left": len(answer["left"])}
        notes.append(kept_messages.BEGUN_BEFORE.fill(**counts))
    elif keeping != "never" and not needs.packages:
        notes.append(kept_messages.NONE_INSTALLED.fill())
    return notes


def show_notes(task_vars: Mapping[str, Any], notes: Sequence[Message]) -> dict[str, Any]:
    """Return notes as parts of a result. Ansible prints warnings without -v, and names no host."""
    told = [end_with_code(note) for note in notes]
    host = task_vars.get("inventory_hostname") or "this host"
    return {"notes": told, "warnings": [f"{host}: {note}" for note in told]}


def judge_driver(
    _action: ActionBase, task_vars: dict[str, Any], args: Mapping[str, Any]
) -> dict[str, Any]:
    """Judge the look at the host after its change. Raise PlanError if it keeps the host out."""
    look = dict(task_vars.get(registered.LOOK) or {})
    before = kept_driver.parse_change(look.get("driver_change") or {})
    wanted = str(args["settings"].get("driver") or "")
    wrong = driver_change.explain_bad_change(look, before, find_way_back(before, task_vars), wanted)
    if wrong:
        raise PlanError(wrong)
    unmoved = driver_change.explain_unmoved_driver(look, before, wanted)
    release = str((look.get("driver") or {}).get("version") or "")
    return {"release": release, **show_notes(task_vars, [unmoved] if unmoved else [])}


def find_way_back(before: kept_driver.DriverChange, task_vars: Mapping[str, Any]) -> str:
    """Return the command by which a person goes back, '' if no package is kept."""
    manager = str((task_vars.get(registered.DRIVER_KEPT) or {}).get("manager") or "")
    return kept_driver.WAY_BACK.get(manager, "") if before.kept else ""


def settle_driver(
    action: ActionBase, task_vars: dict[str, Any], args: Mapping[str, Any]
) -> dict[str, Any]:
    """Note on the host that its change was judged and that the host is well. Raise PlanError if
    another run has prepared the host since this one.
    """
    run = str((task_vars.get(registered.DRIVER_KEPT) or {}).get("run") or "")
    request = kept_driver.build_settling_request(kept_driver.Owner(run, args["rollout"]))
    answer = send(action, task_vars, args, request)
    if answer["error"]:
        raise PlanError(kept_messages.NOT_SETTLED.fill(problem=answer["error"]["message"]))
    if answer["rollout"]:
        raise PlanError(kept_messages.CHANGE_TAKEN_UP.fill(rollout=answer["rollout"]))
    if answer["state"] != kept_driver.SETTLED:
        gone = kept_messages.NOTE_GONE.fill(path=kept_driver.PATH)
        raise PlanError(kept_messages.NOT_SETTLED.fill(problem=gone))
    return {"state": answer["state"]}


def send(
    action: ActionBase,
    task_vars: dict[str, Any],
    args: Mapping[str, Any],
    request: Mapping[str, Any],
) -> dict[str, Any]:
    """Run the program that keeps packages on the host, and return its answer."""
    return transport.run_host_program(
        action, kept_driver.PROGRAM, request, task_vars, args["transport"]
    )
