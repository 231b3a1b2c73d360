# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of k3s and RKE2: k3s's code renders containerd's configuration in both
(pkg/agent/containerd, pkg/agent/templates).
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Detection,
    OperatorToolkit,
)

# runtimes.go (nvidia.go until 2023): these names since v1.22, and nvidia-cdi from 2025 on (k3s pull
# request 11065).
PROGRAMS: Mapping[str, str] = {
    "nvidia": "nvidia-container-runtime",
    "nvidia-experimental": "nvidia-container-runtime-experimental",
    "nvidia-cdi": "nvidia-container-runtime.cdi",
}
# Until October 2024 these and /usr/bin alone were looked at; then the first of them goes before the
# PATH of the service (k3s issue 10761).
FIRST = ("/usr/local/nvidia/toolkit",)
# It finds the operator's programs in the directory above; its own file it writes again at each
# start.
OPERATOR = OperatorToolkit(writes=False, why=messages.OPERATOR_RANCHER.fill())
TEMPLATES: Mapping[int, str] = {2: "config.toml.tmpl", 3: "config-v3.toml.tmpl"}


def describe_detection(name: str, *environment: str) -> Detection:
    """Describe how this distribution detects programs.

    environment: the files that the unit reads, as its installation writes it.
    """
    # ConfigFlag in pkg/cli/cmds/config.go
    settings, variable = (
        f"/etc/rancher/{name}/config.yaml",
        f"{name.upper()}_CONFIG_FILE",
    )
    return Detection(PROGRAMS, FIRST, environment, settings, variable, "default-runtime", TEMPLATES)
