# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device nodes: what differs on a host, case by case; and that the program which stays on hosts
wants just what the planner wants.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import (
    device_nodes as resident_device_nodes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import host_service
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    gpus,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    device_nodes,
)

from tests.unit.builders import obs
from tests.unit.coded import read_all_coded
from tests.unit.gpus import BUSES, UUIDS, host, information, node, nvml

POLICY = Policy(device_nodes="present")
PROC = "/proc/driver/nvidia"
PROGRAM = transport.map_resident_sources()["device_nodes"]
DEVICES = "Character devices:\n  1 mem\n195 nvidia\n195 nvidia-modeset\n510 nvidia-caps\n511 nvidia-uvm\n\nBlock devices:\n259 blkext\n"
MIG = {
    f"{PROC}/capabilities/gpu0/mig/gi1/access": "DeviceFileMinor: 12\nDeviceFileMode: 292\n",
    f"{PROC}/capabilities/gpu0/mig/gi1/ci0/access": "DeviceFileMinor: 13\nDeviceFileMode: 292\n",
    f"{PROC}/capabilities/mig/config": "DeviceFileMinor: 1\nDeviceFileMode: 256\n",
}
LINKED = ["195:255", "195:254", "195:0", "195:1", "511:0", "511:1"]
NAMES = ["nvidiactl", "nvidia-modeset", "nvidia0", "nvidia1", "nvidia-uvm", "nvidia-uvm-tools"]


def look(
    changes: dict[str, Any] | None = None, links: dict[str, str] | None = None, **more: Any
) -> Observation:
    files = {**host(), "/proc/devices": DEVICES, **(changes or {})}
    targets = (
        dict(zip(LINKED, (f"../{name}" for name in NAMES), strict=True)) if links is None else links
    )
    entries = [{"name": name, "type": "link", "target": target} for name, target in targets.items()]
    answers = {"dir:/dev/char": {"exists": True, "entries": entries}, **more.pop("answers", {})}
    return obs(files={p: t for p, t in files.items() if t is not None}, answers=answers, **more)


def planned(seen: Observation, policy: Policy = POLICY) -> Plan:
    return device_nodes.plan_device_nodes(
        policy,
        device_nodes.read_device_node_facts(policy, seen),
        driver_state.read_driver(policy, seen),
        PROGRAM,
    )


def settled(seen: Observation) -> dict[str, Any]:
    """The files that a first run leaves on the host."""
    return {c["path"]: c["content"] for c in planned(seen).changes}


def differing(seen: Observation) -> list[tuple[str, Any, Any]]:
    return [
        (d.path, d.before, d.after)
        for d in device_nodes.list_device_node_differences(
            POLICY, device_nodes.read_device_node_facts(POLICY, seen)
        )
    ]


def test_a_host_that_is_right_gets_the_unit_and_then_nothing() -> None:
    first = planned(look())
    unit = "/etc/systemd/system/gpufleet-device-nodes.service"
    drop_in = "/etc/systemd/system/multi-user.target.d/gpufleet-device-nodes.conf"
    program, settings = (
        host_service.get_program_path(device_nodes.NAME),
        host_service.get_settings_path(device_nodes.NAME),
    )
    assert sorted(c["path"] for c in first.changes) == sorted([unit, drop_in, program, settings])
    assert first.restarts == ()
    assert planned(look(settled(look()))) == Plan()


NO_MODESET = DEVICES.replace("195 nvidia-modeset\n", "")
NO_UVM = DEVICES.replace("511 nvidia-uvm\n", "")
CASES: list[tuple[str, dict[str, Any], dict[str, str] | None, list[tuple[str, Any, Any]]]] = [
    (
        "a node is missing",
        {"/dev/nvidia-uvm": None},
        None,
        [("/dev/nvidia-uvm", None, "511:0 0666 0:0")],
    ),
    (
        "the numbers of another boot",
        {"/dev/nvidia-uvm": node(510, 0)},
        None,
        [("/dev/nvidia-uvm", "510:0 0666 0:0", "511:0 0666 0:0")],
    ),
    (
        "another GPU's minor",
        {"/dev/nvidia1": node(195, 0)},
        None,
        [("/dev/nvidia1", "195:0 0666 0:0", "195:1 0666 0:0")],
    ),
    (
        "a directory in its place",
        {"/dev/nvidia-uvm": {"type": "dir"}},
        None,
        [("/dev/nvidia-uvm", "a dir", "511:0 0666 0:0")],
    ),
    (
        "the module's parameters",
        {
            f"{PROC}/params": "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\n"
        },
        None,
        [
            (f"/dev/{name}", f"{number} 0666 0:0", f"{number} 0660 0:44")
            for name, number in zip(NAMES, LINKED, strict=True)
        ],
    ),
    (
        "nvidia-uvm is not loaded",
        {"/proc/devices": NO_UVM, "/dev/nvidia-uvm": None, "/dev/nvidia-uvm-tools": None},
        None,
        [
            ("nvidia-uvm", "not loaded", "loaded"),
            ("/dev/nvidia-uvm", None, "nvidia-uvm:0 0666 0:0"),
            ("/dev/nvidia-uvm-tools", None, "nvidia-uvm:1 0666 0:0"),
        ],
    ),
    (
        "a link is missing",
        {},
        {k: f"../{n}" for k, n in zip(LINKED, NAMES, strict=True) if k != "511:0"},
        [("/dev/char/511:0", None, "../nvidia-uvm")],
    ),
    (
        "links as nvidia-ctk makes them",
        {},
        {k: f"/dev/{n}" for k, n in zip(LINKED, NAMES, strict=True)},
        [],
    ),
    (
        "a MIG instance",
        MIG,
        None,
        [
            (path, None, after)
            for minor, mode in ((1, "0400"), (12, "0444"), (13, "0444"))
            for path, after in (
                (f"/dev/nvidia-caps/nvidia-cap{minor}", f"510:{minor} {mode} 0:0"),
                (f"/dev/char/510:{minor}", f"../nvidia-caps/nvidia-cap{minor}"),
            )
        ],
    ),
    (
        "an excluded GPU",
        {
            f"{PROC}/gpus/{BUSES[1]}/information": information(
                BUSES[1], 1, UUIDS[1], **{"GPU Excluded": "Yes"}
            )
        },
        None,
        [],
    ),
    *(
        (
            f"the kernel lists {name} alone",
            {"/proc/devices": devices, "/dev/nvidia-modeset": None},
            None,
            [("/dev/nvidia-modeset", None, "195:254 0666 0:0")],
        )
        for name, devices in (
            ("nvidia", NO_MODESET),
            ("nvidia-frontend", NO_MODESET.replace("195 nvidia\n", "195 nvidia-frontend\n")),
        )
    ),
]


@pytest.mark.parametrize(
    ("changes", "links", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_what_differs(
    changes: dict[str, Any], links: dict[str, str] | None, expected: list[tuple[str, Any, Any]]
) -> None:
    seen = look({**settled(look()), **changes}, links)
    assert sorted(differing(seen)) == sorted(expected)
    plan = planned(seen)
    assert [(r.unit, r.action) for r in plan.restarts] == (
        [(device_nodes.SERVICE, "start")] if expected else []
    )
    assert plan.list_interrupted_units("auto") == []
    assert plan.changes == ()


LEFT_ALONE = [
    (
        "no GPU",
        dict.fromkeys(k for k in host() if "pci" in k or k.startswith((PROC, "/sys/module"))),
        "driver.no-gpu",
    ),
    ("in a container", {"/.dockerenv": ""}, "device-nodes.in-container"),
]


@pytest.mark.parametrize(
    ("changes", "code"), [c[1:] for c in LEFT_ALONE], ids=[c[0] for c in LEFT_ALONE]
)
def test_where_nothing_is_done(changes: dict[str, Any], code: str) -> None:
    plan = planned(look(changes))
    assert (plan.changes, plan.restarts, plan.differences) == ((), (), ())
    assert [(of, values["problem"][0]) for of, values in read_all_coded(plan.advice)] == [
        ("device-nodes.left-alone", code)
    ]


def test_a_driver_that_cannot_work_is_an_error_where_nodes_are_all_that_is_asked_for() -> None:
    broken = look({"/sys/module/nvidia/version": "550.90.07\n"})
    policy = Policy(device_nodes="present", single=True)
    with pytest.raises(PlanError) as refused:
        planned(broken, policy)
    assert (refused.value.code, get_code(refused.value.values["problem"])) == (
        "device-nodes.cannot-be-created",
        "driver.versions-differ",
    )
    assert refused.value.next.startswith("Reboot, or reload the module")
    assert planned(broken).changes == ()


def test_nodes_beneath_a_root_of_their_own_are_another_ones_affair() -> None:
    plan = planned(look(), Policy(device_nodes="present", cdi_dev_root="/run/nvidia/driver"))
    problem = ("device-nodes.in-driver-container", {"path": "/run/nvidia/driver"})
    assert read_all_coded(plan.advice) == [("device-nodes.left-alone", {"problem": problem})]


def test_the_spec_is_planned_from_the_nodes_that_are_coming() -> None:
    """One run makes the node and the spec that names it; numbers that nobody can know before are
    not recorded.
    """
    bare = look({"/dev/nvidia-uvm": None, "/dev/nvidia1": None})
    driver = driver_state.read_driver(POLICY, bare)
    policy = Policy(device_nodes="present", cdi_profile="devices", root="/")
    record = resource.record_of_options("collection", "1.0.0")
    after = device_nodes.predict_device_nodes(
        policy, look({"/dev/nvidia-uvm": None, "/dev/nvidia1": None}, answers=nvml()), driver
    )
    made, _words = resource.plan_specs_and_outcome(
        policy, spec_facts.read_spec_facts(policy, after, record, driver, ""), record, driver
    )
    text = next(c["content"] for c in made.changes if c["path"] == "/etc/cdi/nvidia.yaml")
    nodes = {
        n.path: n.major
        for e in (
            reader.parse_spec(text).edits,
            *(d.edits for d in reader.parse_spec(text).devices),
        )
        for n in e.device_nodes
    }
    assert nodes["/dev/nvidia-uvm"] is None
    assert nodes["/dev/nvidia1"] == 195


def test_a_node_that_is_coming_is_found_by_the_pattern_of_its_directory() -> None:
    seen = look(MIG)
    after = device_nodes.predict_device_nodes(POLICY, seen, driver_state.read_driver(POLICY, seen))
    found = {
        pattern: {
            file["path"].rpartition("/")[0]
            for file in after.get_answer(queries.ask_for_glob(pattern, content=False))["files"]
        }
        for pattern in gpus.DEV_GLOBS[:2]
    }
    assert found == {pattern: {pattern.rpartition("/")[0]} for pattern in gpus.DEV_GLOBS[:2]}


def test_absent_takes_back_what_stays() -> None:
    there = settled(look())
    plan = device_nodes.plan_absent(
        Policy(state="absent"),
        device_nodes.read_device_node_facts(Policy(state="absent"), look(there)),
    )
    assert sorted((c["op"], c["path"]) for c in plan.changes) == sorted(
        ("remove", path) for path in there
    )
    assert (
        device_nodes.plan_absent(
            Policy(state="absent"),
            device_nodes.read_device_node_facts(Policy(state="absent"), look()),
        )
        == Plan()
    )


# Which files of the service a person has put there, whether there is a journal, and whether they go.
DROP_IN = host_service.write_service_drop_in(device_nodes.NAME)
SETTINGS_FILE = host_service.get_settings_path(device_nodes.NAME)
OTHERS_FILES = [
    ({DROP_IN: "[Unit]\nWants=mine.service\n"}, {}, False),
    ({SETTINGS_FILE: "{}"}, {}, True),  # its name is all there is
    ({SETTINGS_FILE: "{}"}, {"/etc/other": {"existed": False, "sha256_after": "0"}}, False),
    ({SETTINGS_FILE: "{}"}, {SETTINGS_FILE: {"existed": False, "sha256_after": "0"}}, True),
]


@pytest.mark.parametrize(("files", "journaled", "goes"), OTHERS_FILES)
def test_a_file_of_the_service_is_not_ours_by_its_name(
    files: dict[str, str], journaled: dict[str, Any], goes: bool
) -> None:
    seen = look(files, originals=journaled)
    facts = device_nodes.read_device_node_facts(Policy(state="absent"), seen)
    plan = device_nodes.plan_absent(Policy(state="absent"), facts)
    assert {str(c["path"]) for c in plan.changes} == (set(files) if goes else set())


def test_a_module_that_hangs_keeps_no_engine_from_starting() -> None:
    """Every modprobe ends before the unit does, which has a limit of its own for what no signal
    ends.
    """
    unit = settled(look())[f"{host_service.UNITS}/{device_nodes.SERVICE}"].splitlines()
    assert {"TimeoutStartSec=180", "TimeoutStopSec=10"} <= set(unit)
    assert (
        device_nodes.list_device_node_rules(POLICY)["seconds"] * len(device_nodes.MODULES)
        < transaction.UNIT_TIMEOUT
        < device_nodes.AT_BOOT
    )


# ---------------------------------------------------------------- the program on the host


TREES: list[tuple[str, dict[str, Any]]] = [
    ("two GPUs", {}),
    ("MIG", MIG),
    ("no nvidia-caps yet", {**MIG, "/proc/devices": DEVICES.replace("510 nvidia-caps\n", "")}),
    ("an old driver", {"/proc/devices": DEVICES.replace("195 nvidia\n", "195 nvidia-frontend\n")}),
    ("a driver whose modeset is not loaded", {"/proc/devices": NO_MODESET}),
    (
        "parameters",
        {f"{PROC}/params": "DeviceFileUID: 3\nDeviceFileGID: 44\nDeviceFileMode: 432\n"},
    ),
    (
        "an excluded GPU",
        {
            f"{PROC}/gpus/{BUSES[1]}/information": information(
                BUSES[1], 1, UUIDS[1], **{"GPU Excluded": "Yes"}
            )
        },
    ),
    ("a file cut short", {f"{PROC}/gpus/{BUSES[1]}/information": "Model: \t NVI"}),
]


@pytest.mark.parametrize("changes", [c[1] for c in TREES], ids=[c[0] for c in TREES])
def test_planner_and_program_want_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    files = {**host(), "/proc/devices": DEVICES, **changes}
    for path, text in files.items():
        if path.startswith("/proc/"):
            real = tmp_path / path[1:]
            real.parent.mkdir(parents=True, exist_ok=True)
            real.write_text(text)
    beneath = json.loads(
        json.dumps(device_nodes.list_device_node_rules(POLICY)).replace(
            '"/proc/', f'"{tmp_path}/proc/'
        )
    )
    program = {
        (w["path"], *w["numbers"], w["mode"], w["uid"], w["gid"])
        for w in resident_device_nodes.list_desired_nodes(beneath)[0]
    }
    planner = {
        (w.path, w.major, w.minor, w.mode, w.uid, w.gid)
        for w in device_nodes.list_wanted_device_nodes(
            POLICY, device_nodes.read_device_node_facts(POLICY, look(changes))
        )
    }
    assert program == planner
    assert "/dev/nvidia-modeset" in {path for path, *_rest in program}
    assert len(program) >= 5 + len(
        [
            path
            for path in changes
            if path.startswith(f"{PROC}/capabilities") and "/proc/devices" not in changes
        ]
    )
