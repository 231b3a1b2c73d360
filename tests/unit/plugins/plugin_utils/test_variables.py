# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of variables: which are known, which was meant, and which would be ignored where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import variables

KNOWN = {"gpufleet_isolation", "gpufleet_injection", "gpufleet_no_gpu", "gpufleet_verify_image"}
OWN = variables.FOR_OWN


def said(hosts: Mapping[str, Mapping[str, Any]], run: Mapping[str, Any] | None = None, own: tuple[str, ...] = ()) -> list[str]:
    return variables.problems(hosts, run or {}, KNOWN, own)


MISSPELT = [
    # what is set, what was meant
    ("gpufleet_isolaton", " (did you mean gpufleet_isolation?)"),
    ("gpufleet_injecton", " (did you mean gpufleet_injection?)"),
    ("gpufleet_max_fail", " (did you mean gpufleet_max_failed?)"),
    ("gpufleet_verify_img", " (did you mean gpufleet_verify_image?)"),
    ("gpufleet_datacentre_code_of_the_rack", ""),
]


@pytest.mark.parametrize(("name", "meant"), MISSPELT)
def test_a_misspelt_variable_is_named_with_the_nearest_right_one(name: str, meant: str) -> None:
    found = said({"gpu1": {"gpufleet_isolation": "strict", name: 1}, "gpu2": {}})
    assert found == [f"There is no variable {name}{meant}, but it is set for gpu1", OWN]


def test_names_of_ones_own_results_of_the_roles_and_of_other_people_are_no_mistakes() -> None:
    assert said({"gpu1": dict.fromkeys([*variables.RESULTS, "gpufleet_own_variables", "gpufleet_site"])}, own=("gpufleet_site",)) == []


SETTINGS = [
    # in the inventory, what the run uses, whether the inventory's would be ignored
    ({"gpufleet_serial": [1, "50%"]}, {}, True),
    ({"gpufleet_serial": [1, "50%"]}, {"gpufleet_serial": [1, "10%"]}, True),  # set by import_playbook's vars, which rank above
    ({"gpufleet_serial": [1, "50%"]}, {"gpufleet_serial": [1, "50%"]}, False),  # extra variables are every host's as well
    ({}, {"gpufleet_serial": [1]}, False),
    ({"gpufleet_hosts": "gpu_nodes"}, {}, True),
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
    for sentence in found:
        name = next(iter(inventory))
        assert f"{name} is set in the inventory, for gpu1," in sentence
        assert "-e @rollout.yml" in sentence


WAVES = [
    # gpufleet_serial, what of it is no size of a wave
    (1, ""), ("2", ""), ("10%", ""), ([1, "10%", "100%"], ""), ("[1, 2]", ""), (None, ""),
    ("50 %", ""),
    (0, "0"), ("-3", "-3"), ([1, "0%"], "0%"), ([], "no wave"),  # all hosts at once, for Ansible
    (["200%"], "200%"), ([1, "101 %"], "101 %"),
    ("all", "all"), ([1, "tenth", "50%"], "tenth"), ("12.5%", "12.5%"), ([[1]], "[1]"), ("", "''"),
]  # fmt: skip


@pytest.mark.parametrize(("serial", "wrong"), WAVES)
def test_what_is_no_size_of_a_wave_is_told_before_ansible_ends_over_it(serial: Any, wrong: str) -> None:
    found = said({"gpu1": {}}, {"gpufleet_serial": serial})
    assert [sentence.split(",")[0] for sentence in found] == ([f"gpufleet_serial has {wrong}"] if wrong else [])


FAILURES = [
    # gpufleet_max_failed, whether it can be one
    (0, True), ("2", True), ("10%", True),
    ("lots", False), ("150%", False), (-1, False),
]  # fmt: skip


@pytest.mark.parametrize(("allowed", "right"), FAILURES)
def test_what_is_no_number_of_failures_is_told_by_every_playbook(allowed: Any, right: bool) -> None:
    found = said({"gpu1": {}}, {"gpufleet_max_failed": allowed})
    assert [sentence.split(",")[0] for sentence in found] == ([] if right else [f"gpufleet_max_failed is {allowed!r}"])


GROUPS = {"all": ["gpu1", "gpu2", "web1"], "gpu_nodes": ["gpu1", "gpu2"], "web": ["web1"], "spare": []}
# The pattern, the hosts that match it, those that --limit leaves; what is said of it, nothing where the run has hosts.
HOSTS = {
    "a group": ("gpu_nodes", ["gpu1", "gpu2"], GROUPS["all"], ""),
    "a limit within the group": ("gpu_nodes", ["gpu1", "gpu2"], ["gpu2"], ""),
    "localhost outside of the inventory": ("localhost", ["localhost"], GROUPS["all"], ""),
    "a typo": ("gpu_node", [], GROUPS["all"], "did you mean gpu_nodes?"),
    "a typo in a host": ("gqu1", [], GROUPS["all"], "did you mean gpu1?"),
    "a group without hosts": ("spare", [], GROUPS["all"], "spare, a group of the inventory without hosts"),
    "a limit outside of the group": ("gpu_nodes", ["gpu1", "gpu2"], ["web1"], "--limit leaves none"),
    "an answer of a survey that is empty": ("", [], GROUPS["all"], "gpufleet_hosts is empty"),
}


@pytest.mark.parametrize("case", HOSTS)
def test_a_run_is_for_some_host(case: str) -> None:
    pattern, matching, limited, says = HOSTS[case]
    found = variables.no_hosts(pattern, matching, limited, GROUPS)
    assert (says in found) if says else not found


def test_a_run_without_inventory_is_told_so() -> None:
    assert "inventory has no hosts" in variables.no_hosts("all", [], [], {"all": [], "ungrouped": []})
