# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentence for a transaction that failed: its last part is the next step that helps."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import get_code
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.report import results

BY_HAND = "Run the command on the host by hand; nothing else was changed"
# Causes that are known of a command's output, and whether a person would learn more from running it again.
COMMANDS: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "nothing is known": ([], True),
    "another package manager": ([{"code": "package-lock"}], False),
    "a package that no repository has": ([{"code": "package-unknown", "name": "nvidia-container-toolkit-base"}], False),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_whose_cause_is_known_is_not_to_be_run_by_hand(case: str) -> None:
    found, by_hand = COMMANDS[case]
    answer = {
        "ran": [{"argv": ["apt-get", "install"], "rc": 100, "causes": found}],
        "error": {"phase": "command", "message": "apt-get ended with 100", "next": BY_HAND},
    }
    said = results.trouble(answer)
    assert (BY_HAND in said) is by_hand
    assert (get_code(said.values["step"]) == "transaction.correct-cause") is not by_hand
    assert said.code == "transaction.command"
