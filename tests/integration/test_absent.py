# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollback gives every file back, byte for byte, with mode and owner; what packages brought stays
with the packages.
"""

from __future__ import annotations

import re

import pytest

from tests.integration.story import Story, engine
from tests.tools.onlab import differing

pytestmark = pytest.mark.lab

ENGINES = ["c16", "c17", "c21", "ctk21", "c23", "c24", "crio", "dock"]
ALL = [*ENGINES, "nogpu"]
# What the packages' own scripts and their installation leave, the CDI spec of nvidia-cdi-refresh
# among it.
SPEC = r"/run/cdi/nvidia\.yaml$"
PACKAGES = re.compile(
    SPEC
    + r"|/etc/(nvidia-container-toolkit|nvidia-container-runtime|systemd/system/\S*wants|apt|ld\.so\.conf\.d)(/|$)"
)


@pytest.mark.parametrize("host", ALL)
def test_all_files_are_as_they_were_before_the_first_run(host: str, story: Story) -> None:
    left = differing(story.at("untouched", host).tree, story.at("rolled back", host).tree)
    owned = story.fleet.shell(
        host, "dpkg -L $(dpkg-query -W -f '${Package}\\n' '*nvidia-container*') 2>/dev/null || true"
    ).splitlines()
    assert {
        path: entries
        for path, entries in left.items()
        if not PACKAGES.match(path) and path not in owned
    } == {}


@pytest.mark.parametrize("host", ALL)
def test_with_the_packages_there_from_the_beginning_not_one_byte_differs(
    host: str, story: Story
) -> None:
    assert (
        differing(story.at("rolled back", host).tree, story.at("back once more", host).tree) == {}
    )


@pytest.mark.parametrize("host", ENGINES)
def test_the_engine_says_what_it_said_before(host: str, story: Story) -> None:
    assert lines(story, "rolled back", host) == lines(story, "untouched", host)


@pytest.mark.parametrize("host", ENGINES)
def test_the_engine_is_restarted_once_for_it(host: str, story: Story) -> None:
    assert story.at("rolled back", host).starts - story.at("again", host).starts == 1
    assert story.answer("rolled back", host)["restarted"] == [
        f"{engine(story.kinds[host])}.service"
    ]


@pytest.mark.parametrize("host", ALL)
def test_a_host_that_was_rolled_back_has_nothing_to_give_back(host: str, story: Story) -> None:
    again = story.answer("back for nothing", host)
    assert (again["changed"], again["differences"], again["restarted"]) == (False, [], [])
    assert (
        differing(story.at("back once more", host).tree, story.at("back for nothing", host).tree)
        == {}
    )


def lines(story: Story, moment: str, host: str) -> list[str]:
    """The order in which containerd 1.x prints what it imported differs from run to run."""
    return sorted(
        line
        for line in story.at(moment, host).effective.splitlines()
        if not line.startswith("imports")
    )
