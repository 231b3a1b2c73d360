# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the CRI-O handler that this collection copies.

CRI-O fills in nothing, so what is not copied is missing: monitor, minimum memory.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    messages as engine_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config,
    messages,
)

INHERITS = "inherit_default_runtime"
INHERITED = ("runtime_path", "runtime_type", "runtime_config_path", "runtime_root")


def choose_crio_base(
    declared: config.Effective, handler: Handler, where: config.CrioPaths
) -> tuple[str, Mapping[str, Any]]:
    """Return the name and table of the first handler that can be copied.

    They are tried in this order: the handler of the same name, the default one, runc, crun. One of
    the last two is built in. Raise PlanError if none can be copied.
    """
    _require_fitting(declared, handler, where)
    for name, table in _list_base_candidates(declared, handler.name):
        if fits_runc_handler(name, table):
            return name, table
    names = ", ".join(sorted(declared.handlers)) or "none"
    no_base = messages.CRIO_NO_BASE.fill(default=declared.default, handlers=names)
    raise PlanError(no_base, where=where.directory)


def choose_default_successor(declared: config.Effective, names: Collection[str]) -> str:
    """Return the handler that becomes the default if this collection's handler must not be. '' if
    none can.
    """
    others = (name for name in ("crun", "runc") if name not in names and name in declared.handlers)
    return next((name for name in others if fits_runc_handler(name, declared.handlers[name])), "")


def find_crio_base_program(declared: config.Effective, handler: Handler) -> str:
    """Return the low-level program behind the handlers, in the order in which `choose_crio_base`
    tries them.
    """
    return low_level.get_first_low_level(
        get_crio_handler_program(name, table)
        for name, table in _list_base_candidates(declared, handler.name)
        if fits_runc_handler(name, table)
    )


def _list_base_candidates(
    declared: config.Effective, name: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for candidate in dict.fromkeys((name, declared.default, "runc", "crun")):
        if candidate in declared.handlers:
            yield candidate, resolve_crio_handler(declared, candidate)


def resolve_crio_handler(declared: config.Effective, name: str) -> Mapping[str, Any]:
    """Return a handler's table with what it inherits from the default handler (since 1.33, Validate
    in pkg/config).
    """
    table, default = declared.handlers[name], declared.handlers.get(declared.default, {})
    if not table.get(INHERITS):
        return table
    own = {key: value for key, value in table.items() if key not in (*INHERITED, INHERITS)}
    taken = {key: default[key] for key in INHERITED if key in default}
    return {"runtime_path": get_crio_handler_program(declared.default, default), **own, **taken}


def fits_runc_handler(name: str, table: Mapping[str, Any]) -> bool:
    """Tell whether the handler's properties mean to runc what they mean to its own program."""
    return (
        table.get("runtime_type", "") in ("", "oci")
        and posixpath.basename(get_crio_handler_program(name, table)) not in low_level.SANDBOXED
    )


def get_crio_handler_program(name: str, table: Mapping[str, Any]) -> str:
    """Return the program of a handler. A handler without a path runs the program of its name
    (ValidateRuntimePath in pkg/config).
    """
    return str(table.get("runtime_path") or name)


def _require_fitting(declared: config.Effective, handler: Handler, where: config.CrioPaths) -> None:
    """Raise PlanError if a handler of the same name is of another kind, or runs a program that is
    not NVIDIA's.

    Such a handler has another owner.
    """
    if handler.name not in declared.handlers:
        return
    table = resolve_crio_handler(declared, handler.name)
    runs_now = str(table.get("runtime_path") or "")
    if not fits_runc_handler(handler.name, table):
        kind = (
            table.get("runtime_type")
            if table.get("runtime_type", "") not in ("", "oci")
            else runs_now or handler.name
        )
        other = messages.CRIO_OTHER_KIND.fill(handler=handler.name, kind=kind)
        raise PlanError(other, where=where.directory)
    if low_level.is_foreign_runtime(runs_now) and runs_now != handler.binary and not handler.chosen:
        if file_places.is_hidden_value(runs_now):
            other = messages.HIDDEN_PROGRAM.fill(handler=handler.name)
        else:
            other = engine_messages.HANDLER_OTHER_PROGRAM.fill(
                handler=handler.name, program=runs_now
            )
        raise PlanError(other, where=where.directory)
