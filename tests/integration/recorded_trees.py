# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees of the nodes that others recorded, each with the driver's files of a distribution."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable
from pathlib import Path

from tests.gpu import spec_facts
from tests.lab import trees
from tests.lab.fakegpu.inventories import Inventory
from tests.tools import oracle

LAYOUTS = {layout.name: layout for layout in trees.LAYOUTS}
OF_CPU = {"x86_64": LAYOUTS["ubuntu-570"], "aarch64": LAYOUTS["ubuntu-590-arm64"]}
PROFILES: tuple[oracle.profiles.Profile, ...] = ("full", "hookless", "devices")
STRATEGIES = (("index", "uuid"), ("type-index",), ("uuid",), ("index", "uuid", "type-index"))


def build(root: Path, inv: Inventory) -> Path:
    """Build the tree of a node, and return its root."""
    layout = OF_CPU[inv.cpu]
    trees.build_for(root, inv, dc.replace(layout, version=inv.version, compat32=""))
    return root


def ask(
    root: Path, strategies: Iterable[str], release: oracle.Release = oracle.NEWEST
) -> frozenset[spec_facts.Fact]:
    """Return the facts of nvidia-ctk's spec of a tree, with devices named by these strategies."""
    flags = [word for name in strategies for word in ("--device-name-strategy", name)]
    return spec_facts.list_facts(oracle.theirs(root, "nvml", *flags, release=release), root)
