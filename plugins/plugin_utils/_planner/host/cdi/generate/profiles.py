# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the files of the driver that go into containers, and the way there, by one of three
profiles.

- `full` is what nvidia-ctk writes: every file at its own path, and hooks of
  nvidia-cdi-hook that make links and the loader's cache.
- `hookless` needs no program on the host and no writable root in the container: each
  library is mounted under the names by which programs load it, in folders that the loaders of
  Debian's and of Red Hat's family search without a cache. No LD_LIBRARY_PATH is set, because env of
  a CDI spec replaces the image's own, which the CUDA images need.
- `devices` is the nodes only, for images that carry their own driver libraries.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files.discover import (
    DriverFile,
    DriverFiles,
    DriverLibrary,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    hooks as generate_hooks,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate.hooks import (
    HookProgram,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Edits,
    Hook,
    Mount,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

Profile = Literal["full", "hookless", "devices"]
READ_ONLY = ("ro", "nosuid", "nodev", "rbind", "rprivate")
SOCKET = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
LIBCUDA_DIR = "NVIDIA_CTK_LIBCUDA_DIR"
# Links that programs rely on whether the host has them or not: libcuda.so is opened by that name,
# GLX asks for the indirect one.
ALWAYS = {
    "libcuda": ("libcuda.so.1", "libcuda.so"),
    "libGLX_nvidia": ("", "libGLX_indirect.so.0"),
    "libnvidia-opticalflow": ("libnvidia-opticalflow.so.1", "libnvidia-opticalflow.so"),
}
# Folders in which loaders look without a cache, whatever the image: Debian's family, and all
# others.
LOADER_FOLDERS = ("/usr/lib/{cpu}-linux-gnu", "/usr/lib64")
LOADER_FOLDERS_32 = ("/usr/lib/i386-linux-gnu", "/usr/lib")


@dc.dataclass(frozen=True)
class MountPlan:
    """The way in which files get into containers on this host."""

    profile: Profile = "devices"
    program: HookProgram | None = None
    driver_root: str = "/"
    cpu: str = "x86_64"
    agents: bool = False  # of containers that configure GPUs: they may make nodes, and draw nothing


def mount_plan(
    policy: Policy, facts: generate_hooks.HookProgramFacts, machine: str, record: HostDecision
) -> MountPlan:
    """Choose the profile and its program.

    `auto` is full if its program is at hand, as nvidia-ctk and everyone else writes it; else
    hookless, which needs none. Raise PlanError if full is asked for without the program.
    """
    program, wanted = generate_hooks.find_hook_program(policy, facts, record), policy.cdi_profile
    if wanted == "full" and not program:
        raise PlanError(
            messages.NO_CDI_HOOK.fill(program=generate_hooks.PROGRAM, package=packages.BASE)
        )
    profile: Profile = wanted if wanted != "auto" else "full" if program else "hookless"
    agents = policy.cdi_layout == layouts.MANAGEMENT
    return MountPlan(profile, program, policy.cdi_driver_root, machine, agents)


@functools.lru_cache(maxsize=64)  # hosts with the same files get the same
def build_common_edits(driver: DriverFiles, how: MountPlan) -> Edits:
    """Return what every container with a GPU gets of the driver's files."""
    if how.profile == "devices" or not driver.libraries:
        return Edits()
    driver = drop_drawing_files(driver) if how.agents else driver
    made = (
        build_full_edits(driver, how)
        if how.profile == "full"
        else build_hookless_edits(driver, how.cpu)
    )
    return roots.place_edits_in_roots(made, how.driver_root)


def drop_drawing_files(driver: DriverFiles) -> DriverFiles:
    """Return the files without what only drawing programs need, as upstream's management mode does."""
    programs = tuple(
        b
        for b in driver.binaries
        if catalogue.BINARIES.get(posixpath.basename(b.container)) != "display"
    )
    return dc.replace(driver, platforms=(), xorg=(), files=(), binaries=programs)


def build_gpu_link_edits(
    drm: Iterable[str], links: Mapping[str, Iterable[tuple[str, str]]], how: MountPlan
) -> Edits:
    """Return a GPU's own links, by which its DRM nodes are found by bus.

    Only hooks can make links in a container, so other profiles have none.
    """
    arguments = [f"{target}::{link}" for node in drm for target, link in links.get(node, ())]
    if how.profile != "full" or not how.program or not arguments:
        return Edits()
    return Edits(
        hooks=(
            build_symlink_hook(how.program, sorted(arguments, key=lambda a: a.partition("::")[2])),
        )
    )


# ---------------------------------------------------------------- full


def build_full_edits(driver: DriverFiles, how: MountPlan) -> Edits:
    libraries = (
        Mount(lib.path, lib.path, READ_ONLY) for lib in (*driver.platforms, *driver.libraries)
    )
    mounts = [
        *libraries,
        *(Mount(f.path, f.container, READ_ONLY) for f in driver.xorg),
        *list_other_mounts(driver),
    ]
    env = (f"{LIBCUDA_DIR}={':'.join(driver.folders)}",) if driver.folders else ()
    return Edits(env=env, mounts=sort_mounts(mounts), hooks=tuple(list_profile_hooks(driver, how)))


def list_profile_hooks(driver: DriverFiles, how: MountPlan) -> Iterator[Hook]:
    """Yield the hooks in upstream's order: links and the compatibility libraries before the cache."""
    program = how.program
    if program is None:
        return
    for links in ([] if how.agents else list_graphics_links(driver), list_library_links(driver)):
        if links:
            yield build_symlink_hook(program, links)
    if program.has_command("enable-cuda-compat"):
        yield program.build_hook("enable-cuda-compat", [f"--host-driver-version={driver.version}"])
    folders = dict.fromkeys(lib.folder for lib in driver.libraries)
    if folders:
        yield program.build_hook(
            "update-ldcache", [word for folder in folders for word in ("--folder", folder)]
        )
    for command in (
        () if how.agents else ("disable-device-node-modification", "update-application-profile")
    ):
        if program.has_command(command):
            yield program.build_hook(command)


def build_symlink_hook(program: HookProgram, links: Iterable[str]) -> Hook:
    return program.build_hook(
        "create-symlinks", [word for link in links for word in ("--link", link)]
    )


def list_graphics_links(driver: DriverFiles) -> list[str]:
    """List the links that loaders of graphics look for and that ldconfig does not make."""
    by_stem = {
        lib.stem: lib for lib in driver.libraries if not lib.folder.endswith(f"/{catalogue.VDPAU}")
    }
    links = []
    allocator, producer = (
        by_stem.get("libnvidia-allocator"),
        by_stem.get("libnvidia-vulkan-producer"),
    )
    if allocator:
        links.append(f"../libnvidia-allocator.so.1::{allocator.folder}/gbm/nvidia-drm_gbm.so")
    if producer:
        links.append(f"{producer.name}::{producer.folder}/libnvidia-vulkan-producer.so")
    for file in driver.xorg:
        folder, name = posixpath.split(file.container)
        if name.startswith(f"{catalogue.XORG_SERVER}."):
            links.append(f"{name}::{folder}/{catalogue.XORG_SERVER}")
    return links


def list_library_links(driver: DriverFiles) -> list[str]:
    links: list[str] = []
    for lib in driver.libraries:
        if lib.stem in ALWAYS:
            target, link = ALWAYS[lib.stem]
            links.append(f"{target or lib.name}::{lib.folder}/{link}")
        if lib.soname:
            links.append(f"{lib.name}::{lib.folder}/{lib.soname}")
        if lib.dot_so:
            links.append(f"{lib.soname or lib.name}::{lib.folder}/{lib.dot_so}")
    return list(dict.fromkeys(links))


# ---------------------------------------------------------------- hookless


def build_hookless_edits(driver: DriverFiles, cpu: str) -> Edits:
    mounts: dict[str, Mount] = {}
    for lib in (*driver.platforms, *driver.libraries):
        for folder in list_loader_folders(lib, cpu):
            for name in list_library_names(lib):
                path = f"{folder}/{name}"
                mounts.setdefault(path, Mount(lib.path, path, READ_ONLY))
    allocator = next((lib for lib in driver.libraries if lib.stem == "libnvidia-allocator"), None)
    if allocator:
        backends = [
            f"{folder}/gbm/nvidia-drm_gbm.so" for folder in list_loader_folders(allocator, cpu)
        ]
        mounts.update({path: Mount(allocator.path, path, READ_ONLY) for path in backends})
    for mount in (
        *(Mount(f.path, strip_file_version(f.container), READ_ONLY) for f in driver.xorg),
        *list_other_mounts(driver),
    ):
        mounts.setdefault(mount.container_path, mount)
    return Edits(mounts=sort_mounts(mounts.values()))


def list_loader_folders(lib: DriverLibrary, cpu: str) -> tuple[str, ...]:
    """Return the folders for a library, the same place in both families of images."""
    beneath = f"/{catalogue.VDPAU}" if lib.folder.endswith(f"/{catalogue.VDPAU}") else ""
    bits_32 = any(lib.folder == folder.rstrip("/*") for folder in catalogue.FOLDERS_32)
    return tuple(
        folder.format(cpu=cpu) + beneath
        for folder in (LOADER_FOLDERS_32 if bits_32 else LOADER_FOLDERS)
    )


def list_library_names(lib: DriverLibrary) -> list[str]:
    """List every name by which programs load a library, that of its file if it has no other."""
    known = catalogue.LIBRARIES.get(lib.stem)
    soname = lib.soname or (known.soname if known else "") or lib.name
    return list(
        dict.fromkeys(
            [
                soname,
                *([lib.dot_so] if lib.dot_so else []),
                *([ALWAYS[lib.stem][1]] if lib.stem in ALWAYS else []),
            ]
        )
    )


def strip_file_version(path: str) -> str:
    """Return a path without the version: the X server loads its modules by such names."""
    return f"{path.partition('.so')[0]}.so"


# ---------------------------------------------------------------- both


def list_other_mounts(driver: DriverFiles) -> Iterator[Mount]:
    files: tuple[DriverFile, ...] = (*driver.files, *driver.firmware, *driver.binaries)
    yield from (Mount(f.path, f.container, READ_ONLY) for f in files)
    yield from (Mount(f.path, f.container, SOCKET) for f in driver.sockets)


def sort_mounts(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Sort folders before what lies in them, so no mount hides another."""
    return tuple(sorted(mounts, key=lambda m: (m.container_path.count("/"), m.container_path)))
