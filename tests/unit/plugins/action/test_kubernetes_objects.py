# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a cluster's files: one that cannot be read does not count as empty, and nothing
is removed through a link of another account.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import kubernetes_objects
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

SOMEBODY = 12345
OURS = f"{files.HEAD}\nmetadata: {{}}\n"


@pytest.fixture
def place() -> Iterator[Path]:
    """A cluster's directory that anybody may reach, which one of pytest's own is not."""
    with tempfile.TemporaryDirectory() as found:
        Path(found).chmod(0o755)
        made = Path(found) / "north"
        for name in ("configmap.yaml", "nodes/gpu1.yaml", "helm/values.yaml"):
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_text(OURS)
        yield made


@contextlib.contextmanager
def without_root() -> Iterator[None]:
    """Root may read everything; a user without privileges runs the rest as it is."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(SOMEBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


UNREADABLE = [
    # what is closed, how, the place that is named
    ("nodes", 0o000, "nodes"),
    ("nodes", 0o444, "nodes/gpu1.yaml"),
    ("nodes", 0o111, "nodes"),
    ("helm", 0o000, "helm"),
    ("nodes/gpu1.yaml", 0o000, "nodes/gpu1.yaml"),
    (".", 0o000, ""),
]


@pytest.mark.parametrize(("name", "mode", "where"), UNREADABLE)
def test_what_cannot_be_read_is_said(place: Path, name: str, mode: int, where: str) -> None:
    (place / name).chmod(mode)
    with without_root(), pytest.raises(PlanError) as refused:
        kubernetes_objects.read_cluster_directory(place)
    (place / name).chmod(0o755)
    assert str(place / where) in str(refused.value)
    assert "Permission denied" in str(refused.value)
    assert "gpufleet_kubernetes_dir" in str(refused.value)


def test_what_is_there_is_read(place: Path) -> None:
    (place / "nodes/notes.txt").write_text("mine")
    (place / "nodes/lost.yaml").symlink_to("nowhere")
    (place / "nodes/folder.yaml").mkdir()
    assert sorted(kubernetes_objects.read_cluster_directory(place)) == [
        "configmap.yaml",
        "helm/values.yaml",
        "nodes/gpu1.yaml",
    ]
    assert kubernetes_objects.read_cluster_directory(place.with_name("south")) == {}


@pytest.mark.parametrize(
    "link", ["nodes", "."], ids=["below the cluster's directory", "in its place"]
)
def test_nothing_is_read_or_removed_through_another_users_link(
    place: Path, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = place.parent / "elsewhere"
    (place / link).resolve().rename(named)
    (place / link).symlink_to(named)
    owner = os.geteuid()
    if owner == 0:
        os.chown(place / link, SOMEBODY, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    kept = sorted(named.rglob("gpu1.yaml"))
    assert len(kept) == 1
    for act in (
        lambda: kubernetes_objects.read_cluster_directory(place),
        lambda: kubernetes_objects.write_cluster_file(place, "nodes/gpu1.yaml", None),
        lambda: kubernetes_objects.write_cluster_file(place, "nodes/gpu1.yaml", "new"),
    ):
        with pytest.raises(
            PlanError, match=r"gpufleet_kubernetes_dir is not used \(.* is a link of the user"
        ):
            act()
    assert kept[0].read_text() == OURS


def test_ones_own_link_is_followed(place: Path) -> None:
    (place / "nodes").rename(place.parent / "elsewhere")
    (place / "nodes").symlink_to(place.parent / "elsewhere")
    assert "nodes/gpu1.yaml" in kubernetes_objects.read_cluster_directory(place)
    kubernetes_objects.write_cluster_file(place, "nodes/gpu1.yaml", None)
    kubernetes_objects.write_cluster_file(place, "nodes/gpu1.yaml", None)
    assert list((place.parent / "elsewhere").iterdir()) == []
