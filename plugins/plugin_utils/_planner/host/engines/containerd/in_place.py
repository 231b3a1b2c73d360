# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find NVIDIA's handlers in files that have other settings as well: by nvidia-ctk up to 1.17, older
roles, a GPU Operator, by hand.

A tool's line cannot be distinguished from a person's there, so no line is removed: the handler is
managed from now on, the rest stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Leftover,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    TABLES,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    options,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.edit import (
    FIRST_LINE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_adoption,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.releases import (
    RUNTIMES,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known


def list_taken_over_handlers(
    policy: Policy, instance: Instance, files: FileSet, planned: Plan, version: Version
) -> tuple[Leftover, ...]:
    """Return the handlers of others that this run changes. A handler that is right already is the
    host's own configuration.
    """
    settled = {left.path for left in planned.leftovers}
    wanted = [handler.name for handler in policy.handlers]
    changed = [
        name
        for name in wanted
        if any(f".runtimes.{toml.write_toml_key(name)}." in d.key for d in planned.differences)
    ]
    # a handler there is the manager's own, at each start
    rendered = files.root if not known.get_manager_place(instance.manager).main_edited else None
    others = [
        f
        for f in files.files
        if f is not rendered and not f.doc.text.startswith(FIRST_LINE) and f.path not in settled
    ]
    return tuple(
        row for file in others for row in _list_leftover_rows(file, changed, version, planned)
    )


def _list_leftover_rows(
    file: ConfigFile, names: list[str], version: Version, planned: Plan
) -> Iterator[Leftover]:
    rows: dict[str, str] = {}
    for table in TABLES:
        runtimes = options.read_options_of_handlers(
            toml.look_up_toml(file.doc.data, (*table, *RUNTIMES), {}), version
        )
        rows.update(
            {
                name: program
                for name, program in config.list_handler_programs(runtimes).items()
                if name in names
            }
        )
    its = [name for name, program in rows.items() if gpu_operator.is_its(program)]
    others = [name for name, program in rows.items() if nvidia_ctk.runs_nvidia(program)]
    for tool, handlers in ((gpu_operator.TOOL, its), (nvidia_ctk.UNKNOWN, others)):
        if handlers:
            before = {name: rows[name] for name in handlers}
            note = nvidia_ctk.note_program_mode(
                before, {**before, **_list_planned_programs(planned, handlers)}
            )
            why = about_adoption.MANAGED_HERE.fill(note=note)
            yield Leftover(
                tool,
                file.path,
                tuple(toml.write_dotted_path((*RUNTIMES, name)) for name in handlers),
                False,
                "adopted",
                why,
            )


def _list_planned_programs(planned: Plan, names: list[str]) -> dict[str, str]:
    """Return the programs that handlers get in place of others in this run, by handler."""
    ends = {name: f".runtimes.{toml.write_toml_key(name)}.options.BinaryName" for name in names}
    return {
        name: str(d.after)
        for name, end in ends.items()
        for d in planned.differences
        if d.key.endswith(end)
    }
