# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take our keys out of a daemon.json, or give back the file from before them, and say what the
daemon still applies.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    owned_file,
    restore,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config,
    daemon_action,
    desired_config,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    facts as docker_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    plan as docker_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker.desired_config import (
    CDI_ON_SINCE,
)

DIRECTORIES = "cdi-spec-dirs"


def plan_silent_docker(instance: Instance) -> Plan:
    """Plan for a daemon that does not answer.

    Its restart may end containers that only the daemon can list, so it stays pending.
    """
    row, unit = messages.RESTORED_UNHEARD, instance.unit or "it"
    advice = row.fill(path=instance.config_path, socket=instance.socket, unit=unit)
    return Plan(advice=(advice,), pending=(instance.unit,) if instance.unit else ())


def plan_docker_restore(
    policy: Policy,
    facts: docker_facts.DockerFacts,
    file: ObservedFile,
    doc: json_text.JsonDocument,
    original: Mapping[str, Any],
) -> tuple[Plan, json_text.JsonDocument]:
    """Plan from the journal's copy. Return the plan, and the file as it will be."""
    before = docker_facts.get_kept_docker_file(facts, file.path)
    if before is None:
        before = remove_own_docker_keys(policy, doc, {}).data if doc.root else {}
    if (file.sha256 if file.exists else None) == original.get("sha256_after"):
        planned = owned_file.restore(file, original, owned_file.BACK)
        planned = dc.replace(
            planned, expect_files={file.path: file.sha256 if file.exists else None}
        )
        empty = json_text.JsonDocument(file.path, "", None)
        return planned, json_text.merge_json_keys(empty, before)[0] if before else empty
    after = remove_own_docker_keys(policy, doc, before)
    for name, entry in (after.data.get("runtimes") or {}).items():
        program = str(entry.get("path") or "") if isinstance(entry, Mapping) else ""
        if posixpath.basename(program).startswith(restore.PROGRAM) and name not in (
            before.get("runtimes") or {}
        ):
            raise restore.build_other_handler_error(
                name, program, file.path, json_text.find_member_line(doc, ("runtimes", name))
            )
    return dc.replace(
        plan_docker_key_removal(file, doc, after, whole=not original.get("existed")),
        released=(file.path,),
    ), after


def plan_docker_without_copy(
    policy: Policy,
    facts: docker_facts.DockerFacts,
    file: ObservedFile,
    doc: json_text.JsonDocument,
) -> tuple[Plan, json_text.JsonDocument]:
    """Plan for a file without a copy in the journal.

    Only a runtime exactly as we write it is removed. Any other one with our name is from NVIDIA's
    tool or a person.
    """
    # Arguments in addition to the program, empty ones too, are written by NVIDIA's tools.
    made = tuple(
        h
        for h in policy.handlers
        if json_text.look_up_json(doc, ("runtimes", h.name)) == {"path": h.binary, **h.options}
    )
    # It is unknown who switched CDI on and named its directories, and containers may count on both.
    after = remove_own_docker_keys(
        dc.replace(policy, handlers=made, cdi_spec_dirs=()),
        doc,
        {"features": json_text.look_up_json(doc, ("features",)) or {}},
    )
    if not file.exists or after.text == doc.text:
        return Plan(), doc
    if not restore.may_be_own(policy, facts.earlier):
        return Plan(advice=(messages.UNKNOWN_RUNTIME.fill(path=file.path),)), doc
    planned = plan_docker_key_removal(file, doc, after, whole=False)
    cdi_stays = json_text.look_up_json(doc, ("features", "cdi")) is True
    row = messages.NO_COPY_CDI_STAYS if cdi_stays else messages.NO_COPY
    return dc.replace(planned, advice=(row.fill(path=file.path),)), after


def remove_own_docker_keys(
    policy: Policy, doc: json_text.JsonDocument, before: Mapping[str, Any] | None
) -> json_text.JsonDocument:
    """Give each key that has the value that we would have written its value from before. A key that
    was not there is removed. Raise PlanError if the value from before is not known.
    """
    was: Mapping[str, Any] = before or {}
    if json_text.look_up_json(doc, ("default-runtime",)) in {h.name for h in policy.handlers}:
        doc = give_back_value(doc, ("default-runtime",), was)
    for handler in policy.handlers:
        doc = remove_own_runtime(doc, handler, was)
    if json_text.look_up_json(doc, ("features", "cdi")) is True:
        doc = give_back_value(doc, ("features", "cdi"), was)
    directories = list(policy.cdi_spec_dirs)
    if directories and json_text.look_up_json(doc, (DIRECTORIES,)) == directories:
        doc = give_back_value(doc, (DIRECTORIES,), was)
    for key in ("runtimes", "features"):
        if json_text.look_up_json(doc, (key,)) == {} and key not in was:
            doc = json_text.remove_member(doc, (key,))
    return doc


def remove_own_runtime(
    doc: json_text.JsonDocument, handler: Handler, was: Mapping[str, Any]
) -> json_text.JsonDocument:
    """Remove a runtime that we have added. One that was there before gets its own values back."""
    at = ("runtimes", handler.name)
    entry, earlier = json_text.look_up_json(doc, at), (was.get("runtimes") or {}).get(handler.name)
    if not isinstance(entry, dict):
        return doc
    if earlier is None:
        return json_text.remove_member(doc, at) if entry.get("path") == handler.binary else doc
    for key, value in {"path": handler.binary, **handler.options}.items():
        if entry.get(key) == value:
            doc = give_back_value(doc, (*at, key), was)
    return doc


def give_back_value(
    doc: json_text.JsonDocument, path: json_text.Path, was: Mapping[str, Any]
) -> json_text.JsonDocument:
    """Return the document with the value from before at this path, or without the member."""
    found: Any = was
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    if found is None:
        return json_text.remove_member(doc, path)
    owned_file.require_earlier_value(doc.path, ".".join(path), found)
    for key in reversed(path):
        found = {key: found}
    return json_text.merge_json_keys(doc, found)[0]


def plan_docker_key_removal(
    file: ObservedFile, doc: json_text.JsonDocument, after: json_text.JsonDocument, *, whole: bool
) -> Plan:
    """Plan to remove our keys.

    whole: there was no file before our first change, so the file goes too if nothing else was added
    to it.
    """
    if whole and not after.data:
        return owned_file.plan_owned_file_removal(file, why=messages.NO_FILE_BEFORE.fill())
    if after.text == doc.text:
        return Plan()
    splice = json_text.Splice(0, len(doc.text), after.text)
    advice = messages.DOCKER_CHANGED_SINCE.fill(path=file.path)
    planned = docker_plan.build_docker_change(file, doc, after, (splice,))
    changes = tuple(transaction.forget_original(c) for c in planned.changes)
    return dc.replace(
        planned,
        changes=changes,
        differences=(owned_file.build_keys_out_difference(file.path),),
        advice=(advice,),
    )


def find_docker_removal_lag(
    policy: Policy,
    facts: docker_facts.DockerFacts,
    instance: Instance,
    flags: config.Flags,
    doc: json_text.JsonDocument,
    after: json_text.JsonDocument,
) -> daemon_action.Lag:
    """Return what the daemon still applies of our keys.

    A reload does not apply the absence of a key: a key that the file no longer has takes a restart.
    So do directories of CDI specs.

    doc: the file as it is. after: the file as it will be.
    """
    info = facts.info.get(instance.socket)
    loaded = set(info.get("Runtimes") or {})
    names = {h.name for h in policy.handlers} & loaded - set(after.data.get("runtimes") or {})
    default = info.get("DefaultRuntime") in names
    value = (after.data.get("features") or {}).get("cdi")
    on = (
        value is True
        or (value is None and desired_config.parse_docker_series(instance) >= CDI_ON_SINCE)
        or bool(config.get_flag_value(flags, "features"))
    )
    moved = doc.data.get(DIRECTORIES) != after.data.get(DIRECTORIES)
    restart = (
        (bool(info.get("CDISpecDirs")) and (moved or not on))
        or (bool(names) and "runtimes" not in after.data)
        or (default and "default-runtime" not in after.data)
    )
    return daemon_action.Lag(bool(names), restart)
