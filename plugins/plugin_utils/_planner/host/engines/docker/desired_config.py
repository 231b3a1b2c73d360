# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what daemon.json has to contain, and refuse what it cannot."""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import json_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
    Decision,
    Handler,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    facts as docker_facts,
)

# CDI is there behind features.cdi from 25.0, and on unless features.cdi is false from 28.2 (its
# release notes).
CDI_SINCE = (25, 0)
CDI_ON_SINCE = (28, 2)
# moby pull request 37871: before, dockerd refuses to start with runtimes by flag and by file
RUNTIMES_MERGED_SINCE = (
    18,
    9,
)
BUILT_IN = "runc"


@dc.dataclass(frozen=True)
class DesiredDocker:
    """The wanted content of the file, and what the daemon has to report after it."""

    tree: Mapping[str, Any]
    paths: Mapping[str, str]  # handler -> its program as the daemon reports it
    default: str = ""  # "" = any
    cdi: bool = False
    dirs: tuple[str, ...] = ()


def parse_docker_series(instance: Instance) -> tuple[int, int]:
    parsed = versions.parse_engine_version(instance.version)
    if parsed is None:
        raise PlanError(messages.DOCKER_VERSION_UNKNOWN.fill(), where=instance.config_path)
    return parsed.series


def derive_desired_docker(
    policy: Policy,
    facts: docker_facts.DockerFacts,
    instance: Instance,
    decision: Decision,
    doc: json_text.JsonDocument,
) -> DesiredDocker:
    """Return the wanted content of the file. Raise PlanError if it cannot have that content.

    doc: the file as it is.
    """
    flags = facts.flags.value
    tree: dict[str, Any] = {}
    paths: dict[str, str] = {}
    before = docker_facts.get_kept_docker_file(facts, doc.path)
    for handler in policy.handlers_by_name if decision.handler else ():
        entry, paths[handler.name] = derive_docker_runtime(doc, flags, handler, before)
        if entry:
            tree.setdefault("runtimes", {})[handler.name] = entry
    if (
        tree
        and config.list_flag_runtimes(flags)
        and parse_docker_series(instance) < RUNTIMES_MERGED_SINCE
    ):
        raise build_flag_conflict_error(
            "runtimes",
            doc.path,
            flags,
            ", ".join(config.list_flag_runtimes(flags)),
            ", ".join(tree["runtimes"]),
        )
    default = get_wanted_docker_default(policy, decision, doc, flags, before)
    if default and not config.get_flag_value(flags, "default-runtime"):
        tree["default-runtime"] = default
    forced = policy.single and policy.cdi == "enabled"
    cdi = decision.injection == "native-cdi" or forced
    if forced and not instance.cdi.able:
        raise PlanError(messages.DOCKER_NO_CDI.fill(version=instance.version), where=doc.path)
    if cdi and must_switch(instance, doc, flags):
        tree["features"] = {"cdi": True}
    dirs = get_wanted_docker_cdi_dirs(policy, instance, doc, flags)
    if (
        dirs
        and list(dirs) != json_text.look_up_json(doc, ("cdi-spec-dirs",))
        and not config.get_flag_value(flags, "cdi-spec-dirs")
    ):
        tree["cdi-spec-dirs"] = list(dirs)
    return DesiredDocker(tree, paths, default, cdi, dirs)


def derive_docker_runtime(
    doc: json_text.JsonDocument,
    flags: config.Flags,
    handler: Handler,
    before: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], str]:
    """Return what to write of one handler, and the program that it will have.

    Raise PlanError if a runtime of another owner has the name.
    """
    added = config.list_flag_runtimes(flags)
    if handler.name in added:
        if not is_same_program(added[handler.name], handler.binary):
            program = added[handler.name]
            values = {"flag": config.ADD_RUNTIME, "runtime": handler.name}
            if file_places.is_hidden_value(program):
                what = messages.HIDDEN_RUNTIME_BY_FLAG.fill(**values)
            else:
                what = messages.RUNTIME_BY_FLAG.fill(**values, program=program)
            raise PlanError(what, where=flags.where or doc.path, line=flags.line)
        return {}, added[handler.name]
    path = ("runtimes", handler.name)
    present = json_text.look_up_json(doc, path)
    if present is None:
        return {"path": handler.binary, **handler.options}, handler.binary
    program = present.get("path")
    options = {k: v for k, v in handler.options.items() if present.get(k) != v}
    if isinstance(program, str) and is_same_program(program, handler.binary):
        return options, program
    # nvidia-ctk's bare name, in a folder that dockerd does not search
    if program == posixpath.basename(handler.binary):
        return {"path": handler.binary, **options}, handler.binary
    new_here = before is not None and handler.name not in (before.get("runtimes") or {})
    adopted = low_level.is_nvidia_runtime(program)
    if not (new_here or adopted or (program and handler.chosen)):
        raise build_other_runtime_error(handler.name, doc, path, present)
    return {"path": handler.binary, **options}, handler.binary


def is_same_program(one: str, other: str) -> bool:
    """Tell whether both are the same program.

    nvidia-ctk writes the bare name. dockerd looks it up in the PATH that systemd gave it, which has
    only the standard folders.
    """
    return one == other or (
        posixpath.dirname(other) in STANDARD_PATH and one == posixpath.basename(other)
    )


def build_other_runtime_error(
    name: str, doc: json_text.JsonDocument, path: json_text.Path, present: Mapping[str, Any]
) -> PlanError:
    """Make the error for a runtime of this name that we did not write.

    A shim that containerd starts by type is not a program for `binary`.
    """
    program, shim = present.get("path"), present.get("runtimeType") or ""
    if program and file_places.is_hidden_value(program):
        what = messages.HIDDEN_RUNTIME_OF_OTHERS.fill(runtime=name)
    elif program:
        what = messages.RUNTIME_OF_OTHERS.fill(runtime=name, program=program)
    elif shim and not file_places.is_hidden_value(shim):
        what = messages.SHIM_OF_OTHERS.fill(runtime=name, shim=shim)
    else:
        what = messages.RUNTIME_WITHOUT_PROGRAM.fill(runtime=name)
    return PlanError(what, where=doc.path, line=json_text.find_member_line(doc, path))


def get_wanted_docker_default(
    policy: Policy,
    decision: Decision,
    doc: json_text.JsonDocument,
    flags: config.Flags,
    before: Mapping[str, Any] | None,
) -> str:
    """Return the default runtime that the file has to name. '' if its present one stays."""
    named = config.get_flag_value(flags, "default-runtime")
    now = named[-1] if named else json_text.look_up_json(doc, ("default-runtime",)) or ""
    if decision.default:
        wanted = decision.handler
    elif policy.set_as_default == "disabled" and now in {h.name for h in policy.handlers}:
        # Named, not taken out: a reload does not apply what is not there (daemon/reload_unix.go).
        wanted = str((before or {}).get("default-runtime") or BUILT_IN)
    else:
        return ""
    if named and named[-1] != wanted:
        raise build_flag_conflict_error("default-runtime", doc.path, flags, named[-1], wanted)
    return wanted


def build_flag_conflict_error(
    key: str, path: str, flags: config.Flags, value: str, wanted: str
) -> PlanError:
    file, flag = path if flags.where else "the file", config.FLAGS[key][0]
    twice = messages.SET_BY_FLAG.fill(key=key, flag=flag, value=value, file=file, wanted=wanted)
    return PlanError(twice, where=flags.where or path, line=flags.line)


def must_switch(instance: Instance, doc: json_text.JsonDocument, flags: config.Flags) -> bool:
    """Tell whether features.cdi has to be written to have CDI on at the next start as well.

    Raise PlanError if cdi-spec-dirs switches CDI off, or if a flag sets the features.
    """
    off = [
        d
        for d in (
            config.get_flag_value(flags, "cdi-spec-dirs")
            or json_text.look_up_json(doc, ("cdi-spec-dirs",))
            or []
        )
        if d == ""
    ]
    if off:
        line = json_text.find_member_line(doc, ("cdi-spec-dirs",))
        raise PlanError(messages.DOCKER_CDI_SWITCHED_OFF.fill(), where=doc.path, line=line)
    given = dict(value.partition("=")[::2] for value in config.get_flag_value(flags, "features"))
    if given.get("cdi", "false") in ("true", ""):
        return False
    value = json_text.look_up_json(doc, ("features", "cdi"))
    needed = value is not True if parse_docker_series(instance) < CDI_ON_SINCE else value is False
    if given and (needed or "cdi" in given):
        raise build_flag_conflict_error(
            "features",
            doc.path,
            flags,
            ", ".join(config.get_flag_value(flags, "features")),
            "cdi=true",
        )
    return needed


def get_wanted_docker_cdi_dirs(
    policy: Policy, instance: Instance, doc: json_text.JsonDocument, flags: config.Flags
) -> tuple[str, ...]:
    """Return the value for cdi-spec-dirs. Empty before 25.0: an older dockerd does not know the
    key, and does not start with it.
    """
    if not policy.cdi_spec_dirs or parse_docker_series(instance) < CDI_SINCE:
        return ()
    given = tuple(config.get_flag_value(flags, "cdi-spec-dirs"))
    there = given or tuple(json_text.look_up_json(doc, ("cdi-spec-dirs",)) or ())
    if host_paths.clean_directories(there) == policy.cdi_spec_dirs:
        return there  # dockerd reports them as they are spelled
    if given:
        raise build_flag_conflict_error(
            "cdi-spec-dirs", doc.path, flags, ", ".join(given), ", ".join(policy.cdi_spec_dirs)
        )
    return policy.cdi_spec_dirs
