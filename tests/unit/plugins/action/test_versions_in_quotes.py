# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A version without quotes is a number in YAML, and 1.30 another version by then."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.action import variables_check

CASES = [
    # what stands in the inventory, the number that YAML makes of it
    ("gpufleet_engine_version: 1.30", 1.3),
    ("gpufleet_toolkit_version: 1.17", 1.17),  # nobody can tell it from 1.170
    ('gpufleet_engine_version: "1.30"', None),
    ("gpufleet_engine_version: 1.30.2", None),
    ("gpufleet_engine_version: 26", None),
    ("gpufleet_engine_version:", None),
    ('gpufleet_bundle_versions: ["1.20", 1.20.1]', None),
    ("{}", None),
]


@pytest.mark.parametrize(("text", "number"), CASES)
def test_a_version_that_yaml_has_read_as_a_number_is_refused(text: str, number: Any) -> None:
    name = text.split(":")[0]
    found = [
        (message.code, message.values)
        for message in variables_check.list_wrong_host_values(yaml.safe_load(text))
    ]
    assert found == (
        [("options.version-is-number", {"option": name, "value": number})] if number else []
    )


def test_a_version_in_a_list_is_a_version() -> None:
    [message] = variables_check.list_wrong_host_values(
        yaml.safe_load("gpufleet_bundle_versions: [1.19.1, 1.20]")
    )
    assert message.code == "options.versions-have-number"
    assert message.values == {"option": "gpufleet_bundle_versions", "value": 1.2}
