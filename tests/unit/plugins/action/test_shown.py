# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says is shown escaped, whatever leaves an action."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)

# --- what a host says is shown escaped
# ----------------------------------------------------------------------------------

FORGED = "/etc/x: fine\n\nPLAY RECAP ****\nc17 : ok=3\n\x1b[8m\u202e"
SHOWN = r"/etc/x: fine\n\nPLAY RECAP ****\nc17 : ok=3\n\x1b[8m\u202e"


def test_a_result_leaves_an_action_escaped() -> None:
    run = base.guard_action(
        lambda: {
            "msg": FORGED,
            "warnings": [FORGED],
            "decision": {FORGED: [FORGED]},
            "changed": False,
        }
    )
    assert run() == {
        "msg": SHOWN,
        "warnings": [SHOWN],
        "decision": {SHOWN: [SHOWN]},
        "changed": False,
    }


def test_no_statistic_is_a_template_for_the_next_run() -> None:
    """AWX hands the statistics of a job to the next one as variables, and a person may on the
    command line.
    """
    data = {"approved": {"L4, debian{{ lookup('pipe', 'id') }}": ["{% raw %}"]}, "hosts": 3}
    found = base.guard_action(
        lambda: {"ansible_stats": {"data": data, "per_host": False}, "changed": False}
    )()["ansible_stats"]
    assert found == {
        "data": {"approved": {"L4, debian(( lookup('pipe', 'id') ))": ["(% raw %)"]}, "hosts": 3},
        "per_host": False,
    }


def test_the_table_is_shown_escaped() -> None:
    lines = fleet_hosts.list_fleet_lines(
        {"c17": {"failed": True, "msg": FORGED, "advice": [FORGED]}},
        fleet_hosts.FleetView(details=True),
    )
    assert [line for line in lines if not line.isprintable()] == []
