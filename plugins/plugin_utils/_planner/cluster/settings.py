# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the settings of a host's cluster before a host is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    helm,
    members,
    messages,
    objects,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    node_names,
)


def _check_cluster(value: Any) -> None:
    members.get_cluster_name({}, members.OfInventory(cluster=str(value)))


def _check_node_setting(value: Any) -> None:
    node_names.require_node_name("", str(value))


def _check_device_ids(value: Any) -> None:
    members.get_choice("", "gpufleet_kubernetes_device_ids", str(value), members.DEVICE_IDS)


def _check_mig(value: Any) -> None:
    members.get_choice("", "gpufleet_kubernetes_mig_strategy", str(value), members.MIG)


def _check_hook_setting(value: Any) -> None:
    if not str(value).startswith("/"):
        raise PlanError(messages.HOOK_PATH.fill(value=value, example=members.HOOK))


def _check_taints(value: Any) -> None:
    objects.parse_taints(str(text) for text in (value if isinstance(value, list) else [value]))


def _check_namespace(value: Any) -> None:
    objects.check_namespace_name(str(value))


def _check_config_map(value: Any) -> None:
    objects.check_config_map_name(str(value))


def _check_environment(value: Any) -> None:
    if isinstance(value, Mapping):  # another type is reported by the check of types
        helm.get_plugin_environment(value)


# Variable -> a check that raises PlanError for an invalid value.
RULES: Mapping[str, Callable[[Any], None]] = {
    "gpufleet_cluster": _check_cluster,
    "gpufleet_kubernetes_node": _check_node_setting,
    "gpufleet_kubernetes_device_ids": _check_device_ids,
    "gpufleet_kubernetes_mig_strategy": _check_mig,
    "gpufleet_kubernetes_hook": _check_hook_setting,
    "gpufleet_kubernetes_namespace": _check_namespace,
    "gpufleet_kubernetes_config_map": _check_config_map,
    "gpufleet_kubernetes_taints": _check_taints,
    helm.ENVIRONMENT: _check_environment,
}


def list_cluster_setting_problems(given: Mapping[str, Any]) -> list[Message]:
    """Return one message for each variable with a wrong value.

    A variable with an empty value is not set.
    """
    problems = []
    for name, rule in RULES.items():
        try:
            if given.get(name) not in (None, "", [], {}):
                rule(given[name])
        except PlanError as error:
            problems.append(error.placed)
    return problems
