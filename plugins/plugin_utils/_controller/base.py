# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of the actions: look, plan, apply, and one shape of result."""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Callable, Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    archives,
    arguments,
    host_look,
    messages,
    omitted_options,
    role_variables,
    run_messages,
    stages,
    transport,
    turns,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller.host_look import (
    Planner,
    Questions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    causes,
    change_reference,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    transaction as planner_transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    end_with_code,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import approved, bound
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_diffs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    work,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    holding_messages,
    kept_driver,
    kept_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import (
    journal as report_journal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import (
    leftovers,
    results,
)

# seconds for which a restarted unit is watched after it served: systemd starts a crashed engine
# again after 5
PROBATION = 15


Outcome = stages.PlannedOutcome
guard_action = omitted_options.guard_action  # around the run() of every action


@dc.dataclass(frozen=True)
class Task:
    """A task that converges a host, with its questions, its planner, and the way to the host."""

    action: ActionBase
    task_vars: dict[str, Any]
    wanted: Policy
    questions: Questions
    planner: Planner
    reason: str
    way: str
    approval: approved.Approval = approved.ANY

    @property
    def check(self) -> bool:
        return bool(self.action._task.check_mode)

    @property
    def host(self) -> str:
        return str(self.task_vars.get("inventory_hostname"))

    def get_cluster(self) -> str:
        """Return the name of the cluster that the host is a server of."""
        return get_server_cluster(self.action, self.task_vars, self.wanted, self.way)

    def look(self, so_far: Observation | None = None) -> Observation:
        """Look at the host, and return what was seen."""
        return host_look.look_at_host(
            self.action, self.task_vars, self.wanted, self.questions(self.wanted), self.way, so_far
        )

    def plan(self, seen: Observation) -> tuple[Observation, Outcome]:
        """Plan by what was seen, and return it with the outcome."""
        return host_look.plan_from(
            seen, self.action, self.task_vars, self.wanted, self.planner, self.way
        )

    def list_planned(self, seen: Observation, plan: Plan) -> bound.Planned:
        """Return what a plan does and shows, as an approval binds it."""
        return list_planned_effects(self.wanted, seen, plan, self.planner)

    def carry_out(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the executor, and return its answer."""
        return transport.run_host_program(
            self.action, "transaction", dict(request), self.task_vars, self.way
        )


def converge_host(
    action: ActionBase,
    task_vars: dict[str, Any],
    wanted: Policy,
    questions: Questions,
    planner: Planner,
    *,
    reason: str,
    way: str,
    approval: approved.Approval = approved.ANY,
) -> dict[str, Any]:
    """Look, plan, apply the plan as one transaction, and shape the result.

    In a conflict (the host has changed in between), plan once more.
    """
    task = Task(
        action,
        task_vars,
        wanted,
        questions,
        planner,
        read_run_reference(action, task_vars).put_after(reason),
        way,
        approval,
    )
    obs, ended = finish_interrupted(task, task.look())
    one = stages.apply_stages(task, *task.plan(obs), functools.partial(send_transaction, task))
    if not (one.answer or one.done.plans or task.check):
        acknowledge_rollbacks(action, task_vars, wanted, one.seen, way)

    def send_alone(plan: Plan) -> dict[str, Any]:
        return task.carry_out(
            build_transaction_request(
                plan,
                wanted,
                one.seen,
                check=False,
                reason=f"{task.reason}: {report_journal.AFTER_ROLLBACK}",
                pending=[],
            )
        )

    noted = (
        write_after_rollback(one.answer, one.outcome.rolled_back, send_alone)
        if not task.check
        else ()
    )
    noted = (*noted, *drop_kept_packages(task, one.outcome, one.answer))
    in_table = shows_diffs_in_table(action, task_vars)
    shaped = shape_result(
        one.outcome,
        one.answer,
        check=task.check,
        diff=in_table or bool(action._task.diff),
        restart=wanted.restart,
    )
    shaped = stages.add_earlier_stages(shaped, one.whole, one.done, wanted.restart)
    if in_table:
        fleet_diffs.move_to_table(shaped)
    earlier = [*ended, *report_journal.advise_on_journal(earlier_runs.read_earlier_runs(one.seen))]
    if earlier:  # only this run reports it, and only a person who looks for advice sees it
        shaped["warnings"] = [
            f"{task_vars.get('inventory_hostname') or 'this host'}: {end_with_code(sentence)}"
            for sentence in earlier
        ]
    advice = [
        end_with_code(sentence) for sentence in dict.fromkeys([*earlier, *shaped["advice"], *noted])
    ]
    whole = {**shaped, "planned": one.planned, "advice": advice}
    return whole if Display().verbosity else drop_plan_of_failure(whole)


def shows_diffs_in_table(action: ActionBase, task_vars: Mapping[str, Any]) -> bool:
    """Tell whether the run has --diff, and a role's task leaves it to the table of the fleet, as in
    the playbooks of this collection.
    """
    role = getattr(action._task, "_role", None)
    ours = role is not None and str(role.get_name()).startswith(arguments.ROLES)
    return ours and bool(task_vars.get("ansible_diff_mode")) and not action._task.diff


# The parts of a failed host's plan. Ansible prints a failed task's whole result, which would hide
# the message.
BULK = ("decision", "differences", "known_bad", "planned", "verification")


def drop_plan_of_failure(result: dict[str, Any]) -> dict[str, Any]:
    """Leave the plan out of a failed result, since tables and reports show none; -v keeps it.
    Return other results as they are.
    """
    return (
        {key: value for key, value in result.items() if key not in BULK}
        if result.get("failed")
        else result
    )


def finish_interrupted(task: Task, seen: Observation) -> tuple[Observation, tuple[str, ...]]:
    """Finish what was interrupted; return the new observation and what became of earlier
    transactions.

    Files that an interrupted run left may look like the desired state, but would be taken back
    later.
    """
    if task.check or not report_journal.cut_short(earlier_runs.read_earlier_runs(seen)):
        return seen, ()
    request = build_transaction_request(
        Plan(),
        task.wanted,
        seen,
        check=False,
        reason=f"{task.reason}: finish what was interrupted",
        pending=[],
    )
    finish = functools.partial(task.carry_out, {**request, "expect": {}})
    ended = end_earlier_transactions(
        turns.take_back_turn(
            report_journal.cut_short_units(earlier_runs.read_earlier_runs(seen)),
            task.wanted,
            task.host,
            task.get_cluster,
            finish,
        )
    )
    return task.look(), ended


def send_transaction(task: Task, seen: Observation, outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """Send one transaction, when it is the host's turn."""
    pending = [] if plan in outcome.plan.first else list(plan.list_left_units(task.wanted))
    request = build_transaction_request(
        plan, task.wanted, seen, check=task.check, reason=task.reason, pending=pending
    )
    return turns.apply_in_turn(
        task.wanted,
        plan,
        task.check,
        task.host,
        task.get_cluster,
        functools.partial(task.carry_out, request),
    )


def get_server_cluster(
    action: ActionBase, task_vars: dict[str, Any], wanted: Policy, way: str
) -> str:
    """Return the name of a server's cluster: from the inventory, otherwise by its CA.

    Servers whose CA cannot be read count as one cluster.
    """
    named = action._templar.template(task_vars.get("gpufleet_cluster") or "")
    return str(
        named
        or work.get_cluster_by_ca(
            host_look.look_at_host(action, task_vars, wanted, [work.CLUSTER], way)
        )
    )


def read_run_reference(
    action: ActionBase, task_vars: Mapping[str, Any]
) -> change_reference.ChangeReference:
    """Return the ticket and the user of this run. Raise PlanError for an invalid ticket."""
    given = {
        name: task_vars[name]
        for name in (change_reference.VARIABLE, *change_reference.USERS)
        if task_vars.get(name) is not None
    }
    return change_reference.read_change_reference(
        {name: action._templar.template(value) for name, value in given.items()}
    )


def write_after_rollback(
    answer: Mapping[str, Any], plan: Plan, send: Callable[[Plan], dict[str, Any]]
) -> tuple[str, ...]:
    """Write, in a transaction of its own, what is to be written after a rollback.

    Return the reason if that failed, which changes nothing else; () otherwise.
    """
    if not answer.get("rolled_back") or not plan.acts:
        return ()
    wrong = results.describe_answer_trouble(send(plan))
    if not wrong:
        return ()
    path = plan.differences[0].path
    return (run_messages.ROLLBACK_NOT_NOTED.fill(path=path, cause=wrong),)


def end_earlier_transactions(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what became of earlier transactions. Fail if one cannot be ended.

    Nothing is planned on top of such a transaction, since it may be taken back at any time.
    """
    if answer.get("error"):
        error = PlanError(messages.UNFINISHED.fill(trouble=results.describe_answer_trouble(answer)))
        error.kept = {"evidence": results.collect_evidence(answer)}
        raise error
    return report_journal.list_recovered_transactions(answer)


def acknowledge_rollbacks(
    action: ActionBase, task_vars: dict[str, Any], wanted: Policy, seen: Observation, way: str
) -> None:
    """Acknowledge rollbacks that were reported now, if no transaction follows that would do so."""
    reported = planner_transaction.Acknowledgement(
        wanted.root,
        JOURNAL_DIR,
        report_journal.list_unacknowledged(earlier_runs.read_earlier_runs(seen)),
        report_journal.list_stray_directories(earlier_runs.read_earlier_runs(seen)),
    )
    if reported.ids or reported.strays:
        transport.run_host_program(action, "acknowledge", reported.build_message(), task_vars, way)


def drop_kept_packages(task: Task, outcome: Outcome, answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Remove the packages that are kept on the host, once the change for which they were kept has
    been judged, or if it never began, or if all of this collection goes. Return the reason if that
    failed, or if nothing has settled whether the driver is held.
    """
    noted = outcome.facts.get("driver_change") or {}
    state = noted.get("state")
    goes = task.wanted.state == "absent"
    if task.check or results.describe_answer_trouble(answer) or not state:
        return ()
    if state == kept_driver.CHANGING and not goes:
        return ()
    if noted.get("releasing") and not goes and leaves_hold(task.wanted, outcome):
        return (kept_messages.RELEASE_CUT_OFF.fill(),)
    request = kept_driver.build_removing_request(
        settled=not goes, releasing=bool(noted.get("releasing"))
    )
    reply = transport.run_host_program(
        task.action, kept_driver.PROGRAM, request, task.task_vars, task.way
    )
    if not reply["error"]:
        return ()
    wrong = reply["error"]["message"]
    return (kept_messages.KEPT_NOT_REMOVED.fill(path=kept_driver.DIRECTORY, problem=wrong),)


def leaves_hold(policy: Policy, outcome: Outcome) -> bool:
    """Tell whether a run has left the packages of the driver as they are: by its policy, or since
    the host has no driver, or is left alone. Any other run has held them, or released all of them.
    """
    record = outcome.facts.get("decision") or {}
    alone = record.get("refused") and not record.get("decisions")
    codes = {get_code(text) for text in outcome.plan.whole.advice}
    without = record.get("skipped") or holding_messages.NO_DRIVER.code in codes
    return policy.driver == "ignore" or bool(alone or without)


def list_planned_effects(
    wanted: Policy, seen: Observation, plan: Plan, planner: Planner
) -> bound.Planned:
    """Return what a plan does and shows on a host, as an approval binds it."""
    return bound.build_planned_effects(
        wanted, seen, plan, lambda policy, obs: planner(policy, obs).plan
    )


def build_transaction_request(
    plan: Plan, wanted: Policy, seen: Observation, *, check: bool, reason: str, pending: list[str]
) -> dict[str, Any]:
    """Return a plan as the executor's request."""
    here = wanted.root == "/"
    restarts = plan.list_acted_restarts(wanted.restart) if here else ()
    request = planner_transaction.Request(
        root=wanted.root,
        journal_dir=JOURNAL_DIR,
        reason=reason,
        check=check,
        alone=here,
        expect=planner_transaction.Expected(plan.expect_files, plan.expect_units),
        changes=planner_transaction.allow_groups(archives.fill_changes_from_archive(plan.changes)),
        causes=causes.build_cause_table(),
        probation=PROBATION,
        pending=pending,
        acknowledged=report_journal.list_unacknowledged(earlier_runs.read_earlier_runs(seen)),
        strays=report_journal.list_stray_directories(earlier_runs.read_earlier_runs(seen)),
    )
    if here:
        request = dc.replace(
            request,
            expect=dc.replace(
                request.expect, packages=seen.map_packages(), programs=seen.map_programs()
            ),
            commands_before=plan.commands,
            stage=planner_transaction.Stage(plan.stage_files, plan.substitute),
            validate=plan.validate,
            disable=plan.disable_units,
            units=[planner_transaction.Unit(r.unit, r.action, r.timeout) for r in restarts],
            health=plan.health if restarts else (),
        )
    return request.build_message()


def refuse_planned_files(
    action: ActionBase, task_vars: dict[str, Any], wanted: Policy, plan: Plan, way: str
) -> Message:
    """Ask the host what would refuse the files of a plan, and return that; an empty message if
    nothing does.

    A conflict is none: a run looks again, and plans by what it sees then.
    """
    changes = plan.whole.changes
    if not changes:
        return Message("")
    request = planner_transaction.Request(
        root=wanted.root,
        journal_dir=JOURNAL_DIR,
        reason="gpufleet.nvidia.host_info",
        check=True,
        alone=False,
        judge=True,
        changes=planner_transaction.allow_groups(changes),
    )
    answer = transport.run_host_program(
        action, "transaction", request.build_message(), task_vars, way
    )
    return Message("") if answer.get("conflict") else results.describe_answer_trouble(answer)


def shape_result(
    outcome: Outcome, answer: Mapping[str, Any], *, check: bool, diff: bool, restart: str
) -> dict[str, Any]:
    """Return the result of a task by its plan and by the host's answer.

    check: check mode. diff: whether differences are shown. restart: the option of this name.
    """
    plan, parts = outcome.plan.whole, (*outcome.plan.first, dc.replace(outcome.plan, first=()))
    planned = plan.list_interrupted_units(restart)
    trouble = results.describe_answer_trouble(answer)
    kept = bool(answer.get("changed")) and (
        not answer.get("rolled_back") or bool(answer.get("foreign"))
    )
    beforehand = plan.beforehand if check or trouble else ()
    shaped: dict[str, Any] = {
        "changed": plan.acts,
        "differences": results.describe_differences(plan.differences),
        "leftovers": [
            dc.asdict(left)
            for left in (
                leftovers.list_leftovers_after_failure(plan)
                if trouble and not kept
                else plan.leftovers
            )
        ],
        "actions": [word for part in parts for word in results.list_actions(part, restart)],
        "restarted": planned
        if check
        else [u for u in answer.get("restarted") or () if u in planned],
        "rolled_back": bool(answer.get("rolled_back")),
        "journal": answer.get("journal"),
        "advice": [
            *beforehand,
            *plan.advice,
            *report_journal.list_recovered_transactions(answer),
            *report_journal.report_cleared_journal(answer),
            *report_journal.report_ended_containers(answer),
        ],
        **outcome.facts,
    }
    if diff:
        shaped["diff"] = stages.diffs(plan)
    if trouble:
        shaped.update(failed=True, msg=end_with_code(trouble), changed=kept)
        shaped.update(evidence=results.collect_evidence(answer), **results.describe_trouble(answer))
    return shaped


def run(
    action: ActionBase,
    task_vars: dict[str, Any] | None,
    *,
    module: str,
    spec: Mapping[str, Any],
    questions: Questions,
    planner: Planner,
    single: bool,
    parse_approval: Callable[[Any], approved.Approval] = approved.parse_approval,
) -> dict[str, Any]:
    """Run a converging action.

    parse_approval: how the option `approved_change` is read. Raise PlanError if it refuses.
    """
    args = arguments.read_task_options(
        action,
        spec,
        role_variables.read_role_options(action, spec, task_vars or {}),
        docker=module == "docker_runtime",
    )
    wanted = arguments.build_policy(args, single=single)
    archives.require_policy_archive(wanted)
    way = str(args.get("transport") or "auto")
    reason = f"gpufleet.nvidia.{module}" + (" (state: absent)" if wanted.state == "absent" else "")
    approval = parse_approval(args.get(approved.OPTION))
    return converge_host(
        action,
        task_vars or {},
        wanted,
        questions,
        planner,
        reason=reason,
        way=way,
        approval=approval,
    )


def run_info(
    action: ActionBase,
    task_vars: dict[str, Any] | None,
    *,
    spec: Mapping[str, Any],
    questions: Questions,
    planner: Planner,
    refuse: Callable[[Policy, Observation, PlanError], Outcome],
) -> dict[str, Any]:
    """Run an action that only looks.

    refuse: the outcome if the host would refuse the files of the plan.
    """
    args = arguments.read_task_options(
        action, spec, role_variables.read_role_options(action, spec, task_vars or {})
    )
    wanted = arguments.build_policy(args)
    archives.require_policy_archive(wanted)
    way = str(args.get("transport") or "auto")
    obs, outcome = host_look.observe_and_plan(
        action, task_vars or {}, wanted, questions, planner, way
    )
    refused = refuse_planned_files(action, task_vars or {}, wanted, outcome.plan, way)
    if refused:
        outcome = refuse(wanted, obs, PlanError(refused))
    plan = outcome.plan.whole
    return {
        "changed": False,
        "differences": results.describe_differences(plan.differences),
        "leftovers": [dc.asdict(left) for left in plan.leftovers],
        "would_restart": plan.list_interrupted_units(wanted.restart),
        "planned": list_planned_effects(wanted, obs, outcome.plan, planner),
        "advice": [
            end_with_code(sentence)
            for sentence in (
                *report_journal.advise_on_journal(earlier_runs.read_earlier_runs(obs)),
                *plan.beforehand,
                *plan.advice,
            )
        ],
        **outcome.facts,
    }
