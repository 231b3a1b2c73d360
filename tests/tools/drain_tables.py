# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of docs/drain.md: the marks of others who work on a host."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import other_owners
from page_table import table


def build_other_owners_table() -> str:
    """Return the marks by which a Kubernetes node is in other hands."""
    rows = [
        [
            f"{m.kind} `{m.key}`",
            ", ".join(f"`{v}`" for v in m.values) or "any",
            f"{m.owner}, {m.ends}",
        ]
        for m in other_owners.MARKS
    ]
    locked = "the node's name, while the lock's TTL runs"
    rows.append(
        [
            f"annotation `{other_owners.KURED_LOCK}` of a DaemonSet",
            locked,
            "kured, until the host has rebooted",
        ]
    )
    return table(["mark", "values", "in whose hands the host is"], rows)
