# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tasks that each playbook comes to, through its includes. For each task on a host: a host that
is lost there stays in the run, or leaves it. One that stays is shown by the table and judged by a
gate, so its result must be kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    steps_of_batch,
    variables,
)

from tests.unit.playbook_tasks import FILES, INSIDE, Task, name_file

HERE = "gpufleet.nvidia."
# Modules and steps that ask a host, or change it.
ON_HOST = {
    "cdi_spec", "gpu_diagnose", "gpu_health_info", "host", "host_info", "host_verify", "image_choice_info",
    "rollout_driver", "rollout_soak", "toolkit_packages", "toolkit_repository",
}  # fmt: skip
OWN = "your tasks "
STAYS, LEAVES = True, False
LOOK, CONVERGE, VERIFY = "Look at the host", "Converge the host", "Verify the host"
TOOLKIT_WAITS = "Wait until neither a process nor a pod of the toolkit is on the host"
REPORT = {"Show the fleet", "Write the report", "Keep the hosts that need attention"}
# playbook -> task on a host -> a host that is lost there
LOST = {
    # Of a fleet that must be uniform, a lost host is counted by the gate before the first wave.
    "site": {LOOK: LEAVES, CONVERGE: STAYS, VERIFY: STAYS},
    "rollback": {LOOK: STAYS, CONVERGE: STAYS},
    "refresh_cdi": {LOOK: STAYS, "Make the CDI spec again where it is not true any more": STAYS},
    "plan": {LOOK: STAYS},
    "verify": {VERIFY: STAYS},
    "report": {LOOK: STAYS},
    "journal": {LOOK: STAYS},
    "kubernetes": {LOOK: STAYS},
    "images": {"Check the catalogue before a host is looked at": STAYS, "Choose": STAYS},
    "rollout": {
        LOOK: STAYS,
        "Note the errors that the GPUs have had so far": STAYS,
        "Keep the packages of the driver before your tasks change it": STAYS,
        "Judge whether the driver fits together": STAYS,
        CONVERGE: STAYS,
        VERIFY: STAYS,
        "Diagnose the GPUs while no work is on them": STAYS,
        "Note on the host that its driver was judged": STAYS,
        "Look for errors of the GPUs": STAYS,
        "Run your own check": STAYS,
        # They register nothing, so no later step could see that the host was lost.
        f"{OWN}before": LEAVES,
        f"{OWN}change": LEAVES,
        f"{OWN}after": LEAVES,
    },
    # Nothing is done to a node whose host gives no answer. Later it is handed back, or kept out of service.
    "hand_over": {
        LOOK: LEAVES,
        CONVERGE: STAYS,
        VERIFY: STAYS,
        TOOLKIT_WAITS: STAYS,
        "Wait until the restarted engine is no longer watched": STAYS,
        "Wait until the host shows the toolkit's handlers": STAYS,
    },
    "awx": {},
    "bundle": {},
}  # fmt: skip
# playbook -> tasks whose failure stops no host
FAILURE_IS_READ_LATER = {
    "rollout": {
        # the plan leaves the host out
        "Check that the host can be drained",
        # the gate ends the rollout, with a report
        "Ask before the batch",
        # the host has failed already, and says why
        "Leave the host out of service, with the reason",
    },
    "hand_over": {
        # the next task says whether it can be taken over
        TOOLKIT_WAITS,
        "Leave the host out of service, with the reason",
        # an API that does not answer is said in its place
        "See in which state the node is",
    },
}
# What a run does after a failure, and what it does in any case: playbook -> section -> tasks.
# After a failure each host says why, and one that was drained stays out of service.
SECTIONS: dict[str, dict[str, set[str]]] = {
    "rollout": {
        "rescue": {
            "Keep what went wrong",
            "Keep the failure",
            "Leave the host out of service, with the reason",
        }
    },
    # What takes over goes back to where it was.
    "hand_over": {
        "rescue": {
            "Keep what went wrong",
            "Put the host back into service",
            "Keep what went wrong then",
            "Leave the host out of service, with the reason",
            "See in which state the node is",
            "Say so, and end here",
        }
    },
    "rollback": {
        "always": {
            "Show what will be taken back, which engines restart, and which containers end",
            *REPORT,
        }
    },
    "kubernetes": {"always": {"Render what the clusters need", *REPORT}},
    "images": {"always": {"Show the fleet", "End without success"}},
    **{name: {"always": REPORT} for name in ("site", "refresh_cdi", "plan", "verify", "report", "journal")},
    "awx": {},
    "bundle": {},
}  # fmt: skip
KEYWORDS = ("ignore_unreachable", "ignore_errors")
INCLUDES = ("include_role", "import_role", "include_tasks", "import_tasks")
BATCH = steps_of_batch.choose_files(
    steps_of_batch.Needs(
        ends=False, drains=True, soaks=True, clusters=True, verifies=True, check=False
    ),
    {"before": "/x", "change": "/y", "after": "/z"},
)
# What an include with a variable in its name may include.
CHOSEN = {
    "{{ gpufleet_rollout_file }}": [
        name_file(f"playbooks/{path}") for paths in BATCH.values() for path in paths
    ],
    "hand_over_to_{{ gpufleet_hand_over_there }}.yml": [
        "tasks/hand_over_to_collection",
        "tasks/hand_over_to_operator",
    ],
    "hand_over_to_{{ gpufleet_hand_over_back }}.yml": [],
}
Step = tuple[str, Task, Mapping[str, Any]]


def list_steps(file: str, entries: list[Task], around: Mapping[str, Any]) -> Iterator[Step]:
    """Yield the name of each play, block and task that a file may come to, itself, and the keywords
    that count for it: the nearest ones, and the section that it is in.
    """
    for entry in entries:
        counts = {**around, **{key: entry[key] for key in KEYWORDS if key in entry}}
        yield entry.get("name", ""), entry, counts
        kind = find_include(entry)
        if kind:
            yield from list_included(file, entry, kind, around, counts)
        for key in INSIDE:
            section = {"section": key} if key in ("rescue", "always") else {}
            yield from list_steps(file, entry.get(key) or [], {**counts, **section})


def find_include(entry: Task) -> str:
    return next((kind for kind in INCLUDES if f"ansible.builtin.{kind}" in entry), "")


def list_included(
    file: str, entry: Task, kind: str, around: Mapping[str, Any], counts: Mapping[str, Any]
) -> Iterator[Step]:
    """Yield the tasks of an include. Its own keywords count for what is imported; for what is
    included, those count that it applies.
    """
    given = entry[f"ansible.builtin.{kind}"]
    options = given if isinstance(given, dict) else {"file": given}
    inner = counts if kind.startswith("import") else {**around, **options.get("apply", {})}
    point = re.search(r"settings\.tasks\.(\w+)", str(options.get("file")))
    if point:
        yield OWN + point[1], {}, inner
        return
    for name in list_names(file, options, entry.get("loop")):
        yield from list_steps(name, FILES[name], inner)


def list_names(file: str, options: Mapping[str, Any], loop: Any) -> list[str]:
    """Return the names of the files that an include names."""
    if "name" in options:
        role, entry = options["name"].removeprefix(HERE), options.get("tasks_from", "main")
        return [f"roles/{role}/{one}" for one in (loop if entry == "{{ item }}" else [entry])]
    wanted = options["file"]
    if wanted in CHOSEN:
        return CHOSEN[wanted]
    beside = str(PurePath(file).with_name(PurePath(wanted).stem))
    return [name_file(f"playbooks/{wanted}") if "/" in wanted else beside]


STEPS = {playbook: list(list_steps(playbook, FILES[playbook], {})) for playbook in LOST}
# Without what has tasks inside.
TASKS = {
    playbook: [
        (name, entry, counts)
        for name, entry, counts in steps
        if not find_include(entry) and not any(key in entry for key in INSIDE)
    ]
    for playbook, steps in STEPS.items()
}


def is_on_host(name: str, task: Task) -> bool:
    """Tell whether a task asks a host or changes it."""
    kinds = {
        (options or {}).get("step", key.removeprefix(HERE))
        for key, options in task.items()
        if key.startswith(HERE)
    }
    return name.startswith(OWN) or bool(kinds & ON_HOST)


def test_each_playbook_is_here() -> None:
    books = {name for name in FILES if "/" not in name}
    assert books == set(LOST)
    reached = {entry["name"] for steps in STEPS.values() for _name, entry, _ in steps if entry}
    assert {"Ask before the batch", "Put the host back into service"} <= reached


@pytest.mark.parametrize("playbook", LOST)
def test_a_lost_host_stays_in_the_run_or_leaves_it(playbook: str) -> None:
    steps = [(name, counts) for name, task, counts in TASKS[playbook] if is_on_host(name, task)]
    stays = {(name, counts.get("ignore_unreachable", False)) for name, counts in steps}
    assert stays == set(LOST[playbook].items())


@pytest.mark.parametrize("playbook", LOST)
def test_the_result_of_a_task_that_keeps_a_lost_host_is_kept(playbook: str) -> None:
    """Otherwise nothing would say later that the host was lost."""
    lost = [
        name
        for name, task, counts in TASKS[playbook]
        if is_on_host(name, task) and counts.get("ignore_unreachable") and "register" not in task
    ]
    # the catalogue is read on the controller, without a host
    assert set(lost) <= {"Check the catalogue before a host is looked at"}


@pytest.mark.parametrize("playbook", LOST)
def test_a_failure_stops_a_host_unless_it_is_read_later(playbook: str) -> None:
    names = {name for name, _task, counts in TASKS[playbook] if counts.get("ignore_errors")}
    assert names == FAILURE_IS_READ_LATER.get(playbook, set())


@pytest.mark.parametrize("playbook", SECTIONS)
def test_a_run_says_what_went_wrong_and_reports_in_any_case(playbook: str) -> None:
    found: dict[str, set[str]] = {}
    for name, _task, counts in TASKS[playbook]:
        if "section" in counts:
            found.setdefault(counts["section"], set()).add(name)
    assert found == SECTIONS[playbook]


def list_texts(value: Any) -> Iterator[str]:
    """Yield the texts of a play, block or task, without what is inside of it or registered by it."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in (*INSIDE, "register"):
                yield from list_texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from list_texts(one)
    elif isinstance(value, str):
        yield value


def list_names_given(entry: Task) -> set[str]:
    """Return the names under which a task leaves something for those after it, or inside it."""
    return {
        *([entry["register"]] if "register" in entry else []),
        *entry.get("vars", {}),
        *entry.get("ansible.builtin.set_fact", {}),
        *entry.get("loop_control", {}).values(),
    }


@pytest.mark.parametrize("playbook", LOST)
def test_what_a_playbook_reads_of_a_run_one_of_its_tasks_has_left(playbook: str) -> None:
    """A result of another name is undefined, and most conditions take that for a good one."""
    read = {
        name
        for _name, entry, _counts in STEPS[playbook]
        for text in list_texts(entry)
        for name in re.findall(r"\bgpufleet_\w+", text)
    }
    given = {name for _name, entry, _counts in STEPS[playbook] for name in list_names_given(entry)}
    assert sorted((read & variables.RESULTS) - given) == []


# What a run leaves for AWX and those who read its statistics, by code.
BY_CODE = {"gpufleet_totals", "gpufleet_rollout_result", "gpufleet_rollout_totals"}


def test_each_result_that_is_known_is_left_by_a_task() -> None:
    """The steps that are code read results by their names, too."""
    entries = [entry for steps in STEPS.values() for _name, entry, _counts in steps]
    given = {name for entry in entries for name in list_names_given(entry)}
    role_only = {"gpufleet_repository_result", "gpufleet_toolkit_result"}
    assert variables.RESULTS - given == BY_CODE | role_only
