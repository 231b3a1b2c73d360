# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether a spec may use a mount to tell the NVIDIA runtime "no devices".

nvidia-ctk's specs do so from 1.20.2 on.

The mount is for hosts on which the runtime accepts requests by mounts: there it keeps the runtime
from adding GPUs beside the ones that the engine has given by CDI. Releases read it so
(internal/config/image/cuda_image.go; tests/integration/test_void_mount.py runs 1.17.8, 1.19.1 and
1.20.2):

- where mounts are not accepted, all of them pass over it;
- where they are, 1.20.2 and later take it for "no devices", while 1.20.1 and 1.17.8 take `void` for
  the name of a device, and a container whose GPUs the engine has given does not start with that
  runtime.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HostDecision,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    hooks,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)

SINCE = versions.Version(1, 20, 2)


def is_safe(
    policy: Policy,
    facts: hooks.HookProgramFacts,
    runtime: toolkit_config.ToolkitConfigFacts,
    host: HostDecision,
) -> bool:
    """Tell whether the mount is safe on the host as the plan leaves it.

    A toolkit of unknown release counts as one that does not know the mount.
    """
    toolkit = hooks.get_toolkit_after_run(policy, facts, host)
    return not accepts_mount_requests(runtime, host) or (toolkit is not None and toolkit >= SINCE)


def accepts_mount_requests(runtime: toolkit_config.ToolkitConfigFacts, host: HostDecision) -> bool:
    """Tell whether the runtime accepts requests by mounts.

    The decision counts if this collection writes the runtime's configuration, else what stands in
    it.
    """
    if toolkit_config.MOUNTS in host.plugin_strategies:
        return True
    return not toolkit_config.needs_toolkit_config(host) and toolkit_config.may_ask_by_mounts(
        runtime, ()
    )
