# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect a host that is itself a system container (LXC, Incus, systemd-nspawn), and give its remedy.

Its kernel, driver and device nodes are those of the host outside. Inside it no module can be loaded and
no node can be made, so it needs another remedy than other hosts.
"""

from __future__ import annotations

import dataclasses as dc
import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Driver, Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections.file_places import WHOLE

# systemd writes its kind of container there (systemd.io/CONTAINER_INTERFACE). WSL has this file as well, and does not count.
MARK = "/run/systemd/container"
NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
NOT_COUNTED = ("wsl",)
GIVE = (
    "give this container the device nodes and allow their majors there (Incus and LXD: a device of the type gpu; LXC: lxc.mount.entry and "
    "lxc.cgroup2.devices.allow; Proxmox VE: dev0 and so on; systemd-nspawn: --bind and DeviceAllow=)"
)


def questions(policy: Policy) -> list[queries.Question]:
    return [queries.file(MARK, max=1 << 10, keep=WHOLE)] if _may_be(policy) else []


def kind(policy: Policy, obs: Observation) -> str:
    """Return the kind of container that this host is, as systemd has it. '' for any other host."""
    if not _may_be(policy):
        return ""
    file = obs.file(MARK, WHOLE)
    name = "" if file.error else file.text.strip()
    return name if NAME.fullmatch(name) and name not in NOT_COUNTED else ""


def _may_be(policy: Policy) -> bool:
    """Tell whether this host may be a container.

    With another procfs, its provider knows better what describes the GPUs. A tree has this mark if it is the root of such a container.
    """
    return policy.proc_root == "/proc"


def with_remedy(driver: Driver, name: str) -> Driver:
    """Add to the driver what helps inside such a container.

    name: the container's kind. '' for any other host.
    """
    if not name or driver.state not in ("not-loaded", "broken"):
        return driver
    first = "Load the driver there" if driver.state == "not-loaded" else "Have the driver work there, with libraries of its version here"
    return dc.replace(driver, remedy=f"This host is a container ({name}) with the kernel of the host outside. {first}, and {GIVE}")


def hook_advice(name: str) -> str:
    """Advise on the prestart hook: it changes device rules, which an unprivileged container may not (libnvidia-container#154)."""
    return (
        f"This host is a container ({name}), and the prestart hook may not change device rules in an unprivileged one (failed to add "
        f"device rules). Leave gpufleet_injection and gpufleet_cdi at auto, or set nvidia-container-cli.no-cgroups = true and {GIVE}"
    )


def nodes_remedy(name: str) -> str:
    return f"This host is a container ({name}). On the host outside, {GIVE}; then run again"
