# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that `make gpu` measured, as trees: nvidia-ctk's spec of each tree against ours."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.gpu import spec_facts
from tests.lab import captured, recorded
from tests.tools import oracle

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="nvidia-ctk is built with Go, which is not here"
    ),
]

NODES = {name: node for name, node in recorded.nodes().items() if node.seen}
MODES = {
    "nvml": ("gpu", {spec_facts.NODE_NUMBERS, spec_facts.MEMORY_LIMITS}),
    "management": ("management", {spec_facts.NODE_NUMBERS}),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NODES)
def test_each_machine(name: str, mode: str, tmp_path: Path) -> None:
    layout, intended = MODES[mode]
    root = captured.build(tmp_path, NODES[name])
    both = [
        spec_facts.list_facts(oracle.theirs(root, mode), root),
        spec_facts.list_facts(oracle.ours(root, layout=layout), root),
    ]
    if mode == "management":
        both = [spec_facts.select_device_facts(found, "all") for found in both]
    found = spec_facts.compare_facts(*both)
    assert found.pop("", []) == []
    assert set(found) == intended


@pytest.mark.parametrize("name", NODES)
def test_the_tree_is_the_machine(name: str, tmp_path: Path) -> None:
    """nvidia-ctk mounts the same files of the tree that it mounted of the machine."""
    root = captured.build(tmp_path, NODES[name])
    there = {m["containerPath"] for m in NODES[name].theirs["full"]["containerEdits"]["mounts"]}
    assert {m.container_path for m in oracle.theirs(root).edits.mounts} == there
