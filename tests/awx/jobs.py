# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A workflow of jobs as AWX runs it: each by ansible-runner in an empty directory of its own, which
gives artifacts to the next.

Where it comes from, in AWX 24.6.1: variables from awx/main/models/workflow.py (get_job_kwargs) and
mixins.py, their file from tasks/jobs.py and utils/safe_yaml.py, the inventory from
models/inventory.py (get_script_data), the order from scheduler/dag_workflow.py.
"""

from __future__ import annotations

import dataclasses as dc
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.awx import objects

from tests.awx import programs

Values = Mapping[str, Any]


class Unsafe(yaml.SafeDumper):
    """Every text, keys too, is marked, so that none is a template."""

    def represent_data(self, data: Any) -> yaml.Node:
        return (
            self.represent_scalar("!unsafe", data)
            if isinstance(data, str)
            else super().represent_data(data)
        )


@dc.dataclass(frozen=True)
class Job:
    """What became of one job."""

    node: str
    status: str
    artifacts: Values
    words: str


@dc.dataclass(frozen=True)
class Fleet:
    """Hosts as AWX's inventory has them. variables: host -> its variables."""

    variables: Mapping[str, Values]

    def script(self, number: int = 1, count: int = 1) -> str:
        """The file of the inventory, of one slice of so many."""
        names = sorted(self.variables)
        hosts = names[number - 1 :: count]
        ids = {name: 1 + place for place, name in enumerate(names)}
        of_hosts = {
            host: {
                **self.variables[host],
                "remote_tower_enabled": "true",
                "remote_tower_id": ids[host],
            }
            for host in hosts
        }
        data = {"all": {"hosts": hosts}, "_meta": {"hostvars": of_hosts}}
        return f"#! /usr/bin/env python3\n# -*- coding: utf-8 -*-\nprint({json.dumps(data)!r})\n"


@dc.dataclass(frozen=True)
class Controller:
    """AWX, as far as it starts jobs. project: the repository; wanted: what its objects are made
    from.
    """

    place: Path
    project: Path
    wanted: objects.Wanted

    def template(self, name: str) -> Values:
        return next(
            item.options
            for item in objects.build_awx_objects(self.wanted)
            if item.kind == "job_template" and item.name == name
        )

    def job(self, node: str, template: Values, variables: Values, inventory: str) -> Job:
        """One job: survey's defaults, then what is given at launch, then what AWX says of itself."""
        folder = self.place / f"job-{node}"
        for name in ("env", "inventory"):
            (folder / name).mkdir(parents=True)
        shutil.copytree(self.project, folder / "project")
        about = {
            "awx_job_id": 7,
            "awx_job_template_name": template["name"],
            "awx_user_name": "operator",
        }
        given = {**template["extra_vars"], **answers(template), **variables, **about}
        (folder / "env/extravars").write_text(
            yaml.dump(given, Dumper=Unsafe, default_flow_style=False)
        )
        script = folder / "inventory/hosts"
        script.write_text(inventory)
        script.chmod(0o700)
        check = ("--cmdline=--check",) if template["job_type"] == "check" else ()
        programs.run(
            folder,
            "ansible-runner",
            "run",
            folder,
            "-p",
            template["playbook"],
            "-i",
            "1",
            "--forks",
            "4",
            "-q",
            *check,
        )
        found = job(node, folder / "artifacts/1")
        shutil.rmtree(folder)
        return found

    def workflow(
        self, fleet: Fleet, given: Values, between: Callable[[str], None] = lambda node: None
    ) -> list[Job]:
        """All jobs up to the first that fails. given: answers to the workflow's survey; between:
        called with each node before it begins.
        """
        (flow,) = [
            item.options
            for item in objects.build_awx_objects(self.wanted)
            if item.kind == "workflow_job_template"
        ]
        nodes = {node["identifier"]: node for node in objects.build_workflow_nodes(self.wanted)}
        of_flow = {**answers(flow), **given}
        jobs: list[Job] = []
        artifacts: dict[str, Any] = {}
        at: str | None = "plan"
        while at is not None:
            between(at)
            if "unified_job_template" in nodes[at]:
                variables = {
                    **nodes[at].get("extra_data", {}),
                    **artifacts,
                    **of_flow,
                    "awx_workflow_job_name": flow["name"],
                }
                jobs.append(
                    self.job(
                        at,
                        self.template(nodes[at]["unified_job_template"]),
                        variables,
                        fleet.script(),
                    )
                )
                artifacts.update(jobs[-1].artifacts)
                if jobs[-1].status != "successful":
                    break
            at = next(iter(nodes[at].get("success_nodes", [])), None)
        return jobs


def answers(template: Values) -> dict[str, Any]:
    """What stands in a survey at first, which a job gets where nobody has written anything else: an
    empty text, too.
    """
    return {
        question["variable"]: question["default"] for question in template["survey_spec"]["spec"]
    }


def job(node: str, folder: Path) -> Job:
    """What ansible-runner has left of it."""
    events = [
        json.loads(path.read_text()) for path in sorted((folder / "job_events").glob("*.json"))
    ]
    stats = [
        event["event_data"].get("artifact_data") or {}
        for event in events
        if event["event"] == "playbook_on_stats"
    ]
    return Job(
        node, (folder / "status").read_text(), (stats or [{}])[-1], (folder / "stdout").read_text()
    )
