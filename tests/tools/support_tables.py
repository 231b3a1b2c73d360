# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/support.md: engines, managers and package managers, and where they are tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases as containerd_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    releases as crio_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    desired_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    plan as docker_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    installers,
    owners_settings,
    repository,
)
from page_table import ENGINE_TITLES, code, join_number, table

from tests.lab.kinds import KINDS, Kind

SWITCHES = {
    "none": "none",
    "off": "yes, off unless `enable_cdi = true`",
    "on": "yes, on unless `enable_cdi = false`",
    "always": "yes, always on",
}


PROGRAMS = ("apt-get", "dnf", "zypper")  # of package managers


MERGES = {
    "replace": "a drop-in replaces the whole table of a plugin",
    "deep": "a drop-in adds to the table of a plugin",
}


def name_imitated(hosts: Iterable[str]) -> str:
    return f"imitated: {code(hosts)}"


def build_containerd_table() -> str:
    facts = containerd_releases.FACTS
    rows = [
        [
            name_releases(f.first, after),
            code(f.schemas),
            str(f.new_file),
            MERGES[f.merge],
            SWITCHES[f.cdi],
            "; ".join(list_traps(f)),
        ]
        for f, after in zip(facts, (*(f.first for f in facts[1:]), None), strict=True)
    ]
    return table(
        ["releases", "reads config version", "our file has version", "`imports`", "CDI", "beware"],
        rows,
    )


def name_releases(first: tuple[int, int], following: tuple[int, int] | None) -> str:
    oldest = max(first, containerd_releases.OLDEST)
    return (
        f"from {join_number(oldest)}"
        if following is None
        else f"{join_number(oldest)} to before {join_number(following)}"
    )


def list_traps(facts: containerd_releases.ContainerdRelease) -> Iterator[str]:
    if not facts.keeps_runc:
        yield "a file that names a handler loses the built-in `runc`"
    if facts.v1_lost:
        yield "the CRI part of a file without `version` is dropped without an error"
    if facts.v2_names_in_v3_lost:
        yield "table names of version 2 in a file of version 3 are ignored"


def build_since_table() -> str:
    """Return the minimum versions, by engine."""
    rows = [
        ["containerd", "configured by this collection", join_number(containerd_releases.OLDEST)],
        ["containerd", "CDI", find_first_cdi("containerd")],
        *([ENGINE_TITLES["crio"], what, join_number(first)] for what, first in CRIO_SINCE),
        [
            "Docker",
            "CDI, with `features.cdi` in `daemon.json`",
            join_number(desired_config.CDI_SINCE),
        ],
        [
            "Docker",
            "CDI, on unless `features.cdi` is false",
            join_number(desired_config.CDI_ON_SINCE),
        ],
        [
            "Docker",
            "`dockerd --validate` reads a new file before it is put in place",
            join_number(docker_plan.VALIDATE_SINCE),
        ],
        ["Podman", "CDI", find_first_cdi("podman")],
    ]
    return table(["engine", "what", "since"], rows)


CRIO_SINCE = (
    ("CDI", crio_releases.CDI_SINCE),
    ("the status says the configuration", crio_releases.STATUS_CONFIG_SINCE),
    ("CDI by the field of the CRI, not by annotations only", crio_releases.CRI_FIELD_SINCE),
    ("the status lists the handlers", crio_releases.HANDLER_LIST_SINCE),
)


def find_first_cdi(engine: str) -> str:
    return join_number(next(first for first, newest in cdi_versions.MAX_CDI[engine] if newest))


def build_file_table() -> str:
    rows = [
        [
            "containerd 1.x",
            f"edits in `{containerd_releases.CONFIG}`",
            f"`{containerd_releases.UNIT}`",
            f"`{containerd_releases.SOCKET}`",
        ],
        [
            "containerd 2.x",
            f"a drop-in `/etc/containerd/conf.d/{containerd_releases.DROP_IN}`",
            f"`{containerd_releases.UNIT}`",
            f"`{containerd_releases.SOCKET}`",
        ],
        [
            "CRI-O",
            f"a drop-in `{crio_releases.CONFIG}.d/{crio_releases.DROP_IN}`",
            f"`{crio_releases.UNIT}`",
            f"`{crio_releases.SOCKET}`",
        ],
        [
            "Docker",
            f"our keys in `{docker_config.CONFIG}`",
            f"`{docker_config.UNIT}`",
            f"`{docker_config.SOCKET}`",
        ],
    ]
    return table(["engine", "what is written", "unit", "socket"], rows)


def build_mode_table() -> str:
    rows = [
        [
            f"`{way}`",
            f"`{mode}`",
            code(decide.LEGACY_PACKAGES if mode == "legacy" else decide.BASE_PACKAGES),
        ]
        for way, mode in decide.MODES.items()
    ]
    return table(["injection", "mode of NVIDIA's runtime", "packages"], rows)


def build_kind_table() -> str:
    return table(
        ["host of the lab", "engine"], ([name, name_engine(kind)] for name, kind in KINDS.items())
    )


def name_engine(kind: Kind) -> str:
    if kind.lends:
        return f"imitated: what renders the configuration and starts containerd; that is the one of `{kind.lends}`"
    return "built from its Go module" if kind.programs else f"Debian {kind.suite}'s packages"


def build_manager_table() -> str:
    """Return the systems that render a containerd's configuration, and whether hosts of them are in
    the lab.
    """
    rows = []
    for one in (m for m in known.MANAGERS if not m.taken_back or m.homes):
        shown = code((*one.homes, *one.units, *(f"ID={name}" for name in one.os_ids)))
        hosts = code(name for name in KINDS if name.startswith(f"{one.name}-like"))
        done = one.refusal.next
        if one.place:
            after = (
                f"{one.title} restarts its containerd by itself"
                if one.place.takes_up
                else f"restart of {code(one.place.units)}"
            )
            template = f"its handler in `{one.config.rpartition('/')[2]}`, from which it makes the configuration"
            done = f"{template if one.place.filled_in else f'a drop-in in {code(one.place.drop_ins)}'}; {after}"
        if one.place and one.place.detection:
            done += f". Without drop-ins: the handlers that it finds by itself, others in {code(one.place.detection.templates.values())}"
        rows.append([one.title, shown, done, f"imitated: {hosts}" if hosts else "a table of tests"])
    return table(["system", "recognised by", "what is done, or is to be done", "tested on"], rows)


def build_package_manager_table() -> str:
    """Return the programs that install NVIDIA's packages, and the hosts of the lab on which that
    ran.
    """
    rows = []
    for name, family in repository.FAMILIES.items():
        installer = installers.INSTALLERS[family.manager]
        ids = code(known for known, of in repository.LIKE.items() if of == name)
        own = [kind for kind, value in KINDS.items() if family.manager in value.packages]
        tested = name_imitated(own) if own else "every other host of the lab (Debian)"
        words = {
            word: [program, word]
            for word in ("install", "remove")
            for program in installer.remove
            if program in PROGRAMS
        }
        rows.append(
            [
                family.manager,
                ids,
                f"`{family.list_path}`",
                *(f"`{' '.join(found)}`" for found in words.values()),
                tested,
            ]
        )
        if family.manager == "dnf":  # dnf5 comes under the same name, and takes the same commands
            newer = name_imitated(kind for kind, of in KINDS.items() if "dnf5" in of.packages)
            rows.append(["dnf5", "`fedora`, from Fedora 41 on", *rows[-1][2:-1], newer])
    head = [
        "package manager",
        "`ID` or `ID_LIKE`",
        "source",
        "installation",
        "undo of a first one that fails",
        "tested on",
    ]
    return table(head, rows)


def build_owners_settings_table() -> str:
    """Return one row for each way in which a setting of NVIDIA's config.toml may be wrong."""

    def modes(setting: owners_settings.OwnerSetting) -> str:
        return (
            "all"
            if setting.modes >= owners_settings.EVERY
            else code(sorted(setting.modes & owners_settings.EVERY))
        )

    rows = [
        [code([s.name]), s.condition, modes(s), s.row.why, s.row.next]
        for s in owners_settings.SETTINGS
    ]
    return table(["key", "wrong if", "modes", "then", "what to do"], rows)
