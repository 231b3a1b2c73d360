# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List which paths may be told of what a runtime says: files of the driver and programs of the
toolkit, in folders that this collection itself asks for.
"""

from __future__ import annotations

import posixpath
import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
)

# A folder in which a look asks for the driver's files, in its own tree too, or in which the
# toolkit's programs are. Each part of it is one of these words, so no folder is told that a host
# has of its own.
FOLDER_NAMES = sorted(
    {
        part
        for folder in (
            *catalogue.FOLDERS,
            *catalogue.FOLDERS_32,
            *catalogue.PROGRAM_FOLDERS,
            *catalogue.FIRMWARE_ROOTS,
            *catalogue.XORG_ROOTS,
            *catalogue.XORG_FOLDERS,
            *catalogue.XORG_IN_LIBRARIES,
            *catalogue.CONFIG_ROOTS,
            *map(posixpath.dirname, catalogue.CONFIGS),
            *catalogue.SOCKET_ROOTS,
            f"/run/nvidia/driver/dev/{catalogue.VDPAU}/nvidia-caps",
            "/usr/local/nvidia/toolkit",
            "/run/current-system/sw",
        )
        for part in folder.split("/")
        if part and "*" not in part
    }
)
# Debian's flavours of the driver, and a release of it, which is a folder of firmware.
FOLDER = (
    rf"/(?:(?:{'|'.join(map(re.escape, FOLDER_NAMES))}|(?:current|tesla|legacy)(?:-\d{{1,4}}(?:xx)?)?"
    r"|\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)/){0,10}"
)
# A file of the driver, as a CDI spec mounts it. No path of another file is told, but those of the
# toolkit's programs.
DRIVER_NAME = (
    r"(?:lib(?:nvidia|cuda|nv|EGL|GL|vdpau)[\w.+-]{0,255}|nvidia(?!-c(?:ontainer|tk|di))[\w.+-]{0,255}"
    r"|gsp_\w{1,64}\.bin|nvoptix\.bin)"
)
DRIVER_FILE = FOLDER + DRIVER_NAME
