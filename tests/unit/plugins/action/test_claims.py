# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has which hosts, by files in a directory that others may use as well: what is not known is never taken for nobody."""

from __future__ import annotations

import dataclasses as dc
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.action import claims
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError

HERE = claims.process(os.getpid())
assert HERE
OWNERS: list[tuple[str, dict[str, Any], bool | None]] = [
    ("this very process", {}, True),
    ("one of that number before it", {"started": "1"}, False),
    ("one before this machine was booted", {"boot": "b", "space": "pid:[1]"}, False),
    ("one of another machine, whose home directory this is, too", {"machine": "other", "boot": "b"}, None),
    ("one in a container on this machine", {"space": "pid:[1]"}, None),
]


@pytest.mark.parametrize(("fields", "alive"), [case[1:] for case in OWNERS], ids=[case[0] for case in OWNERS])
def test_a_rollout_has_its_hosts_until_it_is_known_to_be_dead(fields: dict[str, Any], alive: bool | None, tmp_path: Path) -> None:
    assert HERE
    owner = dc.replace(HERE, **fields)
    assert claims.lives(owner) is alive
    claims._write(claims._of(tmp_path, owner), {"hosts": {"gpu1 b": "gpu1"}, "ended": [], "begun": "2", "about": ""}, owner)
    found = claims.of_others(tmp_path)
    assert ("gpu1 b" in found.taken) is (alive is not False)
    assert ("gpu1 b" in found.unproven) is (alive is False)
    claims.take(tmp_path, {}, {"gpu1 b"}, "3", "")
    assert claims._of(tmp_path, owner).exists() is (alive is not False), "what is not known to be dead is left alone"


@pytest.mark.parametrize(
    ("mode", "owner", "refused"), [(0o700, 0, False), (0o755, 0, False), (0o777, 0, True), (0o770, 0, True), (0o700, 1001, True)]
)
def test_a_directory_that_others_may_write_to_says_nothing(
    mode: int, owner: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file there could give hosts to nobody, or say that a proof stands."""
    place = tmp_path / "rollouts"
    place.mkdir()
    place.chmod(mode)
    monkeypatch.setattr(claims, "place", lambda: place)
    monkeypatch.setattr(claims.os, "geteuid", lambda: place.stat().st_uid + owner)
    if not refused:
        with claims.alone() as found:
            assert found == place
        return
    with pytest.raises(PlanError, match="this directory cannot be used .others may write to it"), claims.alone():
        pass
    assert list(place.iterdir()) == []
