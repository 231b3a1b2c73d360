# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the device plugin's strategies by which pods get GPUs on a host, as seen and as decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NVIDIA = "nvidia-container-runtime"  # the program of a handler, regardless of the handler's name


def list_seen_strategies(result: Mapping[str, Any], decision: Mapping[str, Any]) -> frozenset[str]:
    """Return the strategies by which pods get GPUs, as the host was seen.

    A fact that a look does not show, such as the settings of the NVIDIA runtime, does not count.
    """
    instance: Mapping[str, Any] = next(
        (i for i in result.get("instances") or () if i.get("key") == decision.get("instance")), {}
    )
    cdi: Mapping[str, Any] = instance.get("cdi") or {}
    program = str((instance.get("handlers") or {}).get(str(instance.get("default_handler"))) or "")
    hooked = decision.get("hook") and not any(
        "hooks.d" in str(d.get("path")) for d in result.get("differences") or ()
    )
    strategies = {"envvar"} if NVIDIA in program or hooked else set()
    if cdi.get("enabled"):
        strategies |= {"cdi-annotations", *(["cdi-cri"] if cdi.get("cri_field") else [])}
    return frozenset(strategies)


def list_decided_strategies(
    result: Mapping[str, Any], decision: Mapping[str, Any]
) -> frozenset[str]:
    """Return the strategies by which pods get GPUs after the decision, for pods that name no
    RuntimeClass.
    """
    injection, default = decision.get("injection"), bool(decision.get("default"))
    instance: Mapping[str, Any] = next(
        (i for i in result.get("instances") or () if i.get("key") == decision.get("instance")), {}
    )
    field = (instance.get("cdi") or {}).get("cri_field") or "cdi-cri" in (
        decision.get("device_list_strategy") or ()
    )
    strategies: set[str] = set()
    if injection == "native-cdi":
        strategies |= {"cdi-annotations", *(["cdi-cri"] if field else [])}
    if injection == "nvidia-runtime" and default:
        strategies.add("cdi-annotations")
    return frozenset(
        strategies | list_container_strategies(result["decision"])
        if default or injection == "oci-hook"
        else strategies
    )


def list_container_strategies(decided_: Mapping[str, Any]) -> set[str]:
    """Return the strategies that the NVIDIA runtime and its hook read from a container that is not
    privileged.

    They depend on the same two settings as in resources/toolkit_config.
    """
    by_mounts = {"volume-mounts"} & set(decided_.get("plugin_strategies") or ())
    return by_mounts | ({"envvar"} if decided_.get("isolation") == "compatible" else set())
