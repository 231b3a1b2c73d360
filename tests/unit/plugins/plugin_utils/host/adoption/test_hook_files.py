# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hook files that others left: the forms in which they were ever made, and what becomes of each
where GPUs come by CDI.
"""

from __future__ import annotations

import dataclasses as dc
import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    hook_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    oci_hook,
)

from tests.unit.builders import obs, sha
from tests.unit.records import instance, record

USUAL, ADMINS = (
    "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json",
    "/etc/containers/oci/hooks.d/oci-nvidia-hook.json",
)
CRIO = instance(
    "crio", "1.34.2", default_handler="crun", handlers={"crun": "/usr/libexec/crio/crun"}
)
PATHS = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def newer(path: str, **hook: Any) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    return {"version": "1.0.0", "hook": {"path": path, "args": [name, "prestart"], **hook}, "when": {"always": True, "commands": [".*"]},
            "stages": ["prestart"]}  # fmt: skip


TOOLKIT, HOOK = "/usr/bin/nvidia-container-toolkit", "/usr/bin/nvidia-container-runtime-hook"
OPERATORS = "/usr/local/nvidia/toolkit/nvidia-container-runtime-hook"
OLDER = {"hook": HOOK, "arguments": ["prestart"], "annotations": ["sandbox"], "stage": ["prestart"]}
FORMS: list[tuple[str, Any, str]] = [
    ("toolkit 1.0 to 1.13, RPM", newer(TOOLKIT, env=[PATHS]), TOOLKIT),
    ("nvidia-ctk in hook mode", oci_hook.build_hook_content(), HOOK),
    ("the GPU Operator with CDI off", oci_hook.build_hook_content(OPERATORS), OPERATORS),
    ("a guide for CRI-O, without env", newer(TOOLKIT), TOOLKIT),
    ("a guide for Podman, hooks 0.1.0", OLDER, HOOK),
    ("the same with the other spelling", {**{k: v for k, v in OLDER.items() if k != "stage"}, "stages": ["prestart"]}, HOOK),
    ("another program", newer("/opt/site/hook"), ""),
    ("another argument", {**newer(HOOK), "hook": {"path": HOOK, "args": ["nvidia-container-runtime-hook", "poststop"]}}, ""),
    ("another environment", newer(HOOK, env=["NVIDIA_VISIBLE_DEVICES=all"]), ""),
    ("a timeout of its own", newer(HOOK, timeout=3), ""),
    ("for some containers only", {**newer(HOOK), "when": {"annotations": {"gpu": "yes"}}}, ""),
    ("another stage", {**newer(HOOK), "stages": ["poststop"]}, ""),
    ("hooks 0.1.0 with more than that", {**OLDER, "hasbindmounts": True}, ""),
    ("no object", ["a"], ""),
    ("no hook", {"version": "1.0.0"}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("case", "data", "program"), FORMS, ids=[case for case, *_rest in FORMS])
def test_every_form_that_was_ever_made_is_known_and_nothing_else(
    case: str, data: Any, program: str
) -> None:
    assert hook_files.get_hook_file_program(data) == program


@pytest.mark.parametrize("data", [data for _case, data, program in FORMS if program])
def test_the_node_shows_all_of_such_a_file(data: Any) -> None:
    text = json.dumps(data, indent=2)
    assert file_places.show_own_text(text, oci_hook.KEEP) == text


@pytest.mark.parametrize("path", [USUAL, ADMINS])
@pytest.mark.parametrize(
    ("case", "data", "program"),
    [row for row in FORMS if row[2]],
    ids=[case for case, _data, program in FORMS if program],
)
def test_where_gpus_come_by_cdi_it_goes_and_is_named(
    case: str, data: Any, program: str, path: str
) -> None:
    plan = oci_hook.plan_hook_file(
        Policy(),
        oci_hook.read_hook_facts(
            Policy(), obs(files={path: json.dumps(data)}), record(Policy(), CRIO)
        ),
        record(Policy(), CRIO),
    )
    assert [(c["op"], c["path"]) for c in plan.changes] == [("remove", path)]
    tool = "gpu-operator" if program == OPERATORS else "nvidia-container-toolkit"
    assert [(left.tool, left.path, left.exact, left.fate) for left in plan.leftovers] == [
        (tool, path, True, "adopted")
    ]


def test_adopt_never_leaves_it_and_names_it_with_what_ends_it() -> None:
    plan = oci_hook.plan_hook_file(
        Policy(adopt="never"),
        oci_hook.read_hook_facts(
            Policy(adopt="never"), obs(files={ADMINS: json.dumps(OLDER)}), record(Policy(), CRIO)
        ),
        record(Policy(), CRIO),
    )
    assert (plan.changes, [left.fate for left in plan.leftovers]) == ((), ["kept"])
    assert f"rm {ADMINS}" in plan.leftovers[0].next


def test_one_that_this_collection_has_written_is_no_leftover() -> None:
    known = {USUAL: {"existed": False, "sha256_after": sha(oci_hook.render_hook_file())}}
    plan = oci_hook.plan_hook_file(
        Policy(adopt="never"),
        oci_hook.read_hook_facts(
            Policy(adopt="never"),
            obs(files={USUAL: oci_hook.render_hook_file()}, originals=known),
            record(Policy(), CRIO),
        ),
        record(Policy(), CRIO),
    )
    assert ([c["op"] for c in plan.changes], plan.leftovers) == (["remove"], ())


def test_where_the_hook_is_wanted_one_in_the_other_directory_goes() -> None:
    policy = Policy(cdi="disabled")
    seen = obs(files={USUAL: oci_hook.render_hook_file(), ADMINS: json.dumps(OLDER), HOOK: ""})
    assert [
        c["path"]
        for c in oci_hook.plan_hook_file(
            policy,
            oci_hook.read_hook_facts(policy, seen, record(policy, CRIO)),
            record(policy, CRIO),
        ).changes
    ] == [ADMINS]


@pytest.mark.parametrize(
    ("code", "gone"),
    [("operator.runs", False), ("operator.unproven", False), ("manager.writes", True)],
)
def test_the_file_of_an_operator_that_works_is_not_fought(code: str, gone: bool) -> None:
    refused = Message("It is left alone", code)
    told = dc.replace(
        record(Policy(), CRIO), refused=(("containerd:/etc/containerd/config.toml", refused),)
    )
    plan = oci_hook.plan_hook_file(
        Policy(),
        oci_hook.read_hook_facts(
            Policy(), obs(files={USUAL: oci_hook.render_hook_file(OPERATORS)}), told
        ),
        told,
    )
    assert bool(plan.changes) is gone


def test_state_absent_gives_it_back() -> None:
    known = {
        ADMINS: {
            "existed": True,
            "sha256_before": "a",
            "sha256_after": None,
            "content": json.dumps(OLDER),
        }
    }
    plan = oci_hook.plan_absent(
        Policy(state="absent"),
        oci_hook.read_hook_facts(Policy(state="absent"), obs(originals=known), None),
    )
    assert [(c["op"], c["path"]) for c in plan.changes] == [("restore", ADMINS)]


def test_the_oldest_ones_are_scripts_that_nothing_runs_any_more() -> None:
    path = "/usr/libexec/oci/hooks.d/oci-nvidia-hook"
    plan = oci_hook.plan_hook_file(
        Policy(),
        oci_hook.read_hook_facts(
            Policy(), obs(files={path: "#!/bin/sh\n"}), record(Policy(), CRIO)
        ),
        record(Policy(), CRIO),
    )
    found = [(left.path, left.fate, get_code(left.why)) for left in plan.leftovers]
    assert (plan.changes, found) == ((), [(path, "kept", "adoption.hook-script")])
