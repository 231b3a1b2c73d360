# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identify NVIDIA hook files that others left, by their programs, forms and places.

- toolkit packages up to 1.13, as RPMs: `/usr/bin/nvidia-container-toolkit` (oci-nvidia-hook.json in
  nvidia-container-toolkit);
- `nvidia-ctk runtime configure --config-mode=hook` and the GPU Operator with CDI off: the hook's
  own program;
- guides for Podman and CRI-O: either, without `env`; and the form of hooks 0.1.0, in which `hook`
  is the program itself.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Leftover,
    Plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    messages,
)

PROGRAMS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")
NAME = "oci-nvidia-hook.json"
# Podman reads it, and so does CRI-O if its hooks_dir names it.
ADMINS = "/etc/containers/oci/hooks.d"
USUAL = ("/usr/share/containers/oci/hooks.d", ADMINS)
# Scripts for the Docker of RHEL 7 (nvidia-container-runtime-hook 1.3 and 1.4): no engine that is
# served here runs them.
SCRIPTS = ("/usr/libexec/oci/hooks.d/nvidia", "/usr/libexec/oci/hooks.d/oci-nvidia-hook")


def list_hook_file_questions() -> list[queries.Question]:
    return [queries.ask_for_file(path, content=False) for path in SCRIPTS]


def get_hook_file_program(data: Any) -> str:
    """Return the program of a hook file of one of these forms. '' for any other file."""
    if not isinstance(data, Mapping):
        return ""
    hook = data.get("hook")
    program = hook.get("path") if isinstance(hook, Mapping) else hook
    if not isinstance(program, str) or posixpath.basename(program) not in PROGRAMS:
        return ""
    return (
        program
        if (_is_newer_form(data, program) if isinstance(hook, Mapping) else _is_older_form(data))
        else ""
    )


def _is_newer_form(data: Mapping[str, Any], found: str) -> bool:
    hook = dict(data["hook"])
    env = hook.pop("env", [])
    if env and not (isinstance(env, list) and len(env) == 1 and str(env[0]).startswith("PATH=")):
        return False
    wanted = {"path": found, "args": [posixpath.basename(found), "prestart"]}
    rest = {
        "version": "1.0.0",
        "when": {"always": True, "commands": [".*"]},
        "stages": ["prestart"],
    }
    return hook == wanted and {k: v for k, v in data.items() if k != "hook"} == rest


def _is_older_form(data: Mapping[str, Any]) -> bool:
    """Tell whether this is a file of hooks 0.1.0, in which `stage` and `stages` mean the same."""
    rest = {k: v for k, v in data.items() if k != "hook"}
    stages = rest.pop("stage", rest.pop("stages", None))
    rest.pop("annotations", None)
    return stages == ["prestart"] and rest == {"arguments": ["prestart"]}


def name_hook_tool(found: str) -> str:
    return (
        gpu_operator.TOOL if gpu_operator.is_operator_program(found) else "nvidia-container-toolkit"
    )


def is_live_operator_hook(record: HostDecision, found: str) -> bool:
    """Tell whether it is the file of a GPU Operator that counts as working here."""
    return name_hook_tool(found) == gpu_operator.TOOL and any(
        gpu_operator.names_it(why) for _engine, why in record.refused
    )


def report_adopted_hook(path: str, found: str) -> Leftover:
    return Leftover(name_hook_tool(found), path, (), True, "adopted", messages.HOOK_ADOPTED.fill())


def report_kept_hook(path: str, found: str) -> Leftover:
    return Leftover(
        name_hook_tool(found), path, (), True, "kept", messages.HOOK_LEFT.fill(path=path)
    )


def read_scripts(obs: Observation) -> tuple[str, ...]:
    """Return what lies in the directory of the oldest hooks."""
    return tuple(
        path
        for path in SCRIPTS
        if obs.get_answer(queries.ask_for_file(path, content=False)).get("exists")
    )


def list_script_leftovers(there: Iterable[str]) -> Plan:
    """List the scripts of the oldest hooks as leftovers."""
    reasons = ((path, messages.HOOK_SCRIPT.fill(path=path)) for path in there)
    tool_ = "nvidia-container-runtime-hook"
    return Plan(
        leftovers=tuple(Leftover(tool_, path, (), False, "kept", why) for path, why in reasons)
    )
