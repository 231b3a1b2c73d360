# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the settings of a host's cluster before a host is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import helm, members, messages, objects
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.kubernetes import node_names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Message


def _cluster(value: Any) -> None:
    members.cluster_name({}, members.OfInventory(cluster=str(value)))


def _node(value: Any) -> None:
    node_names.require("", str(value))


def _device_ids(value: Any) -> None:
    members.choice("", "gpufleet_kubernetes_device_ids", str(value), members.DEVICE_IDS)


def _mig(value: Any) -> None:
    members.choice("", "gpufleet_kubernetes_mig_strategy", str(value), members.MIG)


def _hook(value: Any) -> None:
    if not str(value).startswith("/"):
        raise PlanError(messages.HOOK_PATH.fill(value=value, example=members.HOOK))


def _taints(value: Any) -> None:
    objects.taints(str(text) for text in (value if isinstance(value, list) else [value]))


def _namespace(value: Any) -> None:
    objects.namespace_name(str(value))


def _config_map(value: Any) -> None:
    objects.config_map_name(str(value))


def _environment(value: Any) -> None:
    if isinstance(value, Mapping):  # another type is reported by the check of types
        helm.environment_of(value)


# Variable -> a check that raises PlanError for an invalid value.
RULES: Mapping[str, Callable[[Any], None]] = {
    "gpufleet_cluster": _cluster,
    "gpufleet_kubernetes_node": _node,
    "gpufleet_kubernetes_device_ids": _device_ids,
    "gpufleet_kubernetes_mig_strategy": _mig,
    "gpufleet_kubernetes_hook": _hook,
    "gpufleet_kubernetes_namespace": _namespace,
    "gpufleet_kubernetes_config_map": _config_map,
    "gpufleet_kubernetes_taints": _taints,
    helm.ENVIRONMENT: _environment,
}


def problems(given: Mapping[str, Any]) -> list[Message]:
    """Return one message for each variable with a wrong value.

    A variable with an empty value is not set.
    """
    found = []
    for name, rule in RULES.items():
        try:
            if given.get(name) not in (None, "", [], {}):
                rule(given[name])
        except PlanError as error:
            found.append(error.placed)
    return found
