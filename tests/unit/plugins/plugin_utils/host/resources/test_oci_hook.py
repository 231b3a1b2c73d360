# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The OCI prestart hook file: where it is wanted, where it goes, and whose it is."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    HOOK_BINARY,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    oci_hook,
)

from tests.unit.builders import obs, sha
from tests.unit.records import instance, record

PATH = "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json"
HOOK = Policy(cdi="disabled")
CDI = Policy()
CRIO = instance("crio", "1.34.2", default_handler="crun", low_level="/usr/libexec/crio/crun")
FOREIGN = '{"version": "1.0.0", "hook": {"path": "/opt/site/hook"}, "when": {"always": true}, "stages": ["prestart"]}'


def test_the_content_is_that_of_nvidias_own_tool() -> None:
    assert json.loads(oci_hook.render_hook_file()) == {
        "version": "1.0.0",
        "hook": {
            "path": "/usr/bin/nvidia-container-runtime-hook",
            "args": ["nvidia-container-runtime-hook", "prestart"],
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        },
        "when": {"always": True, "commands": [".*"]},
        "stages": ["prestart"],
    }


def test_a_hook_elsewhere_is_findable() -> None:
    assert oci_hook.build_hook_content("/opt/nv/nvidia-container-runtime-hook")["hook"]["env"][
        0
    ].endswith(":/bin:/opt/nv")


@pytest.mark.parametrize(
    ("case", "policy", "present", "op"),
    [
        ("wanted, missing", HOOK, None, "write"),
        ("wanted, there", HOOK, oci_hook.render_hook_file(), None),
        ("wanted, there in another layout", HOOK, json.dumps(oci_hook.build_hook_content()), None),
        ("wanted, not JSON", HOOK, "{", "write"),
        ("wanted, somebody else's", HOOK, FOREIGN, "write"),
        ("not wanted, missing", CDI, None, None),
        ("not wanted, ours", CDI, oci_hook.render_hook_file(), "remove"),
        (
            "not wanted, NVIDIA's tool wrote the same",
            CDI,
            json.dumps(oci_hook.build_hook_content(), indent=4),
            "remove",
        ),
        ("not wanted, somebody else's", CDI, FOREIGN, None),
    ],
)
def test_present(case: str, policy: Policy, present: str | None, op: str | None) -> None:
    seen = obs(files={**({} if present is None else {PATH: present}), HOOK_BINARY: ""})
    plan = oci_hook.plan_hook_file(
        policy, oci_hook.read_hook_facts(policy, seen, record(policy, CRIO)), record(policy, CRIO)
    )
    assert [c["op"] for c in plan.changes] == ([op] if op else []), case
    assert bool(plan.differences) == bool(op)
    assert plan.restarts == ()
    assert bool(plan.advice) == (present == FOREIGN and policy is CDI)


def test_the_engines_own_directory_in_force_is_used() -> None:
    said = {
        "info": {"config": {"crio": {"HooksDir": ["/run/containers/oci/hooks.d"], "Runtimes": {}}}}
    }
    seen = obs(
        cri={"Status:/var/run/crio/crio.sock": said},
        processes=[{"pid": 1, "exe": "/usr/bin/crio", "argv": ["crio"]}],
    )
    plan = oci_hook.plan_hook_file(
        HOOK, oci_hook.read_hook_facts(HOOK, seen, record(HOOK, CRIO)), record(HOOK, CRIO)
    )
    assert [c["path"] for c in plan.changes] == ["/run/containers/oci/hooks.d/oci-nvidia-hook.json"]


SOCKET = "/var/run/crio/crio.sock"
PROCESS = {"pid": 1, "exe": "/usr/bin/crio", "argv": ["crio"]}
MACHINE_CONFIG = "/etc/crio/crio.conf.d/00-default"
# As OpenShift's Machine Config Operator has it (01-master-container-runtime/_base/files/crio.yaml).
OPENSHIFT = '[crio.runtime]\nhooks_dir = [\n    "/etc/containers/oci/hooks.d",\n    "/run/containers/oci/hooks.d",\n]\n'
SILENT = {f"Status:{SOCKET}": {"info": {}}}  # before 1.33 it says nothing of the configuration
DIRECTORIES = {
    "the files of a tree": (
        Policy(cdi="disabled", root="/tree"),
        {"files": {MACHINE_CONFIG: OPENSHIFT}},
    ),
    "the endpoint of a release before 1.33": (
        HOOK,
        {
            "cri": SILENT,
            "processes": [PROCESS],
            "answers": {f"http:{SOCKET}/config": {"status": 200, "content": OPENSHIFT}},
        },
    ),
    "what its program prints": (
        HOOK,
        {
            "cri": SILENT,
            "processes": [PROCESS],
            "answers": {f"http:{SOCKET}/config": {"status": 404, "content": ""}},
            "commands": {
                "/usr/bin/crio --config  --config-dir /etc/crio/crio.conf.d config": OPENSHIFT
            },
        },
    ),
}


@pytest.mark.parametrize(("policy", "seen"), DIRECTORIES.values(), ids=DIRECTORIES)
def test_the_hook_goes_where_crio_looks_whatever_says_so(
    policy: Policy, seen: dict[str, Any]
) -> None:
    plan = oci_hook.plan_hook_file(
        policy,
        oci_hook.read_hook_facts(
            policy, obs(**seen), record(policy, dataclasses.replace(CRIO, version="1.32.5"))
        ),
        record(policy, dataclasses.replace(CRIO, version="1.32.5")),
    )
    assert [c["path"] for c in plan.changes] == ["/etc/containers/oci/hooks.d/oci-nvidia-hook.json"]


# NVIDIA/gpu-operator#172 and #448: the guide for CRI-O of those years had a second directory, whose
# hooks run as well.
GUIDE = '[crio.runtime]\nhooks_dir = ["/usr/share/containers/oci/hooks.d", "/opt/hooks.d/"]\n'
SECOND = "/opt/hooks.d/oci-nvidia-hook.json"


@pytest.mark.parametrize(
    ("cdi", "there", "changes"),
    [
        ("auto", {SECOND: oci_hook.render_hook_file()}, [("remove", SECOND)]),
        (
            "auto",
            {PATH: oci_hook.render_hook_file(), SECOND: oci_hook.render_hook_file()},
            [("remove", PATH), ("remove", SECOND)],
        ),
        ("auto", {SECOND: FOREIGN}, []),
        ("disabled", {SECOND: oci_hook.render_hook_file()}, [("write", PATH), ("remove", SECOND)]),
    ],
)
def test_hooks_of_all_directories_count(
    cdi: Any, there: dict[str, str], changes: list[tuple[str, str]]
) -> None:
    tree = Policy(cdi=cdi, root="/tree")
    plan = oci_hook.plan_hook_file(
        tree,
        oci_hook.read_hook_facts(
            tree, obs(files={MACHINE_CONFIG: GUIDE, **there}), record(tree, CRIO)
        ),
        record(tree, CRIO),
    )
    assert [(c["op"], c["path"]) for c in plan.changes] == changes
    assert bool(plan.advice) == (FOREIGN in there.values())


def test_a_directory_is_named_as_crio_opens_it() -> None:
    """For the kernel a link before `..` leads elsewhere, and CRI-O hands the path to it as it is."""
    tree, said = (
        Policy(cdi="disabled", root="/tree"),
        '[crio.runtime]\nhooks_dir = ["/opt/x/../hooks.d"]\n',
    )
    plan = oci_hook.plan_hook_file(
        tree,
        oci_hook.read_hook_facts(tree, obs(files={MACHINE_CONFIG: said}), record(tree, CRIO)),
        record(tree, CRIO),
    )
    assert [c["path"] for c in plan.changes] == ["/opt/x/../hooks.d/oci-nvidia-hook.json"]


def test_a_hook_in_any_directory_of_a_running_crio_is_taken_back() -> None:
    said = {
        "info": {
            "config": {
                "crio": {
                    "HooksDir": ["/run/containers/oci/hooks.d", "/opt/hooks.d"],
                    "Runtimes": {},
                }
            }
        }
    }
    written = {SECOND: {"existed": False, "sha256_after": sha(oci_hook.render_hook_file())}}
    seen = obs(
        files={SECOND: oci_hook.render_hook_file()},
        originals=written,
        cri={f"Status:{SOCKET}": said},
        processes=[PROCESS],
    )
    assert [
        c["path"]
        for c in oci_hook.plan_absent(
            Policy(state="absent"), oci_hook.read_hook_facts(Policy(state="absent"), seen, None)
        ).changes
    ] == [SECOND]


def test_a_crio_without_a_directory_of_hooks_is_refused_where_the_hook_is_wanted() -> None:
    tree = Policy(cdi="disabled", root="/tree")
    seen = obs(files={MACHINE_CONFIG: "[crio.runtime]\nhooks_dir = []\n"})
    with pytest.raises(PlanError, match=r"\[oci-hook.no-directory\]"):
        oci_hook.plan_hook_file(
            tree, oci_hook.read_hook_facts(tree, seen, record(tree, CRIO)), record(tree, CRIO)
        )
    assert oci_hook.plan_hook_file(
        Policy(root="/tree"),
        oci_hook.read_hook_facts(Policy(root="/tree"), seen, record(Policy(), CRIO)),
        record(Policy(), CRIO),
    ).empty


@pytest.mark.parametrize(
    "policy", [Policy(cdi="disabled", packages="ignore"), Policy(cdi="disabled", single=True)]
)
def test_a_hook_without_its_program_is_refused(policy: Policy) -> None:
    with pytest.raises(PlanError, match=r"\[oci-hook.no-program\]"):
        oci_hook.plan_hook_file(
            policy,
            oci_hook.read_hook_facts(policy, obs(), record(policy, CRIO)),
            record(policy, CRIO),
        )


def test_the_program_may_come_with_the_packages() -> None:
    assert oci_hook.plan_hook_file(
        HOOK, oci_hook.read_hook_facts(HOOK, obs(), record(HOOK, CRIO)), record(HOOK, CRIO)
    ).changes


@pytest.mark.parametrize(
    ("case", "present", "originals", "op"),
    [
        (
            "ours, untouched",
            oci_hook.render_hook_file(),
            {PATH: {"existed": False, "sha256_after": sha(oci_hook.render_hook_file())}},
            "restore",
        ),
        (
            "ours, reformatted since",
            json.dumps(oci_hook.build_hook_content()),
            {PATH: {"existed": False, "sha256_after": sha(oci_hook.render_hook_file())}},
            "remove",
        ),
        ("never written here", oci_hook.render_hook_file(), {}, None),
        ("gone", None, {}, None),
    ],
)
def test_absent(case: str, present: str | None, originals: dict[str, Any], op: str | None) -> None:
    seen = obs(files={} if present is None else {PATH: present}, originals=originals)
    assert [
        c["op"]
        for c in oci_hook.plan_absent(
            Policy(state="absent"), oci_hook.read_hook_facts(Policy(state="absent"), seen, None)
        ).changes
    ] == ([op] if op else []), case
