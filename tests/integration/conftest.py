# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real hosts for tests: a lab beside any that a person has up, hosts by name for one module, and
the story of one fleet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import pytest

from tests.integration import engine_journals
from tests.integration import kube as clusters
from tests.integration import story as stories
from tests.lab.lab import Lab
from tests.tools.onlab import Fleet

Boot = Callable[[Mapping[str, Any]], Fleet]


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Yield a lab of its own."""
    with (
        Lab(os.environ["GPUFLEET_LAB_NAME"])
        if "GPUFLEET_LAB_NAME" in os.environ
        else Lab.of_run("tests") as found
    ):
        yield found


@pytest.fixture(scope="module")
def boot(lab: Lab) -> Iterator[Boot]:
    """Yield a function that boots hosts by name: {"c17": {"kind": "containerd-1.7", ...}}.

    The hosts are gone when the module's tests are.
    """
    booted: list[str] = []

    def up(wanted: Mapping[str, Any]) -> Fleet:
        booted.extend(lab.up({"hosts": dict(wanted)}))
        for name, why in lab.skipped.items():
            stories.pass_over(name, why)
        return Fleet(lab, forks=True)

    yield up
    if booted:
        lab.down(booted)


@pytest.fixture(scope="session")
def story(lab: Lab) -> stories.Story:
    """Return the story of one fleet: everything happens to it once, and the tests read."""
    return stories.tell(lab)


@pytest.fixture(scope="session")
def kube(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Kube]:
    """Yield one Kubernetes for all files that a part of the tests has.

    Its hosts are gone when these are done.
    """
    yield clusters.start(lab, tmp_path_factory.mktemp("cluster"))
    lab.down(list(clusters.KINDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what the engines of its hosts wrote meanwhile."""
    report = yield
    if report.failed and item.get_closest_marker("lab"):
        report.sections += engine_journals.tell_about_hosts(item.name, report.longreprtext)
    return report
