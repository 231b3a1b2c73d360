# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the directory of the host's CDI specs: one that each reader looks into.

An engine's own setting may leave the usual directories out, as guides for Talos do. Such an engine
does not find a spec in another place, and reports only `unresolvable CDI devices`. The setting
stays as it is: the spec goes to a directory that the engine reads. If no directory is read by all,
the run is refused. With gpufleet_cdi_spec_dirs the engines are told, and nothing is left to find
out.

An engine whose file names other directories for its next start counts as two readers: as it is, and
as it is after that start.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import host_paths
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    HostDecision,
    Instance,
    Policy,
    Reason,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import refusals, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.consumers import (
    Consumer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)

VOLATILE = ("/run/", "/var/run/")
DYNAMIC = CDI_DIRS[-1]


@dc.dataclass(frozen=True)
class Reader:
    """A program that resolves CDI devices, and the directories that it looks into, lowest priority
    first.
    """

    name: str
    directories: tuple[str, ...]
    where: str = ""  # its configuration
    restarted: bool = False  # it is an engine after its next start

    def __str__(self) -> str:
        when = " after its next start" if self.restarted else ""
        return f"{self.name} reads {' and '.join(self.directories) or 'no directory'}{when}"


@dc.dataclass(frozen=True)
class Placement:
    """The directories of specs on a host.

    directories: all that a reader looks into, lowest priority first. common: the directories of
    every reader. place: the directory for the specs of this host; '' if none is common, and on a
    usual host.
    """

    directories: tuple[str, ...]
    common: tuple[str, ...]
    place: str
    readers: tuple[Reader, ...] = ()  # () on a usual host

    @property
    def usual(self) -> bool:
        return not self.readers

    @property
    def why(self) -> str:
        return ", ".join(dict.fromkeys(map(str, self.readers)))

    def place_record(self, record: HostDecision) -> HostDecision:
        """Return the record with this placement, unchanged on a usual host."""
        if self.usual:
            return record
        reason = Reason(
            "cdi_place", self.place or "none", messages.EACH_ENGINE_READS.fill(readers=self.why)
        )
        reasons = (*record.reasons, reason) if record.cdi_owner == "collection" else record.reasons
        return dc.replace(record, cdi_dirs=self.directories, cdi_place=self.place, reasons=reasons)

    def advise_on_placement(self, record: HostDecision, *, kubelet: bool) -> tuple[str, ...]:
        """Return what the engines' own settings cost.

        The cost is a spec that is lost at each boot, or specs of NVIDIA's device plugin that no
        engine reads. Raise PlanError if no directory is read by all engines.
        """
        if (
            self.usual
            or record.cdi_owner != "collection"
            or not any(d.injection == "native-cdi" for d in record.decisions)
        ):
            return ()
        if not self.place:
            raise self.build_refusal()
        lost = messages.EMPTY_AFTER_BOOT.fill(
            place=self.place,
            readers=self.why,
            usual=list_directories_as_text(CDI_DIRS),
            lasting=CDI_DIRS[0],
        )
        return (
            *([lost] if is_volatile(self.place) else ()),
            *self.advise_on_plugin_specs(record, kubelet),
        )

    def advise_on_plugin_specs(self, record: HostDecision, kubelet: bool) -> tuple[str, ...]:
        """Return advice if pods miss the specs of NVIDIA's device plugin.

        The plugin makes specs if it asks for devices by their CDI names. Their place is cdiRoot in
        internal/cdi/cdi.go of NVIDIA/k8s-device-plugin.
        """
        asks = [
            d
            for d in record.decisions
            if any(name.startswith("cdi-") for name in d.device_list_strategy)
        ]
        if not kubelet or not asks or DYNAMIC in self.common:
            return ()
        example = list_directories_as_text((*self.common, DYNAMIC))
        return (messages.PLUGIN_NOT_READ.fill(place=DYNAMIC, readers=self.why, example=example),)

    def build_refusal(self) -> PlanError:
        odd = next(one for one in self.readers if one.directories != CDI_DIRS)
        changed = " and ".join(one.name for one in self.readers if one.restarted)
        values = {"readers": self.why, "example": list_directories_as_text(CDI_DIRS)}
        if changed:
            return PlanError(
                messages.NO_COMMON_DIRECTORY_YET.fill(engines=changed, **values), where=odd.where
            )
        return PlanError(messages.NO_COMMON_DIRECTORY.fill(**values), where=odd.where)


USUAL = Placement(CDI_DIRS, CDI_DIRS, "")


def choose_spec_directory(
    policy: Policy, instances: Iterable[Instance], consumers: Iterable[Consumer], now: str = ""
) -> Placement:
    """Choose the directory.

    /etc/cdi comes first if it is one of several. A directory that is emptied at boot comes last.
    now: the directory of the last run, if it was not a usual one.
    """
    readers = list_spec_readers(policy, instances, consumers, now)
    if policy.cdi_spec_dirs or all(one.directories == CDI_DIRS for one in readers):
        return USUAL
    common = tuple(
        d for d in readers[0].directories if all(d in one.directories for one in readers)
    )
    lasting = [d for d in common if not is_volatile(d)]
    place = next((d for d in (*(d for d in CDI_DIRS if d in lasting), *lasting, *common)), "")
    return Placement(
        merge_spec_directories(one.directories for one in readers), common, place, readers
    )


def list_spec_readers(
    policy: Policy, instances: Iterable[Instance], consumers: Iterable[Consumer], now: str = ""
) -> tuple[Reader, ...]:
    """Return the readers that a spec has to reach; () if no engine is managed.

    These are the managed engines, and others that find a spec in its present place or in the usual
    one. Because of those others a spec stays in its place, or goes to the one of the two usual
    places that they read (Podman 5.5 reads one). They have it go nowhere else: a person has set
    that they look elsewhere.
    """
    readers = tuple(instances)
    managed = [
        i for i in readers if i.cdi.able and not i.refusal and refusals.is_engine_chosen(policy, i)
    ]
    if not managed:
        return ()
    alone = [build_engine_reader(i) for i in readers if i not in managed and i.cdi.enabled]
    more = [c for c in consumers if c.directories and c.name not in {i.engine for i in managed}]
    others = [
        Reader(f"{c.name} {c.version}".strip(), clean_spec_directories(c.directories)) for c in more
    ]
    asked = tuple(reader for i in managed for reader in build_managed_readers(i))
    narrow = any(set(one.directories) < set(CDI_DIRS) for one in others)
    if not now and not narrow and all(one.directories == CDI_DIRS for one in asked):
        return asked
    places = {CDI_DIRS[0], now}
    return (*asked, *(one for one in (*alone, *others) if places & set(one.directories)))


def build_managed_readers(instance: Instance) -> tuple[Reader, ...]:
    """Build the readers that a managed engine is: two if its file names other directories for its
    next start.
    """
    now, later = build_engine_reader(instance), instance.cdi.next_dirs
    if later is None:
        return (now,)
    coming = dc.replace(
        build_engine_reader(dc.replace(instance, cdi=dc.replace(instance.cdi, dirs=later))),
        restarted=True,
    )
    return (now,) if set(coming.directories) == set(now.directories) else (now, coming)


def build_engine_reader(instance: Instance) -> Reader:
    """Build the reader that an engine is.

    Library 1.1.1 takes the usual directories for an empty list (WithSpecDirs in
    pkg/cdi/spec-dirs.go).
    """
    name = traits.name_engine_release(instance)
    usual = (
        CDI_DIRS
        if instance.cdi.enabled
        and cdi_versions.has_newer_library(instance.engine, instance.version)
        else ()
    )
    return Reader(name, clean_spec_directories(instance.cdi.dirs or usual), instance.config_path)


def merge_spec_directories(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the usual directories and those of the lists.

    Each list keeps its order as far as one order can have them all.
    """
    spec_directories = list(CDI_DIRS)
    for directories in lists:
        for index, directory in enumerate(directories):
            if directory not in spec_directories:
                above = [
                    spec_directories.index(d)
                    for d in directories[index + 1 :]
                    if d in spec_directories
                ]
                spec_directories.insert(min(above, default=len(spec_directories)), directory)
    return tuple(spec_directories)


def clean_spec_directories(directories: Iterable[str]) -> tuple[str, ...]:
    """Return each directory once, by the name that this collection has for it.

    /run and /var/run are one. No spec belongs in /, so it is left out.
    """
    paths = (
        path
        for path in (host_paths.clean_host_path(d) for d in directories if d)
        if path.strip("/")
    )
    return host_paths.clean_directories(
        f"/var{path}" if f"{path}/".startswith("/run/") else path for path in paths
    )


def is_volatile(directory: str) -> bool:
    return f"{directory}/".startswith(VOLATILE)


def place_specs_in_policy(policy: Policy, record: HostDecision) -> Policy:
    """Return the policy as the specs' resource reads it on this host."""
    return (
        dc.replace(policy, cdi_spec_dirs=record.cdi_dirs, cdi_place=record.cdi_place)
        if record.cdi_dirs
        else policy
    )


def list_directories_as_text(directories: Iterable[str]) -> str:
    return f"[{', '.join(directories)}]"
