# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each manager is told by what its hosts show; where several are served, each by its own rules."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Kubelet,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    daemons,
    detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet,
    kubelet_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    Manager,
    ManagerPlace,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    evidence,
)

from tests.fixtures.managers import SHOWN
from tests.unit import builders
from tests.unit.seen_containerds import find_containerd, plan_containerd

ALL = [m.name for m in known.MANAGERS]


def test_every_manager_has_a_row() -> None:
    assert sorted(SHOWN) == sorted(ALL)


@pytest.mark.parametrize("name", ALL)
def test_a_daemon_is_its_managers(name: str) -> None:
    shown = SHOWN[name]
    units = {shown.unit: {}} if shown.unit else {}
    seen = builders.obs(units=units, host={"os_release": {"ID": shown.os_id}})
    process = shown.process()
    config = processes.flag(process["argv"], *daemons.CONFIG) or "/etc/containerd/config.toml"
    assert known.find_process_manager(seen, process, config).name == name


@pytest.mark.parametrize("name", [m.name for m in known.MANAGERS if m.own_engine])
def test_one_with_a_containerd_of_its_own_is_told_by_the_unit_alone(name: str) -> None:
    process = SHOWN[name].process(by_unit=True)
    assert (
        known.find_process_manager(
            builders.obs(units={SHOWN[name].unit: {}}), process, "/moved/config.toml"
        ).name
        == name
    )


# ---------------------------------------------------------------- one that is served

HOME = "/opt/edgeware/etc"
MAIN, DROP_IN = f"{HOME}/config.toml", f"{HOME}/config-v3.toml.d/90-gpufleet.toml"
SOCKET, NVIDIA = "/run/edgeware/containerd.sock", "/usr/bin/nvidia-container-runtime"
BESIDE = "Update Edgeware to a release that reads drop-ins and run again"
EDGEWARE = Manager(
    "edgeware",
    "Edgeware",
    config=MAIN,
    socket=SOCKET,
    homes=("/opt/edgeware/",),
    units=("edgeware.service",),
    place=ManagerPlace(
        units=("edgeware.service",),
        drop_ins=("config-v3.toml.d", "config.toml.d"),
        main_edited=False,
        not_imported=BESIDE,
        executable="edgeware",
        kubelet=True,
        never=((("sandbox",), "Set it by --pause-image."),),
        load_image="edgeware ctr images import FILE.tar",
    ),
)
RUNTIME = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes"
RENDERED = f"""# rendered at each start
version = 3
imports = ["{HOME}/config-v3.toml.d/*.toml"]
{RUNTIME}.runc]
runtime_type = "io.containerd.runc.v2"
{RUNTIME}.runc.options]
SystemdCgroup = true
"""
OWN_HANDLER = f"""{RUNTIME}.nvidia]
runtime_type = "io.containerd.runc.v2"
{RUNTIME}.nvidia.options]
BinaryName = "{NVIDIA}"
SystemdCgroup = true
"""
DECISION = Decision(
    instance="", engine="containerd", engine_version="", injection="native-cdi", handler="nvidia", default=False, runtime_mode="cdi",
    annotation_prefixes=("nvidia.cdi.k8s.io/",), device_list_strategy=(), plugin_annotation_prefix="", runtime_class="nvidia",
    enable_cdi=False, max_cdi_version="", hook=False, reasons=())  # fmt: skip
UNIT = {"edgeware.service": {"ActiveState": "active", "InvocationID": "abc", "KillMode": "process"}}


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more manager, all of whose ways differ from the package's."""
    monkeypatch.setattr(known, "MANAGERS", (EDGEWARE, *known.MANAGERS))


def host(
    text: str | None = RENDERED,
    version: str = "2.1.5-edge1",
    units: Any = None,
    files: dict[str, str] | None = None,
) -> Observation:
    """A host whose containerd is a part of that system: one file of several programs, started as
    containerd.
    """
    exe = "/opt/edgeware/data/0a1b/bin/edgeware"
    processes = [
        {"pid": 7, "exe": exe, "argv": ["/usr/bin/edgeware", "server"], "unit": "edgeware.service"},
        {"pid": 9, "exe": exe, "argv": ["containerd", "-c", MAIN], "unit": "edgeware.service"},
    ]
    config = {
        "containerd": {
            "defaultRuntimeName": "runc",
            "runtimes": {"runc": {"options": {"SystemdCgroup": True}}},
        },
        "enableCDI": True,
    }
    cri = {
        f"Version:{SOCKET}": {"runtime_name": "containerd", "runtime_version": f"v{version}"},
        f"Status:{SOCKET}": {
            "runtime": {"RuntimeReady": True},
            "conditions": [],
            "handlers": [],
            "info": {"config": config},
        },
    }
    known_files = {**(files or {}), **({MAIN: text} if text is not None else {})}
    return builders.obs(
        files=known_files, processes=processes, cri=cri, units=UNIT if units is None else units
    )


def plan(seen: Observation, **options: Any) -> Plan:
    return plan_containerd(seen, DECISION, **options)


def test_what_is_asked_of_a_host_of_it_takes_one_look() -> None:
    asked = {q["id"] for q in detect.list_questions(Policy())}
    files = {
        f"file:{MAIN}",
        f"file:{DROP_IN}",
        f"glob:{HOME}/config-v3.toml.d/*.toml",
        f"glob:{HOME}/config.toml.d/*.toml",
    }
    assert files | {f"cri:Status:{SOCKET}", f"cri:Version:{SOCKET}"} <= asked
    assert [
        q
        for q in detect.list_questions(Policy())
        if q["kind"] == "processes" and {"containerd", "edgeware"} <= set(q["names"])
    ]


def test_its_containerd_is_found_in_the_file_of_all_its_programs() -> None:
    one = find_containerd(host())
    assert (one.manager, str(one.refusal), one.version, one.socket, one.unit) == (
        "edgeware",
        "",
        "2.1.5-edge1",
        SOCKET,
        "edgeware.service",
    )
    assert (one.binary, one.process, one.pid) == ("/opt/edgeware/data/0a1b/bin/containerd", None, 9)


@pytest.mark.parametrize(
    "text",
    [RENDERED, RENDERED + OWN_HANDLER],
    ids=["no handler there", "with a handler of its own"],
)
def test_ours_goes_into_the_directory_that_its_file_imports_and_its_own_unit_restarts(
    text: str,
) -> None:
    planned = plan(host(text))
    assert [(c["path"], c["op"]) for c in planned.changes] == [(DROP_IN, "write")]
    assert "SystemdCgroup = true" in planned.changes[0]["content"]
    assert [(r.unit, r.action) for r in planned.restarts] == [("edgeware.service", "restart")]
    assert planned.expect_units == {"edgeware.service": "abc"}
    assert planned.validate[0]["argv"][0] == "/opt/edgeware/data/0a1b/bin/containerd"
    assert planned.validate[0]["process"] is None
    assert planned.leftovers == ()


WITHOUT = RENDERED.replace(f'imports = ["{HOME}/config-v3.toml.d/*.toml"]\n', "")
REFUSED = {
    "no drop-in is read": (WITHOUT, "2.1.5", {}, "imports-without-drop-in"),
    "another directory is named": (RENDERED, "2.1.5", {"drop_in_path": "/srv/gpu.toml"}, "imports-without-drop-in"),
    "it was never started": (None, "2.1.5", {}, "rendered-file-missing"),
    "containerd 1.x": (
        RENDERED.replace("version = 3", "version = 2").replace("cri.v1.runtime", "grpc.v1.cri"), "1.7.24", {},
        "drop-in-would-replace"),
    "no drop-in is wanted": (RENDERED, "2.1.5", {"drop_in": "never"}, "drop-in-never"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_its_main_file_is_never_edited(case: str) -> None:
    text, version, options, why = REFUSED[case]
    with pytest.raises(PlanError) as refused:
        plan(host(text, version), **options)
    assert (refused.value.where, refused.value.code) == (
        MAIN,
        "containerd.rendered-without-drop-ins",
    )
    assert get_code(refused.value.values["cause"]) == f"containerd.{why}"
    assert BESIDE in str(refused.value)


@pytest.mark.parametrize("case", REFUSED)
def test_such_a_host_is_left_alone_and_told_why(case: str) -> None:
    """It is not a failure of a fleet's run: what is ours there from before can be taken back."""
    text, version, options, why = REFUSED[case]
    policy = Policy(**options)
    one = find_containerd(host(text, version), policy)
    assert one.refusal.message.code == "containerd.rendered-without-drop-ins"
    assert (get_code(one.refusal.message.values["cause"]), one.refusal.next) == (
        f"containerd.{why}",
        BESIDE,
    )
    with pytest.raises(PlanError, match=r"\[containerd\.rendered-without-drop-ins\]"):
        detect.plan_instance(
            policy,
            detect.read_facts(policy, host(text, version)),
            dc.replace(one, refusal=Refusal()),
            DECISION,
        )


def test_what_it_sets_in_another_place_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    place = dc.replace(
        EDGEWARE.place or ManagerPlace(()),
        never=((("containerd", "runtimes", "nvidia"), "Set it by --runtime."),),
    )
    monkeypatch.setattr(known, "MANAGERS", (dc.replace(EDGEWARE, place=place), *known.MANAGERS[1:]))
    with pytest.raises(
        PlanError, match=r"(?s)Set it by --runtime.*\[containerd\.setting-of-manager\]"
    ):
        plan(host())


def test_what_is_ours_is_taken_back_and_the_rest_stays() -> None:
    written = plan(host()).changes[0]["content"]
    seen = host(RENDERED + OWN_HANDLER, files={DROP_IN: written})
    back = detect.plan_absent(
        Policy(state="absent"),
        detect.read_facts(Policy(state="absent"), seen),
        find_containerd(seen),
    )
    assert [(c["path"], c["op"]) for c in back.changes] == [(DROP_IN, "remove")]
    assert detect.list_marked_files(Policy(), detect.read_facts(Policy(), seen)) == (DROP_IN,)
    assert detect.owns_file(Policy(), detect.read_facts(Policy(), seen), DROP_IN)


@pytest.mark.parametrize(("state", "there"), [("active", True), ("inactive", False)])
def test_a_kubelet_inside_its_program_counts_as_one(state: str, there: bool) -> None:
    seen = host(units={"edgeware.service": {"ActiveState": state}})
    assert kubelet.find_kubelet(Policy(), kubelet_facts.read_kubelet_facts(seen)) == Kubelet(
        present=there, endpoint=SOCKET if there else "", installed=not there
    )


def test_an_image_is_loaded_by_its_own_command() -> None:
    missing = "image demo is not on this host"
    assert "edgeware ctr images import" in evidence.advise_on_case(
        "containerd", "native-cdi", missing, "edgeware"
    )
    assert "ctr -n k8s.io images import" in evidence.advise_on_case(
        "containerd", "native-cdi", missing, "package"
    )
