# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that end a rollout before its first host is changed, as a user gives them; on bare trees."""

from __future__ import annotations

from pathlib import Path

from tests.unit.playbooks import bare
from tests.unit.playbooks.test_rollout import changed, fleet, play


def test_a_fleet_that_is_to_be_uniform_is_judged_before_any_host_is_changed(tmp_path: Path) -> None:
    inventory = fleet(tmp_path, gpu3={"gpufleet_engines": ["crio"], "gpufleet_engine_version": "1.34.2"})
    bare.written(bare.tree(tmp_path / "trees/gpu3") / "etc/crio.conf", "").with_name("crio").mkdir()
    arguments = ["--limit", "gpu1:gpu2:gpu3"]
    status, words = play(tmp_path, inventory, "rollout", *arguments, gpufleet_fleet_policy="uniform", gpufleet_serial=1)
    assert status == 2, words
    said = " ".join(words.split())
    assert "mixed container engines: containerd on gpu[1-2]; crio on gpu3 (gpufleet_fleet_policy is uniform" in said
    assert "gpufleet.nvidia.rollout does not read gpufleet_serial" in said
    assert changed(tmp_path) == []
