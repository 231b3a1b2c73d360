# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plays, blocks and tasks of playbooks and roles, and Ansible's own word on what they say."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml
from ansible import template
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from jinja2 import TemplateError

from tests.unit.plugin_sources import ROOT

Task = Mapping[str, Any]
# The keywords of a task that are conditions, and of what has tasks inside.
KEYWORDS = ("when", "until", "failed_when", "changed_when")
INSIDE = ("tasks", "block", "rescue", "always")
# A default in the text of a condition or a value. `default({})` stands before an attribute, and one of
# an undefined variable is undefined as well.
DEFAULT = r" \| default\((?!\{\}\)).*?\)"
# How a template fails. Before 2.19 Ansible lets errors of Jinja and Python through.
FAILURES = (AnsibleError, TemplateError, ArithmeticError)
LOADER = DataLoader()
# Variables that Ansible gives each task.
MAGIC = {
    "ansible_check_mode": False,
    "ansible_play_batch": ["gpu1"],
    "inventory_hostname": "gpu1",
    "omit": "(left out)",
}


def read_files() -> dict[str, list[Task]]:
    """Return the plays or tasks of each file, by its path without what all paths share."""
    paths = [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")]
    return {
        name_file(str(path.relative_to(ROOT))): yaml.safe_load(path.read_text()) for path in paths
    }


def name_file(path: str) -> str:
    """Return the short name: `site`, `tasks/report`, `rollout/verify`, `roles/host/look`."""
    short = path.removesuffix(".yml").removeprefix("playbooks/").removeprefix("tasks/rollout/")
    if path.startswith("playbooks/tasks/rollout/"):
        return f"rollout/{short}"
    return short.replace("/tasks/", "/")


FILES = read_files()
WITHOUT_ROLES = {file: entries for file, entries in FILES.items() if not file.startswith("roles/")}
HERE = "gpufleet.nvidia."
# The pattern of a play that takes no host.
NOBODY = ["all", "!all"]
GATE = "Stop here when an earlier wave lost or failed too many hosts"
# An option that is left out if its variable is.
PASSED_ON = re.compile(r"\{\{ gpufleet_(?P<variable>\w+) \| default\(omit\) \}\}")


def list_all(entries: Iterable[Task]) -> Iterator[Task]:
    """Yield each play, block and task of a file."""
    for entry in entries:
        yield entry
        for key in INSIDE:
            yield from list_all(entry.get(key) or ())


def settings(**given: Any) -> dict[str, Any]:
    """Return the settings of a rollout as its first play registers them."""
    return {"gpufleet_rollout_settings": {"settings": given}}


def step(**given: Any) -> dict[str, Any]:
    """Return the result of the step that begins a batch."""
    return {"gpufleet_rollout_step": given}


def look(**given: Any) -> dict[str, Any]:
    """Return the result of a look at the host while its node is handed over."""
    return {"gpufleet_hand_over_look": given}


def make_templar(variables: Mapping[str, Any]) -> Any:
    return template.Templar(loader=LOADER, variables={**MAGIC, **variables})


def trust(value: Any) -> Any:
    """Return a value as Ansible reads it from a playbook. Since 2.19 it templates no other text."""
    if isinstance(value, dict):
        return {key: trust(one) for key, one in value.items()}
    if isinstance(value, list):
        return [trust(one) for one in value]
    as_template = getattr(template, "trust_as_template", str)
    return as_template(value) if isinstance(value, str) else value


def fill(value: Any, variables: Mapping[str, Any]) -> Any:
    """Return a value of a playbook with these variables in it."""
    return read_numbers(make_templar(variables).template(trust(value)))


def read_numbers(value: Any) -> Any:
    """Return the number of a text that is one. Before 2.19 a filter's number comes as a text, and
    the type of the option or keyword makes a number of it.
    """
    if isinstance(value, dict):
        return {key: read_numbers(one) for key, one in value.items()}
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def is_met(conditions: Iterable[Any], variables: Mapping[str, Any]) -> bool:
    """Tell whether all conditions are met. The first that is not ends it, as it ends a task's."""
    given = json.dumps(variables, sort_keys=True)
    return all(judge_condition(condition, given) for condition in conditions)


@functools.cache
def judge_condition(condition: Any, given: str) -> bool:
    """Tell whether one condition is met with variables that are given as JSON. Jinja compiles it,
    which takes most of the time.
    """
    templar = make_templar(json.loads(given))
    if hasattr(templar, "evaluate_conditional"):
        return bool(templar.evaluate_conditional(trust(condition)))
    from ansible.playbook.conditional import Conditional  # before ansible-core 2.19

    judge = Conditional(loader=LOADER)
    judge.when = [condition]
    return bool(judge.evaluate_conditional(templar, templar.available_variables))
