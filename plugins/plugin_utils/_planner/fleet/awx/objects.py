# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build what AWX needs for plans and rollouts: a project, an execution environment, job templates,
a workflow, a schedule.

The objects are made here once. They are passed to the modules of awx.awx, and written as variables
of infra.aap_configuration, which takes the same options by the same names.
"""

from __future__ import annotations

import dataclasses as dc
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    settings as fleet_settings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import waves
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx import (
    messages,
    surveys,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx.surveys import (
    Question,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.variables import RUN

# kind (also the name of a module of awx.awx) -> the variable of infra.aap_configuration
VARIABLES = {
    "execution_environment": "controller_execution_environments",
    "project": "controller_projects",
    "job_template": "controller_templates",
    "workflow_job_template": "controller_workflows",
    "schedule": "controller_schedules",
}
NODE = "workflow_job_template_node"
KINDS = (*VARIABLES, NODE)


@dc.dataclass(frozen=True)
class Wanted:
    """The options of the module awx from which the objects follow."""

    inventory: str
    project_url: str
    prefix: str = "gpufleet"
    organization: str = "Default"
    credentials: tuple[str, ...] = ()
    image: str = ""
    project_branch: str = ""
    project_credential: str = ""
    playbooks: str = "playbooks"
    forks: int = 50
    slices: int = 1
    drift_schedule: str = ""
    approval_timeout: int = 0
    settings: Mapping[str, Any] = dc.field(default_factory=dict)


@dc.dataclass(frozen=True)
class Item:
    """An object, or a link between two. needs: the names of the objects that have to be there
    before it.
    """

    kind: str
    name: str
    options: Mapping[str, Any]
    needs: tuple[str, ...] = ()


@dc.dataclass(frozen=True)
class Job:
    """A playbook as a job template."""

    playbook: str
    about: str
    questions: tuple[Question, ...]
    sliced: bool = False  # whether it only reads, so that AWX may deal its hosts out


JOBS = (
    Job(
        "plan",
        "What would change, and why. Changes nothing.",
        (surveys.HOSTS, surveys.FAIL_ON_DRIFT, surveys.MAX_LOST),
        sliced=True,
    ),
    Job(
        "rollout",
        "Bring the change through the fleet: canaries, waves, a gate after each.",
        (surveys.UNTIL, *surveys.ROLLOUT),
    ),
    Job("verify", "Verify with containers that GPUs get into them.", (surveys.HOSTS,), sliced=True),
    Job(
        "rollback",
        "Give back what was there before.",
        (surveys.HOSTS, surveys.CHANGE_REF, surveys.SERIAL, surveys.SITE_MAX_FAILED),
    ),
    Job("report", "One page about the fleet.", (surveys.HOSTS,)),
)


def build_awx_objects(wanted: Wanted) -> tuple[Item, ...]:
    """Build all objects, in the order in which AWX can make them."""
    require_awx_names(wanted)
    return (*list_named_awx_objects(wanted), *build_node_items(wanted), *schedule(wanted))


def list_named_awx_objects(wanted: Wanted) -> tuple[Item, ...]:
    """List all objects in the order in which AWX can make them."""
    jobs = [build_job_template(wanted, job) for job in JOBS]
    return (*list_environment_objects(wanted), build_project(wanted), *jobs, build_workflow(wanted))


def require_awx_names(wanted: Wanted) -> None:
    """Raise PlanError for what AWX would refuse only after half of the objects are made, or accept
    without a message.
    """
    for name in ("inventory", "project_url", "prefix", "organization", "playbooks"):
        if not getattr(wanted, name).strip():
            raise PlanError(messages.EMPTY_SETTING.fill(name=name))
    if wanted.slices < 1 or wanted.forks < 0:
        name = "slices" if wanted.slices < 1 else "forks"
        raise PlanError(messages.WRONG_NUMBER.fill(name=name, value=getattr(wanted, name)))
    rule = wanted.drift_schedule
    if rule and not RULE.fullmatch(rule):
        raise PlanError(messages.SCHEDULE.fill(value=rule, example=EXAMPLE))
    unknown = sorted(set(wanted.settings) - set(RUN))
    if unknown:
        row = messages.NOT_OF_RUN
        raise PlanError(row.fill(unknown=", ".join(unknown), known=", ".join(RUN)))
    require_values(wanted.settings)


def require_values(values: Mapping[str, Any]) -> None:
    """Raise PlanError for a setting that the playbooks would refuse. The settings become the first
    answers of surveys.

    Each is judged alone, since a job may add others.
    """
    for name, value in values.items():
        try:
            if name.startswith(fleet_settings.PREFIX):
                fleet_settings.build_rollout_settings(
                    {"soak": 1, name.removeprefix(fleet_settings.PREFIX): value}
                )
            elif name in ("gpufleet_max_failed", "gpufleet_max_lost") and fleet_settings.says(
                value
            ):
                waves.parse_amount(name, value)
        except PlanError as error:
            raise PlanError(
                error.message, where="gpufleet_awx_settings", why=error.why, next=error.next
            ) from None


# The part of RFC 5545 that AWX's ScheduleSerializer accepts (awx/api/serializers.py).
RULE = re.compile(
    r"DTSTART(;TZID=[\w/+-]+:\d{8}T\d{6}|:\d{8}T\d{6}Z) RRULE:(?=\S*FREQ=)(?=\S*INTERVAL=\d)\S+"
)
EXAMPLE = "DTSTART:20260101T030000Z RRULE:FREQ=DAILY;INTERVAL=1"


def list_environment_objects(wanted: Wanted) -> tuple[Item, ...]:
    """List the execution environment; () if no image is named."""
    if not wanted.image:
        return ()
    options = {
        "name": wanted.prefix,
        "image": wanted.image,
        "organization": wanted.organization,
        "pull": "missing",
    }
    return (Item("execution_environment", wanted.prefix, options),)


def build_project(wanted: Wanted) -> Item:
    """Build the project. It is updated before each job, so that what was merged is what runs."""
    options = {
        "name": wanted.prefix,
        "organization": wanted.organization,
        "scm_type": "git",
        "scm_url": wanted.project_url,
        "scm_branch": wanted.project_branch,
        "scm_update_on_launch": True,
    }
    return Item(
        "project",
        wanted.prefix,
        {
            **options,
            **({"credential": wanted.project_credential} if wanted.project_credential else {}),
        },
    )


def name_job(wanted: Wanted, playbook: str) -> str:
    """Return the name of the job template for a playbook."""
    return f"{wanted.prefix} {playbook}"


def build_job_template(wanted: Wanted, job: Job) -> Item:
    """Build a job template. A job that changes hosts is never sliced, and never runs twice at once.

    Its gate counts the hosts of its own run only.
    """
    asked = {question.variable for question in job.questions}
    given = write_survey_text(wanted.settings)
    options = {
        "name": name_job(wanted, job.playbook),
        "description": job.about,
        "organization": wanted.organization,
        "job_type": "run",
        "inventory": wanted.inventory,
        "project": wanted.prefix,
        "playbook": f"{wanted.playbooks.strip('/')}/{job.playbook}.yml",
        "credentials": list(wanted.credentials),
        "forks": wanted.forks,
        "extra_vars": {name: value for name, value in wanted.settings.items() if name not in asked},
        "survey_enabled": True,
        "survey_spec": surveys.build_survey(job.questions, given),
        "ask_limit_on_launch": True,
        "ask_job_type_on_launch": True,
        "job_slice_count": wanted.slices if job.sliced else 1,
        "ask_job_slice_count_on_launch": job.sliced,
        "allow_simultaneous": job.sliced,
    }
    image = {"execution_environment": wanted.prefix} if wanted.image else {}
    return Item(
        "job_template", name_job(wanted, job.playbook), {**options, **image}, (wanted.prefix,)
    )


def write_survey_text(settings: Mapping[str, Any]) -> dict[str, str]:
    """Write settings as a person would write them into a survey."""
    return {name: convert_survey_answer(name, value) for name, value in settings.items()}


# its days have commas between them, several windows have semicolons
WINDOW = "gpufleet_rollout_window"


def convert_survey_answer(name: str, value: Any) -> str:
    """Return the value of a setting as the answer to its question in a survey."""
    if (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and not any(isinstance(item, Mapping | list | tuple) for item in value)
    ):
        return (";" if name == WINDOW else ",").join(
            convert_survey_answer(name, item) for item in value
        )
    if isinstance(value, str):
        return value
    return (
        json.dumps(value, ensure_ascii=False)
        if isinstance(value, Mapping | bool | list | tuple)
        else str(value)
    )


def name_workflow(wanted: Wanted) -> str:
    """Return the name of the workflow template."""
    return f"{wanted.prefix} change"


def build_workflow(wanted: Wanted) -> Item:
    """Build the workflow. Its answers go to every job in it and override the surveys of the jobs.

    Artifacts of one job are variables of the next.
    """
    options = {
        "name": name_workflow(wanted),
        "description": "Plan, have it approved, try it on canaries, go on in waves, report.",
        "organization": wanted.organization,
        "inventory": wanted.inventory,
        "survey_enabled": True,
        "survey_spec": surveys.build_survey(surveys.ROLLOUT, write_survey_text(wanted.settings)),
        "allow_simultaneous": False,
    }
    return Item("workflow_job_template", name_workflow(wanted), options)


def build_workflow_nodes(wanted: Wanted) -> list[dict[str, Any]]:
    """Build the nodes of the workflow. The plan is one job for any `slices`.

    If several jobs have artifacts of one name, AWX keeps only those of the last. No node has a path
    for failures: if a failed node has one, AWX counts the workflow as a success
    (awx/main/scheduler/dag_workflow.py).
    """
    about = "Look at the output of the plan. A host that now plans something else than this will be left out."
    approval = {
        "name": f"{wanted.prefix} approval",
        "description": about,
        "timeout": wanted.approval_timeout,
    }
    return [
        {**build_workflow_node(wanted, "plan", "plan", "approval"), "job_slice_count": 1},
        {"identifier": "approval", "approval_node": approval, "success_nodes": ["canaries"]},
        {
            **build_workflow_node(wanted, "canaries", "rollout", "waves"),
            "extra_data": {surveys.UNTIL.variable: "canaries"},
        },
        build_workflow_node(wanted, "waves", "rollout", "report"),
        build_workflow_node(wanted, "report", "report"),
    ]


def build_workflow_node(
    wanted: Wanted, identifier: str, playbook: str, *after: str
) -> dict[str, Any]:
    """Return a node of the workflow.

    after: identifiers of the nodes whose success it waits for.
    """
    about = {
        "unified_job_template": name_job(wanted, playbook),
        "lookup_organization": wanted.organization,
    }
    return {"identifier": identifier, **about, **({"success_nodes": list(after)} if after else {})}


def build_node_items(wanted: Wanted) -> tuple[Item, ...]:
    """Build the nodes, then the links between them.

    The module workflow_job_template makes nodes as well, but finds a change in every approval.
    Links are made apart, since the module for nodes asks an approval for the links of its node
    (awx.awx 24.6.1).
    """
    where = {"workflow_job_template": name_workflow(wanted), "organization": wanted.organization}
    made, linked = [], []
    for options in build_workflow_nodes(wanted):
        name = f"{name_workflow(wanted)}: {options['identifier']}"
        own = {key: value for key, value in options.items() if key != "success_nodes"}
        needs = tuple(str(options[key]) for key in ("unified_job_template",) if key in options)
        made.append(Item(NODE, name, {**where, **own}, (name_workflow(wanted), *needs)))
        for after in options.get("success_nodes", ()):
            link = {**where, "identifier": options["identifier"], "success_nodes": [after]}
            linked.append(
                Item(
                    NODE, f"{name}, then {after}", link, (name, f"{name_workflow(wanted)}: {after}")
                )
            )
    return (*made, *linked)


def schedule(wanted: Wanted) -> tuple[Item, ...]:
    """Build the schedule of the plan as a watch for drift, () if none is wanted.

    Its job fails if a host would be changed, so that AWX's notifications report it.
    """
    if not wanted.drift_schedule:
        return ()
    (plan,) = [job for job in JOBS if job.playbook == "plan"]
    options = {
        "name": f"{wanted.prefix} drift",
        "description": "Fails where a host is not as its policy wants.",
        "unified_job_template": name_job(wanted, "plan"),
        "organization": wanted.organization,
        "rrule": wanted.drift_schedule,
        "extra_data": {
            **surveys.list_needed_answers(plan.questions, write_survey_text(wanted.settings)),
            surveys.FAIL_ON_DRIFT.variable: "true",
        },
        "enabled": True,
    }
    return (Item("schedule", f"{wanted.prefix} drift", options, (name_job(wanted, "plan"),)),)


def build_aap_variables(wanted: Wanted) -> dict[str, list[dict[str, Any]]]:
    """Build the objects as variables of infra.aap_configuration, which has the nodes with their
    workflow.
    """
    require_awx_names(wanted)
    variables: dict[str, list[dict[str, Any]]] = {}
    for item in (*list_named_awx_objects(wanted), *schedule(wanted)):
        inside = (
            {"simplified_workflow_nodes": build_workflow_nodes(wanted)}
            if item.kind == "workflow_job_template"
            else {}
        )
        variables.setdefault(VARIABLES[item.kind], []).append({**item.options, **inside})
    return variables
