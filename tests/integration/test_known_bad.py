# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A combination that is known to go wrong, on real hosts: one is stopped, its neighbour goes on, an
upgrade mends it.
"""

from __future__ import annotations

import pytest

from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet, Run, repository

pytestmark = pytest.mark.lab

BAD, GOOD = "bad1", "good1"
HOSTS = [BAD, GOOD]
ROW, LINK = (
    "toolkit-1.18.0-wrong-directory",
    "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1404",
)
PACKAGE = "nvidia-container-toolkit-base"
# As a host says it whose package is of another release: the database of packages is all that is
# asked.
RELEASE = f"sed -i '/^Package: {PACKAGE}$/,/^$/s/^Version: .*/Version: %s/' /var/lib/dpkg/status"
FORGOTTEN = f"sed -i '/^Package: {PACKAGE}$/,/^$/d' /var/lib/dpkg/status"
# The units on the host are those of 1.20.2, and would write a spec with hooks that a real 1.18.0
# does not know.
SPEC = {"gpufleet_cdi_owner": "collection"}
CONFIG = "/etc/containerd/config.toml"


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    """Two hosts with the packages, not configured; one of them says that its toolkit is 1.18.0."""
    up = boot({name: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"} for name in HOSTS})
    assert up.play("site", HOSTS, variables=repository()).failed == {}
    assert up.play("rollback", HOSTS).failed == {}
    up.shell(BAD, RELEASE % "1.18.0-1")
    return up


def known(run: Run, module: str, host: str) -> dict[str, bool | None]:
    return {row["id"]: row["applies"] for row in run.of(module)[host]["known_bad"]}


def rollout(fleet: Fleet, **settings: object) -> Run:
    return fleet.play(
        "rollout", HOSTS, variables={"gpufleet_rollout_max_left_out": "50%", **settings}
    )


def test_it_is_stopped_in_the_preflight_and_its_neighbour_goes_on(fleet: Fleet) -> None:
    before, starts = fleet.tree(BAD), fleet.starts(BAD, "containerd.service")
    run = rollout(fleet)
    assert run.status == 0, run.words
    assert f"left out: {BAD}:" in run.words
    assert (ROW in run.words, LINK in run.words, "gpufleet_toolkit_version" in run.words) == (
        True,
        True,
        True,
    )
    assert (fleet.tree(BAD), fleet.starts(BAD, "containerd.service")) == (before, starts), (
        "nothing was done there"
    )
    assert "nvidia" in fleet.text(GOOD, CONFIG)
    assert known(run, "host_info", GOOD) == {}


def test_site_refuses_it_too_and_a_warning_lets_it_be_changed(fleet: Fleet) -> None:
    before = fleet.tree(BAD)
    stopped = fleet.play("site", HOSTS, variables=SPEC)
    assert LINK in stopped.failed[BAD]
    assert fleet.tree(BAD) == before
    run = fleet.play("site", HOSTS, variables={**SPEC, "gpufleet_known_bad": "warn"})
    assert run.failed == {}, run.words
    assert known(run, "host", BAD) == {ROW: True}
    assert LINK in run.words
    # As desired now, with the same release: nothing is to be changed, so nothing is refused.
    again = fleet.play("site", HOSTS, variables=SPEC)
    assert (again.failed, again.changed) == ({}, {})
    assert known(again, "host", BAD) == {ROW: True}


def test_a_run_that_upgrades_out_of_the_range_is_not_stopped(fleet: Fleet) -> None:
    assert fleet.play("rollback", [BAD]).failed == {}
    run = rollout(fleet, gpufleet_toolkit_version="1.20.2", **repository())
    assert run.status == 0, run.words
    assert "left out:" not in run.words
    assert fleet.shell(BAD, f"dpkg-query -W -f '${{Version}}' {PACKAGE}") == "1.20.2-1"
    assert "nvidia" in fleet.text(BAD, CONFIG)


def test_without_a_package_the_program_is_asked_and_only_one_that_is_roots(fleet: Fleet) -> None:
    fleet.shell(GOOD, FORGOTTEN)
    options = {"packages": "ignore"}
    without = fleet.task("host_info", [GOOD], {**options, "known_bad": "ignore"})
    told = fleet.task("host_info", [GOOD], options)
    assert known(told, "host_info", GOOD) == {}, "1.20.2, by its own word"
    assert told.operations == without.operations, "the table costs no look"
    fleet.shell(GOOD, "chmod o+w /usr/bin/nvidia-ctk")
    unknown = known(fleet.task("host_info", [GOOD], options), "host_info", GOOD)
    assert set(unknown.values()) == {None}
    assert ROW in unknown
