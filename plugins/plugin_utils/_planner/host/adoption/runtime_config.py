# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find values in NVIDIA's config.toml that another owner set and that the host's decision changes.

The owner set them by `nvidia-ctk config --set` or by hand.

The packages write the defaults into the file at each installation, so only another value than these
shows a choice (nvidia-container-toolkit, api/config/v1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Difference,
    Leftover,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import messages

TOOL = "nvidia-ctk"
DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "accept-nvidia-visible-devices-envvar-when-unprivileged": (True,),
    "accept-nvidia-visible-devices-as-volume-mounts": (False,),
    "features.ignore-imex-channel-requests": (False,),
    "nvidia-container-runtime.mode": ("auto",),
    # newest first
    "nvidia-container-runtime.runtimes": (
        ["runc", "crun"],
        ["docker-runc", "runc", "crun"],
        ["docker-runc", "runc"],
    ),
    "nvidia-container-runtime.modes.cdi.annotation-prefixes": (["cdi.k8s.io/"],),
    "nvidia-container-runtime.modes.cdi.default-kind": ("nvidia.com/gpu",),
    "nvidia-container-runtime.modes.cdi.spec-dirs": (list(CDI_DIRS),),
    "nvidia-container-runtime-hook.skip-mode-detection": (False,),
}


def list_changed_runtime_keys(path: str, differences: Iterable[Difference]) -> tuple[Leftover, ...]:
    """List as a leftover the keys that another owner changed, in a file that this collection has
    not written to yet.
    """
    chosen = tuple(
        d.key
        for d in differences
        if d.before is not None and d.before not in DEFAULTS.get(d.key, (d.before,))
    )
    why = messages.CONFIGURATION_CHANGED.fill()
    return (Leftover(TOOL, path, chosen, True, "adopted", why),) if chosen else ()
