# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise the output of `nvidia-ctk runtime configure` 1.13 to 1.20 by its handlers and files.

Up to 1.17 it edits the main file in place. From 1.18 on it writes a drop-in and an `imports` line.
The drop-in has the whole CRI table of the main file (or of the engine's own output), since
containerd 1.x replaces that table as a whole. The table has one more handler, which is a copy of
another one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    messages,
)

TOOL = "nvidia-ctk"
UNKNOWN = "a person or an unknown tool"  # of what nothing shows who wrote it
COMMAND = "nvidia-ctk runtime configure"
DROP_IN = "99-nvidia.toml"
# The drop-in of 1.18.0, in a directory that containerd never reads (nvidia-container-toolkit issue
# 1404).
MISPLACED = "/etc/containerd/config.d/99-nvidia.toml"
RUNC_TYPE = "io.containerd.runc.v2"
# after the default handler, which it passes over if its name begins so:
CANDIDATES = (
    "runc",
    "crun",
)
PASSED_OVER = "nvidia"
NOTHING: tuple[Any, ...] = ("", 0, False, [])
DEFAULT_VALUES: Mapping[tuple[str, ...], Any] = {
    ("sandboxer",): "podsandbox",
    ("sandbox_mode",): "podsandbox",
}

Path = tuple[str, ...]
Entry = Mapping[Path, Any]  # a handler's properties, each by its path below the handler


def runs_nvidia(program: object) -> bool:
    """Tell whether a handler's program is the NVIDIA runtime as packages install it.

    A program below a `toolkit` directory is the GPU Operator's.
    """
    name = str(program or "")
    return posixpath.basename(name).startswith(low_level.PROGRAM) and not gpu_operator.is_its(name)


def note_program_mode(options: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Return the end of a sentence about programs that set the runtime's mode by their name,
    whatever its configuration contains.

    options, after: the programs of handlers, by the handler's name. A handler that is not wanted
    afterwards is left out.
    """
    named = {
        str(options[name]): str(after[name])
        for name in sorted(set(options) & set(after))
        if low_level.is_mode_variant(options[name])
    }
    notes = (
        messages.MODE_STAYS.fill(program=program)
        if program == then
        else messages.MODE_LEFT_TO_CONFIGURATION.fill(program=program, replacement=then)
        for program, then in named.items()
    )
    return "".join(f"; {note}" for note in notes)


def list_ctk_candidates(default: str) -> tuple[str, ...]:
    """Return the handlers that the tool would copy, in its order."""
    first = (default,) if default and not default.startswith(PASSED_OVER) else ()
    return tuple(dict.fromkeys((*first, *CANDIDATES)))


def list_unexplained_ctk_properties(
    entry: Entry, copied_from: Iterable[Entry], elsewhere: Collection[Path] = ()
) -> tuple[Path, ...]:
    """Return the properties of the tool's handler that no candidate explains, by the candidate that
    explains most. () if one explains all.

    Only without any candidate the tool writes the type and properties that are zero, and no
    options.

    elsewhere: the properties that other files set.
    """
    made_up: Entry = {("runtime_type",): RUNC_TYPE}
    every = [
        _list_differing_properties(entry, candidate)
        for candidate in tuple(copied_from) or (made_up,)
    ]
    return min((tuple(path for path in paths if path not in elsewhere) for paths in every), key=len)


def _list_differing_properties(entry: Entry, candidate: Entry) -> tuple[Path, ...]:
    kept = {path: value for path, value in candidate.items() if path != ("options", "BinaryName")}
    made = {path: value for path, value in entry.items() if path != ("options", "BinaryName")}
    # filled in since 1.20
    if kept.get(("runtime_type",)) in (None, "") and made.get(("runtime_type",)) == RUNC_TYPE:
        made.pop(("runtime_type",))
    return tuple(
        path
        for path in dict.fromkeys((*made, *kept))
        if not is_same_value(path, made.get(path), kept.get(path))
    )


def is_same_value(path: Path, one: Any, other: Any) -> bool:
    """Tell whether two values of a handler's property mean the same.

    A value that is zero, or that is the engine's default, means the same as none.
    """
    return one == other or (_is_nothing(path, one) and _is_nothing(path, other))


def _is_nothing(path: Path, value: Any) -> bool:
    return value is None or value in NOTHING or DEFAULT_VALUES.get(path) == value


def explain_not_ctk_drop_in(text: str, data: Mapping[str, Any], table: Path) -> str:
    """Return the reason why the tool cannot have made a drop-in with this CRI table. '' if it may
    have.

    The tool writes the version and that table, nothing else, and no comment.
    """
    plugins = data.get("plugins")
    others = sorted(set(data) - {"version", "plugins"}) or sorted(
        set(plugins if isinstance(plugins, Mapping) else ()) - {table[1]}
    )
    if others:
        return messages.MORE_THAN_TABLE.fill()
    comment = find_first_comment(text)
    return messages.LINE_HAS_COMMENT.fill(line=comment) if comment else ""


def find_first_comment(text: str) -> int | None:
    """Return the line of the first comment, behind a value or on a line of its own. None if there
    is none.

    The tool writes no comment for any engine.
    """
    at = toml.find_first_toml_comment(text)
    return None if at is None else text.count("\n", 0, at) + 1
