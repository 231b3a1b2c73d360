# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers to a look about a GPU Operator's toolkit on a host without a kubelet. Nothing of it runs,
and these pods exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    sandboxes,
)


def answers(
    socket: str,
    handlers: Iterable[str],
    note: str = "",
    pods: Mapping[str, Any] | None = None,
    pid: int = 0,
) -> dict[str, Any]:
    """Return the answers to these questions of a look.

    handlers: those of NVIDIA's that are in force. note: the annotation in which CRI-O keeps a pod's
    handler. pods: how many each has.
    """
    found: dict[str, Any] = {
        q["id"]: {"processes": []}
        for q in gpu_operator.KUBELET_QUESTIONS
        if q["kind"] == "processes"
    }
    found[queries.ask_for_processes(gpu_operator.PROCESSES)["id"]] = {"processes": []}
    found[queries.ask_for_units(["kubelet.service"])["id"]] = {
        "units": {"kubelet.service": {"LoadState": "not-found"}}
    }
    asked = queries.ask_for_sandbox_counts(socket, sorted(handlers), (sandboxes.OPERATOR,), note)
    told = {"peer": pid or None, "named": {}, "handlers": {}}
    return {
        **found,
        asked["id"]: {**told, **(pods or {})},
        "paths:pods below /var/lib/kubelet": {"files": []},
    }
