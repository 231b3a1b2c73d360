# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each condition of the playbooks and roles: with these variables it is met, with those it is not.
Ansible itself judges the condition, as it is in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.playbook_tasks import (
    DEFAULT,
    FAILURES,
    FILES,
    KEYWORDS,
    Task,
    is_met,
    list_all,
    look,
    settings,
    step,
)

ASSERT = "ansible.builtin.assert"
Place = tuple[str, str, str]
Cases = list[tuple[dict[str, Any], bool]]

LOST = {"unreachable": True}
SKIPPED = {"skipped": True, "changed": False}
DRAINED = {"gpufleet_drain_result": {"outcome": "drained"}}
IMAGE = {"gpufleet_verify_image": "busybox"}
CHECK = {"ansible_check_mode": True}
NO_STEP_LOST: Cases = [
    ({}, True),
    ({"gpufleet_host_result": SKIPPED, "gpufleet_verify_result": SKIPPED}, True),
]
LOST_BY_CONVERGING = {"gpufleet_host_result": LOST}
LOST_BY_VERIFYING = {"gpufleet_verify_result": LOST}
LOST_BY_DIAGNOSING = {"gpufleet_rollout_diagnosis": LOST}


def cdi(owner: str, *writers: str, skipped: bool = False) -> dict[str, Any]:
    """Return the look at a host whose CDI specs have these writers."""
    decision = {"cdi_owner": owner, "skipped": skipped}
    freshness = [{"writer": writer, "state": "stale"} for writer in writers]
    return {"gpufleet_host_info": {"decision": decision, "freshness": freshness}}


# Where every host of a batch was lost or failed, no host is left for the play that reports.
NOBODY_LEFT: Cases = [
    ({"ansible_play_batch": ["gpu1"]}, False),
    ({"ansible_play_batch": []}, True),
]
PROBLEM: Cases = [({}, False), ({"problem": ""}, False), ({"problem": "2 hosts failed"}, True)]
# The toolkit's pod and processes must be gone; a host that gave no answer has told nothing of them.
GONE: Cases = [
    (look(operator_toolkit={"fate": "absent"}), True),
    (look(operator_toolkit={"fate": "dead"}), True),
    (look(operator_toolkit={"fate": "alive"}), False),
    (look(operator_toolkit={"fate": "unknown"}), False),
    (look(operator_toolkit={}), False),
    (look(**LOST), False),
    ({}, False),
]
SHOWS_HANDLERS: Cases = [
    (look(operator_toolkit={"installed": True}), True),
    (look(operator_toolkit={"installed": False}), False),
    (look(operator_toolkit={}), False),
    (look(**LOST), False),
]
VERIFIES: Cases = [
    (IMAGE, True),
    ({**IMAGE, "gpufleet_state": ""}, True),
    ({**IMAGE, "gpufleet_state": "present"}, True),
    ({}, False),
    ({"gpufleet_verify_image": ""}, False),
    ({**IMAGE, "gpufleet_state": "absent"}, False),
]


def turn(cases: Cases) -> Cases:
    return [(given, not met) for given, met in cases]


def within(name: str, cases: Cases) -> Cases:
    """Return the cases with what is given in a table of that name. {} stays the empty table."""
    return [({name: given}, met) for given, met in cases]


# file, task, keyword -> given variables, whether the condition is met
CONDITIONS: dict[Place, Cases] = {
    # ---------------------------------------------------------------- a host of a rollout
    # A host that was lost is in a state that nothing knows of, so it stays out of service.
    ("rollout/undrain", "Put the host back into service", "when"): [
        *NO_STEP_LOST,
        ({"gpufleet_rollout_diagnosis": SKIPPED}, True),
        (LOST_BY_CONVERGING, False),
        (LOST_BY_VERIFYING, False),
        (LOST_BY_DIAGNOSING, False),
    ],
    # The driver counts as judged once the host has passed all that is asked of it.
    ("rollout/driver_settled", "Note on the host that its driver was judged", "when"): [
        *NO_STEP_LOST,
        ({"gpufleet_rollout_diagnosis": SKIPPED}, True),
        (LOST_BY_CONVERGING, False),
        (LOST_BY_VERIFYING, False),
        (LOST_BY_DIAGNOSING, False),
    ],
    ("rollout/own_after", "Run your tasks after the change", "when"): [
        *NO_STEP_LOST,
        (LOST_BY_CONVERGING, False),
        (LOST_BY_VERIFYING, False),
    ],
    # A diagnosis disturbs work, so it is for hosts that this run has emptied.
    ("rollout/diagnose", "Diagnose the GPUs while no work is on them", "when"): [
        (DRAINED, True),
        ({**DRAINED, "gpufleet_host_result": {"changed": True}}, True),
        ({}, False),
        ({"gpufleet_drain_result": {"outcome": "not_needed"}}, False),
        ({**DRAINED, **LOST_BY_CONVERGING}, False),
    ],
    ("rollout/verify", "Verify that containers get their GPUs", "when"): [
        *VERIFIES,
        ({**IMAGE, **LOST_BY_CONVERGING}, False),
    ],
    # One that it has not drained is its operators' to put back.
    ("rollout", "Leave the failed host out of service", "when"): [
        (DRAINED, True),
        ({}, False),
        ({"gpufleet_drain_result": {"outcome": "not_needed"}}, False),
    ],
    ("rollout", "Change the host", "when"): [
        (step(held=[]), True),
        (step(held=["gpu2"]), True),
        (step(held=["gpu1"]), False),
    ],
    ("rollout", "Verify the host", "when"): [
        (step(verifies=True), True),
        (step(verifies=False), False),
    ],
    # The second look is for hosts that were changed and have not failed.
    ("rollout/look_again", "Look at the host once more", "when"): [
        (step(held=["gpu2"]), True),
        (step(held=["gpu1"]), False),
        ({**step(held=[]), "gpufleet_rollout_failure": {"msg": "no"}}, False),
        ({**step(held=[]), **LOST_BY_CONVERGING}, False),
    ],
    ("rollout/look_again", "Look for errors of the GPUs", "when"): [
        (step(soaks=True), True),
        (step(soaks=False), False),
        ({**step(soaks=True), "gpufleet_host_info": LOST}, False),
    ],
    ("rollout/look_again", "Run your own check", "when"): [
        (settings(soak_command="/bin/check"), True),
        (settings(soak_command=""), False),
        ({**settings(soak_command="/bin/check"), "gpufleet_host_info": LOST}, False),
    ],
    # The gate judges the command.
    ("rollout/look_again", "Run your own check", "failed_when"): [
        ({"gpufleet_rollout_soak_result": {"rc": 1}}, False),
    ],
    ("rollout/look_again", "Run your own check", "changed_when"): [
        ({"gpufleet_rollout_soak_result": {"rc": 0}}, False),
    ],
    # ---------------------------------------------------------------- a batch of a rollout
    ("rollout", "End here, since the gate lets no batch start", "when"): [
        (step(ended="too many hosts failed"), True),
        (step(ended=""), False),
    ],
    ("rollout/begin", "Ask a person", "when"): [
        (settings(pause=True), True),
        (settings(pause=False), False),
        ({**settings(pause=True), **CHECK}, False),
    ],
    # Nobody is asked before the first batch, nor for one that will not begin.
    ("rollout/ask", "Ask before the batch", "when"): [
        ({"gpufleet_rollout_ready": {"ended": "", "progress": {"done": 1}}}, True),
        ({"gpufleet_rollout_ready": {"ended": "", "progress": {"done": 0}}}, False),
        ({"gpufleet_rollout_ready": {"ended": "no", "progress": {"done": 1}}}, False),
    ],
    ("rollout/cluster_before", "Change no host, since the objects could not be applied", "when"): [
        ({"gpufleet_rollout_applied_before": {"refused": "forbidden"}}, True),
        ({"gpufleet_rollout_applied_before": {"refused": ""}}, False),
        ({"gpufleet_rollout_applied_before": {}}, False),
    ],
    (
        "rollout/cluster_before",
        "Wait until the device plugin has its new configuration",
        "when",
    ): [
        ({"gpufleet_rollout_applied_before": {"waits": True}}, True),
        ({"gpufleet_rollout_applied_before": {"waits": False}}, False),
        ({"gpufleet_rollout_applied_before": {}}, False),
        ({"gpufleet_rollout_applied_before": {"waits": True}, **CHECK}, False),
    ],
    # ---------------------------------------------------------------- the end of a rollout
    (
        "rollout",
        "Apply to the clusters what follows from the hosts that are as desired",
        "when",
    ): [
        ({"gpufleet_rollout_plan": {"clusters": True}}, True),
        ({"gpufleet_rollout_plan": {"clusters": False}}, False),
        ({}, False),
    ],
    ("rollout", "Keep the hosts that need attention", "when"): within(
        "gpufleet_rollout_end", PROBLEM
    ),
    # ---------------------------------------------------------------- site
    # A fleet whose policy is per_host has nothing to compare before its first wave.
    ("site", "Look at all hosts before one is changed", "when"): [
        ({"gpufleet_fleet_policy": "uniform"}, True),
        ({"gpufleet_fleet_policy": "per_host"}, False),
        ({"gpufleet_fleet_policy": ""}, False),
        ({}, False),
    ],
    ("site", "Verify that containers get their GPUs", "when"): [
        *VERIFIES,
        ({**IMAGE, **CHECK}, False),
        ({**IMAGE, **LOST_BY_CONVERGING}, False),
    ],
    ("site", "Show what was verified", "when"): [
        *VERIFIES,
        ({**IMAGE, **CHECK}, False),
    ],
    ("site", "Report as far as the run came", "when"): NOBODY_LEFT,
    # ---------------------------------------------------------------- other playbooks
    ("rollback", "Report as far as the run came", "when"): NOBODY_LEFT,
    ("refresh_cdi", "Report as far as the run came", "when"): NOBODY_LEFT,
    # Only the owner's own specs are written again. The first one is for the run that converges.
    ("roles/host/refresh_cdi", "Make the CDI spec again where it is not true any more", "when"): [
        (cdi("collection", "collection"), True),
        (cdi("toolkit", "other", "toolkit"), True),
        ({"gpufleet_host_info": LOST}, False),
        (cdi("collection", "collection", skipped=True), False),
        (cdi("none", "none"), False),
        (cdi("collection"), False),
        (cdi("collection", "toolkit", "other"), False),
    ],
    # An empty repository leaves the packages to the user's own.
    ("roles/toolkit/main", "Add the package repository", "when"): [
        ({}, True),
        ({"gpufleet_toolkit_repository": "https://mirror.example"}, True),
        ({"gpufleet_toolkit_repository": ""}, False),
    ],
    ("plan", "Show what would be applied to clusters", "when"): [
        ({"gpufleet_rollout_plan": {"rendered": True}}, True),
        ({"gpufleet_rollout_plan": {"rendered": False}}, False),
    ],
    # One host's image is enough: others have none and say so.
    ("verify", "Stop here when no host names an image", "that"): [
        ({"ansible_play_hosts_all": ["a", "b"], "hostvars": {"a": {}, "b": IMAGE}}, True),
        ({"ansible_play_hosts_all": ["a", "b"], "hostvars": {"a": {}, "b": {}}}, False),
        (
            {"ansible_play_hosts_all": ["a"], "hostvars": {"a": {"gpufleet_verify_image": ""}}},
            False,
        ),
        # a host that is not in the play
        ({"ansible_play_hosts_all": ["a"], "hostvars": {"a": {}, "b": IMAGE}}, False),
    ],
    ("report", "Put kept reports together", "when"): [
        ({"gpufleet_report_from": ["monday"]}, True),
        ({"gpufleet_report_from": []}, False),
        ({}, False),
    ],
    ("report", "Look and report", "when"): [
        ({}, True),
        ({"gpufleet_report_from": []}, True),
        ({"gpufleet_report_from": ["monday"]}, False),
    ],
    ("tasks/report", "Write the report", "when"): [
        ({"gpufleet_shown": {"page": "site"}}, True),
        ({"gpufleet_shown": {}}, False),
    ],
    ("tasks/report", "Keep the hosts that need attention", "when"): within(
        "gpufleet_fleet", PROBLEM
    ),
    ("images", "End without success", "when"): within("gpufleet_image_fleet", PROBLEM),
    # ---------------------------------------------------------------- a node is handed over
    ("hand_over", "Hand the node over", "when"): [
        ({"gpufleet_hand_over": {"needed": True}}, True),
        ({"gpufleet_hand_over": {"needed": False}}, False),
        ({"gpufleet_hand_over": {"needed": True}, **CHECK}, False),
    ],
    (
        "tasks/hand_over_to_collection",
        "Wait until neither a process nor a pod of the toolkit is on the host",
        "until",
    ): GONE,
    (
        "tasks/hand_over_to_collection",
        "Stop where the toolkit still works, or may",
        "when",
    ): turn(GONE),
    ("tasks/hand_over_to_collection", "Verify it", "when"): [
        (IMAGE, True),
        ({"gpufleet_verify_image": ""}, False),
        ({}, False),
    ],
    # An earlier run's verification says nothing about this one.
    (
        "tasks/hand_over_to_collection",
        "See that the host is still there after its verification",
        "when",
    ): [
        ({**IMAGE, **LOST_BY_VERIFYING}, True),
        ({**IMAGE, "gpufleet_verify_result": {"changed": False}}, False),
        ({"gpufleet_verify_image": "", **LOST_BY_VERIFYING}, False),
        (LOST_BY_VERIFYING, False),
    ],
    # A host that does not answer may still be watched.
    (
        "tasks/hand_over_to_operator",
        "Wait until the restarted engine is no longer watched",
        "until",
    ): [
        (look(journal=[]), True),
        (look(journal=[{"state": "done"}]), True),
        (look(journal=[{"state": "done"}, {"state": "probation"}]), False),
        (look(**LOST), False),
    ],
    (
        "tasks/hand_over_to_operator",
        "Wait until the host shows the toolkit's handlers",
        "until",
    ): SHOWS_HANDLERS,
    (
        "tasks/hand_over_to_operator",
        "Wait until the host shows the toolkit's handlers",
        "failed_when",
    ): turn(SHOWS_HANDLERS),
}


def list_conditions() -> Iterator[tuple[Place, list[Any]]]:
    """Yield each condition of the files."""
    for file, entries in FILES.items():
        for task in list_all(entries):
            for keyword, value in list_keywords(task):
                yield (file, task["name"], keyword), value if isinstance(value, list) else [value]


def list_keywords(task: Task) -> Iterator[tuple[str, Any]]:
    yield from ((keyword, task[keyword]) for keyword in KEYWORDS if keyword in task)
    if ASSERT in task:
        yield "that", task[ASSERT]["that"]


FOUND = list(list_conditions())
WRITTEN = dict(FOUND)
IDS = {place: "-".join(place).replace("/", "-") for place in CONDITIONS}


def test_each_condition_has_cases() -> None:
    assert sorted(WRITTEN) == sorted(CONDITIONS)
    assert len(FOUND) == len(WRITTEN), "two of a file have one name"


@pytest.mark.parametrize("place", CONDITIONS, ids=IDS.get)
def test_a_condition_is_met_by_what_it_is_for_and_by_nothing_else(place: Place) -> None:
    cases = CONDITIONS[place]
    assert [(given, is_met(WRITTEN[place], given)) for given, _met in cases] == cases


# What a slip of the pen makes of a condition, by what is replaced.
SLIPS = [
    (r"\bnot in\b", "in"),
    (r"(?<!not )\bin\b", "not in"),
    (r"\bnot (?!in\b|defined\b)", ""),
    (r"\bis defined\b", "is not defined"),
    (r"\bis not defined\b", "is defined"),
    ("==", "!="),
    ("!=", "=="),
    ("> 0", ">= 0"),
    ("== 0", ">= 0"),
    (DEFAULT, ""),
    (r"(?<!default\()(?<!': )'(\w+)'(?!, true|\})", r"'\1_'"),
]


def slip(text: str) -> Iterator[str]:
    """Yield the text of a condition with one slip each, and what is left if all of it is lost."""
    yield "true"
    yield f"not ({text})"
    for pattern, instead in SLIPS:
        for hit in re.finditer(pattern, text):
            yield text[: hit.start()] + hit.expand(instead) + text[hit.end() :]


def is_noticed(conditions: list[Any], cases: Cases) -> bool:
    """Tell whether a case has another outcome than it should, or none."""
    try:
        return any(is_met(conditions, given) != met for given, met in cases)
    except FAILURES:
        return True


@pytest.mark.parametrize("place", CONDITIONS, ids=IDS.get)
def test_the_cases_notice_a_slip_in_each_part_of_a_condition(place: Place) -> None:
    """Otherwise a part could be lost, and no test would fail."""
    parts = WRITTEN[place]
    slips = [
        [*parts[:number], changed, *parts[number + 1 :]]
        for number, part in enumerate(parts)
        for changed in ("true",) * (part is False) or slip(part)
    ]
    assert [words for words in slips if not is_noticed(words, CONDITIONS[place])] == []


def test_a_slip_changes_one_part() -> None:
    assert list(slip("not a.b | default('x') not in ['y'] | length > 0")) == [
        "true",
        "not (not a.b | default('x') not in ['y'] | length > 0)",
        "not a.b | default('x') in ['y'] | length > 0",
        "a.b | default('x') not in ['y'] | length > 0",
        "not a.b | default('x') not in ['y'] | length >= 0",
        "not a.b not in ['y'] | length > 0",
        "not a.b | default('x') not in ['y_'] | length > 0",
    ]
