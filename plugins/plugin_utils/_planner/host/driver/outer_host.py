# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect a host that is itself a system container (LXC, Incus, systemd-nspawn), and give its
remedy.

Its kernel, driver and device nodes are those of the host outside. Inside it no module can be loaded
and no node can be made, so it needs another remedy than other hosts.
"""

from __future__ import annotations

import dataclasses as dc
import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import messages

# systemd writes its kind of container there (systemd.io/CONTAINER_INTERFACE). WSL has this file as
# well, and does not count.
MARK = "/run/systemd/container"
NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
NOT_COUNTED = ("wsl",)


def list_outer_host_questions(policy: Policy) -> list[queries.Question]:
    return [queries.ask_for_file(MARK, max=1 << 10, keep=WHOLE)] if _may_be(policy) else []


def get_outer_host_kind(policy: Policy, obs: Observation) -> str:
    """Return the kind of container that this host is, as systemd has it. '' for any other host."""
    if not _may_be(policy):
        return ""
    file = obs.get_file(MARK, WHOLE)
    name = "" if file.error else file.text.strip()
    return name if NAME.fullmatch(name) and name not in NOT_COUNTED else ""


def _may_be(policy: Policy) -> bool:
    """Tell whether this host may be a container.

    With another procfs, its provider knows better what describes the GPUs. A tree has this mark if
    it is the root of such a container.
    """
    return policy.proc_root == "/proc"


def add_outer_host_remedy(driver: Driver, name: str) -> Driver:
    """Add to the driver what helps inside such a container.

    name: the container's kind. '' for any other host.
    """
    if not name or driver.state not in ("not-loaded", "broken"):
        return driver
    row = messages.LOAD_OUTSIDE if driver.state == "not-loaded" else messages.REPAIR_OUTSIDE
    return dc.replace(driver, remedy=row.fill(kind=name))


def advise_on_hook_in_container(name: str) -> Message:
    """Advise on the prestart hook: it changes device rules, which an unprivileged container may not
    (libnvidia-container#154).
    """
    return messages.HOOK_IN_CONTAINER.fill(kind=name)


def suggest_nodes_remedy(name: str) -> Message:
    return messages.NODES_OUTSIDE.fill(kind=name)
