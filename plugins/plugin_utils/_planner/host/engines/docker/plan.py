# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the change of daemon.json, and let the daemon's own program judge the staged file."""

from __future__ import annotations

import dataclasses as dc
import hashlib
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Instance,
    Plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    messages as engine_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    desired_config,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import diff

VALIDATE_SINCE = (23, 0)
WHY = {
    "default-runtime": messages.DEFAULT_RUNTIME,
    "features.cdi": messages.CDI_ON,
    "cdi-spec-dirs": engine_messages.CDI_DIRECTORIES_SET,
}


def list_docker_differences(
    doc: json_text.JsonDocument, tree: Mapping[str, Any], desired: desired_config.DesiredDocker
) -> tuple[Difference, ...]:
    differences = []
    for path, value in list_docker_leaves(tree):
        old = json_text.look_up_json(doc, path)
        if old != value or type(old) is not type(value):
            key = ".".join(path)
            differences.append(
                Difference("file", doc.path, key, old, value, explain(path, value, desired))
            )
    return tuple(differences)


def explain(path: json_text.Path, value: Any, desired: desired_config.DesiredDocker) -> str:
    """Return the reason why a key gets a value."""
    if path[0] == "runtimes":
        return messages.RUNTIME.fill(runtime=path[1])
    if path[0] == "default-runtime" and value not in desired.paths:
        return messages.DOCKER_DEFAULT_UNWANTED.fill()
    return WHY[".".join(path)].fill()


def list_docker_leaves(
    tree: Mapping[str, Any], above: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], Any]]:
    leaves: list[tuple[tuple[str, ...], Any]] = []
    for key, value in tree.items():
        leaves += (
            list_docker_leaves(value, (*above, key))
            if isinstance(value, Mapping) and value
            else [((*above, key), value)]
        )
    return leaves


def build_docker_change(
    file: ObservedFile,
    doc: json_text.JsonDocument,
    after: json_text.JsonDocument,
    splices: tuple[json_text.Splice, ...],
) -> Plan:
    """Build the change of the file for the transaction."""
    if not splices:
        return Plan()
    expect = {file.path: file.sha256 if file.exists else None}
    if not file.exists:
        made: transaction.Write = {
            "path": file.path,
            "op": "write",
            "content": after.text,
            "mode": "0644",
            "expect": None,
        }
        return Plan(
            changes=(made,),
            expect_files=expect,
            diffs=(diff.build_diff_entry(file.path, "", after.text),),
        )
    edits = json_text.list_json_edits(doc.text, splices)
    result = hashlib.sha256(after.text.encode("utf-8", "surrogateescape")).hexdigest()
    edited: transaction.Edit = {
        "path": file.path,
        "op": "edit",
        "expect": file.sha256,
        "edits": edits,
        "result": result,
    }
    if file.keep:
        edited["keep"] = file.keep
    return Plan(
        changes=(edited,),
        expect_files=expect,
        diffs=(diff.build_diff_entry(file.path, doc.text, after.text),),
    )


def validate_staged_docker(instance: Instance, process: Mapping[str, Any], plan: Plan) -> Plan:
    """Add the check by dockerd itself, with the flags that it runs with. It exists since 23.0: an
    older one has our own rules only.

    The host takes the flags from the process: they may hold a proxy's password.
    """
    if (
        not any(c["op"] in ("write", "edit") for c in plan.changes)
        or desired_config.parse_docker_series(instance) < VALIDATE_SINCE
    ):
        return plan
    own: list[transaction.Words] = (
        [{"process": process["pid"], "ticks": process["ticks"], "without": ["--config-file"]}]
        if process
        else []
    )
    # without a file there is no present configuration to be refused
    there = any(plan.expect_files.values())
    check: transaction.Validator = {
        "argv": [instance.binary, *own, "--validate", "--config-file", "{stage}/daemon.json"],
        "timeout": 30,
        "baseline": [instance.binary, *own, "--validate", "--config-file", instance.config_path]
        if there
        else None,
        "why": messages.DOCKER_CHECKED.fill(),
        "process": instance.process,
    }
    return dc.replace(
        plan,
        stage_files=({"name": "daemon.json", "source": instance.config_path},),
        validate=(check,),
    )
