# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the three versions of a driver, and name the files that differ and the remedy.

These are the versions of the loaded kernel module, of the libraries, and of the module that the
next boot loads. They come from one package set and have to be equal. After an upgrade without a
reboot they differ: NVML answers error 18, and every container with a GPU fails with "Driver/library
version mismatch". This module runs no program: the version in a module file is found only by
reading it whole, but DKMS keeps each build in a folder named after version and kernel.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import messages

# Debian calls the module nvidia-current. Ubuntu's signed modules lie in a folder named after the
# branch, RHEL's in extra or weak-updates. NVIDIA's precompiled ones for RHEL have a folder of their
# own there (kmod-nvidia.spec in yum-packaging-precompiled-kmod), SUSE's lie in updates
# (nvidia-open-driver-G06.spec), Gentoo's in video, Arch's in extramodules.
BUILDS = (
    "/var/lib/dkms/nvidia*/*/*/*/module/nvidia.ko*",
    "/var/lib/dkms/nvidia*/*/*/*/module/nvidia-current.ko*",
)
INSTALLED = (
    "/lib/modules/*/updates/dkms/nvidia.ko*",
    "/lib/modules/*/updates/dkms/nvidia-current.ko*",
    "/lib/modules/*/kernel/nvidia-*/nvidia.ko*",
    "/lib/modules/*/kernel/drivers/video/nvidia.ko*",
    "/lib/modules/*/extra/nvidia.ko*",
    "/lib/modules/*/extra/*/nvidia.ko*",
    "/lib/modules/*/extra/drivers/video/nvidia/nvidia.ko*",
    "/lib/modules/*/extramodules/nvidia.ko*",
    "/lib/modules/*/updates/nvidia.ko*",
    "/lib/modules/*/video/nvidia.ko*",
    "/lib/modules/*/weak-updates/*/nvidia.ko*",
)
NAME = "kernel modules"
BUILD = re.compile(r"/dkms/nvidia[^/]*/([0-9]{1,9}(?:\.[0-9]{1,9}){1,2})/([^/]+)/[^/]+/module/")
KERNEL = re.compile(r"/lib/modules/([^/]+)/")


@dc.dataclass(frozen=True)
class Modules:
    """The kernel modules on disk.

    built: version -> file, for the running kernel, if the version is known. kernels: the kernels
    that have a module. builds: kernel -> the versions that are built for it, as far as known.
    """

    kernel: str  # "" in a tree, in which none runs
    built: Mapping[str, str]
    kernels: frozenset[str]
    builds: Mapping[str, frozenset[str]] = dc.field(default_factory=dict)


NO_MODULES = Modules("", {}, frozenset())


@dc.dataclass(frozen=True)
class Mismatch:
    """A mismatch of module and libraries.

    broken: containers cannot work now. message: the finding with its remedy; '' if there is no
    mismatch.
    """

    broken: bool = False
    message: str = ""


def list_mismatch_questions() -> list[queries.Question]:
    return [queries.ask_for_paths(NAME, [*BUILDS, *INSTALLED])]


def read_disk_modules(obs: Observation) -> Modules:
    kernel = str(obs.host.get("kernel") or "")
    built, kernels = {}, set()
    builds: dict[str, set[str]] = {}
    for file in obs.get_answer(list_mismatch_questions()[0]).get("files") or ():
        if not file.get("real"):  # a link of weak-modules(8) to a kernel that is gone
            continue
        path = str(file.get("path"))
        build, place = BUILD.search(path), KERNEL.search(path)
        if build:
            kernels.add(build[2])
            builds.setdefault(build[2], set()).add(build[1])
            if build[2] == kernel:
                built[build[1]] = path
        elif place:
            kernels.add(place[1])
    known = {name: frozenset(versions) for name, versions in builds.items()}
    return Modules(kernel, built, frozenset(kernels), known)


def compare(loaded: str, where: str, libraries: Mapping[str, str], disk: Modules) -> Mismatch:
    """Apply the decision table, row by row.

    loaded: the module's version as `where` shows it. libraries: file -> version.
    """
    versions = sorted(set(libraries.values()))
    if not versions:
        return Mismatch()
    if loaded not in versions:
        return describe_mismatch(loaded, where, libraries, disk)
    if len(versions) > 1:
        others = ", ".join(path for path, version in sorted(libraries.items()) if version != loaded)
        return Mismatch(message=messages.OTHER_LIBRARIES.fill(loaded=loaded, paths=others))
    if disk.built and loaded not in disk.built:
        version, path = find_newest_module(disk.built)
        return Mismatch(
            message=messages.OTHER_MODULE_AFTER_REBOOT.fill(
                loaded=loaded, version=version, path=path
            )
        )
    if is_running_module_missing(disk):
        return Mismatch(
            message=messages.NO_MODULE_AFTER_REBOOT.fill(version=loaded, **map_kernels(disk))
        )
    return Mismatch()


def describe_mismatch(
    loaded: str, where: str, libraries: Mapping[str, str], disk: Modules
) -> Mismatch:
    """Return the mismatch of a loaded module and other libraries. The module that a reboot would
    load decides the remedy.
    """
    library, version = sorted(libraries.items())[0]
    files = {"loaded": loaded, "where": where, "version": version, "library": library}
    if version in disk.built:
        return Mismatch(True, messages.REBOOT_DUE.fill(**files, module=disk.built[version]))
    if disk.built:
        newest, path = find_newest_module(disk.built)
        return Mismatch(
            True,
            messages.MODULE_ON_DISK_DIFFERS.fill(
                **files, found=newest, module=path, kernel=disk.kernel
            ),
        )
    if is_running_module_missing(disk):
        return Mismatch(True, messages.NO_MODULE_FOR_KERNEL.fill(**files, **map_kernels(disk)))
    named = f"kernel {disk.kernel}" if disk.kernel else "the kernel in use"
    return Mismatch(True, messages.VERSIONS_DIFFER.fill(**files, kernel=named))


def is_running_module_missing(disk: Modules) -> bool:
    """Tell whether other kernels have a module and the running one has none."""
    return bool(disk.kernel and disk.kernels) and disk.kernel not in disk.kernels


def map_kernels(disk: Modules) -> dict[str, str]:
    """Return the values of a message about a kernel without a module."""
    return {"kernel": disk.kernel, "kernels": ", ".join(sorted(disk.kernels))}


def find_newest_module(built: Mapping[str, str]) -> tuple[str, str]:
    return max(built.items(), key=lambda item: split_version(item[0]))


def split_version(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
