# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a file is exactly what a release of `nvidia-ctk runtime configure --runtime=crio`
writes.

The tool copies the table of one handler and sets the program and the type. It takes the default
handler of its source, otherwise runc, otherwise crun (pkg/config/engine/crio in
nvidia-container-toolkit). If its source has none of them it writes those two keys alone. Its source
is the main file, or with --config-source=command CRI-O's own output, in which defaults are filled
in. Up to 1.17 it edits the main file.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    crio_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
)

TOOL, OPERATOR = "nvidia-ctk", gpu_operator.TOOL
NAMES = re.compile(r"99-nvidia\.(?:conf|toml)")
# of 1.18.0 to 1.19.0, in a directory that CRI-O never reads
UNREAD = "/etc/crio/conf.d/99-nvidia.toml"
# how go-toml, which it writes with, begins a file: no person writes that by hand
WRITER = "\n[crio]\n"
RUNTIME = ("crio", "runtime")
RUNTIMES = (*RUNTIME, "runtimes")
DEFAULT = (*RUNTIME, "default_runtime")
# what CRI-O itself sets if no file does (pkg/config, TranslateMonitorFields)
FILLED_IN = {"monitor_cgroup": "system.slice"}
SET = ("runtime_path", "runtime_type")  # the two keys that are the tool's own

Path = tuple[str, ...]
Table = Mapping[str, Any]


@dc.dataclass(frozen=True)
class JudgedCtkFile:
    """The tool's part of one file.

    handlers: its handlers. default: the default that it sets ('' for none). unexplained: the keys
    that its rules do not explain.
    """

    handlers: Mapping[str, Table]
    default: str
    unexplained: tuple[Path, ...]


def is_ctk_crio_drop_in(name: str, text: str, handlers: Mapping[str, Table]) -> bool:
    """Tell whether a drop-in is the tool's, by its name, or under any other name by its form and
    purpose.
    """
    nvidia = any(
        low_level.is_nvidia_runtime(table.get("runtime_path"))
        for table in handlers.values()
        if isinstance(table, Mapping)
    )
    return bool(NAMES.fullmatch(name)) or (text.startswith(WRITER) and nvidia)


def is_of_operator(handlers: Mapping[str, Table]) -> bool:
    return any(
        gpu_operator.is_its(str(table.get("runtime_path")))
        for table in handlers.values()
        if isinstance(table, Mapping)
    )


def judge_ctk_crio_file(
    data: Table, candidates: Iterable[Table], programs: Iterable[str], handlers_written: int = 1
) -> JudgedCtkFile:
    """Judge a whole drop-in.

    candidates: tables that the tool may have copied from. programs: the programs that the tool may
    have written. handlers_written: the number of handlers that the tool writes. The GPU Operator's
    toolkit writes three. The tool keeps nothing that was in the file before.
    """
    runtime = _read_table(_read_table(data, "crio"), "runtime")
    handlers = _read_table(runtime, "runtimes")
    default = str(runtime.get("default_runtime") or "")
    left = [path for path in _list_leaf_paths(data) if path[:3] != RUNTIMES and path != DEFAULT]
    if default and default not in handlers:
        left.append(DEFAULT)
    known = tuple(candidates)
    for name, table in handlers.items():
        left += [
            (*RUNTIMES, name, key) for key in list_unexplained_crio_keys(table, known, programs)
        ]
    left += [(*RUNTIMES, name) for name in list(handlers)[handlers_written:]]
    return JudgedCtkFile(
        handlers, default, tuple(dict.fromkeys(left)) or (() if handlers else (RUNTIMES,))
    )


def list_unexplained_crio_keys(
    table: Any, candidates: Iterable[Table], programs: Iterable[str]
) -> tuple[str, ...]:
    """Return the keys of one handler that the tool did not write, by the candidate that explains
    most. () if the tool wrote all.
    """
    if not isinstance(table, Mapping):
        return ("",)
    right = {
        "runtime_path": table.get("runtime_path") in tuple(programs),
        "runtime_type": table.get("runtime_type") == "oci",
    }
    wrong = [key for key, is_right in right.items() if not is_right]
    copied = _drop_empty_properties(table)
    # Unknown keys are not sent: stand-ins of different keys and values can be the same text, and
    # the new file would lack the key.
    wrong += [key for key in copied if key not in crio_places.HANDLER_FIELDS]
    copied = {key: value for key, value in copied.items() if key in crio_places.HANDLER_FIELDS}
    if not copied:
        return tuple(wrong)
    sources = (
        {k: v for k, v in _drop_empty_properties(other).items() if k in crio_places.HANDLER_FIELDS}
        for other in candidates
    )
    against = (
        [key for key in {**copied, **other} if copied.get(key) != other.get(key)]
        for other in sources
    )
    return (*wrong, *min(against, key=len, default=list(copied)))


def _drop_empty_properties(table: Table) -> dict[str, Any]:
    """Return the copied properties without the empty ones: CRI-O prints every property, set or not."""
    return {
        k: v
        for k, v in table.items()
        if k not in SET and v not in ("", False, [], {}, None) and FILLED_IN.get(k) != v
    }


def _list_leaf_paths(data: Any, above: Path = ()) -> Iterator[Path]:
    if isinstance(data, Mapping) and (data or len(above) > len(RUNTIMES)):
        for key, value in data.items():
            yield from _list_leaf_paths(value, (*above, str(key)))
    elif not (isinstance(data, Mapping) and above in ((), RUNTIME[:1], RUNTIME, RUNTIMES)):
        yield above


def _read_table(data: Any, key: str) -> Table:
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, Mapping) else {}
