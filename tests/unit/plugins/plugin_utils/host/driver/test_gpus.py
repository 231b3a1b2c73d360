# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver as the everyday look sees it: each state, and the sentence that says why."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    gpus,
    outer_host,
    platforms,
)

from tests.unit.builders import obs
from tests.unit.coded import Coded, read_all_coded, read_coded
from tests.unit.gpus import BUSES, LIBRARIES, NVRM, UUIDS, host, information, library, node, pci

INFORMATION = f"/proc/driver/nvidia/gpus/{BUSES[0]}/information"
UNUSED = "GPU-????????-????-????-????-????????????"


FAMILY, JETPACK = "/sys/devices/soc0/family", {"/etc/nv_tegra_release": "# R36"}
LOADED = {
    "/proc/driver/nvidia/version": NVRM.format("540.4.0"),
    "/sys/module/nvidia/version": "540.4.0\n",
}
# What the vGPU manager's packages have: NVML, nvidia-smi and their own, and no library of CUDA.
MANAGER = {path: there for path, there in host(1).items() if "libcuda" not in path}
OTHER_MODULE = {"/lib/modules/5.15.0/updates/dkms/nvidia.ko": ""}
VGPU = {"/dev/nvidia-vgpuctl": node(235, 0)}


def parse(files: dict[str, Any], **policy: Any) -> Driver:
    return driver_state.read_driver(
        Policy(**policy),
        obs(files={path: text for path, text in files.items() if text is not None}),
    )


def bound(driver: str) -> dict[str, Any]:
    """Which kernel driver has the first GPU, by the device's own link."""
    return {
        f"/sys/bus/pci/devices/{BUSES[0]}/driver": {
            "type": "dir",
            "real": f"/sys/bus/pci/drivers/{driver}",
        }
    }


BUS = BUSES[0]
MODULE = "/sys/module/nvidia/version"
LOADED_VERSION = "550.163.01"
TWO_GPUS = {"version": LOADED_VERSION, "path": MODULE, "gpus": "2 GPUs"}
STATES: list[tuple[str, dict[str, Any], str, str, dict[str, Any]]] = [
    # what the host is like, its files, the state, the code of the evidence, its values
    ("two GPUs, all well", host(), "ok", "serves", TWO_GPUS),
    ("no NVIDIA device on PCI", pci(0), "none", "no-gpu", {"path": "/sys/bus/pci/devices"}),
    ("module loaded, no GPU", host(0), "none", "loaded-without-gpu", {"version": LOADED_VERSION}),
    ("GPU without a driver", pci(1), "not-loaded", "not-loaded", {"bus": BUS}),
    (
        "nouveau has the GPU",
        {**pci(1), f"/sys/bus/pci/drivers/nouveau/{BUS}": ""},
        "not-loaded",
        "not-loaded-gpu-held",
        {"bus": BUS, "holder": ("driver.bound-elsewhere", {"driver": "nouveau"})},
    ),
    (
        "another driver has all that the module could serve",
        {**host(0), **pci(1), f"/sys/bus/pci/drivers/nouveau/{BUS}": ""},
        "none",
        "loaded-gpu-held",
        {
            "version": LOADED_VERSION,
            "held": (
                "driver.gpus-held",
                {"gpus": BUS, "holder": ("driver.bound-elsewhere", {"driver": "nouveau"})},
            ),
        },
    ),
    *(
        (
            f"all GPUs belong to virtual machines: {name}",
            {**pci(1), **files},
            "none",
            "gpu-held",
            {"bus": BUS, "holder": ("driver.passed-through", {"driver": name})},
        )
        for name, files in (
            ("vfio-pci", {f"/sys/bus/pci/drivers/vfio-pci/{BUS}": ""}),
            ("nvgrace_gpu_vfio_pci", bound("nvgrace_gpu_vfio_pci")),
            ("pci-stub", bound("pci-stub")),
        )
    ),
    (
        "its link names any other driver",
        {**pci(1), **bound("nova_core")},
        "not-loaded",
        "not-loaded-gpu-held",
        {"bus": BUS, "holder": ("driver.bound-elsewhere", {"driver": "nova_core"})},
    ),
    (
        "its link names NVIDIA's",
        {**pci(1), **bound("nvidia")},
        "not-loaded",
        "not-loaded",
        {"bus": BUS},
    ),
    (
        "upgraded without a reboot",
        host(version="550.90.07"),
        "broken",
        "versions-differ",
        {
            "loaded": "550.90.07",
            "where": MODULE,
            "version": LOADED_VERSION,
            "library": f"{LIBRARIES}/libnvidia-ml.so.{LOADED_VERSION}",
            "kernel": "the kernel in use",
        },
    ),
    (
        "information cut short",
        {**host(), INFORMATION: "Model: NVIDIA H1"},
        "broken",
        "file-cut-short",
        {"path": INFORMATION, "field": "'Bus Location'"},
    ),
    (
        "no minor",
        {**host(), INFORMATION: f"Bus Location: {BUS}\n"},
        "broken",
        "file-cut-short",
        {"path": INFORMATION, "field": "'Device Minor'"},
    ),
    (
        "empty version files",
        {**host(), MODULE: "", "/proc/driver/nvidia/version": ""},
        "broken",
        "no-version",
        {"path": "/proc/driver/nvidia/version"},
    ),
    (
        "module serves no GPU",
        {**host(1), INFORMATION: None},
        "broken",
        "drives-no-gpu",
        {"version": LOADED_VERSION, "bus": BUS},
    ),
    (
        "one of two GPUs fell off",
        {**host(), INFORMATION: None},
        "ok",
        "serves-some",
        {"served": ("driver.serves", {**TWO_GPUS, "gpus": "1 GPU"}), "lost": BUS},
    ),
    (
        "driver container, no libraries on the host",
        {p: t for p, t in host().items() if "libnvidia" not in p},
        "ok",
        "serves-without-libraries",
        TWO_GPUS,
    ),
    (
        "other library folders as well, one fits",
        {**host(), **{f"/usr/lib64/libnvidia-ml.so.{v}": "" for v in ("535.54.03",)}},
        "ok",
        "serves",
        TWO_GPUS,
    ),
]


@pytest.mark.parametrize(
    ("files", "state", "code", "values"),
    [case[1:] for case in STATES],
    ids=[case[0] for case in STATES],
)
def test_state(files: dict[str, Any], state: str, code: str, values: dict[str, Any]) -> None:
    driver = parse(files)
    assert (driver.state, read_coded(driver.evidence)) == (state, (f"driver.{code}", values))


def test_the_version_comes_from_procfs_where_sysfs_has_none() -> None:
    files = {
        **host(),
        "/sys/module/nvidia/version": None,
        "/proc/driver/nvidia/version": NVRM.format("550.163.01").replace("Kernel", "Open Kernel"),
    }
    assert parse(files).version == "550.163.01"


def test_gpus_are_counted_along_the_bus_whatever_their_minors() -> None:
    found = parse(host(3, minors=(2, 0, 1))).gpus
    assert [(g.index, g.minor, g.bus_id, g.uuid) for g in found] == [
        (0, 2, BUSES[0], UUIDS[0]),
        (1, 0, BUSES[1], UUIDS[1]),
        (2, 1, BUSES[2], UUIDS[2]),
    ]


@pytest.mark.parametrize("path", ["", "vendor", "/vendor"])
def test_a_path_without_a_folder_is_of_no_gpu(path: str) -> None:
    """A host that lies may answer any path, whatever it was asked for."""
    where, seen = gpus.get_gpu_paths(Policy()), obs(files=pci())
    for question in gpus.list_questions(Policy()):
        if question.get("pattern") in (where.pci_vendor, where.pci_class):
            files = [{**file, "path": path} for file in seen.get_answer(question)["files"]]
            dict.__setitem__(seen.answers, question["id"], {"files": files})  # type: ignore[arg-type]
    assert gpus.list_pci_gpus(seen, where) == []
    assert driver_state.read_driver(Policy(), seen).state == "none"


def test_an_excluded_gpu_has_no_index() -> None:
    files = {**host(), INFORMATION: information(BUSES[0], 0, UUIDS[0], **{"GPU Excluded": "Yes"})}
    assert [(g.index, g.bus_id) for g in parse(files).gpus] == [(0, BUSES[1])]


def test_question_marks_are_no_uuid() -> None:
    assert [g.uuid for g in parse(host(1, uuids=(UNUSED,))).gpus] == [""]


def test_other_roots_of_proc_and_sys() -> None:
    moved = {
        ("/opt/fake" + path if path.startswith(("/proc", "/sys")) else path): text
        for path, text in host(1).items()
    }
    driver = parse(moved, proc_root="/opt/fake/proc", sys_root="/opt/fake/sys")
    assert driver.state == "ok"
    assert [g.uuid for g in driver.gpus] == [UUIDS[0]]


def test_debians_library_behind_alternatives() -> None:
    real = "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.535.216.01"
    files = {
        **host(user="535.216.01"),
        real: "",
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": {"real": real},
    }
    assert "535.216.01" in parse(files).evidence


def test_the_everyday_look_runs_nothing_and_loads_no_library() -> None:
    assert {q["kind"] for q in gpus.list_questions(Policy())} == {"file", "glob", "dir", "paths"}


def test_every_answer_was_asked_for() -> None:
    class Strict(dict[str, Any]):
        pass

    asked = {q["id"] for q in gpus.list_questions(Policy())}
    seen = obs(files=host())
    answers = Strict({qid: seen.answers[qid] for qid in asked})
    strict = type(seen)(seen.host, answers)
    assert driver_state.read_driver(Policy(), strict).state == "ok"
    assert gpus.list_mig_instance_paths(Policy(), strict) == ()
    assert gpus.map_device_majors(Policy(), strict) == {
        "mem": 1,
        "nvidia": 195,
        "nvidia-caps": 510,
        "nvidia-uvm": 511,
    }
    assert gpus.map_device_files(strict)["/dev/nvidia-uvm"].rdev == (511, 0)


def test_a_folder_is_no_device_node() -> None:
    assert set(
        gpus.map_device_files(
            obs(files={"/dev/nvidia-caps": {"type": "dir"}, "/dev/nvidia0": node(195, 0)})
        )
    ) == {"/dev/nvidia0"}


def test_mig_instances_are_seen() -> None:
    path = "/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access"
    seen = obs(files={path: "DeviceFileMinor: 12\n"})
    assert gpus.list_mig_instance_paths(Policy(), seen) == (path,)
    assert seen.was_asked(
        queries.ask_for_glob("/proc/driver/nvidia/capabilities/gpu*/mig/gi*/access", content=False)
    )


def test_library_of_another_version_alone() -> None:
    assert (
        "570.1.2"
        in parse(
            {**{p: t for p, t in host().items() if "libnvidia" not in p}, **library("570.1.2")}
        ).evidence
    )


EXCLUDED = information(BUSES[0], 0, UUIDS[0], **{"GPU Excluded": "Yes"})
PASSED = ("driver.passed-through", {"driver": "vfio-pci"})
VARIANT = ("driver.passed-through", {"driver": "mlx5_vfio_pci"})
LOST: list[tuple[str, dict[str, Any], list[str], list[Coded]]] = [
    # what the host is like, its files, the GPUs that are named as lost, what is said besides
    ("one fell off the bus", {**host(), INFORMATION: None}, [BUSES[0]], []),
    (
        "two did",
        {**host(3), INFORMATION: None, INFORMATION.replace(BUSES[0], BUSES[1]): None},
        [BUSES[0], BUSES[1]],
        [],
    ),
    ("all are served", host(), [], []),
    (
        "the driver leaves one out by its options",
        {**host(), INFORMATION: EXCLUDED},
        [],
        [("driver.gpus-excluded", {"gpus": BUSES[0]})],
    ),
    (
        "another driver has it",
        {**host(), INFORMATION: None, f"/sys/bus/pci/drivers/vfio-pci/{BUSES[0]}": ""},
        [],
        [("driver.gpus-held", {"gpus": BUSES[0], "holder": PASSED})],
    ),
    (
        "another driver has it, by its link",
        {**host(), INFORMATION: None, **bound("mlx5_vfio_pci")},
        [],
        [("driver.gpus-held", {"gpus": BUSES[0], "holder": VARIANT})],
    ),
]


@pytest.mark.parametrize(
    ("files", "lost", "besides"), [row[1:] for row in LOST], ids=[row[0] for row in LOST]
)
def test_a_lost_gpu_is_said_and_not_only_shown(
    files: dict[str, Any], lost: list[str], besides: list[Coded]
) -> None:
    driver = parse(files)
    assert driver.state == "ok"
    assert (
        read_all_coded(driver.notes)
        == ([("driver.gpus-lost", {"gpus": ", ".join(lost)})] if lost else []) + besides
    )
    assert (get_code(driver.evidence) == "driver.serves-some") == bool(lost)


def test_all_gpus_that_the_options_exclude_are_no_broken_driver() -> None:
    driver = parse({**host(1), INFORMATION: EXCLUDED})
    assert (driver.state, driver.gpus) == ("none", ())
    kept = ("driver.gpus-excluded", {"gpus": BUSES[0]})
    assert read_coded(driver.evidence) == (
        "driver.loaded-gpu-held",
        {"version": LOADED_VERSION, "held": kept},
    )


def test_gpus_are_counted_along_the_bus_whatever_the_width_of_a_domain() -> None:
    """The kernel gives domains of five digits to bridges that it numbers itself."""
    buses = ("0009:06:00.0", "f000:06:00.0", "10000:01:00.0")
    files = dict(host(0))
    for minor, bus in enumerate(buses):
        files[f"/proc/driver/nvidia/gpus/{bus}/information"] = information(bus, minor, UUIDS[minor])
    assert tuple(gpu.bus_id for gpu in parse(files).gpus) == buses


@pytest.mark.parametrize(
    ("by_nvml", "by_kernel"),
    [
        ("00000000:17:00.0", "0000:17:00.0"),
        ("0000000A:E1:00.0", "000a:e1:00.0"),
        ("0000D9A7:00:00.0", "d9a7:00:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0000:17:00.0", "0000:17:00.0"),
    ],
)
def test_an_address_as_the_kernel_writes_it(by_nvml: str, by_kernel: str) -> None:
    assert gpus.shorten_bus_id(by_nvml) == by_kernel


PLATFORMS: list[tuple[str, str, dict[str, Any], str, str]] = [
    # where it was told, what the host is like, its files, state, platform
    ("NVIDIA-ISAAC-ROS/isaac_ros_common#163", "JetPack 6 has the module loaded", {**LOADED, **JETPACK}, "none", "tegra"),
    ("dusty-nv/jetson-containers#825", "JetPack 6 by its chip", {**LOADED, FAMILY: "Tegra\n"}, "none", "tegra"),
    ("", "a Jetson with a GPU on PCI beside its own", {**host(1), **JETPACK}, "ok", ""),
    ("", "a Jetson whose GPU on PCI the driver does not serve", {**LOADED, **pci(1), **JETPACK}, "broken", ""),
    ("", "the module without a GPU, and no Jetson", {**LOADED, FAMILY: "Snapdragon\n"}, "none", ""),
    ("NVIDIA/gpu-operator#568", "the vGPU manager", {**MANAGER, **VGPU}, "none", "vgpu"),
    ("NVIDIA/gpu-driver-container#979", "its virtual GPU", {**MANAGER, "/dev/nvidia-vgpu1": node(235, 1)}, "none", "vgpu"),
    ("", "its module alone", {**MANAGER, "/proc/devices": "Character devices:\n195 nvidia\n235 nvidia-vgpuctl\n"}, "none", "vgpu"),
    ("", "it and CUDA's library beside it", {**host(1), **VGPU}, "ok", ""),
    ("", "a driver without CUDA's library", MANAGER, "ok", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "state", "platform"),
    [row[2:] for row in PLATFORMS],
    ids=[row[1] for row in PLATFORMS],
)
def test_platforms_whose_gpus_get_no_spec(files: dict[str, Any], state: str, platform: str) -> None:
    driver = parse(files)
    assert (driver.state, driver.platform) == (state, platform), driver.evidence
    assert not platform or not driver.gpus


def test_only_a_host_of_the_vgpu_manager_is_asked_for_the_library_of_cuda() -> None:
    question = queries.ask_for_paths(platforms.NAME, list(platforms.CUDA))
    assert question["id"] not in {q["id"] for q in gpus.list_questions(Policy())}


INSIDE: list[tuple[str, dict[str, Any], str, dict[str, Any], str, str]] = [
    # what the host is like, its files, what systemd says of it, options, the state, the code of the
    # remedy or note
    ("LXC without the module", pci(1), "lxc\n", {}, "not-loaded", "driver.load-outside"),
    (
        "Incus with other libraries",
        host(version="550.9"),
        "lxc\n",
        {},
        "broken",
        "driver.repair-outside",
    ),
    (
        "modules of its own, which are never loaded",
        {**host(), **OTHER_MODULE},
        "lxc\n",
        {},
        "ok",
        "",
    ),
    (
        "the same on a host",
        {**host(), **OTHER_MODULE},
        "",
        {},
        "ok",
        "driver.no-module-after-reboot",
    ),
    ("WSL is none", pci(1), "wsl\n", {}, "not-loaded", ""),
    (
        "another procfs is somebody's word",
        pci(1),
        "systemd-nspawn\n",
        {"proc_root": "/srv/proc"},
        "not-loaded",
        "",
    ),
    (
        "a tree that is the root of one",
        pci(1),
        "lxc\n",
        {"root": "/srv/tree"},
        "not-loaded",
        "driver.load-outside",
    ),
    ("words that are no name", pci(1), "a b; c\n", {}, "not-loaded", ""),
]


@pytest.mark.parametrize(
    ("files", "mark", "policy", "state", "code"),
    [row[1:] for row in INSIDE],
    ids=[row[0] for row in INSIDE],
)
def test_what_helps_on_a_host_that_is_a_container(
    files: dict[str, Any], mark: str, policy: dict[str, Any], state: str, code: str
) -> None:
    seen = obs(
        files={**files, outer_host.MARK: mark or None}, host={"kernel": "6.1.0", "os_release": {}}
    )
    driver = driver_state.read_driver(Policy(**policy), seen)
    told = [text for text in (driver.remedy, *driver.notes) if text]
    assert (driver.state, [get_code(text) for text in told]) == (state, [code] if code else [])
    assert [values["kind"] for _code, values in read_all_coded(told) if "kind" in values] == (
        ["lxc"] if "outside" in code else []
    )
