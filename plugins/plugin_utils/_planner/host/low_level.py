# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs behind handlers: NVIDIA's runtime, the low-level runtimes that it hands over to, and
programs that are neither.

The NVIDIA runtime has one list of low-level runtimes for the whole host and takes the first that it
finds (nvidia-container-toolkit, internal/oci/runtime_low_level.go). So engines with different ones
cannot be served together where the workloads of both go through it. An engine that injects by CDI
itself starts its workloads with its own low-level runtime.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
    Instance,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_messages

# The runtimes that take the same arguments and the same bundle as runc.
KNOWN = ("runc", "crun", "youki")
# Sandboxed runtimes: their options and annotations mean nothing to runc, and runc's nothing to
# them.
SANDBOXED = frozenset(("runsc", "kata-runtime", "sysbox-runc", "crun-wasm"))
PROGRAM = "nvidia-container-runtime"
# and its mode-specific siblings: .cdi, .legacy, .experimental
NVIDIA = re.compile(rf"{PROGRAM}(?:\.\w+)?")


def is_nvidia_runtime(program: object) -> bool:
    """Tell whether a path names the NVIDIA runtime.

    Packages, its toolkit container and images use the same names in other directories.
    """
    return isinstance(program, str) and bool(NVIDIA.fullmatch(posixpath.basename(program)))


def is_mode_variant(program: object) -> bool:
    """Tell whether a program is a variant of the NVIDIA runtime whose name sets its mode, whatever
    the runtime's configuration sets.
    """
    return is_nvidia_runtime(program) and posixpath.basename(str(program)) != PROGRAM


def is_known_runtime(program: str) -> bool:
    return posixpath.basename(program) in KNOWN


def is_foreign_runtime(program: str) -> bool:
    """Tell whether a program is neither NVIDIA's nor a runtime that it can hand over to, such as a
    shim of the host's own system.
    """
    return bool(program) and not is_nvidia_runtime(program) and not is_known_runtime(program)


def get_first_low_level(programs: Iterable[str]) -> str:
    """Return the first program that the NVIDIA runtime can hand over to; '' if there is none."""
    return next((program for program in programs if is_known_runtime(program)), "")


def shorten_program(program: str) -> str:
    """Return a program in a directory of PATH by its name, and any other by its path.

    The NVIDIA runtime looks names up in PATH.
    """
    return (
        posixpath.basename(program)
        if posixpath.dirname(program) in (*STANDARD_PATH, "")
        else program
    )


def list_low_level_runtimes(
    instances: Iterable[Instance],
    found: Mapping[str, str | None],
    bound: Container[str] = (),
) -> tuple[str, ...]:
    """Return the host's list of low-level runtimes: the ones that engines use, then the others on
    the host.

    found: the programs on the host by name. If there are none at all, return runc and crun.
    bound: the keys of the instances whose workloads go through the NVIDIA runtime. Theirs comes
    first. Raise PlanError if these use different ones.
    """
    every = {i.key: i.low_level for i in instances if i.low_level}
    used = dict(sorted(every.items(), key=lambda entry: entry[0] not in bound))
    _require_one({key: program for key, program in used.items() if key in bound})
    paths = [*used.values(), *(p for p in map(found.get, KNOWN) if p)]
    return tuple(dict.fromkeys(map(shorten_program, paths))) or ("runc", "crun")


def describe_other_programs(
    instances: Iterable[Instance], runtimes: tuple[str, ...]
) -> Message | None:
    """Return which program serves handlers in place of an engine's own, None if none does."""
    first = posixpath.basename(runtimes[0])
    others = [i for i in instances if posixpath.basename(i.low_level or first) != first]
    if not others:
        return None
    names = ", ".join(f"{i.key} ({i.low_level})" for i in others)
    return host_messages.RUNTIME_OF_ANOTHER.fill(first=runtimes[0], others=names)


def _require_one(used: Mapping[str, str]) -> None:
    names = {key: posixpath.basename(program) for key, program in used.items()}
    if len(set(names.values())) > 1:
        (one, first_program), *others = used.items()
        other = next(key for key, _program in others if names[key] != names[one])
        values = {"one": one, "program": first_program, "other": other}
        raise PlanError(host_messages.RUNTIMES_DIFFER.fill(**values, other_program=used[other]))
