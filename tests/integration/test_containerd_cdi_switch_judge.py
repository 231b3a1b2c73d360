# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd itself judges its CDI switch: it is written where it is off by default, and an
explicit false is undone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.containerd_releases import PATCH, is_at_least
from tests.integration.containerd_trees import Tree, cri_of, dump, prepared


@pytest.mark.parametrize("release", PATCH)
def test_the_cdi_switch_is_written_only_where_it_is_off_by_default(
    tmp_path: Path, release: str
) -> None:
    tree = prepared(tmp_path, release, "debian v2")
    tree.apply(tree.plan(enable_cdi=True))
    assert ("enable_cdi = true" in "".join(tree.files().values())) is (release == "1.7")
    now = cri_of(dump(release, tree.config))
    has_switch = is_at_least(release, "1.7") and not is_at_least(release, "2.4")
    assert now.get("enable_cdi") is (True if has_switch else None)


@pytest.mark.parametrize("release", ["2.1", "2.3"])
def test_an_explicit_false_of_the_cdi_switch_is_undone(tmp_path: Path, release: str) -> None:
    tree = Tree(tmp_path, release)
    tree.write(
        {"config.toml": 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = false\n'}
    )
    assert cri_of(dump(release, tree.config))["enable_cdi"] is False
    tree.apply(tree.plan(enable_cdi=True))
    assert cri_of(dump(release, tree.config))["enable_cdi"] is True
