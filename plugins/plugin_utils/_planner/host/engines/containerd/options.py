# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a handler's options as containerd does: with their names in any case.

Kubespray wrote `systemdCgroup` and `binaryName` for years.

containerd decodes the table into a struct (generateRuntimeOptions). go-toml 1, which 1.x uses,
takes the exact name before any other spelling; go-toml 2 takes whichever comes last, and before
that the keys are sorted, so a capital letter loses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats.toml import (
    TomlDocument,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_files,
)

NAMES: Mapping[str, str] = {
    path[1].lower(): path[1] for path in containerd_places.HANDLER if path[0] == "options"
}


def read_handler_options(options: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """Return the options by their own names. If one stands there twice, the value that counts is
    kept.
    """
    handler_options: dict[str, Any] = {}
    for key in list_winning_keys(options, version):
        handler_options[NAMES.get(key.lower(), key)] = options[key]
    return handler_options


def list_winning_keys(options: Mapping[str, Any], version: Version) -> list[str]:
    """Return the keys that count, in their order: of keys that spell the same option, only one
    does.
    """
    last = {key.lower(): key for key in sorted(options)}
    if releases.get_release_facts(version).merge == "replace":  # go-toml 1
        last.update({key.lower(): key for key in options if key in NAMES.values()})
    return [key for key in options if last[key.lower()] == key]


def read_options_of_handlers(runtimes: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """Return all handlers, with their options by their own names."""
    return {name: _read_entry(entry, version) for name, entry in runtimes.items()}


def _read_entry(entry: Any, version: Version) -> Any:
    options = entry.get("options") if isinstance(entry, Mapping) else None
    return (
        {**entry, "options": read_handler_options(options, version)}
        if isinstance(options, Mapping) and options
        else entry
    )


def require_own_spelling(doc: TomlDocument, table: Path, setting: Path, path: str) -> None:
    """Raise PlanError if another spelling keeps an option from having an effect: our drop-in can
    add a key, and not take one away.
    """
    *above, name = setting
    if tuple(above[-1:]) != ("options",):
        return
    there = toml.look_up_toml(doc.data, (*table, *above), {})
    other = next((key for key in there if key.lower() == name.lower() and key != name), "")
    if other:
        raise PlanError(
            about_files.OTHER_SPELLING.fill(
                setting=toml.write_dotted_path(setting), spelling=other, name=name
            ),
            where=path,
            line=toml.find_key_line(doc, (*table, *above, other)),
        )
