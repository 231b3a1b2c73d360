# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run does what --check --diff has announced, host by host."""

from __future__ import annotations

import pytest

from tests.integration.story import Story
from tests.tools.onlab import differing

pytestmark = pytest.mark.lab

HOSTS = ["c16", "c17", "c21", "ctk21", "c23", "c24", "crio", "dock", "nogpu"]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("key", ["changed", "differences", "restarted", "diffs", "actions"])
def test_the_run_does_what_was_announced(host: str, key: str, story: Story) -> None:
    announced, done = story.answer("announced", host), story.answer("once more", host)
    assert announced[key] == done[key]


@pytest.mark.parametrize("host", HOSTS)
def test_announcing_changes_nothing(host: str, story: Story) -> None:
    before, after = story.at("rolled back", host), story.at("announced", host)
    assert differing(before.tree, after.tree) == {}
    assert before.starts == after.starts


@pytest.mark.parametrize("host", HOSTS)
def test_plan_names_the_files_that_site_writes(host: str, story: Story) -> None:
    planned = {
        d["path"] for d in story.answer("planned", host, "host_info")["differences"] if d["path"]
    }
    done = {d["path"] for d in story.answer("converged", host)["differences"] if d["path"]}
    assert planned == done
