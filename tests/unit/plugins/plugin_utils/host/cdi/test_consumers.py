# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who caps the version of the host's CDI spec."""

from __future__ import annotations

import dataclasses as dc

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Evidence,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import consumers
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

from tests.unit.builders import obs
from tests.unit.coded import read_all_coded

EVIDENCE = Evidence("version", "")
NEW = Instance(
    "containerd",
    "2.4.0",
    "",
    "",
    "",
    "",
    "package",
    True,
    Cdi(able=True, enabled=True, dirs=(), max_version="1.1.0", evidence=EVIDENCE),
)
OLD = dc.replace(
    NEW,
    version="1.6.20",
    cdi=Cdi(able=False, enabled=False, dirs=(), max_version="", evidence=EVIDENCE),
)
REFUSED = dc.replace(OLD, refusal=Refusal("k3s has its own"))
NOTHING: dict[str, str] = {}

CAPS = [
    # instances, packages, cap, who is named in the reason
    ([NEW], NOTHING, "1.1.0", "containerd 2.4.0"),
    ([NEW], {"podman": "4.9.3+ds1-1ubuntu0.2"}, "0.6.0", "podman 4.9.3"),
    ([NEW], {"podman": "4.3.1+ds1-8+deb12u1"}, "0.5.0", "podman 4.3.1"),
    ([NEW], {"podman": "5:5.8.0-1"}, "1.0.0", "podman"),
    # knows no CDI, so it reads nothing
    (
        [NEW],
        {"podman": "3.0.1+dfsg1-3"},
        "1.1.0",
        "containerd",
    ),
    # the first release with --device is 1.5.0
    (
        [NEW],
        {"apptainer": "1.4.5-1"},
        "1.1.0",
        "containerd",
    ),
    ([NEW], {"apptainer": "1.5.0"}, "1.1.0", "containerd"),
    ([NEW], {"singularity-ce": "4.0.3-1"}, "0.6.0", "SingularityCE 4.0.3-1"),
    ([NEW], {"singularity-container": "4.1.5+ds4-1"}, "0.8.0", "SingularityCE 4.1.5"),
    ([NEW], {"singularity-ce": "4.3.7-1"}, "1.1.0", "containerd"),
    ([NEW], {"singularity-ce": "3.11.4-1"}, "1.1.0", "containerd"),
    ([OLD], NOTHING, "0.6.0", "not known"),
    # the same before and after the package is installed
    (
        [OLD],
        {packages.BASE: "1.20.1-1"},
        "0.6.0",
        "not known",
    ),
    ([OLD], {packages.BASE: "1.14.6-1"}, "0.5.0", "toolkit 1.14.6-1"),
    # nobody injects by the runtime here
    (
        [NEW],
        {packages.BASE: "1.14.6-1"},
        "1.1.0",
        "containerd",
    ),
    ([REFUSED, NEW], {packages.BASE: "1.14.6-1"}, "1.1.0", "containerd"),
]


@pytest.mark.parametrize(("instances", "installed", "cap", "who"), CAPS)
def test_the_oldest_reader_rules(
    instances: list[Instance], installed: dict[str, str], cap: str, who: str
) -> None:
    others = consumers.list_other_consumers(
        Policy(), consumers.read_consumer_facts(obs(packages=installed)), instances
    )
    found, reason = decide.find_version_cap(instances, others)
    assert (found, who in reason.why) == (cap, True), reason


@pytest.mark.parametrize(
    ("programs", "cap"),
    [
        (["podman"], "0.6.0"),
        (["singularity"], "0.6.0"),
        (["apptainer", "singularity"], "1.1.0"),  # one program, by its two names
        (["enroot"], "1.1.0"),  # it reads none
    ],
)
def test_a_program_of_no_package_counts_as_unknown(programs: list[str], cap: str) -> None:
    there = obs(files={f"/usr/local/bin/{name}": "" for name in programs})
    assert (
        decide.find_version_cap(
            [NEW],
            consumers.list_other_consumers(Policy(), consumers.read_consumer_facts(there), [NEW]),
        )[0]
        == cap
    )


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ([], False),
        (["enroot"], True),
        (["enroot", "nvidia-container-cli"], False),
        (["nvidia-container-cli"], False),
    ],
)
def test_enroot_is_named_where_what_it_starts_is_missing(programs: list[str], said: bool) -> None:
    there = obs(files={f"/usr/bin/{name}": "" for name in programs})
    told = [("cdi.enroot-without-cli", {"program": "nvidia-container-cli"})]
    assert read_all_coded(consumers.advise_on_enroot(consumers.read_consumer_facts(there))) == (
        told if said else []
    )
