# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook awx with the real modules of awx.awx, against an API that answers as AWX's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.awx import programs
from tests.awx.controller import Controller
from tests.night import leave_rest

PLAYBOOKS = [
    f"playbooks/{name}.yml" for name in ("plan", "rollout", "verify", "rollback", "report")
]
WANTED = {
    "gpufleet_awx_inventory": "GPU fleet",
    "gpufleet_awx_project_url": "https://git.example.org/platform/gpu-fleet.git",
    "gpufleet_awx_credentials": ["ssh"],
    "gpufleet_awx_image": "images.example.org/gpufleet-ee:1",
    "gpufleet_awx_slices": 4,
    "gpufleet_awx_settings": {
        "gpufleet_rollout_waves": [1, "5%", "100%"],
        "gpufleet_rollout_gate_check": "https://alerts.example.org",
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """Where all objects have been made: what each test has changed is taken back."""
    with Controller(PLAYBOOKS) as found:
        status, words = play(tmp_path_factory.mktemp("made"), found)
        assert (status, changed(words)) == (0, 1), words
        yield found


@pytest.fixture
def empty() -> Iterator[Controller]:
    with Controller(PLAYBOOKS) as found:
        yield found


def play(
    place: Path, controller: Controller | None, *arguments: str, **more: Any
) -> tuple[int, str]:
    settings = place / "awx.yml"
    settings.write_text(
        yaml.safe_dump(
            {key: value for key, value in {**WANTED, **more}.items() if value is not None}
        )
    )
    paths = (
        {"ANSIBLE_COLLECTIONS_PATH": f"{programs.OWN}:{programs.awx_collection()}"}
        if controller
        else {}
    )
    access = controller.environment if controller else {}
    return programs.run(
        place,
        "ansible-playbook",
        "gpufleet.nvidia.awx",
        "-e",
        f"@{settings}",
        *arguments,
        **paths,
        **access,
    )


def changed(words: str) -> int:
    return int(words.rpartition("changed=")[2].split()[0])


def test_a_second_run_updates_what_differs_and_changes_nothing_else(
    made: Controller, tmp_path: Path
) -> None:
    before = made.state()
    made.requests.clear()
    made.named("job_templates", "gpufleet plan")["forks"] = 5
    status, words = play(tmp_path, made, "-v")
    assert (status, changed(words)) == (0, 1), words
    assert re.findall(r'{"changed": true, "kind": "(\w+)", "name": "([^"]+)"}', words) == [
        ("job_template", "gpufleet plan")
    ]
    assert [
        (method, path.split("/")[3], body["forks"]) for method, path, body in made.writes()
    ] == [("PATCH", "job_templates", 50)]
    assert made.state() == before


def test_all_objects_are_made(made: Controller) -> None:
    names = [row["name"] for row in made.tables["job_templates"]]
    assert names == [
        "gpufleet plan",
        "gpufleet rollout",
        "gpufleet verify",
        "gpufleet rollback",
        "gpufleet report",
    ]
    rollout = made.named("job_templates", "gpufleet rollout")
    assert rollout["playbook"] == "playbooks/rollout.yml"
    assert made.linked("credentials", rollout, "credentials") == [made.named("credentials", "ssh")]
    assert (
        rollout["execution_environment"] == made.named("execution_environments", "gpufleet")["id"]
    )
    assert made.named("schedules", "gpufleet drift")["extra_data"] == {
        "gpufleet_hosts": "all",
        "gpufleet_fail_on_drift": "true",
    }


def test_the_workflow_is_plan_approval_canaries_waves_report(made: Controller) -> None:
    nodes = {row["identifier"]: row for row in made.tables["workflow_job_template_nodes"]}
    found, at = ["plan"], nodes["plan"]
    for _step in range(len(nodes) - 1):
        (at,) = made.linked("workflow_job_template_nodes", at, "success_nodes")
        found.append(at["identifier"])
    assert found == ["plan", "approval", "canaries", "waves", "report"]
    assert nodes["canaries"]["extra_data"] == {"gpufleet_rollout_until": "canaries"}
    assert nodes["plan"]["job_slice_count"] == 1


def test_only_what_changes_nothing_is_sliced(made: Controller) -> None:
    slices = {
        row["name"].split()[1]: row["job_slice_count"] for row in made.tables["job_templates"]
    }
    assert slices == {"plan": 4, "verify": 4, "rollout": 1, "rollback": 1, "report": 1}
    asked = {
        row["name"].split()[1]
        for row in made.tables["job_templates"]
        if row["ask_job_slice_count_on_launch"]
    }
    assert asked == {"plan", "verify"}


def test_settings_are_what_stands_in_a_survey_at_first_and_else_variables(made: Controller) -> None:
    rollout = made.named("job_templates", "gpufleet rollout")
    answers = {entry["variable"]: entry["default"] for entry in made.survey(rollout)["spec"]}
    assert answers["gpufleet_rollout_waves"] == "1,5%,100%"
    assert yaml.safe_load(rollout["extra_vars"]) == {
        "gpufleet_rollout_gate_check": "https://alerts.example.org"
    }


def test_the_modules_examples_run_and_check_mode_makes_nothing(
    empty: Controller, tmp_path: Path
) -> None:
    tasks = yaml.safe_load(
        (programs.ROOT / "plugins/modules/awx.py")
        .read_text()
        .split('EXAMPLES = r"""')[1]
        .split('"""')[0]
    )
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}])
    )
    (tmp_path / "configuration").mkdir()
    paths = {"ANSIBLE_COLLECTIONS_PATH": f"{programs.OWN}:{programs.awx_collection()}"}
    status, words = programs.run(
        tmp_path, "ansible-playbook", "play.yml", "--check", **paths, **empty.environment
    )
    assert (status, changed(words)) == (0, len(tasks)), words
    assert empty.writes() == []
    assert list((tmp_path / "configuration").iterdir()) == []


def test_the_same_as_variables_of_infra_aap_configuration_asks_no_api_and_needs_no_collection(
    tmp_path: Path,
) -> None:
    """With what the example project has for the playbook."""
    wanted = (
        "-e",
        f"@{programs.ROOT}/examples/awx/awx.yml",
        "-e",
        "gpufleet_awx_file=controller.yml",
    )
    for number in (1, 0):
        status, words = programs.run(tmp_path, "ansible-playbook", "gpufleet.nvidia.awx", *wanted)
        assert (status, changed(words)) == (0, number), words
    variables = yaml.safe_load((tmp_path / "controller.yml").read_text())
    assert {name: len(entries) for name, entries in variables.items()} == {
        "controller_execution_environments": 1,
        "controller_projects": 1,
        "controller_templates": 5,
        "controller_workflows": 1,
        "controller_schedules": 1,
    }


def options_of(module: str) -> set[str]:
    text = (
        programs.awx_collection() / f"ansible_collections/awx/awx/plugins/modules/{module}.py"
    ).read_text()
    return set(yaml.safe_load(text.split("DOCUMENTATION = '''")[1].split("'''")[0])["options"])


def test_every_option_is_one_of_the_module_that_takes_it(tmp_path: Path) -> None:
    assert play(tmp_path, None, gpufleet_awx_file="controller.yml")[0] == 0
    variables = yaml.safe_load((tmp_path / "controller.yml").read_text())
    modules = (
        "execution_environment",
        "project",
        "job_template",
        "workflow_job_template",
        "schedule",
    )
    (workflow,) = variables["controller_workflows"]
    nodes = workflow.pop("simplified_workflow_nodes")
    for module, entries in [
        *zip(modules, variables.values(), strict=True),
        ("workflow_job_template_node", nodes),
    ]:
        assert {option for entry in entries for option in entry} <= options_of(module), module


BY_NIGHT = pytest.mark.nightly(
    "by day AWX refuses one object, one is made that it cannot make, and it is not reached; the others are told in the same way"
)
WRONG = [
    (
        {"gpufleet_awx_inventory": "None such"},
        "AWX's job template 'gpufleet plan' could not be made (Request to",
    ),
    (
        {"gpufleet_awx_playbooks": "plays"},
        "(Unable to create job_template gpufleet plan: Playbook not found for project.)",
    ),
    (
        {"gpufleet_awx_host": "http://127.0.0.1:1"},
        "could not be made (There was an unknown error when trying to connect",
    ),
    (
        {"gpufleet_awx_token": "another"},
        "Invalid authentication credentials for /api/v2/execution_environments/ (HTTP 401).",
    ),
    ({"gpufleet_awx_inventory": None}, "missing required arguments: gpufleet_awx_inventory"),
    ({"gpufleet_awx_file": "none/such.yml"}, "none/such.yml: there is no directory for this file"),
]


@pytest.mark.parametrize(("more", "sentence"), leave_rest(BY_NIGHT, WRONG, by_day=3))
def test_what_cannot_be_is_one_sentence(
    more: dict[str, Any], sentence: str, empty: Controller, tmp_path: Path
) -> None:
    status, words = play(tmp_path, empty, **more)
    assert status == 2, words
    assert sentence in " ".join(words.split()), words


def test_an_api_that_forbids_is_told_as_that_with_what_was_made_before(
    empty: Controller, tmp_path: Path
) -> None:
    empty.forbidden = True
    status, words = play(tmp_path, empty)
    assert status == 2, words
    assert (
        "You don't have permission to GET to /api/v2/execution_environments/ (HTTP 403)." in words
    )
    assert "nothing was changed" in words


def test_without_the_collection_one_sentence_names_it(tmp_path: Path) -> None:
    status, words = play(tmp_path, None)
    assert status == 2, words
    assert (
        "the collection awx.awx is not installed (its modules make the objects in AWX)"
        in " ".join(words.split())
    )
    assert "ansible-galaxy collection install awx.awx" in words
