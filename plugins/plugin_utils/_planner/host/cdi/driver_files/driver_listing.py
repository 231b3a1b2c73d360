# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List what a host has in the places of the driver's files: what is asked, and the entries of the
answer.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    manifest,
    roots,
)

DRI = "/dev/dri"
BITS_32 = tuple(folder.partition("*")[0].rstrip("/") for folder in catalogue.FOLDERS_32)


@dc.dataclass(frozen=True)
class Match:
    """An entry of the listing.

    path: its place in the listing. spot: that place with the links of its folders resolved. real:
    the place that it leads to, '' for nowhere. untrusted: why accounts besides root can change what
    is there, '' if they cannot, or if the listing was not asked for it.
    """

    path: str
    spot: str
    real: str
    type: str
    mode: int
    untrusted: str = ""

    @functools.cached_property
    def folder(self) -> str:
        return posixpath.dirname(self.spot)

    @functools.cached_property
    def name(self) -> str:
        return posixpath.basename(self.spot)

    @functools.cached_property
    def usual(self) -> bool:
        """Tell whether it is in a 64-bit folder itself, and not in one beneath it."""
        return (
            posixpath.basename(self.folder) != catalogue.VDPAU
            and not is_32(self.path)
            and not is_xorg(self.path)
        )

    @property
    def is_link(self) -> bool:
        return self.real != self.spot


def list_driver_file_questions(policy: Policy) -> list[queries.Question]:
    """List the questions. The `devices` profile needs none."""
    if policy.cdi_profile == "devices":
        return []
    return [
        ask_for_driver_listing(policy),
        ask_for_dri_links(policy),
        ask_for_driver_manifest(policy),
        ask_for_firmware_folder(policy),
    ]


def ask_for_driver_listing(policy: Policy) -> queries.Question:
    return queries.ask_for_paths(
        "driver files" + (", 32-bit ones too" if policy.cdi_compat32 else ""),
        list_driver_patterns(policy),
        policy.cdi_driver_root,
    )


def ask_for_firmware_folder(policy: Policy) -> queries.Question:
    """Ask for the folder in which the kernel looks for firmware before all others."""
    path = f"{policy.sys_root.rstrip('/')}/{catalogue.FIRMWARE_FOLDER}"
    return queries.ask_for_file(path, max=catalogue.LONGEST_FOLDER, keep=WHOLE)


def get_firmware_folder(policy: Policy, obs: Observation) -> str:
    """Return that folder as the driver root sees it; "" if none is set, or if it is a usual one.

    A driver container sets it to the folder in its own tree.
    """
    text = obs.get_text(ask_for_firmware_folder(policy)["path"]).strip()
    if not is_one_folder(text):
        return ""
    folder = roots.get_path_inside_root(policy.cdi_driver_root, host_paths.clean_host_path(text))
    return "" if folder in catalogue.FIRMWARE_ROOTS else folder


def is_one_folder(text: str) -> bool:
    """Tell whether a text of the host is the absolute path of one folder, and no pattern of many."""
    return text.startswith("/") and not set(text) & set("*?[\n")


def ask_for_firmware(policy: Policy, folder: str) -> queries.Question:
    return queries.ask_for_paths(
        f"firmware in {folder}",
        list_firmware_patterns(folder),
        policy.cdi_driver_root,
        trust=True,
    )


def list_firmware_patterns(folder: str) -> list[str]:
    return [f"{folder}/nvidia/*/{name}" for name in catalogue.FIRMWARE_NAMES]


def ask_for_driver_manifest(policy: Policy) -> queries.Question:
    return queries.ask_for_file(
        roots.get_path_beneath_root(policy.cdi_driver_root, manifest.PATH),
        max=manifest.LARGEST,
        keep=WHOLE,
    )


def read_driver_manifest(policy: Policy, obs: Observation) -> tuple[manifest.ListedDriverFile, ...]:
    """Return the driver's own list; () if it ships none or one in another form, since names and
    folders tell nearly as much.
    """
    content = obs.get_text(ask_for_driver_manifest(policy)["path"])
    try:
        return manifest.parse_driver_manifest(content) if content else ()
    except ValueError:
        return ()


def ask_for_dri_links(policy: Policy) -> queries.Question:
    return queries.ask_for_paths("DRM links", [f"{DRI}/by-path/pci-*"], policy.cdi_dev_root)


def map_dri_links(policy: Policy, obs: Observation) -> dict[str, list[tuple[str, str]]]:
    """Map each DRM node to its names by bus, as target and path of a symbolic link."""
    if not list_driver_file_questions(policy):
        return {}
    links: dict[str, list[tuple[str, str]]] = {}
    for f in obs.get_answer(ask_for_dri_links(policy)).get("files") or ():
        if f["real"] and f["real"] != f["path"]:
            links.setdefault(f["real"], []).append(
                (posixpath.relpath(f["real"], posixpath.dirname(f["path"])), f["path"])
            )
    return links


def list_driver_patterns(policy: Policy) -> list[str]:
    """List the patterns of paths to ask for, the most believed place first."""
    folders = (*catalogue.FOLDERS, *(catalogue.FOLDERS_32 if policy.cdi_compat32 else ()))
    libraries = [f"{folder}/{name}" for folder in folders for name in catalogue.LIBRARY_NAMES]
    vdpau = [f"{folder}/{catalogue.VDPAU}/libvdpau_nvidia.so*" for folder in folders]
    programs = [f"{folder}/nvidia-*" for folder in catalogue.PROGRAM_FOLDERS]
    firmware = [
        pattern for root in catalogue.FIRMWARE_ROOTS for pattern in list_firmware_patterns(root)
    ]
    configs = [f"{root}/{name}" for name in catalogue.CONFIGS for root in catalogue.CONFIG_ROOTS]
    sockets = [f"{root}{name}" for name in catalogue.SOCKETS for root in catalogue.SOCKET_ROOTS]
    # GKE's driver root has them at its top
    trees = [f"/{name}" for name in catalogue.CONFIGS if name.startswith("vulkan/")]
    return [
        *libraries,
        *vdpau,
        *list_xorg_patterns(),
        *programs,
        *firmware,
        *configs,
        *trees,
        *sockets,
        catalogue.MPS,
    ]


def list_xorg_patterns() -> list[str]:
    names = (catalogue.XORG_DRIVER, f"{catalogue.XORG_SERVER}*")
    inside = [
        f"{folder}/{part}"
        for folder in catalogue.FOLDERS[:5]
        for part in catalogue.XORG_IN_LIBRARIES
    ]
    outside = [f"{root}/{part}" for root in catalogue.XORG_ROOTS for part in catalogue.XORG_FOLDERS]
    return [f"{folder}/{name}" for folder in (*inside, *outside) for name in names]


def list_matches(policy: Policy, obs: Observation) -> tuple[Match, ...]:
    """List the entries of the listing."""
    return tuple(
        build_match(f) for f in obs.get_answer(ask_for_driver_listing(policy)).get("files") or ()
    )


def build_match(answer: Mapping[str, Any]) -> Match:
    """Build the entry of a file as a host answers it."""
    return _get_match(
        answer["path"],
        answer.get("spot") or answer["path"],
        answer["real"] or "",
        answer["type"],
        answer["mode"],
        answer.get("untrusted") or "",
    )


_get_match = functools.lru_cache(maxsize=8192)(
    Match
)  # the hosts of a fleet have mostly the same files


def is_32(path: str) -> bool:
    return posixpath.dirname(path) in BITS_32 or path.startswith(f"{BITS_32[0]}/")


def is_xorg(path: str) -> bool:
    return "/xorg/" in path or path.startswith("/usr/X11R6/")
