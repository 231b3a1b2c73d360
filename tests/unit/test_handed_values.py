# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values that playbooks hand to their tasks: with these variables a task gets this value.
Ansible itself fills in the variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.playbook_tasks import (
    DEFAULT,
    FAILURES,
    GATE,
    INSIDE,
    KEYWORDS,
    MAGIC,
    PASSED_ON,
    WITHOUT_ROLES,
    fill,
    list_all,
    look,
    settings,
    step,
)

Place = tuple[str, str, str]
Cases = list[tuple[dict[str, Any], Any]]
SEVERAL = {"gpu1": "it is lost", "gpu2": "it failed"}


def of_variable(name: str, *values: Any, unset: Any, empty: Any = ...) -> Cases:
    """Return the cases of a variable that is handed on. empty: the value for ''; as it is if it is
    not given.
    """
    return [
        ({}, unset),
        ({name: ""}, "" if empty is ... else empty),
        *(({name: value}, value) for value in values),
    ]


BUDGET = of_variable("gpufleet_max_failed", "10%", 2, unset=0, empty=0)
WAVES = of_variable("gpufleet_serial", [2, 4], unset=[1, "10%", "100%"])
POLICY = of_variable("gpufleet_fleet_policy", "uniform", unset="per_host", empty="per_host")
CATALOGUE = of_variable("gpufleet_image_catalogue", "a.yml", unset="images.yml", empty="images.yml")
REGISTRY = of_variable("gpufleet_image_registry", True, unset=False, empty=False)
AUTH = of_variable("gpufleet_image_registry_auth_file", "/a", unset="", empty="")
PUBLISH = of_variable("gpufleet_report_publish", "s3://a", unset="")
TICKET = of_variable("gpufleet_change_ref", "CHG-1", unset="")
PLAN_FILE: Cases = [
    ({}, []),
    ({"gpufleet_rollout_plan_file": ""}, []),
    ({"gpufleet_rollout_plan_file": "/plan"}, ["/plan"]),
]
TO = "gpufleet_hand_over_to"
TIMEOUT, INTERVAL = "gpufleet_hand_over_timeout", "gpufleet_hand_over_interval"
# Ansible asks again after `delay` seconds, `retries` times: together the time limit.
RETRIES: Cases = [
    ({}, 60),
    ({TIMEOUT: "", INTERVAL: ""}, 60),
    ({TIMEOUT: 60}, 12),
    ({INTERVAL: 10}, 30),
    ({TIMEOUT: "60", INTERVAL: "7"}, 8),
]
DELAY: Cases = [({}, 5), ({INTERVAL: ""}, 5), ({INTERVAL: "7"}, 7)]
TOOLKIT_WAITS = "Wait until neither a process nor a pod of the toolkit is on the host"
WATCH_WAITS = "Wait until the restarted engine is no longer watched"
HANDLERS_WAIT = "Wait until the host shows the toolkit's handlers"
FILES_OF_BATCH = {"change": ["a"], "held": ["b"], "last": ["c"]}


def keep(name: str) -> dict[str, Cases]:
    """Return the cases of the facts that fail the hosts of a run that is not a success."""
    return {
        "problem": [({name: {"problem": "2 hosts"}}, "2 hosts")],
        "failures": [({name: {"failures": SEVERAL}}, SEVERAL)],
        # a problem of no host in particular is said by one
        "pattern": [
            ({name: {"failures": SEVERAL}}, ["gpu1", "gpu2"]),
            ({name: {"failures": {}}}, ["gpu1"]),
        ],
    }


def shown(key: str, value: Any, unset: Any = ...) -> Cases:
    cases: Cases = [({"gpufleet_shown": {key: value}}, value)]
    return cases if unset is ... else [*cases, ({"gpufleet_shown": {}}, unset)]


# (file, task) -> option or keyword -> given variables, the value that the task gets
VALUES: dict[tuple[str, str], dict[str, Cases]] = {
    # ---------------------------------------------------------------- waves, and the gate between them
    ("site", "Converge the fleet"): {"serial": WAVES},
    ("site", GATE): {"max_failed": BUDGET},
    ("site", "Stop here when the fleet is not what its policy wants"): {
        "max_failed": BUDGET,
        "fleet_policy": POLICY,
    },
    ("rollback", "Take the collection's changes back"): {"serial": WAVES},
    ("rollback", GATE): {"max_failed": BUDGET},
    ("refresh_cdi", "Refresh the CDI specs"): {"serial": WAVES},
    ("refresh_cdi", GATE): {"max_failed": BUDGET},
    ("plan", "Fail when the fleet is not what its policy wants"): {"fleet_policy": POLICY},
    # The rollout's file of tasks is read with the release that it brings, and otherwise left alone.
    ("plan", "Check the settings of the rollout"): {
        "tasks": [
            ({"gpufleet_rollout_tasks": "a", "gpufleet_rollout_driver": "580"}, "a"),
            ({"gpufleet_rollout_tasks": "a", "gpufleet_rollout_driver": ""}, MAGIC["omit"]),
            ({"gpufleet_rollout_tasks": "a"}, MAGIC["omit"]),
            ({"gpufleet_rollout_driver": "580"}, MAGIC["omit"]),
        ]
    },
    # ---------------------------------------------------------------- rollout
    # The rollout's own setting comes first. Which one is wrong is said by name.
    ("rollout", "Check the settings of the rollout"): {
        "max_failed": [
            ({}, ["", ""]),
            ({"gpufleet_rollout_max_failed": 1}, [1, ""]),
            ({"gpufleet_max_failed": 2}, ["", 2]),
            ({"gpufleet_rollout_max_failed": 1, "gpufleet_max_failed": 2}, [1, 2]),
        ]
    },
    ("rollout", "Keep those hosts"): {
        "asked": [({"gpufleet_rollout_asked": {"pattern": ["gpu2"]}}, ["gpu2"])]
    },
    ("rollout", "Plan the rollout"): {"fleet_policy": POLICY},
    ("rollout", "Prepare, converge and verify the host"): {
        "loop": [
            (step(files=FILES_OF_BATCH, held=[]), ["a"]),
            (step(files=FILES_OF_BATCH, held=["gpu2"]), ["a"]),
            (step(files=FILES_OF_BATCH, held=["gpu1"]), ["b"]),
        ],
        "ansible.builtin.include_tasks": [({"gpufleet_rollout_file": "a.yml"}, "a.yml")],
    },
    ("rollout", "Look once more and tell the clusters"): {
        "loop": [(step(files=FILES_OF_BATCH, held=["gpu1"]), ["c"])],
        "ansible.builtin.include_tasks": [({"gpufleet_rollout_file": "a.yml"}, "a.yml")],
    },
    ("rollout", "Report"): {
        "refused": [({}, ""), ({"gpufleet_rollout_applied_end": {"refused": "no"}}, "no")]
    },
    ("rollout", "Write the report"): {
        "status": [({"gpufleet_rollout_end": {"status": "done"}}, "done")],
        "directory": of_variable("gpufleet_report_dir", "/a", unset=""),
        "publish": PUBLISH,
        "files": PLAN_FILE,
        "change_ref": TICKET,
    },
    ("rollout", "Keep the hosts that need attention"): keep("gpufleet_rollout_end"),
    # A person who says no makes the question fail.
    ("rollout/begin", "Begin the batch"): {
        "declined": [
            ({}, False),
            ({"gpufleet_rollout_answer": {"skipped": True}}, False),
            ({"gpufleet_rollout_answer": {"failed": False}}, False),
            ({"gpufleet_rollout_answer": {"failed": True}}, True),
        ]
    },
    ("rollout/refused", "End the rollout before the batch"): {
        "refused": [({"gpufleet_rollout_applied_before": {"refused": "no"}}, "no")]
    },
    ("rollout/cluster_before", "Wait until the device plugin has its new configuration"): {
        "seconds": [(settings(plugin_wait="30"), 30)]
    },
    ("rollout/own_before", "Run your tasks before the change"): {
        "file": [(settings(tasks={"before": "/b.yml"}), "/b.yml")]
    },
    ("rollout/own_change", "Run your tasks that change the host"): {
        "file": [(settings(tasks={"change": "/c.yml"}), "/c.yml")]
    },
    ("rollout/own_after", "Run your tasks after the change"): {
        "file": [(settings(tasks={"after": "/a.yml"}), "/a.yml")]
    },
    ("rollout/soak", "Wait, so that later failures show before the next batch"): {
        "seconds": [(settings(soak="600"), 600)]
    },
    ("rollout/look_again", "Run your own check"): {
        "argv": [(settings(soak_argv=["a", "b c"]), ["a", "b c"])],
        "GPUFLEET_HOST": [({}, "gpu1")],
        "timeout": [(settings(soak_limit=90), 90)],
    },
    ("rollout/end_batch", "End the batch"): {
        "refused": [({}, ""), ({"gpufleet_rollout_applied_after": {"refused": "no"}}, "no")]
    },
    # ---------------------------------------------------------------- the end of a run
    ("tasks/report", "Show the fleet"): {
        "results": shown("results", "gpufleet_host_info"),
        "also": shown("also", ["gpufleet_verify_result"], []),
        "view": shown("view", "cdi", "hosts"),
        "details": shown("details", True, False),
        "max_lost": [*shown("max_lost", "5%", 0), ({"gpufleet_shown": {"max_lost": ""}}, 0)],
        "playbook": shown("page", "site", ""),
        "columns": of_variable("gpufleet_table_columns", ["host"], unset=[], empty=[]),
        "fail_on_drift": of_variable("gpufleet_fail_on_drift", True, unset=False, empty=False),
    },
    ("tasks/report", "Write the report"): {
        "results": shown("results", "gpufleet_host_info"),
        "also": shown("also", ["gpufleet_verify_result"], []),
        "playbook": shown("page", "site"),
        # the user's folder comes before the playbook's own
        "directory": [
            *shown("directory", "gpufleet-report", ""),
            ({"gpufleet_shown": {"directory": "a"}, "gpufleet_report_dir": "b"}, "b"),
            ({"gpufleet_shown": {}, "gpufleet_report_dir": "b"}, "b"),
        ],
        "publish": PUBLISH,
        "files": PLAN_FILE,
        "change_ref": TICKET,
    },
    ("tasks/report", "Keep the hosts that need attention"): keep("gpufleet_fleet"),
    ("plays/end", "End without success"): {
        "msg": [
            ({"hostvars": {"localhost": {"gpufleet_end": {"failures": SEVERAL}}}}, "it is lost"),
            (
                {"hostvars": {"localhost": {"gpufleet_end": {"failures": {}, "problem": "no"}}}},
                "no",
            ),
        ]
    },
    ("report", "Put kept reports together"): {
        "sources": [({"gpufleet_report_from": ["monday"]}, ["monday"])],
        "directory": of_variable(
            "gpufleet_report_dir", "/a", unset="gpufleet-report", empty="gpufleet-report"
        ),
        "publish": PUBLISH,
    },
    # ---------------------------------------------------------------- images
    ("images", "Check the catalogue before a host is looked at"): {
        "catalogue": CATALOGUE,
        "registry": REGISTRY,
        "registry_auth_file": AUTH,
    },
    ("images", "Choose"): {
        "catalogue": CATALOGUE,
        "registry": REGISTRY,
        "registry_auth_file": AUTH,
        "gpus": of_variable("gpufleet_image_gpus", "mig", unset="all", empty="all"),
    },
    ("images", "Show the fleet"): {"directory": of_variable("gpufleet_image_dir", "/a", unset="")},
    ("images", "End without success"): {
        "msg": [({"gpufleet_image_fleet": {"problem": "none fits"}}, "none fits")]
    },
    ("bundle", "Show the archive"): {
        "msg": [
            (
                {"gpufleet_bundle_result": {"file": "a.tar", "size": 7, "sha256": "f00"}},
                "a.tar: 7 bytes, sha256 f00",
            )
        ]
    },
    # ---------------------------------------------------------------- a node is handed over
    # One node after the other; all at once if it is only said whose they are.
    ("hand_over", "Hand nodes over between the GPU Operator's toolkit and this collection"): {
        "serial": [({}, 1), ({TO: ""}, 1), ({TO: "operator"}, 1), ({TO: "state"}, "100%")]
    },
    ("hand_over", "See whose the node is"): {
        "to": of_variable(TO, "operator", unset=MAGIC["omit"], empty=MAGIC["omit"])
    },
    ("hand_over", "Say whose it is"): {
        "msg": [({"gpufleet_hand_over": {"owner": "a", "described": "b"}}, "a: b")]
    },
    ("hand_over", "Take it out of service"): {"tasks_from": [({"item": "check"}, "check")]},
    ("tasks/hand_over", "Hand over"): {
        "ansible.builtin.include_tasks": [
            ({"gpufleet_hand_over_there": "operator"}, "hand_over_to_operator.yml")
        ]
    },
    ("tasks/hand_over", "Hand back"): {
        "ansible.builtin.include_tasks": [
            ({"gpufleet_hand_over_back": "collection"}, "hand_over_to_collection.yml")
        ]
    },
    ("tasks/hand_over", "Say so, and end here"): {
        "msg": [
            (
                {
                    "gpufleet_hand_over_failure": {"msg": "a"},
                    "gpufleet_hand_over_state": {"msg": "b"},
                },
                "gpu1 was not handed over: a. Now b",
            )
        ]
    },
    ("tasks/hand_over_to_collection", TOOLKIT_WAITS): {"retries": RETRIES, "delay": DELAY},
    ("tasks/hand_over_to_operator", WATCH_WAITS): {"retries": RETRIES, "delay": DELAY},
    ("tasks/hand_over_to_operator", HANDLERS_WAIT): {"retries": RETRIES, "delay": DELAY},
    ("tasks/hand_over_to_collection", "Stop where the toolkit still works, or may"): {
        "msg": [
            (
                look(operator_toolkit={"why": "its pod runs"}, msg="ok"),
                "the operator's toolkit is not gone from the host: its pod runs",
            ),
            (
                look(unreachable=True, msg="no route"),
                "the operator's toolkit is not gone from the host: no route",
            ),
        ]
    },
    (
        "tasks/hand_over_to_collection",
        "See that the host is still there after its verification",
    ): {
        "msg": [
            (
                {"gpufleet_verify_result": {"msg": "no route"}},
                "the host was lost while it was verified: no route",
            ),
            ({}, "the host was lost while it was verified: it does not answer"),
        ]
    },
}
# Values that are the same wherever they stand.
ALIKE: dict[str, Cases] = {
    "own": of_variable("gpufleet_own_variables", ["gpufleet_site"], unset=[]),
    "settings": [(settings(soak=1), {"soak": 1})],
    "plan": [({"gpufleet_rollout_plan": {"hosts": {}}}, {"hosts": {}})],
    "timeout": [
        ({}, 0),
        ({"gpufleet_rollout_host_timeout": "90"}, 90),
        ({"gpufleet_rollout_host_timeout": 90}, 90),
    ],
}
KEEPER: Cases = [
    ({"hostvars": {"localhost": {"inventory_hostname": "127.0.0.1"}}}, "127.0.0.1"),
]
DELEGATE = of_variable(
    "gpufleet_kubernetes_delegate", "bastion", unset="localhost", empty="localhost"
)
# file, task that includes, variable that it sets -> given variables, what the included tasks see
SET: dict[Place, Cases] = {
    # What is announced is what is taken back, whatever the inventory says.
    ("rollback", "Look at the host", "gpufleet_state"): [({"gpufleet_state": "present"}, "absent")],
    ("rollback", "Take back", "gpufleet_state"): [({"gpufleet_state": "present"}, "absent")],
    (
        "tasks/hand_over_to_operator",
        "Take this collection's changes back",
        "gpufleet_state",
    ): [({"gpufleet_state": "present"}, "absent")],
    ("tasks/hand_over_to_collection", "Converge", "gpufleet_operator_toolkit"): [
        ({"gpufleet_operator_toolkit": "auto"}, "gone")
    ],
    # A driver that the inventory leaves alone is looked at as well: the user's tasks change it.
    ("rollout/driver_before", "Look at the host", "gpufleet_driver"): [
        ({"gpufleet_driver": "ignore"}, "advise"),
        ({"gpufleet_driver": "hold"}, "advise"),
    ],
    ("rollout/driver_judged", "Look at the host", "gpufleet_driver"): [
        ({"gpufleet_driver": "ignore"}, "advise"),
        ({"gpufleet_driver": "hold"}, "advise"),
    ],
    ("rollout/converge", "Converge the host", "gpufleet_approved_change"): [
        (
            {"gpufleet_rollout_plan": {"hosts": {"gpu1": {"approved": "f00"}, "gpu2": {}}}},
            "f00",
        )
    ],
    (
        "rollout/verify",
        "Verify that containers get their GPUs",
        "gpufleet_verify_host_result",
    ): [
        ({"gpufleet_host_result": {"verification": {"a": 1}}}, {"verification": {"a": 1}}),
        ({"gpufleet_host_result": {"changed": True}}, {}),
    ],
    ("site", "Verify that containers get their GPUs", "gpufleet_verify_host_result"): [
        ({"gpufleet_host_result": {"changed": True}}, {"changed": True})
    ],
    ("rollout", "Leave the failed host out of service", "gpufleet_drain_reason"): [
        ({"gpufleet_drain_reason": "a", "gpufleet_rollout_failure": {"msg": "b"}}, "b")
    ],
    ("tasks/hand_over", "Leave it out of service, with the reason", "gpufleet_drain_reason"): [
        ({"gpufleet_drain_reason": "a", "gpufleet_hand_over_failure": {"msg": "b"}}, "b")
    ],
    # A node whose toolkit changes hands is always emptied, unless the user says otherwise.
    ("hand_over", "Take it out of service", "gpufleet_drain"): [
        ({"gpufleet_drain": "never"}, "always"),
        ({"gpufleet_drain": "never", "gpufleet_hand_over_drain": ""}, "always"),
        ({"gpufleet_hand_over_drain": "if_needed"}, "if_needed"),
    ],
    ("hand_over", "Take it out of service", "gpufleet_drain_reason"): [
        ({}, "it is being handed over to the collection"),
        ({TO: ""}, "it is being handed over to the collection"),
        ({TO: "operator"}, "it is being handed over to the operator"),
    ],
    (
        "hand_over",
        "Hand over, and hand back where that fails",
        "gpufleet_hand_over_there",
    ): of_variable(TO, "operator", unset="collection", empty="collection"),
    ("hand_over", "Hand over, and hand back where that fails", "gpufleet_hand_over_back"): [
        ({"gpufleet_hand_over_there": "collection"}, "operator"),
        ({"gpufleet_hand_over_there": "operator"}, "collection"),
    ],
}
# file, variables of the report, as tasks/report.yml reads them
MAX_LOST = [({}, 0), ({"gpufleet_max_lost": "5%"}, "5%")]
SHOWN: dict[str, dict[str, Any]] = {
    # `results` names the result of the playbook's last step. A page is for results that people keep.
    "journal": {"results": "gpufleet_host_info", "view": "journal"},
    "kubernetes": {"results": "gpufleet_host_info", "view": "reached", "max_lost": MAX_LOST},
    # Only a plan may lose hosts: one that is lost while it is changed may be in any state.
    "plan": {"results": "gpufleet_host_info", "details": True, "page": "plan", "max_lost": MAX_LOST},
    "refresh_cdi": {"results": "gpufleet_cdi_result", "also": ["gpufleet_host_info"], "view": "cdi"},
    "report": {"results": "gpufleet_host_info", "page": "report", "directory": "gpufleet-report"},
    # What was taken back is shown with what the first look announced.
    "rollback": {
        "results": "gpufleet_host_result",
        "also": ["gpufleet_host_info"],
        "details": True,
    },
    "site": {"results": "gpufleet_host_result", "also": ["gpufleet_verify_result"], "page": "site"},
    "verify": {"results": "gpufleet_verify_result", "view": "verification"},
}  # fmt: skip
# Which hosts a play takes has tests of its own (test_play_hosts_taken.py).
NOT_HERE = {"name", "vars", "hosts", "ansible.builtin.assert", *KEYWORDS, *INSIDE}


def list_filled(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the options and keywords of a task that have variables in them."""
    if isinstance(value, dict):
        for inner, one in value.items():
            yield from list_filled(one, inner)
    elif isinstance(value, list):
        for one in value:
            yield from list_filled(one, key)
    elif isinstance(value, str) and "{{" in value:
        yield key, value


def list_written() -> Iterator[tuple[Place, str]]:
    """Yield each value with variables, but for options that are left out if their variable is."""
    for file, entries in WITHOUT_ROLES.items():
        for task in list_all(entries):
            for key, value in list_filled({key: task[key] for key in {*task} - NOT_HERE}):
                if not PASSED_ON.fullmatch(value):
                    yield (file, task["name"], key), value


WRITTEN = list(list_written())


def get_cases(place: Place, value: str) -> Cases:
    file, name, key = place
    if key == "delegate_to":
        return KEEPER if "hostvars" in value else DELEGATE
    own = VALUES.get((file, name), {})
    return own[key] if key in own else ALIKE.get(key, [])


ORDER = ("rollout", "Keep the order of the hosts")
SIZES = ("rollout", "Roll out", "serial")
FILLED = [(place, value) for place, value in WRITTEN if place[:2] != ORDER and place != SIZES]


def test_each_value_has_cases_and_each_case_a_value() -> None:
    written = {place for place, _value in FILLED}
    listed = {(file, name, key) for (file, name), keys in VALUES.items() for key in keys}
    alike = {place for place in written if place[2] in (*ALIKE, "delegate_to")}
    assert sorted(written - alike | (written & listed)) == sorted(listed)


def describe(place: Place) -> str:
    return "-".join(place).replace("/", "-")


@pytest.mark.parametrize("place, value", FILLED, ids=[describe(place) for place, _ in FILLED])
def test_a_task_gets_what_the_variables_say(place: Place, value: str) -> None:
    cases = get_cases(place, value)
    assert [(given, fill(value, given)) for given, _value in cases] == cases
    assert cases


def is_noticed(value: str, cases: Cases) -> bool:
    try:
        return any(fill(value, given) != wanted for given, wanted in cases)
    except FAILURES:
        return True


def test_the_cases_notice_a_default_that_is_lost_or_no_longer_taken_for_an_empty_text() -> None:
    slips = [
        (place, value[: hit.start()] + instead + value[hit.end() :])
        for place, value in FILLED
        for pattern, instead in ((DEFAULT, ""), (r"(?<!default\(''), true\)", ")"))
        for hit in re.finditer(pattern, value)
    ]
    cases = {place: get_cases(place, value) for place, value in FILLED}
    kept = {place for place, text in slips if not is_noticed(text, cases[place])}
    # whose the nodes are is not what an empty text asks for, with or without its default
    assert {(file, key) for file, _name, key in kept} == {("hand_over", "serial")}


def list_set() -> dict[Place, Any]:
    """Return the variables that tasks set for what they include."""
    return {
        (file, task["name"], name): value
        for file, entries in WITHOUT_ROLES.items()
        for task in list_all(entries)
        for name, value in (task.get("vars") or {}).items()
        if name != "gpufleet_shown"
    }


def test_included_tasks_see_what_the_playbook_wants_before_what_the_inventory_says() -> None:
    written = list_set()
    assert sorted(written) == sorted(SET)
    for place, cases in SET.items():
        assert [(given, fill(written[place], given)) for given, _value in cases] == cases, place


def test_each_report_shows_the_results_of_its_playbook() -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for file, entries in WITHOUT_ROLES.items():
        for task in list_all(entries):
            if "gpufleet_shown" in (task.get("vars") or {}):
                found.setdefault(file, []).append(task["vars"]["gpufleet_shown"])
    assert sorted(found) == sorted(SHOWN)
    for file, tables in found.items():
        for table in tables:
            for given, most in SHOWN[file].get("max_lost", [({}, None)]):
                wanted = {**SHOWN[file], **({} if most is None else {"max_lost": most})}
                assert fill(table, given) == wanted, file
