# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Daemons judge the table of containerd's rules: each row loads, or does not, on one release of
each minor as the table says.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    engine_rules,
    releases,
)

from tests.fixtures import containerd_rules as rules
from tests.integration import containerd_trees as trees
from tests.integration.containerd_daemons import judged


@pytest.mark.parametrize(("name", "release"), rules.CASES)
def test_the_daemon_agrees(tmp_path: Path, name: str, release: str) -> None:
    row, tree = rules.ROWS[name], trees.Tree(tmp_path / "tree", release)
    tree.write(dict(row.files))
    verdict = judged(release, tree.config)
    expected = (
        "serves CRI" if release not in row.refused else "no CRI" if row.starts else "does not start"
    )
    assert verdict.outcome == expected, verdict.said


@pytest.mark.parametrize("release", rules.ALL)
@pytest.mark.parametrize("name", releases.CRI_NEEDS)
def test_cri_needs_what_the_releases_say(tmp_path: Path, name: str, release: str) -> None:
    tree, version = (
        trees.Tree(tmp_path / "tree", release),
        versions.parse_engine_version(rules.PATCH[release]),
    )
    tree.write({"config.toml": f'version = 2\ndisabled_plugins = ["{name}"]\n'})
    verdict = judged(release, tree.config)
    assert version
    assert verdict.outcome == (
        "no CRI" if engine_rules.is_needed_by_cri(name, version) else "serves CRI"
    ), verdict.said


@pytest.mark.parametrize("release", rules.ALL)
def test_files_that_import_each_other_are_loaded(tmp_path: Path, release: str) -> None:
    tree = trees.Tree(tmp_path / "tree", release)
    tree.write({
        "config.toml": 'version = 2\nimports = ["@DIR@/a.toml"]\n', "a.toml": 'version = 2\nimports = ["@DIR@/b.toml"]\n',
        "b.toml": 'version = 2\nimports = ["@DIR@/a.toml", "@DIR@/config.toml"]\n',
    })  # fmt: skip
    assert judged(release, tree.config).outcome == "serves CRI"
    tree.apply(tree.plan(default=True))
    assert judged(release, tree.config).outcome == "serves CRI"
    assert tree.plan(default=True).empty
