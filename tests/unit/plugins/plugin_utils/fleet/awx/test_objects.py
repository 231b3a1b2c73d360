# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that AWX gets: what surveys ask for, what is refused, and that both forms say the
same.
"""

from __future__ import annotations

import dataclasses as dc
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    settings,
    variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx import objects
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx.objects import (
    Wanted,
)

ROOT = Path(__file__).resolve().parents[6]
WANTED = Wanted(inventory="Fleet", project_url="https://git.example.org/fleet.git")


def questions(wanted: Wanted = WANTED) -> list[dict[str, Any]]:
    return [
        question
        for item in objects.build_awx_objects(wanted)
        for question in (item.options.get("survey_spec") or {}).get("spec", [])
    ]


def test_the_options_are_those_of_the_module() -> None:
    """But for the options that say how to reach AWX and what to write."""
    beside = {"file", "collection", "host", "username", "password", "token", "validate_certs"}
    spec = arguments.derive_argument_spec("awx")
    assert {field.name for field in dc.fields(Wanted)} == set(spec) - beside
    numbers = {
        field.name: field.default for field in dc.fields(Wanted) if isinstance(field.default, int)
    }
    assert {name: spec[name].get("default") for name in numbers} == numbers


def test_surveys_ask_only_for_settings_of_a_run() -> None:
    """An empty answer is an extra variable to AWX: of a variable of hosts it would win over the
    inventory's.
    """
    assert {question["variable"] for question in questions()} <= set(variables.RUN)


def test_the_workflow_does_not_ask_for_what_its_nodes_say() -> None:
    """Answers to its survey win over what a node has for its job (awx/main/models/workflow.py,
    get_job_kwargs).
    """
    (flow,) = [
        item.options
        for item in objects.build_awx_objects(WANTED)
        if item.kind == "workflow_job_template"
    ]
    asked = {question["variable"] for question in flow["survey_spec"]["spec"]}
    given = {
        name for node in objects.build_workflow_nodes(WANTED) for name in node.get("extra_data", {})
    }
    assert given == {"gpufleet_rollout_until"}
    assert not asked & given


def test_all_that_stands_in_a_survey_is_text() -> None:
    settings = {
        "gpufleet_rollout_waves": [1, "5%"],
        "gpufleet_rollout_canaries": 2,
        "gpufleet_fail_on_drift": True,
        "gpufleet_serial": 3,
    }
    found = {
        question["variable"]: question["default"]
        for question in questions(dc.replace(WANTED, settings=settings))
    }
    assert all(isinstance(answer, str) for answer in found.values())
    assert {name: found[name] for name in settings} == {
        "gpufleet_rollout_waves": "1,5%",
        "gpufleet_rollout_canaries": "2",
        "gpufleet_fail_on_drift": "true",
        "gpufleet_serial": "3",
    }


ANSWERS = [
    # a setting as a user writes it, and as the survey has it
    (
        "gpufleet_rollout_window",
        ["Mo,We 20:00-04:00 UTC", "Sa 00:00-24:00"],
        "Mo,We 20:00-04:00 UTC;Sa 00:00-24:00",
    ),
    (
        "gpufleet_rollout_window",
        "Mo,We 20:00-04:00; Sa 00:00-24:00",
        "Mo,We 20:00-04:00; Sa 00:00-24:00",
    ),
    ("gpufleet_rollout_waves", [1, "5%", "100%"], "1,5%,100%"),
    ("gpufleet_rollout_domain", ["rack", "power_feed"], "rack,power_feed"),
    ("gpufleet_fail_on_drift", True, "true"),
    ("gpufleet_rollout_soak", 60, "60"),
    ("gpufleet_rollout_tasks", {"change": "driver.yml"}, '{"change": "driver.yml"}'),
    (
        "gpufleet_rollout_approved_changes",
        {"L4": ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]},
        '{"L4": ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]}',
    ),
]


@pytest.mark.parametrize(("name", "value", "text"), ANSWERS)
def test_what_stands_in_a_survey_means_what_the_user_has_written(
    name: str, value: Any, text: str
) -> None:
    assert objects.convert_survey_answer(name, value) == text
    if name.startswith(settings.PREFIX):
        option = name.removeprefix(settings.PREFIX)
        assert settings.build_rollout_settings({option: text}) == settings.build_rollout_settings(
            {option: value}
        )


def test_no_secret_of_awx_is_logged() -> None:
    assert {
        name
        for name, option in arguments.derive_argument_spec("awx").items()
        if option.get("no_log")
    } == {"password", "token"}
    role = yaml.safe_load((ROOT / "roles/awx/meta/argument_specs.yml").read_text())[
        "argument_specs"
    ]["main"]["options"]
    assert {name for name, option in role.items() if option.get("no_log")} == {
        "gpufleet_awx_password",
        "gpufleet_awx_token",
    }


def test_a_schedule_answers_what_its_survey_requires() -> None:
    """AWX refuses one that leaves it out, though a default stands there (awx/api/serializers.py,
    ScheduleSerializer).
    """
    wanted = dc.replace(
        WANTED, drift_schedule=objects.EXAMPLE, settings={"gpufleet_hosts": "gpu_hosts"}
    )
    (found,) = [
        item.options for item in objects.build_awx_objects(wanted) if item.kind == "schedule"
    ]
    assert found["extra_data"] == {"gpufleet_hosts": "gpu_hosts", "gpufleet_fail_on_drift": "true"}


def test_a_workflow_answers_what_the_surveys_of_its_jobs_require() -> None:
    items = {item.name: item.options for item in objects.build_awx_objects(WANTED)}
    asked = {question["variable"] for question in items["gpufleet change"]["survey_spec"]["spec"]}
    templates = {
        node["unified_job_template"]
        for node in objects.build_workflow_nodes(WANTED)
        if "unified_job_template" in node
    }
    required = {
        question["variable"]
        for name in templates
        for question in items[name]["survey_spec"]["spec"]
        if question["required"]
    }
    assert required == {"gpufleet_hosts"}
    assert required <= asked


def test_what_changes_hosts_is_one_job_at_a_time() -> None:
    templates = {
        item.name: item.options
        for item in objects.build_awx_objects(dc.replace(WANTED, slices=8))
        if item.kind == "job_template"
    }
    changing = [templates["gpufleet rollout"], templates["gpufleet rollback"]]
    assert [
        (options["job_slice_count"], options["allow_simultaneous"]) for options in changing
    ] == [(1, False)] * 2
    assert templates["gpufleet plan"]["job_slice_count"] == 8


def test_each_job_asks_for_hosts_and_for_check_mode_when_it_is_launched() -> None:
    asked = ("survey_enabled", "ask_limit_on_launch", "ask_job_type_on_launch")
    templates = [
        item.options for item in objects.build_awx_objects(WANTED) if item.kind == "job_template"
    ]
    assert [[options[name] for name in asked] for options in templates] == [
        [True] * len(asked)
    ] * len(objects.JOBS)


def test_what_an_object_needs_is_made_before_it() -> None:
    seen: set[str] = set()
    for item in objects.build_awx_objects(
        dc.replace(WANTED, image="ee:1", drift_schedule=objects.EXAMPLE)
    ):
        assert set(item.needs) <= seen, item.name
        seen.add(item.name)


def test_every_job_template_has_a_playbook_of_the_collection() -> None:
    """And the project to copy has a playbook of that name for AWX to run."""
    for folder in ("playbooks", "examples/awx/playbooks"):
        assert {job.playbook for job in objects.JOBS} <= {
            path.stem for path in (ROOT / folder).glob("*.yml")
        }, folder


def test_both_forms_have_the_same_objects() -> None:
    wanted = dc.replace(WANTED, image="ee:1", drift_schedule=objects.EXAMPLE)
    of_api = [
        dict(item.options)
        for item in objects.build_awx_objects(wanted)
        if item.kind != objects.NODE
    ]
    of_file = [
        entry for entries in objects.build_aap_variables(wanted).values() for entry in entries
    ]
    (workflow,) = [entry for entry in of_file if "simplified_workflow_nodes" in entry]
    nodes = workflow.pop("simplified_workflow_nodes")
    assert of_file == of_api
    assert {
        item.options["identifier"]
        for item in objects.build_awx_objects(wanted)
        if item.kind == objects.NODE
    } == {n["identifier"] for n in nodes}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"inventory": " "}, "awx.empty"),
    ({"slices": 0}, "awx.number"),
    ({"forks": -1}, "awx.number"),
    ({"drift_schedule": "daily"}, "awx.schedule"),
    ({"drift_schedule": "DTSTART:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=1"}, "awx.schedule"),
    ({"drift_schedule": "DTSTART:20260101T030000Z RRULE:FREQ=DAILY"}, "awx.schedule"),
    ({"settings": {"gpufleet_rollout_window": "nope"}}, "rollout.window"),
    ({"settings": {"gpufleet_rollout_waves": ["200%"]}}, "rollout.over-100-percent"),
    ({"settings": {"gpufleet_max_failed": "many"}}, "rollout.amount"),
    ({"settings": {"gpufleet_verify_image": "busybox"}}, "awx.not-of-run"),
]


@pytest.mark.parametrize(("more", "code"), WRONG)
def test_what_awx_would_refuse_is_refused_before_it_is_asked(
    more: dict[str, Any], code: str
) -> None:
    with pytest.raises(PlanError) as raised:
        objects.build_awx_objects(dc.replace(WANTED, **more))
    assert raised.value.code == code


RULES = [
    "DTSTART:20260101T030000Z RRULE:FREQ=DAILY;INTERVAL=1",
    "DTSTART;TZID=Europe/Berlin:20260101T030000 RRULE:INTERVAL=2;FREQ=WEEKLY",
]


@pytest.mark.parametrize("rule", RULES)
def test_rules_that_awx_takes_are_taken(rule: str) -> None:
    (found,) = [
        item
        for item in objects.build_awx_objects(dc.replace(WANTED, drift_schedule=rule))
        if item.kind == "schedule"
    ]
    assert found.options["rrule"] == rule
