# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages on drivers: their settings are accepted, and they have every code and command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    hold_facts,
    holding_messages,
    keeping_messages,
    kept_driver,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "driver.md").read_text()
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE)]
# Sentences of a hold that do not refuse anything.
SHOWN = {
    "hold.wanted",
    "hold.record",
    "hold.blacklist",
    "hold.withdrawn",
    "hold.begins",
    "hold.since",
    "hold.lock-outdated",
    "hold.list-unread",
    "hold.driver-outside",
    "hold.no-reason",
    "hold.keeps-back",
    "hold.of-others",
    "hold.no-part",
    "hold.not-withdrawn",
}


def list_codes(module: Any) -> set[str]:
    return {row.code for row in vars(module).values() if isinstance(row, Sentence)}


@pytest.mark.parametrize("settings", BLOCKS, ids=str)
def test_its_settings_are_accepted(settings: dict[str, Any]) -> None:
    spec = arguments.derive_argument_spec("host")
    for name, value in settings.items():
        option = spec[name.removeprefix("gpufleet_")]
        assert value in option.get("choices", [value])


def test_it_shows_how_a_hold_begins_and_ends() -> None:
    assert [settings["gpufleet_driver"] for settings in BLOCKS] == ["hold", "advise"]


def test_it_has_every_finding_and_every_refusal() -> None:
    shown = set(re.findall(r"`((?:keeping|hold)\.[\w-]+)`", PAGE))
    assert shown == list_codes(keeping_messages) | (list_codes(holding_messages) - SHOWN)


def test_it_names_the_files() -> None:
    assert {hold_facts.RECORD, hold_facts.BLACKLIST} <= set(re.findall(r"`(/[^`]+)`", PAGE))


def test_the_page_of_rollouts_has_the_commands_that_a_failed_host_names() -> None:
    page = (DOCS / "rollout-driver.md").read_text()
    way_back = page.partition("## Go back by hand\n")[2].partition("\n## ")[0]
    shown = re.findall(r"(?m)^ *(cd /var/lib/gpufleet/kept/.*)$", way_back)
    assert shown == list(kept_driver.WAY_BACK.values())
