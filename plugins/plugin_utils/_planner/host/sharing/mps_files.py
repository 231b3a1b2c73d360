# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the files that stay on a host for its MPS daemons: the units, the same for each GPU, and the
settings.

systemd never reloads for this (host_service), so the unit is one template whose text stays. The
settings have the differences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    host_service,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    modes,
    mps_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.mps_limits import (
    Limits,
)

NAME = "mps"
PROGRAM_NAME = "mps"  # of the program that stays on the host (module_utils/_host/resident)
CONTROL = "nvidia-cuda-mps-control"
TEMPLATE, PLACES = TEMPLATES = (f"gpufleet-{NAME}@.service", f"gpufleet-{NAME}-places@.service")
SETTINGS = host_service.get_settings_path(NAME)
AT_BOOT, PATIENCE = 60, 90  # seconds
# Directories that containers write to, by limit and mode: root of one may fill it, and must not
# fill /run with it. NVIDIA's device plugin gives shm 64 MiB (k8s-device-plugin,
# cmd/mps-control-daemon/mount), as much as Docker gives to one container; here it is for all of a
# GPU. Each file, an empty one as well, takes some 800 bytes of the kernel's memory, which no size
# counts. The daemon logs each command of each client, and no program rotates that: root of a
# container could fill /var by asking.
MOUNTED = "rw,nosuid,nodev,noexec"
TMPFS: Mapping[str, tuple[str, str]] = {
    "pipe": ("size=1m,nr_inodes=1k", "0755"),
    "shm": ("size=1g,nr_inodes=64k", "1777"),
    "log": ("size=16m,nr_inodes=64", "0755"),
}
LOGGED = 4 << 20  # bytes of a log that the next daemon adds to; a longer one goes when it begins


def name_mps_service(gpu: str) -> str:
    return TEMPLATE.replace("@", f"@{gpu}")


def render_mps_units() -> dict[str, str]:
    """Return the texts of the two units, which are the same for every GPU.

    A unit of its own makes the places: a mount that a fenced unit makes is invisible to others. The
    daemon starts servers with the user ids of their clients, and works with the driver's nodes, so
    it stays root and may open these nodes. It may open no others, since root of a container can put
    a link to a disk in a directory that the daemon writes to.
    """

    def run(verb: str) -> str:
        return host_service.write_exec_start(NAME, verb, "%i")

    places = " ".join(mps_places.get_mps_directory("%i", kind) for kind in ("pipe", "log"))
    making = PLACES.replace("@", "@%i")
    return {
        PLACES: (
            "# Written by gpufleet.nvidia.\n"
            "[Unit]\nDescription=Directories of the CUDA MPS control daemon of %i\nAfter=systemd-modules-load.service local-fs.target\n\n"
            f"[Service]\nType=oneshot\nTimeoutStartSec={AT_BOOT}\nExecStart={run('prepare')}\n"
        ),
        TEMPLATE: (
            "# Written by gpufleet.nvidia.\n"
            f"[Unit]\nDescription=CUDA MPS control daemon of %i\nRequires={making}\n"
            f"After={making} {modes.AFTER} {modes.SERVICE}\nBefore={host_service.BEFORE}\n\n"
            f"[Service]\nType=simple\nExecStart={run('serve')}\nExecStartPost={run('settle')}\nExecStop={run('quit')}\n"
            f"Restart=on-failure\nRestartSec=5\nTimeoutStartSec={AT_BOOT}\nTimeoutStopSec={PATIENCE + 30}\nKillMode=mixed\n"
            "NoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nProtectKernelTunables=yes\n"
            "ProtectKernelModules=yes\nProtectControlGroups=yes\nRestrictAddressFamilies=AF_UNIX AF_NETLINK\nRestrictRealtime=yes\n"
            "LockPersonality=yes\nDevicePolicy=closed\nDeviceAllow=char-nvidia* rw\n"
            f"ReadWritePaths={places}\nBindPaths={mps_places.get_mps_directory('%i', 'shm')}:/dev/shm\n"
        ),
    }


def get_daemon_limits(limits: Limits) -> dict[str, Any]:
    """Return the limits of one daemon.

    How it prints a limit of memory is not documented, so that is asked for and not compared.
    """
    daemon_limits: list[dict[str, Any]] = []
    if limits.threads:
        threads = "default_active_thread_percentage"
        daemon_limits.append(
            {
                "set": f"set_{threads} {limits.threads}",
                "get": f"get_{threads}",
                "number": limits.threads,
            }
        )
    if limits.memory:
        # by the GPU's place among the daemon's, and a daemon sees one GPU
        pinned = "default_device_pinned_mem_limit"
        daemon_limits.append(
            {"set": f"set_{pinned} 0 {limits.memory}M", "get": f"get_{pinned} 0", "number": None}
        )
    return {"limits": daemon_limits, "policy": limits.text}


def render_mps_settings(daemons: Mapping[str, Any]) -> str:
    settings: dict[str, Any] = {
        "schema": 1,
        "writer": "gpufleet.nvidia",
        # The first is started again if its program has found a transaction under way; a transaction
        # waits for either.
        "units": [PLACES.replace("@", "@NAME"), TEMPLATE.replace("@", "@NAME")],
        "program": CONTROL,
        "asked": "get_default_active_thread_percentage",  # any answer shows that the daemon serves
        "seconds": 20,
        "patience": PATIENCE,
        "places": {kind: mps_places.get_mps_directory("NAME", kind) for kind in mps_places.KINDS},
        "logged": LOGGED,
        "mounts": {
            kind: {"options": f"{MOUNTED},{limit}", "mode": mode}
            for kind, (limit, mode) in TMPFS.items()
        },
        "majors": "/proc/devices",
        "module": "nvidia-uvm",
        "device": "nvidia-uvm",
        "environment": {"CUDA_VISIBLE_DEVICES": "NAME", **mps_places.get_mps_environment("NAME")},
        "daemons": daemons,
    }
    return json.dumps(settings, indent=1, sort_keys=True) + "\n"
