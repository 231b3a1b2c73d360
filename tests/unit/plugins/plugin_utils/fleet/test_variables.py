# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of variables: which are known, which was meant, and which would be ignored where they
stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import variables

KNOWN = {"gpufleet_isolation", "gpufleet_injection", "gpufleet_no_gpu", "gpufleet_verify_image"}


def said(
    hosts: Mapping[str, Mapping[str, Any]],
    run: Mapping[str, Any] | None = None,
    own: tuple[str, ...] = (),
) -> list[Message]:
    return variables.list_variable_problems(hosts, run or {}, KNOWN, own)


MISSPELT = [
    # what is set, what was meant
    ("gpufleet_isolaton", "gpufleet_isolation"),
    ("gpufleet_injecton", "gpufleet_injection"),
    ("gpufleet_max_fail", "gpufleet_max_failed"),
    ("gpufleet_verify_img", "gpufleet_verify_image"),
    ("gpufleet_datacentre_code_of_the_rack", ""),
]


@pytest.mark.parametrize(("name", "meant"), MISSPELT)
def test_a_misspelt_variable_is_named_with_the_nearest_right_one(name: str, meant: str) -> None:
    found = said({"gpu1": {"gpufleet_isolation": "strict", name: 1}, "gpu2": {}})
    near = {"near": meant} if meant else {}
    assert [message.values for message in found] == [{"name": name, "hosts": "gpu1", **near}]
    assert [message.code for message in found] == [f"variables.unknown{'-near' if meant else ''}"]


def test_names_of_ones_own_results_of_the_roles_and_of_other_people_are_no_mistakes() -> None:
    assert (
        said(
            {
                "gpu1": dict.fromkeys(
                    [*variables.RESULTS, "gpufleet_own_variables", "gpufleet_site"]
                )
            },
            own=("gpufleet_site",),
        )
        == []
    )


SETTINGS = [
    # in the inventory, what the run uses, whether the inventory's would be ignored
    ({"gpufleet_serial": [1, "50%"]}, {}, True),
    # set by import_playbook's vars, which rank above
    (
        {"gpufleet_serial": [1, "50%"]},
        {"gpufleet_serial": [1, "10%"]},
        True,
    ),
    # extra variables are every host's as well
    (
        {"gpufleet_serial": [1, "50%"]},
        {"gpufleet_serial": [1, "50%"]},
        False,
    ),
    ({}, {"gpufleet_serial": [1]}, False),
    ({"gpufleet_hosts": "gpu_hosts"}, {}, True),
    ({"gpufleet_max_failed": 1}, {}, True),
    ({"gpufleet_fleet_policy": "uniform"}, {}, True),
    ({"gpufleet_no_gpu": "fail"}, {}, False),
]


@pytest.mark.parametrize(("inventory", "run", "ignored"), SETTINGS)
def test_a_setting_of_the_run_that_would_be_ignored_is_named_with_the_right_place(
    inventory: Mapping[str, Any], run: Mapping[str, Any], ignored: bool
) -> None:
    found = said({"gpu1": inventory, "gpu2": {}}, run)
    assert bool(found) == ignored
    for message in found:
        name = next(iter(inventory))
        assert message.code == "variables.run-setting-in-inventory"
        assert (message.values["name"], message.values["hosts"]) == (name, "gpu1")


WAVES = [
    # gpufleet_serial, the part of it that is not the size of a wave
    (1, ""), ("2", ""), ("10%", ""), ([1, "10%", "100%"], ""), ("[1, 2]", ""), (None, ""),
    ("50 %", ""),
    (0, "0"), ("-3", "-3"), ([1, "0%"], "0%"), ([], "no wave"),  # all hosts at once, for Ansible
    (["200%"], "200%"), ([1, "101 %"], "101 %"),
    ("all", "all"), ([1, "tenth", "50%"], "tenth"), ("12.5%", "12.5%"), ([[1]], "[1]"), ("", "''"),
]  # fmt: skip


@pytest.mark.parametrize(("serial", "wrong"), WAVES)
def test_what_is_no_size_of_a_wave_is_told_before_ansible_ends_over_it(
    serial: Any, wrong: str
) -> None:
    found = said({"gpu1": {}}, {"gpufleet_serial": serial})
    assert [(message.code, message.values["sizes"]) for message in found] == (
        [("variables.wave-size", wrong)] if wrong else []
    )


FAILURES = [
    # gpufleet_max_failed, whether it can be one
    (0, True), ("2", True), ("10%", True),
    ("lots", False), ("150%", False), (-1, False),
]  # fmt: skip


@pytest.mark.parametrize(("allowed", "right"), FAILURES)
def test_what_is_no_number_of_failures_is_told_by_every_playbook(allowed: Any, right: bool) -> None:
    found = said({"gpu1": {}}, {"gpufleet_max_failed": allowed})
    assert [(message.code, message.values["value"]) for message in found] == (
        [] if right else [("variables.failed-hosts", allowed)]
    )


GROUPS = {
    "all": ["gpu1", "gpu2", "web1"],
    "gpu_hosts": ["gpu1", "gpu2"],
    "web": ["web1"],
    "spare": [],
}
# The pattern, the hosts that match it, the hosts that --limit leaves; the code, '' if the run has
# hosts.
LEFT = [
    # the words that Ansible leaves, the texts of -e, the code, what the message names
    (None, [], "", ""),
    ("", ["a=1"], "", ""),
    ("rollout.yml", ["rollout.yml"], "variables.without-at", "rollout.yml"),
    ("rollout.yml", ["a=1 rollout.yml"], "variables.without-at", "rollout.yml"),
    ("rollout", ["@x.yml", "rollout"], "variables.without-at", "rollout"),
    (
        "20:00 Europe/Berlin",
        ["a=1", "b=2 window=Mo-Fr 20:00 Europe/Berlin"],
        "variables.cut-at-blank",
        "window",
    ),
    ("isolation strict", ["isolation = strict"], "variables.cut-at-blank", "isolation"),
    ("strict", ["isolation= strict"], "variables.cut-at-blank", "isolation"),
    ("isolation", ["isolation =strict"], "variables.cut-at-blank", "isolation"),
]


@pytest.mark.parametrize(("left", "options", "code", "named"), LEFT)
def test_words_of_extra_variables_that_set_nothing_are_told(
    left: object, options: list[str], code: str, named: str
) -> None:
    found = variables.explain_left_words(left, options)
    assert [message.code for message in found] == ([code] if code else [])
    assert all(named in message.values.values() for message in found)


HOSTS = {
    "a group": ("gpu_hosts", ["gpu1", "gpu2"], GROUPS["all"], ""),
    "a limit within the group": ("gpu_hosts", ["gpu1", "gpu2"], ["gpu2"], ""),
    "localhost outside of the inventory": ("localhost", ["localhost"], GROUPS["all"], ""),
    "a typo": ("gpu_host", [], GROUPS["all"], "variables.unknown-hosts-near"),
    "a typo in a host": ("gqu1", [], GROUPS["all"], "variables.unknown-hosts-near"),
    "a group without hosts": ("spare", [], GROUPS["all"], "variables.empty-group"),
    "a limit outside of the group": (
        "gpu_hosts",
        ["gpu1", "gpu2"],
        ["web1"],
        "variables.limit-leaves-none",
    ),
    "an answer of a survey that is empty": ("", [], GROUPS["all"], "variables.no-hosts-named"),
}


@pytest.mark.parametrize("case", HOSTS)
def test_a_run_is_for_some_host(case: str) -> None:
    pattern, matching, limited, code = HOSTS[case]
    found = variables.describe_no_hosts(pattern, matching, limited, GROUPS)
    assert (found.code if found else "") == code


def test_a_run_without_inventory_is_told_so() -> None:
    found = variables.describe_no_hosts("all", [], [], {"all": [], "ungrouped": []})
    assert found is not None
    assert found.code == "variables.empty-inventory"
