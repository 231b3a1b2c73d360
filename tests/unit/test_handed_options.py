# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that playbooks hand to modules and steps: none is left out unless a table says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments

from tests.unit.playbook_tasks import GATE, HERE, PASSED_ON, WITHOUT_ROLES, Task, list_all

# Options whose variable has another name than the option's, behind the part that groups variables.
RENAMED = {"rollout": "rollout_id", "kubernetes_node": "kubernetes_node"}
GROUPS = re.compile("(rollout|hand_over|kubernetes)_")
# module or step -> options that no playbook hands to it
NEVER = {
    "variables_check": {"written"},
    "fleet_table": {"width"},
    "fleet_image_report": {"results", "width"},
    # a test's own registry; the transport of hosts that have facts
    "image_choice_info": {"registry_plain_http", "transport"},
    # the look, which every playbook keeps in one variable
    "rollout_asked": {"results"},
    "rollout_plan": {"results"},
    "rollout_cluster": {"results"},
}
LOOK_FOR_TOOLKIT = {
    "config_path", "engines", "handlers", "operator_toolkit", "packages", "service", "socket", "transport",
}  # fmt: skip
ONLY_GATE = {"fleet_policy", "results"}
# (file, task) -> options that this task leaves out
LEFT_OUT: dict[tuple[str, str], set[str]] = {
    # ---- a gate between waves compares no decisions, and refresh_cdi alone loses hosts by its look
    ("site", GATE): ONLY_GATE,
    ("rollback", GATE): ONLY_GATE,
    ("refresh_cdi", GATE): {"fleet_policy"},
    # ---- tables within a run: the one at its end has the rest
    ("site", "Show what was verified"): {
        "also", "columns", "details", "fail_on_drift", "max_lost", "playbook",
    },
    (
        "rollback",
        "Show what will be taken back, which engines restart, and which containers end",
    ): {"also", "columns", "fail_on_drift", "max_lost", "playbook", "view"},
    # ---- reports: of kept ones, of a rollout, of the others
    ("report", "Put kept reports together"): {
        "also", "change_ref", "files", "plan", "playbook", "results", "status",
    },
    ("rollout", "Write the report"): {"also", "results", "sources"},
    ("tasks/report", "Write the report"): {"plan", "sources", "status"},
    # ---- images: before a host is looked at, there are no GPUs; later there are facts of the host
    ("images", "Check the catalogue before a host is looked at"): {"gpus", "root"},
    ("images", "Choose"): {"facts"},
    # ---- a plan reads what is approved with it, and does nothing
    ("plan", "Check the settings of the rollout"): {
        "approved", "approved_changes", "canaries", "events", "gate_check", "gate_retries", "host_timeout", "keep_packages",
        "max_failed", "max_unavailable", "pause", "plugin_wait", "seed", "soak", "soak_command", "until", "waves", "window",
    },
    ("plan", "Keep the plan of a rollout for those who approve it"): {"fleet_policy"},
    ("rollout", "Plan the rollout"): {"approvals"},
    # ---- steps of a batch: a person declines before it, a cluster refuses around it
    ("rollout", "Tell what each batch would do"): {"declined", "refused"},
    ("rollout/ask", "Check whether the batch may begin"): {"declined", "refused"},
    ("rollout/begin", "Begin the batch"): {"refused"},
    ("rollout/refused", "End the rollout before the batch"): {"declined"},
    ("rollout/end_batch", "End the batch"): {"declined"},
    # ---- failures: only a second one is joined to a first
    ("rollout", "Keep what went wrong"): {"joined_by"},
    ("rollout/keep_failure", "Keep the failure"): {"joined_by"},
    ("rollout/look_again", "Keep the failure"): {"joined_by"},
    ("tasks/hand_over", "Keep what went wrong"): {"joined_by", "otherwise"},
    ("tasks/hand_over", "Keep what went wrong then"): {"otherwise"},
    # ---- a node is handed over: looks wait for nothing, and only they say whose a drain is
    ("hand_over", "See whose the node is"): {"interval", "timeout"},
    ("tasks/hand_over", "See in which state the node is"): {"interval", "point", "timeout"},
}  # fmt: skip


def list_ours() -> Iterator[tuple[str, Task, str, dict[str, Any]]]:
    """Yield each task with a module of this collection: its file, itself, its module or step, and
    the options.
    """
    for file, entries in WITHOUT_ROLES.items():
        for task in list_all(entries):
            for key, options in task.items():
                if key.startswith(HERE):
                    module = key.removeprefix(HERE)
                    yield file, task, (options or {}).get("step", module), options or {}


OURS = list(list_ours())


def derive_spec(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    if "step" in options:
        return arguments.derive_step_spec(kind)
    return dict(arguments.derive_argument_spec(kind))


def expect_left_out(file: str, name: str, kind: str) -> set[str]:
    if kind == "host_info":
        return set(arguments.derive_argument_spec(kind)) - LOOK_FOR_TOOLKIT
    converges = kind == "hand_over" and file.startswith("tasks/hand_over_to_")
    own = {"rollout"} if converges else LEFT_OUT.get((file, name), set())
    return own | NEVER.get(kind, set())


def test_a_task_leaves_out_no_option_that_it_should_hand_on() -> None:
    """One that is left out has its default, and the user's variable is read by nothing."""
    wrong = {
        (file, task["name"]): sorted(left ^ wanted)
        for file, task, kind, options in OURS
        if (left := set(derive_spec(kind, options)) - set(options))
        != (wanted := expect_left_out(file, task["name"], kind))
        # one that names the file that it writes
        and (file, kind) != ("bundle", "variables_check")
    }
    assert wrong == {}
    assert set(LEFT_OUT) <= {(file, task["name"]) for file, task, _kind, _options in OURS}


def test_an_option_that_no_variable_decides_has_one_of_its_choices() -> None:
    wrong = [
        (file, task["name"], option, value)
        for file, task, kind, options in OURS
        for option, spec in derive_spec(kind, options).items()
        if (value := options.get(option)) is not None
        and "choices" in spec
        and "{{" not in str(value)
        and value not in spec["choices"]
    ]
    assert wrong == []


def test_an_option_is_handed_the_variable_of_its_name() -> None:
    wrong = [
        (file, task["name"], option, hit["variable"])
        for file, task, _kind, options in OURS
        for option, value in options.items()
        if (hit := PASSED_ON.fullmatch(str(value)))
        and RENAMED.get(option, option)
        not in (hit["variable"], GROUPS.sub("", hit["variable"], count=1))
    ]
    assert wrong == []


CLUSTER_STEPS = {"hand_over", "rollout_cluster"}


def test_steps_that_talk_to_a_cluster_run_where_its_access_is() -> None:
    wrong = [
        (file, task["name"])
        for file, task, kind, _options in OURS
        if (kind in CLUSTER_STEPS) != ("delegate_to" in task and task.get("become") is False)
    ]
    assert wrong == []
