# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handlers that others edited into containerd's main file: which of them a run names as taken over,
each row of the table once.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)

from tests.fixtures import earlier_content as earlier
from tests.integration.containerd_trees import RELEASES, decision
from tests.unit.builders import obs

ROOT = "/etc/containerd/config.toml"


def planned(release: str, files: dict[str, Any], default: bool) -> Plan:
    policy = Policy(config_path=ROOT, root="/tree", engine_version=RELEASES[release], single=True)
    seen = obs(files=files)
    (instance,) = containerd_detect.find_instances(
        policy, containerd_detect.read_facts(policy, seen)
    )
    return containerd_detect.plan_instance(
        policy, containerd_detect.read_facts(policy, seen), instance, decision(default, False)
    )


def after(files: dict[str, str], plan: Plan) -> dict[str, str]:
    return {**files, **{path: text for path, _old, text in plan.diffs}}


TOOLS = {"gpu-operator-in-place": "gpu-operator"}
ROWS = [(row, release) for row in earlier.ROWS for release in row.releases]


@pytest.mark.parametrize(
    ("row", "release"), ROWS, ids=[f"{row.file} {release}" for row, release in ROWS]
)
def test_a_handler_that_is_taken_over_is_named_once(row: earlier.Earlier, release: str) -> None:
    files = {ROOT: row.text}
    default = row.default == "nvidia"
    plan = planned(release, files, default)
    named = [
        (left.tool, left.path, left.settings, left.exact, left.fate) for left in plan.leftovers
    ]
    tool = TOOLS.get(row.file, "a person or an unknown tool")
    there = "runtimes.nvidia]" in row.text
    assert named == (
        [(tool, ROOT, ("containerd.runtimes.nvidia",), False, "adopted")] if there else []
    )
    again = planned(release, after(files, plan), default)
    assert (again.changes, again.leftovers) == ((), ())
