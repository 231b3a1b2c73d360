# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of GPUs in docs/support.md: which ones were measured, and which are known by what others
recorded.
"""

from __future__ import annotations

from itertools import groupby

from page_table import table

from tests.lab import recorded

TITLES = ("GPU", "driver", "kernel modules", "how it is tested")


def build_gpu_table() -> str:
    """Return a row for each model and driver that a test has as a node."""
    nodes = sorted(recorded.nodes().values(), key=name_hardware)
    rows = [
        [*hardware, "; ".join(dict.fromkeys(map(describe_evidence, alike)))]
        for hardware, alike in groupby(nodes, name_hardware)
    ]
    return table(TITLES, rows)


def name_hardware(node: recorded.Node) -> tuple[str, str, str]:
    inventory = node.inventory
    mig = ", MIG on" if any(gpu.mig == "on" for gpu in inventory.gpus) else ""
    modules = "open" if inventory.open else "proprietary"
    cpu = "" if inventory.cpu == "x86_64" else f", {inventory.cpu}"
    return inventory.gpus[0].name + mig, inventory.version, modules + cpu


def describe_evidence(node: recorded.Node) -> str:
    if node.seen:
        return f"measured on a virtual machine with one of them: `{node.name}`"
    return f"{'judged by foreign data' if node.measured else 'imitated'}: `{node.name}`"
