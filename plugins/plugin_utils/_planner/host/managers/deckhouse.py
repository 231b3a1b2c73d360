# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deckhouse Kubernetes Platform: bashible writes the configuration of the plain containerd again.

bashible.timer starts it every minute. It merges /etc/containerd/deckhouse.toml, its own text, and
the files of /etc/containerd/conf.d (conf2.d with containerd 2) into /etc/containerd/config.toml, and
restarts containerd when that changed (candi/bashible/common-steps/all/032_configure_containerd).
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import messages
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
)

UNIT = "bashible.service"

DECKHOUSE = Manager(
    "deckhouse",
    "Deckhouse",
    messages.DECKHOUSE.fill(),
    units=(UNIT, "containerd-deckhouse.service"),
    own_engine=False,
    boot_units=(f"/etc/systemd/system/{UNIT}",),
)
