# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Specs by layout: whole GPUs and MIG devices, management, models; what their nodes record, and
what does not fit.
"""

from __future__ import annotations

import dataclasses as dc
import itertools
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Board,
    Hardware,
    MigDevice,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    build as generate_build,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    version,
    writer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver.gpus import (
    DeviceFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.unit import cdi_plans
from tests.unit.builders import obs
from tests.unit.coded import read_all_coded, read_coded
from tests.unit.gpus import NVRM, UUIDS, cap_minor, host, instances, mig, node, nvml
from tests.unit.written_files import map_written_specs

PAIRS = ((1, 0), (2, 0), (2, 1))
MIGS = [mig(index, gi, ci) for index, (gi, ci) in enumerate(PAIRS)]
MIXED = {**host(2), **instances(0, *PAIRS)}
BY_NVML = nvml(migs={0: MIGS})
CONTROL = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/nvidia-uvm-tools"}
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
MANAGEMENT = "/etc/cdi/management.nvidia.com-gpu.yaml"


def look(files: dict[str, Any], answers: dict[str, Any] = BY_NVML, **more: Any) -> Observation:
    there = {path: text for path, text in files.items() if text is not None}
    return obs(files=there, packages={packages.BASE: "1.20.1-1"}, answers=answers, **more)


def plan(there: Observation, cap: str = "1.0.0", **policy: Any) -> Plan:
    wanted = Policy(cdi_profile="devices", single=True, **policy)
    return cdi_plans.plan_specs(
        wanted,
        spec_facts.read_spec_facts(
            wanted,
            there,
            resource.record_of_options("collection", cap),
            driver_state.read_driver(wanted, there),
            "",
        ),
        resource.record_of_options("collection", cap),
        driver_state.read_driver(wanted, there),
    )


def one(made: Plan) -> Spec:
    (found,) = map_written_specs(made).values()
    return found


def nodes(found: Spec) -> dict[str, list[str]]:
    return {d.name: [n.path for n in d.edits.device_nodes] for d in found.devices}


def caps(gi: int, ci: int, minor: int = 0) -> list[str]:
    return [
        f"/dev/nvidia-caps/nvidia-cap{cap_minor(minor, gi)}",
        f"/dev/nvidia-caps/nvidia-cap{cap_minor(minor, gi, ci)}",
    ]


# ---------------------------------------------------------------- MIG


def test_a_host_with_both_modes() -> None:
    made = nodes(one(plan(look(MIXED))))
    assert list(made) == [
        "0:0",
        "0:1",
        "0:2",
        "1",
        UUIDS[1],
        *sorted(m["uuid"] for m in MIGS),
        "all",
    ]
    for index, (gi, ci) in enumerate(PAIRS):
        assert made[f"0:{index}"] == made[MIGS[index]["uuid"]] == ["/dev/nvidia0", *caps(gi, ci)]
    assert made["1"] == ["/dev/nvidia1"]
    assert set(made["all"]) == {
        "/dev/nvidia0",
        "/dev/nvidia1",
        *(path for pair in PAIRS for path in caps(*pair)),
    }


def test_numbers_of_capabilities_are_not_recorded() -> None:
    found = one(plan(look(MIXED)))
    assert {
        (n.major, n.minor) for d in found.devices for n in d.edits.device_nodes if "caps" in n.path
    } == {(None, None)}


def test_capabilities_are_counted_by_minor_and_names_by_index() -> None:
    files = {**host(2, minors=(1, 0)), **instances(1, (3, 0))}
    made = nodes(one(plan(look(files, nvml(minors=(1, 0), migs={0: [mig(0, 3)]})))))
    assert made["0:0"] == ["/dev/nvidia1", *caps(3, 0, minor=1)]
    assert made["1"] == ["/dev/nvidia0"]


def test_the_second_run_asks_nobody() -> None:
    path, text = next((c["path"], c["content"]) for c in plan(look(MIXED)).changes)
    assert plan(look({**MIXED, path: text}, {})).empty


CHANGES = [
    ("an instance more", instances(0, (5, 0))),
    ("an instance less", dict.fromkeys(instances(0, (2, 1)))),
    ("the other GPU, too", instances(1, (1, 0))),
    (
        "the driver's table is another",
        {"/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access": "DeviceFileMinor: 99\n"},
    ),
]


@pytest.mark.parametrize(
    "changes", [case[1] for case in CHANGES], ids=[case[0] for case in CHANGES]
)
def test_a_change_of_instances_makes_us_ask_again(changes: dict[str, Any]) -> None:
    path, text = next((c["path"], c["content"]) for c in plan(look(MIXED)).changes)
    there = {**MIXED, path: text, **changes, "/dev/nvidia-caps/nvidia-cap99": node(510, 99)}
    with pytest.raises(NeedMore):
        plan(look(there, {}))


def test_without_nvml_known_instances_keep_their_uuids() -> None:
    path, text = next((c["path"], c["content"]) for c in plan(look(MIXED)).changes)
    hangs = {"probe:nvml": {"error": {"kind": "timeout", "message": "no answer"}}}
    made = plan(look({**MIXED, **instances(0, (5, 0)), path: text}, hangs))
    assert [d.name for d in one(made).devices if d.name.startswith("MIG-")] == sorted(
        m["uuid"] for m in MIGS
    )
    assert ("spec.mig-without-uuid", {"devices": "0:3"}) in read_all_coded(made.advice)


def test_mig_mode_without_an_instance_names_nothing() -> None:
    made = plan(look(host(2), nvml(migs={0: []})))
    assert list(nodes(one(made))) == ["1", UUIDS[1], "all"]
    assert ("spec.mig-without-instance", {"gpus": "0"}) in read_all_coded(made.advice)


def test_a_host_that_offers_nothing_has_no_spec() -> None:
    made = plan(look(host(1), nvml(1, migs={0: []})))
    assert made.empty
    assert ("cdi.no-device-of-kind", {"kind": "nvidia.com/gpu"}) in read_all_coded(made.advice)


def test_a_capability_without_a_node_is_missing() -> None:
    gone = dict.fromkeys(caps(2, 1)[1:])
    with pytest.raises(PlanError, match=rf"{caps(2, 1)[1]} .*\[cdi.node-missing\]"):
        plan(look({**MIXED, **gone}))
    allowed = plan(look({**MIXED, **gone}), cdi_missing_nodes="allow")
    assert nodes(one(allowed))["0:2"] == ["/dev/nvidia0", caps(2, 1)[0]]


# ---------------------------------------------------------------- management


def test_management() -> None:
    extra = {
        "/dev/nvidia-nvswitchctl": node(234, 255),
        "/dev/nvidia-fs0": node(235, 0),
        CHANNEL: node(509, 0),
    }
    made = plan(look({**MIXED, **extra}), cdi_layout="management")
    assert list(map_written_specs(made)) == [MANAGEMENT]
    found = map_written_specs(made)[MANAGEMENT]
    assert found.kind == "management.nvidia.com/gpu"
    every = [path for pair in PAIRS for path in caps(*pair)]
    assert list(nodes(found)) == ["0", "1", *UUIDS[:2], "all"]
    assert set(nodes(found)["0"]) == set(nodes(found)[UUIDS[0]]) == {"/dev/nvidia0", *every}
    assert {n.path for n in found.edits.device_nodes} == {
        *CONTROL,
        "/dev/nvidia-caps/nvidia-cap1",
        "/dev/nvidia-caps/nvidia-cap2",
    }
    everything = {*nodes(found)["all"], *(n.path for n in found.edits.device_nodes)}
    there = {
        path
        for path, text in {**MIXED, **extra}.items()
        if isinstance(text, dict) and text.get("type") == "char"
    }
    assert everything == there - {"/dev/nvidia-nvswitchctl", "/dev/nvidia-fs0"}


def test_management_leaves_the_others_file_alone() -> None:
    theirs = {
        "/var/run/cdi/nvidia.yaml": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: '0', containerEdits: {env: [A=b]}}]\n"
    }
    assert [
        c["path"] for c in plan(look({**MIXED, **theirs}), cdi_layout="management").changes
    ] == [MANAGEMENT]
    absent = resource.plan_absent(
        Policy(cdi_layout="management"),
        spec_facts.read_spec_removal_facts(look({**MIXED, "/etc/cdi/nvidia.yaml": writer.HEADER})),
    )
    assert absent.empty


# ---------------------------------------------------------------- names and kinds

NAMES = [
    (("index", "uuid"), "1.0.0", ["0:0", "1", UUIDS[1], MIGS[0]["uuid"], "all"]),
    (("uuid",), "1.0.0", [UUIDS[1], MIGS[0]["uuid"], "all"]),
    (("index",), "1.0.0", ["0:0", "1", "all"]),
    (("type-index",), "1.0.0", ["mig0:0", "gpu1", "all"]),
    (("index", "type-index"), "0.5.0", ["0:0", "mig0:0", "1", "gpu1", "all"]),
    (("index", "uuid"), "0.4.0", ["mig0:0", "gpu1", UUIDS[1], MIGS[0]["uuid"], "all"]),
    (("index", "type-index"), "0.3.0", ["mig0:0", "gpu1", "all"]),
]


@pytest.mark.parametrize(("names", "cap", "expected"), NAMES)
def test_names_by_strategy(names: tuple[str, ...], cap: str, expected: list[str]) -> None:
    files = {**host(2), **instances(0, (1, 0))}
    found = one(plan(look(files, nvml(migs={0: MIGS[:1]})), cap, cdi_device_names=names))
    assert [d.name for d in found.devices] == expected
    assert version.list_needs_above_cap(found, cap) == []


def test_another_vendor_and_class_get_a_file_of_their_own() -> None:
    made = map_written_specs(plan(look(MIXED), cdi_vendor="example.com", cdi_class="accelerator"))
    assert [(path, found.kind) for path, found in made.items()] == [
        ("/etc/cdi/example.com-accelerator.yaml", "example.com/accelerator")
    ]


def test_a_class_with_a_dot_needs_0_6_0() -> None:
    assert one(plan(look(MIXED), "0.6.0", cdi_class="gpu.big")).version == "0.6.0"
    with pytest.raises(PlanError, match=r"a dot in the class needs 0.6.0.*\[cdi.readers-too-old\]"):
        plan(look(MIXED), "0.5.0", cdi_class="gpu.big")


def test_a_second_kind_names_by_model() -> None:
    files = {**host(3), **instances(0, (1, 0))}
    made = map_written_specs(
        plan(look(files, nvml(3, migs={0: MIGS[:1]})), cdi_model_class="model")
    )
    assert list(made) == ["/etc/cdi/nvidia.yaml", "/etc/cdi/nvidia.com-model.yaml"]
    assert nodes(made["/etc/cdi/nvidia.com-model.yaml"]) == {
        "h100-80gb-hbm3": ["/dev/nvidia1", "/dev/nvidia2"],
        "h100-80gb-hbm3-1": ["/dev/nvidia1"],
        "h100-80gb-hbm3-2": ["/dev/nvidia2"],
        "h100-80gb-hbm3-mig-1g.10gb-0:0": ["/dev/nvidia0", *caps(1, 0)],
    }
    there = {
        **files,
        **{
            c["path"]: c["content"]
            for c in plan(look(files, nvml(3, migs={0: MIGS[:1]})), cdi_model_class="model").changes
        },
    }
    assert plan(
        look(there, {}), cdi_model_class="model"
    ).empty  # the profile is known from our own file
    gone = resource.plan_absent(
        Policy(cdi_model_class="model"), spec_facts.read_spec_removal_facts(look(there))
    )
    assert [c["path"] for c in gone.changes] == [
        "/etc/cdi/nvidia.yaml",
        "/etc/cdi/nvidia.com-model.yaml",
    ]


# ---------------------------------------------------------------- what nodes record

HARDWARE = Hardware(
    (
        Board(
            SeenGpu(0, 0, "0000:17:00.0", UUIDS[0]),
            True,
            (MigDevice(1, 0, 0, "MIG-1"),),
            ("/dev/dri/renderD128",),
        ),
    ),
    {
        "/dev/nvidia0": DeviceFile("/dev/nvidia0", (195, 0), 0o666),
        "/dev/nvidiactl": DeviceFile("/dev/nvidiactl", (195, 255), 0o666),
        "/dev/nvidia-uvm": DeviceFile("/dev/nvidia-uvm", (511, 0), 0o666),
        "/dev/nvidia-uvm-tools": DeviceFile("/dev/nvidia-uvm-tools", (511, 1), 0o666),
        "/dev/nvidia-modeset": DeviceFile("/dev/nvidia-modeset", (195, 254), 0o666),
        "/dev/dri/renderD128": DeviceFile("/dev/dri/renderD128", (226, 128), 0o660, gid=105),
    },
    {"gpu0/gi1/access": 12, "gpu0/gi1/ci0/access": 13},
    {"nvidia-caps": 510, "nvidia-uvm": 511},
)
WHOLE = dc.replace(
    HARDWARE, boards=(Board(HARDWARE.boards[0].gpu, False, (), HARDWARE.boards[0].drm),)
)


def made(seen: Hardware, **options: Any) -> generate_build.Generated:
    return generate_build.generate(seen, generate_build.Options(**options))


ATTRIBUTES = [
    ("none", {"/dev/nvidiactl": (None, None), "/dev/nvidia-uvm": (None, None)}),
    ("static", {"/dev/nvidiactl": (195, 255), "/dev/nvidia-uvm": (None, None)}),
    ("all", {"/dev/nvidiactl": (195, 255), "/dev/nvidia-uvm": (511, 0)}),
]


@pytest.mark.parametrize(("attributes", "numbers"), ATTRIBUTES)
def test_numbers_by_option(attributes: str, numbers: dict[str, Any]) -> None:
    found = {
        n.path: (n.major, n.minor)
        for n in made(WHOLE, node_attributes=attributes).spec.edits.device_nodes
    }
    assert found.items() >= numbers.items()


def test_with_everything_recorded_a_node_need_not_be_there() -> None:
    assert made(HARDWARE).missing == (
        "/dev/nvidia-caps/nvidia-cap12",
        "/dev/nvidia-caps/nvidia-cap13",
    )
    every = made(HARDWARE, node_attributes="all")
    assert every.missing == ()
    device = every.spec.devices[0]
    cap = next(n for n in device.edits.device_nodes if n.path.endswith("cap12"))
    assert (cap.type, cap.major, cap.minor, cap.permissions) == ("c", 510, 12, "rwm")


def test_an_instance_draws_only_with_its_attribute() -> None:
    assert "/dev/dri/renderD128" not in nodes(made(HARDWARE).spec)["0:0"]
    board = HARDWARE.boards[0]
    drawing = dc.replace(
        HARDWARE,
        boards=(dc.replace(board, devices=(dc.replace(board.devices[0], graphics=True),)),),
    )
    assert "/dev/dri/renderD128" in nodes(made(drawing).spec)["0:0"]
    assert "/dev/dri/renderD128" in nodes(made(WHOLE).spec)["0"]
    assert (
        "/dev/dri/renderD128"
        not in nodes(made(WHOLE, features=frozenset(("compute", "utility"))).spec)["0"]
    )


def test_group_ids_are_asked_for_and_dropped_below_0_7_0() -> None:
    assert [d.edits.additional_gids for d in made(WHOLE, cap="1.0.0").spec.devices] == [(), (), ()]
    found = made(WHOLE, cap="1.0.0", group_ids=True)
    assert ([d.edits.additional_gids for d in found.spec.devices], found.spec.version) == (
        [(105,)] * 3,
        "0.7.0",
    )
    lean = made(WHOLE, cap="0.6.0", group_ids=True)
    assert ([d.edits.additional_gids for d in lean.spec.devices], lean.spec.version) == (
        [()] * 3,
        "0.5.0",
    )
    left_out = (
        "spec.left-out",
        {"part": "additional group ids", "needed": "0.7.0", "limit": "0.6.0"},
    )
    assert read_all_coded(lean.notes) == [left_out]


def test_group_ids_can_be_insisted_on() -> None:
    drm = {"/sys/bus/pci/devices/0000:17:00.0/drm/renderD128": {"type": "dir"}}
    there = look(
        {**host(1), **drm, "/dev/dri/renderD128": {**node(226, 128), "mode": 0o660, "gid": 105}},
        nvml(1),
    )
    assert one(plan(there, "1.0.0", cdi_group_ids=True)).version == "0.7.0"
    assert one(plan(there, "0.6.0", cdi_group_ids=True)).version == "0.5.0"
    with pytest.raises(
        PlanError, match=r"additional group ids needs 0.7.0.*\[cdi.readers-too-old\]"
    ):
        plan(there, "0.6.0", cdi_group_ids=True, cdi_above_cap="refuse")


def modes(mode: int, gid: int, *paths: str) -> dict[str, DeviceFile]:
    return {
        path: dc.replace(HARDWARE.nodes[path], mode=mode, gid=gid)
        for path in paths or HARDWARE.nodes
    }


NVIDIA = [path for path in HARDWARE.nodes if not path.startswith("/dev/dri")]
TO_GROUP, TO_USERS = "spec.node-closed-to-group", "spec.node-closed-to-users"
# Where it was told, the nodes of the host, the option, and the advice: its code, the nodes, the
# group and the mode.
CLOSED = [
    ("all are open to everyone", {}, False, []),
    (
        "NVIDIA/nvidia-docker#657: root:video",
        modes(0o660, 33, *NVIDIA),
        False,
        [(TO_GROUP, "/dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0 and 2 more", 33, "0660")],
    ),
    ("NVIDIA/nvidia-docker#1608: the spec has the group", modes(0o660, 33, *NVIDIA), True, []),
    (
        "one node alone",
        modes(0o660, 33, "/dev/nvidia0"),
        False,
        [(TO_GROUP, "/dev/nvidia0", 33, "0660")],
    ),
    (
        "root's alone",
        modes(0o600, 0, "/dev/nvidia0"),
        True,
        [(TO_USERS, "/dev/nvidia0", None, "0600")],
    ),
    (
        "root's group may write too",
        modes(0o660, 0, "/dev/nvidia0"),
        False,
        [(TO_USERS, "/dev/nvidia0", None, "0660")],
    ),
    (
        "the first group behind root's",
        modes(0o660, 1, "/dev/nvidia0"),
        False,
        [(TO_GROUP, "/dev/nvidia0", 1, "0660")],
    ),
    (
        "a group that may not write",
        modes(0o640, 33, "/dev/nvidia0"),
        True,
        [(TO_USERS, "/dev/nvidia0", None, "0640")],
    ),
    (
        "two groups",
        {**modes(0o660, 33, "/dev/nvidia0"), **modes(0o660, 44, "/dev/nvidia-uvm")},
        False,
        [(TO_GROUP, "/dev/nvidia0", 33, "0660"), (TO_GROUP, "/dev/nvidia-uvm", 44, "0660")],
    ),
    ("those of DRM, as most hosts have them", modes(0o660, 44, "/dev/dri/renderD128"), False, []),
]


@pytest.mark.parametrize(
    ("there", "group_ids", "said"), [row[1:] for row in CLOSED], ids=[row[0] for row in CLOSED]
)
def test_nodes_that_not_everyone_may_open(
    there: dict[str, DeviceFile], group_ids: bool, said: list[tuple[Any, ...]]
) -> None:
    found = read_all_coded(
        made(
            dc.replace(WHOLE, nodes={**WHOLE.nodes, **there}), cap="1.0.0", group_ids=group_ids
        ).notes
    )
    assert [
        (code, values["nodes"], values.get("group"), values["mode"]) for code, values in found
    ] == said


def test_a_node_for_reading_capabilities_is_not_counted() -> None:
    cap = DeviceFile("/dev/nvidia-caps/nvidia-cap12", (510, 12), 0o444)
    assert (
        made(dc.replace(HARDWARE, nodes={**HARDWARE.nodes, cap.path: cap}), cap="1.0.0").notes == ()
    )


def test_a_driver_container_needs_host_paths_and_so_0_5_0() -> None:
    moved = {
        (f"/run/nvidia/driver{path}" if path.startswith("/dev") else path): text
        for path, text in host(1).items()
    }
    found = one(
        plan(
            look(moved, nvml(1)),
            cdi_driver_root="/run/nvidia/driver",
            cdi_device_names=("type-index",),
        )
    )
    assert [(n.path, n.host_path) for n in found.devices[0].edits.device_nodes] == [
        ("/dev/nvidia0", "/run/nvidia/driver/dev/nvidia0")
    ]
    assert found.version == "0.5.0"


# ---------------------------------------------------------------- platforms that have no spec here

TEGRA, THOR = "/etc/nv_tegra_release", "/proc/driver/nvidia/gpus/0000:17:00.0/information"
PLATFORMS = [
    ("WSL", {"/dev/dxg": node(10, 125)}, "driver.wsl"),
    ("Jetson", {TEGRA: "# R35"}, "driver.tegra"),
    ("Jetson by its chip", {"/sys/devices/soc0/family": "Tegra\n"}, "driver.tegra"),
    ("Jetson with the module loaded", {"/proc/driver/nvidia/version": NVRM.format("540.4"), TEGRA: ""}, "driver.tegra"),
    ("vGPU", {**{p: t for p, t in host(1).items() if "libcuda" not in p}, "/dev/nvidia-vgpuctl": node(235, 0)}, "driver.vgpu-manager"),
    ("Thor", {**host(1), THOR: host(1)[THOR].replace("NVIDIA H100 80GB HBM3", "NVIDIA Thor")}, "driver.tegra"),
    (
        "all GPUs given away",
        {p: t for p, t in host(1).items() if p.startswith("/sys/bus")} | {"/sys/bus/pci/drivers/vfio-pci/0000:17:00.0": ""},
        "driver.gpu-held",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "evidence"), [case[1:] for case in PLATFORMS], ids=[case[0] for case in PLATFORMS]
)
def test_platforms_are_refused_with_the_reason(files: dict[str, Any], evidence: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan(look(files, {}))
    assert (refused.value.code, get_code(refused.value.values["evidence"])) == (
        "cdi.no-spec-here",
        evidence,
    )
    calm = Policy()
    seen, record = look(files, {}), resource.record_of_options("collection", "1.0.0")
    code, values = read_coded(
        cdi_plans.plan_specs(
            calm,
            spec_facts.read_spec_facts(
                calm, seen, record, driver_state.read_driver(calm, seen), ""
            ),
            record,
            driver_state.read_driver(calm, seen),
        ).advice[0]
    )
    assert (code, values["evidence"][0]) == ("cdi.no-spec-yet", evidence)


def test_a_spec_stays_where_the_vgpu_manager_has_taken_the_gpus() -> None:
    (first,) = plan(look(host(1), nvml(1))).changes
    taken = {
        **{p: t for p, t in host(1).items() if "libcuda" not in p},
        "/dev/nvidia-vgpuctl": node(235, 0),
    }
    seen, record = (
        look({**taken, first["path"]: first["content"]}, {}),
        resource.record_of_options("collection", "1.0.0"),
    )
    assert not cdi_plans.plan_specs(
        Policy(),
        spec_facts.read_spec_facts(
            Policy(), seen, record, driver_state.read_driver(Policy(), seen), ""
        ),
        record,
        driver_state.read_driver(Policy(), seen),
    ).changes


# ---------------------------------------------------------------- whatever the hardware

migs = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 7)), unique=True, max_size=7)
boards = st.lists(
    st.tuples(st.integers(0, 31), st.booleans(), migs),
    unique_by=lambda b: b[0],
    min_size=1,
    max_size=8,
)


def build(specified: list[tuple[int, bool, list[tuple[int, int]]]], order: int) -> Hardware:
    """The same hardware, seen in one order or another."""
    found, paths, table = [], [*CONTROL, "/dev/nvidia-caps/nvidia-cap1"], {}
    for index, (minor, draws, pairs) in enumerate(specified):
        drm = (f"/dev/dri/card{index}", f"/dev/dri/renderD{128 + index}") if draws else ()
        devices = tuple(
            MigDevice(gi, ci, place, f"MIG-{minor}-{gi}-{ci}")
            for place, (gi, ci) in enumerate(sorted(pairs))
        )
        board = Board(
            SeenGpu(index, minor, f"0000:{index:02x}:00.0", f"GPU-{minor}", "NVIDIA H100"),
            bool(devices),
            devices,
            drm,
        )
        keys = [key for m in devices for key in inventory.get_mig_cap_keys(board, m)]
        table.update({key: 100 + number for number, key in enumerate(keys, 1000 * index)})
        found.append(board)
        paths += [board.path, *drm, *(inventory.get_cap_path(table[key]) for key in keys)]
    turned = list(reversed(paths)) if order else paths
    return Hardware(
        tuple(found),
        {path: DeviceFile(path, (195, 0), 0o666) for path in turned},
        dict(sorted(table.items(), reverse=bool(order))),
    )


@settings(max_examples=count_examples(60), deadline=None)
@given(
    boards,
    st.sampled_from(list(layouts.LAYOUTS)),
    st.sampled_from(version.KNOWN),
    st.sampled_from(["none", "static", "all"]),
)
def test_every_spec_is_valid_within_its_cap_and_always_the_same(
    specified: Any, layout: str, cap: str, attributes: Any
) -> None:
    options = generate_build.Options(cap=cap, layout=layout, node_attributes=attributes)
    first, second = (generate_build.generate(build(specified, order), options) for order in (0, 1))
    assert writer.render_spec(first.spec) == writer.render_spec(second.spec)
    assert first.missing == ()
    assert version.list_needs_above_cap(first.spec, cap) == []
    assert first.spec.version == version.get_minimum_version(first.spec)
    names = [d.name for d in first.spec.devices]
    assert len(set(names)) == len(names)
    assert all(d.edits.device_nodes for d in first.spec.devices)
    for device in first.spec.devices:
        paths = [n.path for n in (*device.edits.device_nodes, *first.spec.edits.device_nodes)]
        assert len(set(paths)) == len(paths), device.name
    assert reader.parse_spec(writer.render_spec(first.spec)) == first.spec


@settings(max_examples=count_examples(40), deadline=None)
@given(boards)
def test_no_mig_device_shares_a_capability_of_a_compute_instance(specified: Any) -> None:
    found = made(build(specified, 0), names=("index",)).spec
    shares = [
        {n.path for n in d.edits.device_nodes if "caps" in n.path}
        for d in found.devices
        if ":" in d.name
    ]
    assert all(one != other for one, other in itertools.combinations(shares, 2))
