# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a survey of AWX gives is text, and an empty one where nobody answered: every setting of a
run takes both.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    settings,
    variables,
)

SPEC = arguments.derive_step_spec("rollout_settings")
# As a person writes it into a survey, where that is not the YAML of the example in variables.RUN.
TEXTS = {
    "class": "gpu.model, rack",
    "domain": "rack",
    "waves": "1,10%,50%,100%",
    "tasks": "change=driver.yml",
    "approved_changes": f'{{"containerd 1.7": ["{"5f0c" * 16}"]}}',
}
BESIDE: dict[str, dict[str, Any]] = {
    "soak_command": {"soak": 60},
    "driver": {"tasks": {"change": "driver.yml"}},
}  # what a setting needs beside it
MEANT = {"approved_changes": {"containerd 1.7": ["5f0c" * 16]}}  # where the example is none
ALSO: list[tuple[Any, ...]] = [
    ("soak_command", '["/usr/local/bin/healthy"]'),
    ("gate_check", "[/usr/local/bin/healthy, fleet]", ["/usr/local/bin/healthy", "fleet"]),
    ("waves", '[1, "10%", "50%", "100%"]'),
    ("waves", " 1, 10% ,50%,100% "),
    ("class", "[gpu.model, rack]"),
    ("tasks", '{"change": "driver.yml"}'),
    ("tasks", " change = driver.yml "),
]
# the examples of these are their defaults
DEFAULTS = {
    "canaries",
    "waves",
    "gate_retries",
    "max_left_out",
    "plugin_wait",
}
NAMES = sorted(
    name.removeprefix(settings.PREFIX) for name in variables.RUN if name.startswith(settings.PREFIX)
)
WRITTEN = [
    *(
        (name, TEXTS.get(name, variables.RUN[settings.PREFIX + name].strip('"')))
        for name in NAMES
        if name in SPEC
    ),
    *ALSO,
]


def judged(**given: Any) -> dict[str, Any]:
    """What settings mean: as the task does it, what is empty is not set, then come the module's
    spec and the settings themselves.
    """
    found = ArgumentSpecValidator(SPEC).validate(settings.list_given_options(given))
    assert found.error_messages == []
    values = found.validated_parameters
    whole = {
        "tasks": settings.parse_task_files(values["tasks"]),
        "host_timeout": settings.parse_whole_number("host_timeout", values["host_timeout"]),
    }
    return {
        "settings": settings.build_rollout_settings(values),
        **whole,
        **{name: values[name] for name in ("pause", "plan_file", "approved")},
    }


def meant(name: str) -> Any:
    return MEANT.get(name) or yaml.safe_load(variables.RUN[settings.PREFIX + name])


def test_every_setting_of_a_rollout_is_judged_here() -> None:
    assert {row[0] for row in WRITTEN} == set(SPEC)


@pytest.mark.parametrize(("name", "text", "wanted"), [(*row, None)[:3] for row in WRITTEN])
def test_text_means_what_the_value_means(name: str, text: str, wanted: Any) -> None:
    beside = BESIDE.get(name, {})
    assert judged(**beside, **{name: text}) == judged(**beside, **{name: wanted or meant(name)})
    assert (judged(**beside, **{name: text}) == judged(**beside)) == (name in DEFAULTS)


@pytest.mark.parametrize("name", sorted(SPEC))
@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_answer_is_none(name: str, empty: str) -> None:
    assert judged(**{name: empty}) == judged()


FAILED = [
    # gpufleet_rollout_max_failed, gpufleet_max_failed, what is meant
    ("", "", 0),
    ("2", "", "2"),
    ("", "5%", "5%"),
    ("  ", 3, 3),
    (0, "5%", 0),
    ("0", 7, "0"),
    ("2%", "5%", "2%"),
]


@pytest.mark.parametrize(("own", "of_all", "wanted"), FAILED)
def test_an_empty_budget_is_that_of_all_playbooks(own: Any, of_all: Any, wanted: Any) -> None:
    assert judged(max_failed=[own, of_all]) == judged(max_failed=wanted)


WRONG = [
    ("until", "the end", "rollout.until"),
    ("tasks", "driver.yml", "rollout.tasks"),
    ("tasks", "upgrade=driver.yml", "rollout.unknown-tasks"),
    ("gate_check", "/bin/true", "rollout.gate-check"),
    ("class", "{{ rack }}", "rollout.key-path"),
    ("canaries", "{{ 1 }}", "rollout.number"),
]


@pytest.mark.parametrize(("name", "text", "code"), WRONG)
def test_what_cannot_be_meant_is_refused(name: str, text: str, code: str) -> None:
    with pytest.raises(PlanError) as raised:
        judged(**{name: text})
    assert raised.value.code == code
    assert raised.value.what.startswith(f"gpufleet_rollout_{name} ")
