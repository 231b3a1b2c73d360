# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of lowerings, and that no plan with one passes unless a difference names its cause."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cause,
    Difference,
    Plan,
    build_refused_instance_error,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import lowering

from tests.unit.records import instance

CRI = 'plugins."io.containerd.cri.v1.runtime"'
ENVVAR = "accept-nvidia-visible-devices-envvar-when-unprivileged"
SETTINGS: list[tuple[str, Any, Any, str]] = [
    # a key, what it says before and afterwards, and what is less then
    (f"{CRI}.containerd.default_runtime_name", "nvidia", "runc", "default handler"),
    (f"{CRI}.containerd.default_runtime_name", "runc", "nvidia", ""),
    (f"{CRI}.containerd.default_runtime_name", "kata", "nvidia", "default handler"),
    (f"{CRI}.containerd.default_runtime_name", None, "nvidia", ""),
    ("crio.runtime.default_runtime", "nvidia", None, "default handler"),
    ("default-runtime", "nvidia", "runc", "default handler"),
    ("default handler", "nvidia", "runc", "default handler"),
    (f"{CRI}.enable_cdi", True, False, "CDI switch"),
    (f"{CRI}.enable_cdi", False, True, ""),
    ("features.cdi", True, None, "CDI switch"),
    (f"{CRI}.cdi_spec_dirs", ["/etc/cdi", "/var/run/cdi"], ["/etc/cdi"], "CDI directories"),
    (f"{CRI}.cdi_spec_dirs", ["/etc/cdi"], ["/var/run/cdi", "/etc/cdi"], ""),
    (f"{CRI}.containerd.runtimes.nvidia.options.SystemdCgroup", True, False, "cgroup driver"),
    (f"{CRI}.containerd.runtimes.nvidia.options.SystemdCgroup", False, True, ""),
    (f"{CRI}.containerd.runtimes.nvidia.options.BinaryName", "/opt/one", None, "handler"),
    (f"{CRI}.containerd.runtimes.nvidia.options.BinaryName", "/opt/one", "/opt/two", ""),
    ("runtimes.nvidia.path", "/opt/one", None, "handler"),
    (ENVVAR, True, False, "isolation"),
    (ENVVAR, False, True, ""),
    ("nvidia-container-runtime.runtimes", ["runc", "crun"], ["runc"], "low-level runtimes"),
    ("nvidia-container-runtime.modes.cdi.annotation-prefixes", ["a/", "b/"], ["b/"], "annotations"),
    # as the package brings it, and as it holds without the file
    ("nvidia-container-runtime.modes.cdi.annotation-prefixes", ["cdi.k8s.io/"], ["b/"], ""),
    ("nvidia-container-runtime.mode", "legacy", "cdi", "runtime mode"),
    ("nvidia-container-runtime.mode", "auto", "cdi", ""),
    ("nvidia-container-runtime.log-level", "info", None, ""),
]


@pytest.mark.parametrize(("key", "before", "after", "kind"), SETTINGS)
def test_what_of_a_setting_is_less(key: str, before: Any, after: Any, kind: str) -> None:
    found = lowering.list_lowerings(Plan((Difference("file", "/etc/x", key, before, after, ""),)))
    assert [low.kind for low in found] == ([kind] if kind else [])


def record(
    *strategies: str,
    engine: str = "containerd",
    default: bool = False,
    plugin: tuple[str, ...] = (),
) -> str:
    engines = [
        {
            "instance": engine,
            "engine": engine,
            "device_list_strategy": list(strategies),
            "default": default,
        }
    ]
    return json.dumps({"engines": engines, "device_plugin": {"strategies": list(plugin)}})


RECORDS = [
    (record("envvar"), record("envvar"), False),
    (record("envvar"), record("envvar", "cdi-cri"), False),
    (record("envvar", "cdi-cri"), record("cdi-cri"), True),
    (record("envvar", default=True), record("envvar"), True),
    (record("envvar"), record("envvar", engine="crio"), True),
    (record("envvar", plugin=("volume-mounts",)), record("envvar", plugin=("envvar",)), True),
    ("", record("envvar"), False),
    ("no record", record("envvar"), False),
    ("[1]", record("envvar"), False),
]


@pytest.mark.parametrize(("before", "after", "less"), RECORDS)
def test_what_of_a_record_is_less(before: str, after: str, less: bool) -> None:
    assert (
        bool(
            lowering.list_lowerings(
                Plan(diffs=(("/var/lib/gpufleet/decision.json", before, after),))
            )
        )
        == less
    )


GONE = Difference("file", "/etc/cdi/nvidia.yaml", "", "present", None, "")
REMOVE: Any = {"path": "/etc/cdi/nvidia.yaml", "op": "remove", "expect": "x"}
RESTORE: Any = {"path": "/etc/cdi/nvidia.yaml", "op": "restore", "expect": "x"}
STOP: Any = {"argv": ["systemctl", "--no-reload", "disable", "x.service"]}
RM: Any = {"argv": ["rm", "-f", "/var/run/cdi/nvidia.yaml"]}
PLANS: dict[str, Plan] = {
    "a file goes": Plan((GONE,), changes=(REMOVE,)),
    "a file gets its content from before": Plan((GONE,), changes=(RESTORE,)),
    "a file goes that no difference tells of": Plan(changes=(REMOVE,)),
    "a unit is stopped": Plan((Difference("unit", "x.service", "state", "active", "stopped", ""),)),
    "a unit is masked": Plan((Difference("unit", "x.service", "state", "active", "masked", ""),)),
    "a unit is disabled": Plan(disable_units=("x.service",)),
    "a unit is disabled by a command": Plan(commands=(STOP,)),
    "a file is removed by a command": Plan(commands=(RM,)),
    "a package gets older": Plan(
        (Difference("package", "p", "version", "1.18.2-1", "1.17.8-1", ""),)
    ),
    "a package goes": Plan((Difference("package", "p", "version", "1.18.2-1", None, ""),)),
    "in a first transaction": Plan(first=(Plan((GONE,), changes=(REMOVE,)),)),
    "a file beside a directory that has a cause": Plan(
        (Difference("file", "/etc/cdi", "packages", 1, 2, "", "policy"),),
        changes=({**REMOVE, "path": "/etc/cdi.d/nvidia.yaml"},),
    ),
    "a file whose name begins as one that has a cause": Plan(
        (Difference("file", "/etc/cdi/a", "", "present", None, "", "policy"),),
        changes=({**REMOVE, "path": "/etc/cdi/a.yaml"},),
    ),
    "a setting": Plan((Difference("file", "/etc/x", "features.cdi", True, False, ""),)),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_takes_something_away_without_a_cause_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match=rf"\[{lowering.CODE}\]$"):
        lowering.require_causes(PLANS[name])


KNOWN: dict[str, Plan] = {
    "a file": lowering.add_cause(Plan((GONE,), changes=(REMOVE,)), "adoption"),
    "files of a directory": Plan(
        (Difference("file", "/etc/cdi", "packages", 1, 2, "", "policy"),), changes=(REMOVE,)
    ),
    "a unit by its file": Plan(
        (Difference("file", "/etc/systemd/system/x.service", "", "present", None, "", "policy"),),
        changes=({"path": "/etc/systemd/system/x.service", "op": "remove"},),
        commands=(STOP,),
    ),
    "a newer package": Plan((Difference("package", "p", "version", "1.17.8-1", "1.18.2-1", ""),)),
    "a new file": Plan(
        (Difference("file", "/x", "", None, "present", ""),),
        changes=({"path": "/x", "op": "write", "content": ""},),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_plan_that_names_its_causes_passes(name: str) -> None:
    lowering.require_causes(KNOWN[name])


def test_a_cause_of_another_setting_does_not_count() -> None:
    more = (Difference("file", "/etc/x", "default-runtime", "nvidia", "runc", "", "policy"),)
    with pytest.raises(
        PlanError,
        match=r"CDI switch /etc/x \(features\.cdi\)$|CDI switch /etc/x \(features\.cdi\) ",
    ):
        lowering.require_causes(Plan((*more, *PLANS["a setting"].differences)))


@pytest.mark.parametrize("cause", ["policy", "uninstalled"])
def test_a_setting_that_goes_by_the_decision_gets_its_cause(cause: Cause) -> None:
    resolved = lowering.resolve_lowerings(PLANS["a setting"], lambda: cause)
    assert [d.cause for d in resolved.differences] == [cause]
    lowering.require_causes(resolved)


def test_a_setting_does_not_go_by_a_decision_that_rests_on_a_silence() -> None:
    def silent() -> Cause:
        raise build_refused_instance_error(instance())

    with pytest.raises(PlanError):
        lowering.resolve_lowerings(PLANS["a setting"], silent)
    assert lowering.resolve_lowerings(KNOWN["a new file"], silent) == KNOWN["a new file"]


@pytest.mark.parametrize("name", ["a file goes", "a unit is stopped"])
def test_what_goes_whole_gets_no_cause_but_its_resources_own(name: str) -> None:
    with pytest.raises(PlanError, match=rf"\[{lowering.CODE}\]$"):
        lowering.require_causes(lowering.resolve_lowerings(PLANS[name], lowering.get_policy_cause))
