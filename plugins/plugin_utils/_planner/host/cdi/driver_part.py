# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the driver's part of a CDI spec: its files that go into containers, and the files that the
host lacks.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    join_texts,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    messages,
    void_mount,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    discover,
    driver_listing,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    hooks,
    profiles,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Edits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    keeping_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import (
    known as managers_known,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)


@dc.dataclass(frozen=True)
class DriverPart:
    """The driver's files that go into containers.

    common: the edits that every container gets. links: the names of each DRM node by its bus, as
    target and path of a symbolic link. how: the way in which files are mounted.
    """

    common: Edits
    links: Mapping[str, Sequence[tuple[str, str]]]
    how: profiles.MountPlan
    missing: tuple[str, ...]
    left_out: tuple[str, ...]
    void_mount: bool
    bare: bool = False  # not one library of the driver was found
    obstacles: tuple[Message, ...] = ()  # why some files were not found, or are not mounted
    image_step: str = ""  # what to do where an image has the driver in no root; "" on others

    @property
    def profile(self) -> str:
        return self.how.profile

    def build_edits_of_drm(self, drm: tuple[str, ...]) -> Edits:
        """Build the edits that come next to the DRM nodes of one device."""
        return profiles.build_gpu_link_edits(drm, self.links, self.how)

    @property
    def notes(self) -> tuple[str, ...]:
        """Advice about missing files, () if none is missing. A known cause is said in its place.

        A spec without them is of use all the same: a host may be there only to be watched. The core
        libraries have codes of their own, since a change of the driver must not lose them.
        """
        if not self.missing or self.obstacles:
            return self.obstacles
        core = select_core_libraries(self.missing)
        rest = [name for name in self.missing if name not in core]
        told = advise_on_core_libraries(core)
        told += [messages.LIBRARIES_MISSING.fill(missing=", ".join(rest))] if rest else []
        return tuple(told)


def read_driver_part(
    policy: Policy, obs: Observation, host: HostDecision, driver: Driver
) -> DriverPart:
    """Read the files of the kernel module's version, since no others work with it."""
    programs = hooks.read_hook_program_facts(obs)
    machine = str(obs.host.get("machine") or "x86_64")
    how = profiles.mount_plan(policy, programs, machine, host)
    links = driver_listing.map_dri_links(policy, obs)
    files = discover.find_driver_files(
        discover.read_driver_file_facts(policy, obs),
        policy.cdi_features or catalogue.FEATURES,
        driver.version,
    )
    common = profiles.build_common_edits(files, how)
    return DriverPart(
        common,
        links,
        how,
        files.missing,
        files.left_out,
        void_mount.is_safe(
            policy, programs, toolkit_config.read_toolkit_config_facts(policy, obs), host
        ),
        bool(files.missing) and not files.libraries,
        files.obstacles,
        _get_image_step(obs),
    )


def select_core_libraries(missing: Iterable[str]) -> tuple[str, ...]:
    """Select the libraries without which CUDA or NVML does not start. libnvidia-container opens
    NVML before a container starts (src/driver.c), and nvidia-ctk tells containers the folder of
    libcuda (pkg/nvcdi/driver-nvml.go).
    """
    return tuple(name for name in missing if discover.get_library_stem(name) in discover.CORE)


def advise_on_core_libraries(missing: Sequence[str]) -> list[Message]:
    """Return the advice about core libraries that are missing, [] if none is."""
    rows = {"libcuda": messages.LIBCUDA_MISSING, "libnvidia-ml": messages.NVML_MISSING}
    return [rows[discover.get_library_stem(name)].fill(missing=name) for name in missing]


def advise_on_lost_libraries(lost: Fact[tuple[str, ...]]) -> list[Message]:
    """Return the advice about core libraries of a host that gets no spec. An answer that failed is
    advice as well, since another program gives the GPUs to containers there.
    """
    try:
        return advise_on_core_libraries(lost.value)
    except QueryFailed as error:
        return [keeping_messages.NOT_CHECKED.fill(problem=read_error_message(error))]


def read_lost_core_libraries(policy: Policy, obs: Observation, driver: Driver) -> tuple[str, ...]:
    """Read which core libraries a host's own driver lacks, whatever gives its GPUs to containers.
    Return () where the driver lies elsewhere, as in a container or an image, and () for features
    that need none.
    """
    asked = driver_listing.list_driver_file_questions(policy)
    if driver.state != "ok" or not asked or not _read_own_driver(policy, obs, driver.version):
        return ()
    facts = discover.read_driver_file_facts(policy, obs)
    features = policy.cdi_features or catalogue.FEATURES
    files = discover.find_driver_files(facts, features, driver.version)
    return () if files.obstacles else select_core_libraries(files.missing)


def _read_own_driver(policy: Policy, obs: Observation, version: str) -> bool:
    """Read whether a driver is the host's own: a library of its release is in a usual folder, or a
    package of the host has brought its module.
    """
    listing = driver_listing.list_matches(policy, obs)
    if any(m.type == "file" and m.usual and m.name.endswith(f".so.{version}") for m in listing):
        return True
    if policy.driver == "ignore" or policy.single:
        return False
    try:
        packages = driver_packages.read_driver_set(policy, obs).packages
    except QueryFailed:  # which the advice on the driver says
        return False
    return any(p.part == "module" and p.release == version for p in packages)


def _get_image_step(obs: Observation) -> str:
    """Return what to do on a host of an image whose driver no driver root can name; "" on others.

    No package is installed there, and the driver lies where that image has its place for it.
    """
    image = managers_known.find_image_manager(obs)
    if image is None or image.driver_in_one_root or image.left_alone is None:
        return ""
    return image.left_alone.next


def require_libraries(of: DriverPart, version: str, writes: Iterable[Plan]) -> None:
    """Raise PlanError if a spec would give containers GPUs and nothing that can use them.

    nvidia-ctk makes no spec then either.
    """
    if of.bare and any(planned.changes for planned in writes):
        if of.obstacles:
            causes = join_texts("; ", (cause.drop_step() for cause in of.obstacles))
            raise PlanError(
                messages.LIBRARIES_OUT_OF_REACH.fill(version=version, causes=causes),
                next=join_texts(". ", dict.fromkeys(cause.next for cause in of.obstacles)),
            )
        values = {"version": version, "missing": ", ".join(of.missing[:2])}
        if of.image_step:
            raise PlanError(messages.NO_LIBRARIES_OF_IMAGE.fill(**values), next=of.image_step)
        raise PlanError(messages.NO_LIBRARIES.fill(**values))
