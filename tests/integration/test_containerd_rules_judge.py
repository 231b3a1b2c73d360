# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Daemons judge the table of containerd's rules: each row loads, or does not, on one release of each minor as the table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures import containerd_rules as rules
from tests.integration import containerd_trees as trees
from tests.integration.containerd_daemons import judged


@pytest.mark.parametrize(("name", "release"), rules.CASES)
def test_the_daemon_agrees(tmp_path: Path, name: str, release: str) -> None:
    row, tree = rules.ROWS[name], trees.Tree(tmp_path / "tree", release)
    tree.write(dict(row.files))
    verdict = judged(release, tree.config)
    expected = "serves CRI" if release not in row.refused else "no CRI" if row.starts else "does not start"
    assert verdict.outcome == expected, verdict.said
