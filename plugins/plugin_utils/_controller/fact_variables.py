# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse variables of this collection that a host's facts set.

Ansible makes variables of facts (`inject_facts_as_vars`), and they replace those of the inventory.
Facts are a host's own words, also those in a cache. A host whose facts contain
`gpufleet_drain_commands` would choose a command for the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.variables import PREFIX

# These take only what earlier tasks of the run have registered, and facts don't replace that. A
# rollout that loses one of them has no gate and no report.
JUDGES = frozenset({"keep_failure", "rollout_batch", "rollout_report"})
SHOWN = 3  # names of variables


def list_fact_variables(variables: Mapping[str, Any]) -> list[str]:
    """Return the variables of this collection that the host's facts set; [] if Ansible makes no
    variables of facts.
    """
    facts = variables.get("ansible_facts") if constants.INJECT_FACTS_AS_VARS else None
    return (
        sorted(str(name) for name in facts if str(name).startswith(PREFIX))
        if isinstance(facts, Mapping)
        else []
    )


def list_fact_variable_problems(variables: Mapping[str, Any]) -> list[Message]:
    """Return a message if the host's facts set variables of this collection; [] if they don't."""
    refused = list_fact_variables(variables)
    return [messages.FROM_FACTS.fill(names=names.show_few_texts(refused, SHOWN))] if refused else []


def require_no_fact_variables(action: Any, variables: Mapping[str, Any]) -> None:
    """Raise PlanError if a task of this collection would read what the host's facts set. A user's
    tasks name their own variables.
    """
    own, _spec = arguments.find_spec(action)
    if (
        own in JUDGES
        or not list_fact_variables(variables)
        or not arguments.is_own_task(action._task)
    ):
        return
    for problem in list_fact_variable_problems(variables):
        raise PlanError(problem)
