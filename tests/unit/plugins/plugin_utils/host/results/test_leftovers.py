# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What other tools left, as plan and site show it: each file once, with its hosts, what becomes of
it, why, and what ends it.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    fleet_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import leftovers

DROP_IN = "/etc/crio/crio.conf.d/99-nvidia.toml"
GONE = {
    "tool": "nvidia-ctk", "path": DROP_IN, "settings": [], "exact": True, "fate": "adopted",
    "why": "nvidia-ctk writes just this for this configuration", "next": "",
}  # fmt: skip
STAYS = {
    "tool": "nvidia-ctk", "path": DROP_IN, "settings": ["crio.runtime.log_level"], "exact": False, "fate": "kept",
    "why": "nvidia-ctk does not write log_level", "next": f"move it to a drop-in of your own and remove {DROP_IN}",
}  # fmt: skip
LIVE = {
    "tool": "gpu-operator", "path": "/etc/crio/crio.conf.d/99-nvidia.conf", "settings": [], "exact": False, "fate": "live",
    "why": "its toolkit works here", "next": "set toolkit.enabled=false",
}  # fmt: skip
REMOVED = {
    "what": "file",
    "path": DROP_IN,
    "key": "",
    "before": "present",
    "after": None,
    "why": "taken over",
}


def result(*left: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"changed": False, "differences": [], "leftovers": list(left), **more}


def test_a_plan_shows_each_file_once_with_its_hosts_and_what_to_do() -> None:
    results = {
        **{f"gpu{n}": result(GONE, would_restart=[], differences=[REMOVED]) for n in (1, 2, 3)},
        "gpu4": result(STAYS, would_restart=[]),
        "gpu5": result(LIVE, would_restart=[]),
        "gpu6": result(would_restart=[]),
    }
    assert leftovers.list_leftover_lines(results, 120, check=False, details=True) == [
        "",
        "Left by other tools",
        f"  gpu[1-3] (3): {DROP_IN}, by nvidia-ctk: will be taken over",
        "      nvidia-ctk writes just this for this configuration",
        f"  gpu4: crio.runtime.log_level in {DROP_IN}, by nvidia-ctk: stays",
        "      nvidia-ctk does not write log_level",
        f"      Next: move it to a drop-in of your own and remove {DROP_IN}",
        "  gpu5: /etc/crio/crio.conf.d/99-nvidia.conf, by gpu-operator: in use by its tool, left alone",
        "      its toolkit works here",
        "      Next: set toolkit.enabled=false",
    ]


@pytest.mark.parametrize(
    ("left", "differences", "details", "shown"),
    [
        (GONE, [REMOVED], False, f"  gpu1: {DROP_IN}, by nvidia-ctk: taken over"),
        (GONE, [], False, ""),  # an earlier run took it over
        (GONE, [], True, f"  gpu1: {DROP_IN}, by nvidia-ctk: taken over"),
        (
            {**STAYS, "fate": "adopted"},
            [REMOVED],
            False,
            f"  gpu1: crio.runtime.log_level in {DROP_IN}, by nvidia-ctk: managed by this collection from now on",
        ),
        (STAYS, [], False, f"  gpu1: crio.runtime.log_level in {DROP_IN}, by nvidia-ctk: stays"),
    ],
)
def test_a_summary_names_what_this_run_took_over_and_what_stays(
    left: Any, differences: Any, details: bool, shown: str
) -> None:
    found = leftovers.list_leftover_lines(
        {"gpu1": result(left, differences=differences, restarted=[])},
        140,
        check=False,
        details=details,
    )
    assert (found[2] if found else "") == shown


def test_words_of_a_hosts_own_do_not_split_a_group_and_are_counted() -> None:
    results = {
        f"gpu{n}": result({**STAYS, "why": f"line {n}0 is not of nvidia-ctk"}, would_restart=[])
        for n in (1, 2)
    }
    assert leftovers.list_leftover_lines(results, 120, check=False, details=True)[2:4] == [
        f"  gpu[1-2] (2): crio.runtime.log_level in {DROP_IN}, by nvidia-ctk: stays",
        "      line [10 or 20] is not of nvidia-ctk",
    ]


def test_many_keys_of_one_file_are_counted() -> None:
    left = {**STAYS, "settings": [f"crio.runtime.k{n}" for n in range(9)]}
    assert " and 3 more in /etc" in " ".join(
        leftovers.list_leftover_lines({"gpu1": result(left)}, 200, check=True, details=True)
    )


def test_the_section_stands_between_the_differences_and_the_notes() -> None:
    text = fleet_hosts.list_fleet_lines(
        {"gpu1": result(STAYS, would_restart=[], advice=["look at it"])},
        fleet_hosts.FleetView(details=True),
    )
    assert text.index(leftovers.TITLE) < text.index("gpu1: look at it")
