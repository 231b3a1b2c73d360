# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""k0s: a drop-in that it applies by itself, and the files with which it would not start again."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect,
)

from tests.unit import builders
from tests.unit.k0s_files import DROP_IN, MAIN, MERGED, OLDER, OTHER, RENDERED
from tests.unit.seen_containerds import find_containerd, plan_containerd

SOCKET, UNIT = "/run/k0s/containerd.sock", "k0sworker.service"
CRI_2 = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "registry.k8s.io/pause:3.10.1"\n'
RUNTIME_2 = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\nruntime_type = "io.containerd.runc.v2"\n'
HANDLER_2 = f"version = 2\n{RUNTIME_2}"
DECISION = Decision(
    instance="", engine="containerd", engine_version="", injection="native-cdi", handler="nvidia", default=False, runtime_mode="cdi",
    annotation_prefixes=("nvidia.cdi.k8s.io/",), device_list_strategy=(), plugin_annotation_prefix="", runtime_class="nvidia",
    enable_cdi=False, max_cdi_version="", hook=False, reasons=())  # fmt: skip


def host(
    text: str = RENDERED,
    version: str = "2.3.4",
    files: dict[str, str] | None = None,
    *,
    loaded: bool = False,
    unit: str = UNIT,
) -> Observation:
    """A worker; loaded: its containerd works with our handler."""
    process = {
        "pid": 9,
        "exe": "/var/lib/k0s/bin/containerd",
        "argv": ["/var/lib/k0s/bin/containerd", f"--address={SOCKET}", f"--config={MAIN}"],
        "unit": unit,
    }
    ours = {
        "runtimeType": "io.containerd.runc.v2",
        "options": {"BinaryName": "/usr/bin/nvidia-container-runtime", "SystemdCgroup": False},
        "ContainerAnnotations": ["nvidia.cdi.k8s.io/*"],
    }
    runtimes: dict[str, Any] = {"runc": {"options": {}}, **({"nvidia": ours} if loaded else {})}
    config = {"containerd": {"defaultRuntimeName": "runc", "runtimes": runtimes}, "enableCDI": True}
    cri = {
        f"Version:{SOCKET}": {"runtime_name": "containerd", "runtime_version": f"v{version}"},
        f"Status:{SOCKET}": {
            "runtime": {"RuntimeReady": True},
            "conditions": [],
            "handlers": [],
            "info": {"config": config},
        },
    }
    units = {
        unit: {
            "Type": "simple",
            "ActiveState": "active",
            "InvocationID": "abc",
            "KillMode": "process",
        }
    }
    return builders.obs(
        files={MAIN: text, **(files or {})}, processes=[process], cri=cri, units=units
    )


def plan(seen: Observation, **options: Any) -> Plan:
    return plan_containerd(seen, DECISION, **options)


def test_the_drop_in_has_the_version_of_the_file_that_imports_it_and_nothing_is_restarted() -> None:
    planned = plan(host())
    (change,) = planned.changes
    assert (change["path"], change["op"]) == (DROP_IN, "write")
    assert "\nversion = 3\n" in change["content"]
    assert "io.containerd.cri.v1.runtime" in change["content"]
    assert "grpc.v1.cri" not in change["content"]
    assert [(r.unit, r.action) for r in planned.restarts] == [(UNIT, "wait")]
    (check,) = planned.health
    assert (check["socket"], check["replaces"]) == (SOCKET, 9)
    assert {"handler": "nvidia"} in check["require"]
    assert planned.validate[0]["argv"][0] == "/var/lib/k0s/bin/containerd"


def test_nothing_is_planned_where_all_is_so() -> None:
    written = plan(host()).changes[0]["content"]
    again = plan(host(files={DROP_IN: written}, loaded=True))
    assert (again.changes, again.restarts, again.differences) == ((), (), ())


def test_files_that_it_has_not_applied_take_a_restart() -> None:
    """No change wakes k0s then. Its unit is of no type that tells when it serves, and needs no
    other one.
    """
    written = plan(host()).changes[0]["content"]
    server = host(files={DROP_IN: written}, unit="k0scontroller.service")
    assert [(r.unit, r.action) for r in plan(server).restarts] == [
        ("k0scontroller.service", "restart")
    ]
    assert "Type" not in " ".join(plan(server).advice)
    assert [(r.unit, r.action) for r in plan(host(files={DROP_IN: written})).restarts] == [
        (UNIT, "restart")
    ]


@pytest.mark.parametrize("loaded", [True, False])
def test_taking_it_back_is_waited_for_as_well(loaded: bool) -> None:
    written = plan(host()).changes[0]["content"]
    seen = host(files={DROP_IN: written}, loaded=loaded)
    back = detect.plan_absent(
        Policy(state="absent"),
        detect.read_facts(Policy(state="absent"), seen),
        find_containerd(seen),
    )
    assert [(c["path"], c["op"]) for c in back.changes] == [(DROP_IN, "remove")]
    assert [(r.unit, r.action) for r in back.restarts] == [(UNIT, "wait")]
    assert [check.get("replaces") for check in back.health] == [9]


OLD_TABLE = '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n'
RENDERS, UPDATE = "containerd.rendered-without-drop-ins", "manager.update-k0s"
# case: the main file, its release, other files; the code, and values of the message. Of a nested
# message its code is compared.
LEFT_ALONE: dict[str, tuple[str, str, dict[str, str], str, dict[str, object]]] = {
    "a person's main file": (
        RENDERED.partition("\n")[2], "2.3.4", {}, "containerd.main-file-of-person", {"line": "# k0s_managed=true"}),
    "a marker that is not the whole line": (
        RENDERED.replace("true", "true ", 1), "2.3.4", {}, "containerd.main-file-of-person", {"line": "# k0s_managed=true"}),
    "a drop-in of another version": (
        RENDERED, "2.3.4", {OTHER: "# registry\nversion = 2\n"}, "containerd.drop-in-of-other-version",
        {"place": f"{OTHER}:2", "found": 2, "wanted": 3}),
    "a drop-in with containerd 1's table": (
        RENDERED, "2.3.4", {OTHER: OLD_TABLE}, "containerd.drop-in-with-old-table", {"place": f"{OTHER}:1", "wanted": 3}),
    "a release with containerd 1.7": (
        OLDER, "1.7.28", {MERGED: CRI_2}, RENDERS, {"cause": "containerd.drop-ins-merged-by-manager", "step": UPDATE}),
    "such a release that has merged somebody's handler": (
        OLDER, "1.7.28", {MERGED: CRI_2 + RUNTIME_2, OTHER: HANDLER_2}, RENDERS,
        {"cause": "containerd.drop-ins-merged-by-manager", "step": UPDATE}),
    "such a release whose run directory was moved": (
        OLDER.replace("/run/k0s", "/srv"), "1.7.28", {MERGED.replace("/run/k0s", "/srv"): CRI_2}, RENDERS,
        {"cause": "containerd.drop-ins-merged-by-manager", "step": UPDATE}),
    "that file of a person after an update": (
        RENDERED, "2.3.4", {OTHER: HANDLER_2}, "containerd.drop-in-of-other-version", {"place": f"{OTHER}:1", "found": 2}),
    "an old file that imports no drop-ins and nothing merged": (
        OLDER.replace(MERGED, "/etc/k0s/own.toml"), "1.7.28", {"/etc/k0s/own.toml": CRI_2}, RENDERS,
        {"cause": "containerd.drop-in-would-replace", "step": UPDATE}),
    "a file that imports no drop-ins": (
        RENDERED.replace("imports", "# imports"), "2.3.4", {}, RENDERS, {"cause": "containerd.imports-without-drop-in", "step": UPDATE}),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_such_a_host_is_left_alone_and_told_why(case: str) -> None:
    text, version, files, code, values = LEFT_ALONE[case]
    message = find_containerd(host(text, version, files)).refusal.message
    assert message.code == code
    assert {
        name: get_code(message.values[name]) or message.values[name] for name in values
    } == values


@pytest.mark.parametrize("version", ["", "version = 3\n"])
def test_drop_ins_of_others_that_it_starts_with_stay(version: str) -> None:
    others = {
        OTHER: f'{version}[plugins."io.containerd.cri.v1.images".registry]\nconfig_path = "/etc/k0s/certs.d"\n'
    }
    assert [c["path"] for c in plan(host(files=others)).changes] == [DROP_IN]


def test_a_restart_that_nobody_can_keep_from_happening_is_refused_where_none_is_wanted() -> None:
    with pytest.raises(PlanError, match=r"\[containerd\.manager-restarts-by-itself\]"):
        plan(host(), restart="never")


def test_what_is_taken_back_is_taken_back_all_the_same_and_waited_for() -> None:
    written = plan(host()).changes[0]["content"]
    seen, policy = (
        host(files={DROP_IN: written}, loaded=True),
        Policy(state="absent", restart="never"),
    )
    back = detect.plan_absent(
        policy, detect.read_facts(policy, seen), find_containerd(seen, policy)
    )
    assert [r.action for r in back.list_acted_restarts("never")] == ["wait"]
    assert "containerd.restart-never-not-kept" in map(get_code, back.advice)


def test_in_a_tree_nothing_is_waited_for() -> None:
    policy = Policy(root="/srv/image", engine_version="2.3.4")
    seen = host()
    (one,) = detect.find_instances(policy, detect.read_facts(policy, seen))
    planned = detect.plan_instance(policy, detect.read_facts(policy, seen), one, DECISION)
    assert ([c["path"] for c in planned.changes], planned.restarts, planned.health) == (
        [DROP_IN],
        (),
        (),
    )
