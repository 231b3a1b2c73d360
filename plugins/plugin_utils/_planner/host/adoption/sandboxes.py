# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the handlers with which an engine started its pods, stopped pods included.

Such a handler is never taken away.

CRI-O cannot stop a container whose handler it does not know any more (nvidia-container-toolkit PR
1360), and the kubelet asks engines to stop and to remove sandboxes long after their containers have
ended.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Lookup
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Instance
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    build_query_failure,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level, traits

# The operator's DaemonSet, and so the beginning of its pods' names (gpu-operator,
# assets/state-container-toolkit/0500_daemonset.yaml).
OPERATOR = "nvidia-container-toolkit-daemonset"


def list_nvidia_handlers(instance: Instance) -> tuple[str, ...]:
    """Return the handlers in force that run one of NVIDIA's programs, in any directory."""
    return tuple(
        sorted(
            name
            for name, program in instance.handlers.items()
            if posixpath.basename(program).startswith(low_level.PROGRAM)
        )
    )


def ask_for_sandboxes(instance: Instance) -> queries.Question:
    """Ask one question for all that adoption needs to know of an engine's pods."""
    return _ask_for_pods(instance.engine, instance.socket, list_nvidia_handlers(instance))


def _ask_for_pods(engine: str, socket: str, handlers: tuple[str, ...]) -> queries.Question:
    note = traits.get_traits(engine).pod_note
    return queries.ask_for_sandbox_counts(socket, handlers, (OPERATOR,), note)


def ask_for_kept_pods(socket: str, uids: tuple[str, ...]) -> queries.Question:
    """Ask which of these pods have a PID namespace of their own."""
    return queries.ask_for_sandbox_counts(socket, (), uids=uids)


def serves(instance: Instance) -> bool:
    """Tell whether the engine can be asked about pods."""
    return (
        instance.running
        and instance.cri
        and traits.get_traits(instance.engine).kubernetes
        and bool(instance.socket)
    )


@dc.dataclass(frozen=True)
class SandboxFacts:
    """The answers of engines about their pods, an error included.

    answers: the answer of an engine, by the engine, its socket, its process and NVIDIA's handlers.
    Reading it raises NeedMore if the engine was not asked. kept: the answer about pods by their
    UIDs, by the engine's socket and process.
    """

    answers: Lookup[tuple[str, str, int, tuple[str, ...]], Mapping[str, Any]]
    kept: Lookup[tuple[str, int, tuple[str, ...]], Mapping[str, Any]]

    def get_answer(self, instance: Instance) -> Mapping[str, Any]:
        """Return the answer of an instance, or the error."""
        handlers = list_nvidia_handlers(instance)
        return self.answers.get((instance.engine, instance.socket, instance.pid, handlers))


def read_sandbox_facts(obs: Observation) -> SandboxFacts:
    def read_answer(at: tuple[str, str, int, tuple[str, ...]]) -> Mapping[str, Any]:
        engine, socket, pid, handlers = at
        return obs.get_socket_answer(_ask_for_pods(engine, socket, handlers), pid)

    def read_kept(at: tuple[str, int, tuple[str, ...]]) -> Mapping[str, Any]:
        socket, pid, uids = at
        return obs.get_socket_answer(ask_for_kept_pods(socket, uids), pid)

    return SandboxFacts(Lookup(read_answer), Lookup(read_kept))


def count_pods_by_handler(
    facts: SandboxFacts, instance: Instance, names: Iterable[str]
) -> Mapping[str, int]:
    """Return the handlers that pods use, with the number of pods.

    Raise QueryFailed if the engine gives no answer, NeedMore if it was not asked.
    """
    if not serves(instance):
        return {}
    answer = facts.get_answer(instance)
    if "error" in answer:
        raise build_query_failure(ask_for_sandboxes(instance)["id"], answer["error"])
    counts = dict(answer.get("handlers") or {})
    # pods that name none have the default
    counts[instance.default_handler] = counts.get(instance.default_handler, 0) + counts.get("", 0)
    return {name: counts[name] for name in names if counts.get(name)}
