# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages alone, without an engine: what is installed, and from where."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import installation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
    repository,
)

from tests.unit.builders import obs

NEW, OLD = "1.20.2-1", "1.19.0-1"
# The options, what is installed; the packages that are installed by the run.
CASES: dict[str, tuple[Policy, dict[str, str], list[str]]] = {
    "nothing is there": (Policy(), {}, [packages.BASE]),
    "it is there": (Policy(), {packages.BASE: OLD}, []),
    "in the version of the fleet": (
        Policy(toolkit_version="1.20.2"),
        {packages.BASE: OLD},
        [packages.BASE],
    ),
    "the repository alone": (Policy(packages="ignore"), {}, []),
    "packages stay when all is taken back": (Policy(state="absent"), {packages.BASE: OLD}, []),
    "in the tree of an image nothing is run": (Policy(root="/srv/image"), {}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_the_base_package_comes_first_and_alone(case: str) -> None:
    policy, there, wanted = CASES[case]
    seen = obs(
        packages=there,
        candidates=dict.fromkeys(packages.FAMILY, NEW),
        host={"os_release": {"ID": "debian", "ID_LIKE": ""}},
        answers={repository.SOURCES["id"]: {"files": []}},
    )
    seen.answers["package:of this test"]["manager"] = "dpkg"
    plan = installation.plan_base_package(
        policy, installation.read_installation_facts(policy, seen)
    )
    assert [d.path for part in plan.first for d in part.differences] == wanted
    assert not plan.differences
    assert bool([part for part in plan.first if part.commands]) is bool(wanted)
