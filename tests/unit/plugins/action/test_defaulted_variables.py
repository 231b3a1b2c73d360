# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A variable with an undefined value counts as set: no default takes its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gpufleet.nvidia.plugins.action import variables_check
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    omitted_options,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    variables as planner_variables,
)

ROOT = Path(__file__).parents[4]
DEFAULT = re.compile(r"\b(gpufleet_[a-z_]+) \| default\((?!omit)")
# A task of the role sets the option by this variable as well, and is refused where that is left
# out.
BESIDE = {"gpufleet_toolkit_repository"}


def list_defaulted() -> set[str]:
    """Return the variables that a file of a playbook or a role reads with a default."""
    files = [path for folder in ("playbooks", "roles") for path in (ROOT / folder).rglob("*.yml")]
    assert len(files) > 30
    return {name for path in files for name in DEFAULT.findall(path.read_text(encoding="utf-8"))}


def test_each_variable_that_has_a_default_is_read_before_the_run() -> None:
    beside = {name for several in omitted_options.BESIDE_OPTIONS.values() for name in several}
    known = {
        *variables_check.DEFAULTED,
        *variables_check.JUDGED,
        *planner_variables.RUN,
        *planner_variables.RESULTS,
        *beside,
        *BESIDE,
    }
    assert list_defaulted() - known == set()


class Rendered(Mapping[str, Any]):
    """Variables as Ansible gives them: an error is raised when its variable is read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values_ = values

    def __getitem__(self, name: str) -> Any:
        if isinstance(self.values_[name], Exception):
            raise self.values_[name]
        return self.values_[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


UNDEFINED = AnsibleError("'nope' is undefined")
VALUES: list[tuple[str, Any, list[str]]] = [
    ("gpufleet_verify_image", "busybox", []),
    ("gpufleet_verify_image", "", []),
    ("gpufleet_verify_image", None, []),
    ("gpufleet_verify_image", UNDEFINED, ["variables.unreadable"]),
    ("gpufleet_verify_image", "{{ nope }}", ["variables.undefined"]),  # before ansible-core 2.19
    ("gpufleet_hand_over_to", UNDEFINED, ["variables.unreadable"]),
    ("gpufleet_kubernetes_delegate", UNDEFINED, ["variables.unreadable"]),
    ("gpufleet_image_catalogue", UNDEFINED, ["variables.unreadable"]),
    ("gpufleet_drain", UNDEFINED, ["variables.unreadable"]),
    ("gpufleet_toolkit_version", UNDEFINED, []),  # the task of that host says so
]


@pytest.mark.parametrize(("name", "value", "codes"), VALUES)
def test_a_run_does_not_begin_with_a_default_for_an_undefined_value(
    name: str, value: Any, codes: list[str]
) -> None:
    found = variables_check.list_wrong_host_values(Rendered({name: value}))
    assert [(message.code, message.values["name"]) for message in found] == [
        (code, name) for code in codes
    ]


@pytest.mark.parametrize("value", [UNDEFINED, "600"])
def test_a_setting_of_the_run_that_a_host_cannot_read_is_named(value: Any) -> None:
    own = variables_check.own_variables(
        Rendered({"gpufleet_rollout_host_timeout": value, "gpufleet_root": UNDEFINED})
    )
    found = planner_variables.list_variable_problems({"gpu1": own}, {}, variables_check.KNOWN)
    assert [(message.code, message.values["name"]) for message in found] == [
        ("variables.run-setting-in-inventory", "gpufleet_rollout_host_timeout")
    ]
