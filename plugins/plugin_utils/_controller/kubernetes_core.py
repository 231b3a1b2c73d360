# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the modules of kubernetes.core on the machine where the task runs, and read their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from ansible.errors import AnsibleError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    drain_kubernetes,
    drain_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

CONFLICTS = 5  # times that a change is tried while another writer is faster


class ModuleRunner(Protocol):
    """The way to the machine where the task runs."""

    def run_module(
        self, name: str, arguments: Mapping[str, Any], *, check: bool = False
    ) -> dict[str, Any]:
        """Run a module there, and return its result."""


def run_kubernetes_module(
    calls: ModuleRunner,
    module: str,
    arguments: Mapping[str, Any],
    lacking: Sentence,
    *,
    check: bool = False,
) -> dict[str, Any]:
    """Run a module of kubernetes.core. Return its result, with the API's own words as `msg`.

    Raise PlanError with the sentence `lacking` if the collection is not installed.
    """
    try:
        result = calls.run_module(f"kubernetes.core.{module}", arguments, check=check)
    except AnsibleError as error:
        if "kubernetes.core" not in str(error):
            raise
        raise PlanError(lacking.fill()) from None
    # since ansible-core 2.19, an exception that ended a module is a value
    event = getattr(result.get("exception"), "event", None)
    return drain_kubernetes.add_api_message(
        {**result, "msg": result.get("msg") or str(getattr(event, "msg", ""))}
    )


def list_answered_objects(result: Mapping[str, Any], doing: str) -> list[dict[str, Any]]:
    """Return the objects in a result of k8s_info that did not fail. Raise PlanError if it has no
    list: the module does not fail if the API was not found.
    """
    if result.get("api_found") is False or "resources" not in result:
        cause = drain_kubernetes.get_api_message(result)
        raise PlanError(drain_messages.ODD_ANSWER.fill(doing=doing, cause=cause))
    # Plain values: up to ansible-core 2.18, a text of a module's answer is of a class that YAML
    # cannot write.
    plain = json.loads(json.dumps(result["resources"] or []))
    return drain_kubernetes.list_api_objects(plain, doing)
