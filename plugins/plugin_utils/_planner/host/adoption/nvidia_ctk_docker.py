# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what NVIDIA's own tools wrote into Docker's daemon.json. The runtime is taken over in place,
and nothing is removed.

`nvidia-ctk runtime configure` replaces the runtime's entry by path and `args`
(pkg/config/engine/docker). The package nvidia-docker2 had a daemon.json of its own with path and
`runtimeArgs`. Both write the program's bare name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Leftover
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    messages,
    nvidia_ctk,
)

TOOL, PACKAGE = "nvidia-ctk", "nvidia-docker2"
EMPTY = ("args", "runtimeArgs")  # what each of them writes in addition to the path
Values = Mapping[str, Any]


def list_ctk_docker_leftovers(
    path: str,
    data: Values,
    before: Values | None,
    programs: Mapping[str, str],
    *,
    never: bool,
    packaged: bool,
) -> tuple[Leftover, ...]:
    """List as leftovers the runtimes that the tool wrote.

    programs: each wanted runtime with the program that it will have. before: the content of the
    file before this collection's first change. None if this collection has made none.
    """
    entries = data.get("runtimes") or {}
    then = before if before is not None else data
    of_tool = [
        n
        for n in programs
        if is_ctk_docker_runtime(entries.get(n))
        and is_ctk_docker_runtime((then.get("runtimes") or {}).get(n))
    ]
    if not of_tool:
        return ()
    default = then.get("default-runtime") in of_tool and data.get("default-runtime") in of_tool
    keys = (*(f"runtimes.{name}" for name in of_tool), *(("default-runtime",) if default else ()))
    tools = {
        name_docker_runtime_tool(then["runtimes"][name], packaged=packaged) for name in of_tool
    }
    exact = all(
        set(entries[name]) <= {"path", *EMPTY} and not any(entries[name].get(k) for k in EMPTY)
        for name in of_tool
    )
    row = messages.RUNTIME_USED if exact else messages.RUNTIME_USED_WITH_SETTINGS
    if any(then["runtimes"][name].get("path") != programs[name] for name in of_tool):
        row = messages.RUNTIME_REPOINTED
    who = min(tools)
    step = messages.COPY_BEFORE_PURGE.fill(package=PACKAGE, path=path) if packaged else ""
    why = row.fill(step=step)
    return (Leftover(who, path, keys, exact, "kept" if never else "adopted", why),)


def is_ctk_docker_runtime(entry: Any) -> bool:
    return isinstance(entry, Mapping) and low_level.is_nvidia_runtime(entry.get("path"))


def name_docker_runtime_tool(entry: Values, *, packaged: bool) -> str:
    if str(entry.get("path")).startswith(f"{gpu_operator.DIRECTORY}/"):
        return gpu_operator.TOOL
    if packaged or "runtimeArgs" in entry:
        return PACKAGE
    return TOOL if "args" in entry else nvidia_ctk.UNKNOWN
