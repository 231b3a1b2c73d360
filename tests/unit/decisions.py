# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A decision and what else its file records."""

from __future__ import annotations

import dataclasses as dc

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Driver,
    Reason,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import resource

DECISION = Decision(
    instance="containerd:/etc/containerd/config.toml",
    engine="containerd",
    engine_version="1.7.24",
    injection="native-cdi",
    handler="nvidia",
    default=False,
    runtime_mode="cdi",
    annotation_prefixes=("nvidia.cdi.k8s.io/",),
    device_list_strategy=("cdi-cri",),
    plugin_annotation_prefix="cdi.k8s.io/",
    runtime_class="nvidia",
    enable_cdi=True,
    max_cdi_version="0.8.0",
    hook=False,
    reasons=(
        Reason(
            "injection",
            "native-cdi",
            Message("its switch is off and is turned on"),
            "cri-status: enableCDI=false",
        ),
    ),
)
RECORD = dc.replace(resource.record_of_options("collection", "0.8.0"), decisions=(DECISION,))
DRIVER = Driver(
    "ok", "550.163.01", (SeenGpu(0, 0, "0000:17:00.0", "GPU-1", "NVIDIA H100"),), "module loaded"
)
