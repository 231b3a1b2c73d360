# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the other playbooks, given to a rollout, which does not read them: nobody takes them
for its own without a word.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import settings

SERIAL, DRIFT = "gpufleet_serial", "gpufleet_fail_on_drift"
CASES: list[tuple[dict[str, Any], list[str]]] = [
    # what the run was given, which settings are named
    ({}, []),
    ({SERIAL: [1, "10%"]}, [SERIAL]),
    ({SERIAL: 1}, [SERIAL]),
    ({SERIAL: ""}, []),  # a question of a survey that nobody answered
    # one file for site and rollout
    (
        {SERIAL: [1, "10%"], "gpufleet_rollout_waves": [1, "10%"]},
        [],
    ),
    ({SERIAL: [1, "10%"], "gpufleet_rollout_waves": ""}, [SERIAL]),
    ({DRIFT: True}, [DRIFT]),
    ({DRIFT: "yes"}, [DRIFT]),
    ({DRIFT: False}, []),
    ({DRIFT: "false"}, []),
    ({SERIAL: 2, DRIFT: True}, [SERIAL, DRIFT]),
]


@pytest.mark.parametrize(("given", "named"), CASES)
def test_a_setting_that_a_rollout_does_not_read_is_named(
    given: dict[str, Any], named: list[str]
) -> None:
    said = settings.warn_of_unread_settings(given)
    assert [sentence.split(". ")[0] for sentence in said] == [
        f"gpufleet.nvidia.rollout does not read {name}" for name in named
    ]
