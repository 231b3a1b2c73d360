# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what a containerd can do with CDI, by the best evidence that the host gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import host_paths
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Lookup
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Cdi,
    Evidence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedCommand,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_directories,
    cdi_versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config as containerd_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.daemons import (
    Daemon,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_daemons,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.own_program import (
    OwnProgram,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.package import (
    PACKAGE,
)

Dumps = Lookup[tuple[OwnProgram, str], ObservedCommand]


def read_config_dumps(obs: Observation) -> Dumps:
    """Return what programs print as the configuration in force, by the program and the main file.

    Reading one raises QueryFailed if the program could not be run.
    """

    def read_dump(at: tuple[OwnProgram, str]) -> ObservedCommand:
        program, main = at
        argv = [program.path, "-c", main, "config", "dump"]
        return obs.get_command(argv, program.process, containerd_places.keep_containerd_places())

    return Lookup(read_dump)


def describe_cdi_support(
    dumps: Dumps,
    daemon: Daemon,
    status: Mapping[str, Any],
    files: FileSet | None,
    version: Version,
    *,
    ask_dump: bool,
) -> Cdi:
    """Return the CDI support by the order of evidence: the daemon's status, its binary's dump, the
    files, the version.
    """
    newest = cdi_versions.get_max_cdi_version(traits.CONTAINERD, str(version))
    field = releases.has_cri_devices_field(version)
    # only its process would show the path of its program
    if daemon.manager.own_engine and not daemon.running:
        return Cdi(
            able=False,
            enabled=False,
            dirs=(),
            max_version="",
            evidence=Evidence("version", about_daemons.NOT_RUNNING_NO_VERSION.fill()),
        )
    if status:
        return _read_cdi_switch(
            status, "enableCDI", "cdiSpecDirs", newest, "cri-status", cri_field=field
        )
    if ask_dump and daemon.binary and files and files.root:
        dump = dumps.get((daemon.program, daemon.config))
        if dump.ok:
            try:
                data = toml_file.read_printed_toml(
                    dump.stdout, dump.answer, "containerd config dump"
                )
            except PlanError:
                data = {}
            for table in (containerd_places.V3_NAMES, containerd_places.V2_NAMES):
                if containerd_config.uses(data, table):
                    return _read_cdi_switch(
                        toml.look_up_toml(data, table),
                        "enable_cdi",
                        "cdi_spec_dirs",
                        newest,
                        "dump",
                        cri_field=field,
                    )
    return read_cdi_of_files(files, version, newest, cri_field=field)


def _read_cdi_switch(
    found: Mapping[str, Any], switch: str, dirs: str, newest: str, source: str, *, cri_field: bool
) -> Cdi:
    """Read the CDI support from a table. Switch and directories both absent: no CDI (1.6).
    Directories alone: always on (2.4).
    """
    where = host_paths.clean_directories(str(d) for d in found.get(dirs, CDI_DIRS) or ())
    if switch not in found and dirs not in found:
        return Cdi(
            able=False,
            enabled=False,
            dirs=(),
            max_version="",
            evidence=Evidence(
                source, about_daemons.CDI_UNSUPPORTED_BY_KEYS.fill(switch=switch, directories=dirs)
            ),
            cri_field=False,
        )
    if switch not in found:
        return Cdi(
            able=True,
            enabled=True,
            dirs=where,
            max_version=newest,
            evidence=Evidence(
                source, about_daemons.CDI_ALWAYS_BY_KEYS.fill(directories=dirs, switch=switch)
            ),
            cri_field=cri_field,
        )
    on = found[switch] is True
    return Cdi(
        able=True,
        enabled=on,
        dirs=where,
        max_version=newest,
        evidence=Evidence(
            source, about_daemons.CDI_SWITCH.fill(switch=switch, value=toml.dump_toml_value(on))
        ),
        cri_field=cri_field,
    )


def read_cdi_of_files(
    files: FileSet | None, version: Version, newest: str, *, cri_field: bool
) -> Cdi:
    facts = releases.get_release_facts(version)
    if facts.cdi == "none":
        return Cdi(
            able=False,
            enabled=False,
            dirs=(),
            max_version="",
            evidence=Evidence("version", about_daemons.CDI_UNSUPPORTED.fill(version=str(version))),
            cri_field=False,
        )
    cri = containerd_config.build_effective_cri_table(files, version) if files else {}
    dirs = host_paths.clean_directories(str(d) for d in cri.get("cdi_spec_dirs", CDI_DIRS))
    if facts.cdi == "always":
        return Cdi(
            able=True,
            enabled=True,
            dirs=dirs,
            max_version=newest,
            evidence=Evidence("version", about_daemons.CDI_ALWAYS.fill(version=str(version))),
            cri_field=cri_field,
        )
    if isinstance(cri.get("enable_cdi"), bool):
        return Cdi(
            able=True,
            enabled=cri["enable_cdi"],
            dirs=dirs,
            max_version=newest,
            evidence=Evidence(
                "files",
                about_daemons.CDI_SWITCH.fill(
                    switch="enable_cdi", value=toml.dump_toml_value(cri["enable_cdi"])
                ),
            ),
            cri_field=cri_field,
        )
    on = facts.cdi == "on"
    row = about_daemons.CDI_ON_BY_DEFAULT if on else about_daemons.CDI_OFF_BY_DEFAULT
    return Cdi(
        able=True,
        enabled=on,
        dirs=dirs,
        max_version=newest,
        evidence=Evidence("version", row.fill(version=str(version))),
        cri_field=cri_field,
    )


def list_next_cdi_directories(
    manager: Manager, files: FileSet | None, version: Version
) -> tuple[str, ...] | None:
    """Return the directories of specs after the next start.

    None if they are not known: a file cannot be read, or a manager may render it again before that.
    """
    if manager is not PACKAGE or not files or not files.root:
        return None
    return cdi_directories.list_named_cdi_directories(
        containerd_config.build_effective_cri_table(files, version).get("cdi_spec_dirs")
    )
