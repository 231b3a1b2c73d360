# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the fleet as one, by a policy that wants one engine everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide


def list_result_decisions(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the decisions in one host's result, from a look or its status file."""
    decision = result.get("decision") or {}
    return list(decision.get("decisions") or decision.get("engines") or ())


def map_engines_to_hosts(results: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Map each engine to the hosts that have a decision for it."""
    engines: dict[str, list[str]] = {}
    for host, result in sorted(results.items()):
        for engine in sorted({str(d.get("engine")) for d in list_result_decisions(result)}):
            engines.setdefault(engine, []).append(host)
    return engines


def map_injections_to_hosts(
    results: Mapping[str, Mapping[str, Any]],
) -> dict[tuple[str, str, bool], list[str]]:
    """Map (injection, handler, whether it is the default) to the hosts with this decision.

    A host may have several engines.
    """
    injections: dict[tuple[str, str, bool], list[str]] = {}
    for host, result in sorted(results.items()):
        for decided in {
            (str(d.get("injection")), str(d.get("handler") or ""), bool(d.get("default")))
            for d in list_result_decisions(result)
        }:
            injections.setdefault(decided, []).append(host)
    return dict(sorted(injections.items()))


def describe_mixed_engines(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the hosts by engine, '' if all hosts have the same one."""
    engines = map_engines_to_hosts(results)
    if len(engines) < 2:
        return ""
    parts = [
        f"{engine} on {names.show_some_runs(hosts)}" for engine, hosts in sorted(engines.items())
    ]
    return "; ".join(parts)


def require_policy(fleet_policy: str, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise PlanError if `uniform` meets two kinds of engine or two decisions. `per_host` requires
    nothing.

    One engine everywhere is what NVIDIA's GPU Operator expects (gpu-operator#1285).
    """
    if fleet_policy != "uniform":
        return
    engines = describe_mixed_engines(results)
    if engines:
        raise PlanError(messages.MIXED_ENGINES.fill(engines=engines))
    injections = map_injections_to_hosts(results)
    if len(injections) > 1:
        said = "; ".join(
            f"{_describe_decided(decided)} on {names.show_some_runs(hosts)}"
            for decided, hosts in injections.items()
        )
        raise PlanError(_describe_decisions(said, injections))


def _describe_decided(decided: tuple[str, str, bool]) -> str:
    injection, handler, default = decided
    named = ", ".join(
        [*([f"handler {handler}"] if handler else []), *(["the default"] if default else [])]
    )
    return f"{injection} ({named})" if named else injection


def _describe_decisions(
    decisions: str, found: Mapping[tuple[str, str, bool], list[str]]
) -> Message:
    """Build the message. It names the hosts with the oldest injection, since the other hosts can do
    what these do.
    """
    if len({injection for injection, _handler, _default in found}) == 1:
        return messages.MIXED_HANDLERS.fill(decisions=decisions)
    oldest = min(
        (injection for injection, _handler, _default in found),
        key=lambda injection: decide.AGE.get(injection, 0),
    )
    hosts = names.show_some_runs(
        sorted(
            {
                h
                for (injection, *_rest), hosts in found.items()
                if injection == oldest
                for h in hosts
            }
        )
    )
    return messages.MIXED_INJECTIONS.fill(decisions=decisions, oldest=oldest, hosts=hosts)
