# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who caps the version of the host's CDI spec."""

from __future__ import annotations

import dataclasses as dc

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi import consumers
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Cdi, Evidence, Instance, Policy, Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import packages

from tests.unit.builders import obs

EVIDENCE = Evidence("version", "")
NEW = Instance("containerd", "2.4.0", "", "", "", "", "package", True, Cdi(True, True, (), "1.1.0", EVIDENCE))
OLD = dc.replace(NEW, version="1.6.20", cdi=Cdi(False, False, (), "", EVIDENCE))
REFUSED = dc.replace(OLD, refusal=Refusal("k3s has its own"))
NOTHING: dict[str, str] = {}

CAPS = [
    # instances, packages, cap, who is named in the reason
    ([NEW], NOTHING, "1.1.0", "containerd 2.4.0"),
    ([NEW], {"podman": "4.9.3+ds1-1ubuntu0.2"}, "0.6.0", "podman 4.9.3"),
    ([NEW], {"podman": "4.3.1+ds1-8+deb12u1"}, "0.5.0", "podman 4.3.1"),
    ([NEW], {"podman": "5:5.8.0-1"}, "1.0.0", "podman"),
    ([NEW], {"podman": "3.0.1+dfsg1-3"}, "1.1.0", "containerd"),  # knows no CDI, so it reads nothing
    ([OLD], NOTHING, "0.6.0", "not known"),
    ([OLD], {packages.BASE: "1.20.1-1"}, "0.6.0", "not known"),  # the same before and after the package is installed
    ([OLD], {packages.BASE: "1.14.6-1"}, "0.5.0", "toolkit 1.14.6-1"),
    ([NEW], {packages.BASE: "1.14.6-1"}, "1.1.0", "containerd"),  # nobody injects by the runtime here
    ([REFUSED, NEW], {packages.BASE: "1.14.6-1"}, "1.1.0", "containerd"),
]


@pytest.mark.parametrize(("instances", "installed", "cap", "who"), CAPS)
def test_the_oldest_reader_rules(instances: list[Instance], installed: dict[str, str], cap: str, who: str) -> None:
    others = consumers.others(Policy(), obs(packages=installed), instances)
    found, reason = decide.version_cap(instances, others)
    assert (found, who in reason.why) == (cap, True), reason


def test_a_podman_of_no_package_counts_as_unknown() -> None:
    there = obs(files={"/usr/local/bin/podman": ""})
    assert decide.version_cap([NEW], consumers.others(Policy(), there, [NEW]))[0] == "0.6.0"
