# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver as the everyday look sees it: each state, and the sentence that says why."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import gpus, outer_host, platforms
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Driver, Policy

from tests.unit.builders import obs
from tests.unit.gpus import BUSES, LIBRARIES, NVRM, UUIDS, host, information, library, node, pci

INFORMATION = f"/proc/driver/nvidia/gpus/{BUSES[0]}/information"
UNUSED = "GPU-????????-????-????-????-????????????"


FAMILY, JETPACK = "/sys/devices/soc0/family", {"/etc/nv_tegra_release": "# R36"}
LOADED = {"/proc/driver/nvidia/version": NVRM.format("540.4.0"), "/sys/module/nvidia/version": "540.4.0\n"}
# What the vGPU manager's packages have: NVML, nvidia-smi and their own, and no library of CUDA.
MANAGER = {path: there for path, there in host(1).items() if "libcuda" not in path}
OTHER_MODULE = {"/lib/modules/5.15.0/updates/dkms/nvidia.ko": ""}
VGPU = {"/dev/nvidia-vgpuctl": node(235, 0)}


def parse(files: dict[str, Any], **policy: Any) -> Driver:
    return gpus.parse(Policy(**policy), obs(files={path: text for path, text in files.items() if text is not None}))


def bound(driver: str) -> dict[str, Any]:
    """Which kernel driver has the first GPU, by the device's own link."""
    return {f"/sys/bus/pci/devices/{BUSES[0]}/driver": {"type": "dir", "real": f"/sys/bus/pci/drivers/{driver}"}}


STATES = [
    # what the host is like, state, part of the sentence
    ("two GPUs, all well", host(), "ok", "Kernel module 550.163.01 (/sys/module/nvidia/version), 2 GPUs"),
    ("no NVIDIA device on PCI", pci(0), "none", "No NVIDIA GPU among the PCI devices"),
    ("module loaded, no GPU", host(0), "none", "there is no GPU"),
    ("GPU without a driver", pci(1), "not-loaded", "GPU 0000:17:00.0 is on PCI, but the NVIDIA kernel module is not loaded"),
    ("nouveau has the GPU", {**pci(1), f"/sys/bus/pci/drivers/nouveau/{BUSES[0]}": ""}, "not-loaded", "it is bound to the nouveau driver"),
    (
        "all GPUs belong to virtual machines",
        {**pci(1), f"/sys/bus/pci/drivers/vfio-pci/{BUSES[0]}": ""},
        "none",
        "virtual machines (vfio-pci)",
    ),
    ("its link names a driver for virtual machines", {**pci(1), **bound("nvgrace_gpu_vfio_pci")}, "none", "(nvgrace_gpu_vfio_pci)"),
    ("its link names a driver that keeps devices", {**pci(1), **bound("pci-stub")}, "none", "virtual machines (pci-stub)"),
    ("its link names any other driver", {**pci(1), **bound("nova_core")}, "not-loaded", "it is bound to the nova_core driver"),
    ("its link names NVIDIA's", {**pci(1), **bound("nvidia")}, "not-loaded", "the NVIDIA kernel module is not loaded"),
    (
        "upgraded without a reboot",
        host(version="550.90.07"),
        "broken",
        "Kernel module 550.90.07 (/sys/module/nvidia/version) and user-space driver 550.163.01",
    ),
    ("the sentence names the library", host(version="550.90.07"), "broken", f"{LIBRARIES}/libnvidia-ml.so.550.163.01"),
    (
        "information cut short",
        {**host(), INFORMATION: "Model: NVIDIA H1"},
        "broken",
        f"{INFORMATION} is truncated or unreadable: it has no usable 'Bus Location'",
    ),
    ("no minor", {**host(), INFORMATION: f"Bus Location: {BUSES[0]}\n"}, "broken", "'Device Minor'"),
    (
        "empty version files",
        {**host(), "/sys/module/nvidia/version": "", "/proc/driver/nvidia/version": ""},
        "broken",
        "contains no version",
    ),
    ("module serves no GPU", {**host(1), INFORMATION: None}, "broken", "does not drive GPU 0000:17:00.0"),
    ("one of two GPUs fell off", {**host(), INFORMATION: None}, "ok", "1 GPU, user-space driver 550.163.01; not served: 0000:17:00.0"),
    (
        "driver container, no libraries on the host",
        {p: t for p, t in host().items() if "libnvidia" not in p},
        "ok",
        "no user-space driver in the usual folders",
    ),
    (
        "other library folders as well, one fits",
        {**host(), **{f"/usr/lib64/libnvidia-ml.so.{v}": "" for v in ("535.54.03",)}},
        "ok",
        "2 GPUs",
    ),
]


@pytest.mark.parametrize(("files", "state", "sentence"), [case[1:] for case in STATES], ids=[case[0] for case in STATES])
def test_state(files: dict[str, Any], state: str, sentence: str) -> None:
    driver = parse(files)
    assert (driver.state, sentence in driver.evidence) == (state, True), driver.evidence


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


def test_an_excluded_gpu_has_no_index() -> None:
    files = {**host(), INFORMATION: information(BUSES[0], 0, UUIDS[0], **{"GPU Excluded": "Yes"})}
    assert [(g.index, g.bus_id) for g in parse(files).gpus] == [(0, BUSES[1])]


def test_question_marks_are_no_uuid() -> None:
    assert [g.uuid for g in parse(host(1, uuids=(UNUSED,))).gpus] == [""]


def test_other_roots_of_proc_and_sys() -> None:
    moved = {("/opt/fake" + path if path.startswith(("/proc", "/sys")) else path): text for path, text in host(1).items()}
    driver = parse(moved, proc_root="/opt/fake/proc", sys_root="/opt/fake/sys")
    assert driver.state == "ok"
    assert [g.uuid for g in driver.gpus] == [UUIDS[0]]


def test_debians_library_behind_alternatives() -> None:
    real = "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.535.216.01"
    files = {**host(user="535.216.01"), real: "", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": {"real": real}}
    assert "535.216.01" in parse(files).evidence


def test_the_everyday_look_runs_nothing_and_loads_no_library() -> None:
    assert {q["kind"] for q in gpus.questions(Policy())} == {"file", "glob", "dir", "paths"}


def test_every_answer_was_asked_for() -> None:
    class Strict(dict[str, Any]):
        pass

    asked = {q["id"] for q in gpus.questions(Policy())}
    seen = obs(files=host())
    answers = Strict({qid: seen.answers[qid] for qid in asked})
    strict = type(seen)(seen.host, answers)
    assert gpus.parse(Policy(), strict).state == "ok"
    assert gpus.mig_instances(Policy(), strict) == ()
    assert gpus.majors(Policy(), strict) == {"mem": 1, "nvidia": 195, "nvidia-caps": 510, "nvidia-uvm": 511}
    assert gpus.nodes(strict)["/dev/nvidia-uvm"].rdev == (511, 0)


def test_a_folder_is_no_device_node() -> None:
    assert set(gpus.nodes(obs(files={"/dev/nvidia-caps": {"type": "dir"}, "/dev/nvidia0": node(195, 0)}))) == {"/dev/nvidia0"}


def test_mig_instances_are_seen() -> None:
    path = "/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access"
    seen = obs(files={path: "DeviceFileMinor: 12\n"})
    assert gpus.mig_instances(Policy(), seen) == (path,)
    assert seen.asked(queries.glob("/proc/driver/nvidia/capabilities/gpu*/mig/gi*/access", content=False))


def test_library_of_another_version_alone() -> None:
    assert "570.1.2" in parse({**{p: t for p, t in host().items() if "libnvidia" not in p}, **library("570.1.2")}).evidence


EXCLUDED = information(BUSES[0], 0, UUIDS[0], **{"GPU Excluded": "Yes"})
LOST: list[tuple[str, dict[str, Any], list[str]]] = [
    # what the host is like, its files, the GPUs that are named as lost
    ("one fell off the bus", {**host(), INFORMATION: None}, [BUSES[0]]),
    ("two did", {**host(3), INFORMATION: None, INFORMATION.replace(BUSES[0], BUSES[1]): None}, [BUSES[0], BUSES[1]]),
    ("all are served", host(), []),
    ("the driver leaves one out by its options", {**host(), INFORMATION: EXCLUDED}, []),
    ("another driver has it", {**host(), INFORMATION: None, f"/sys/bus/pci/drivers/vfio-pci/{BUSES[0]}": ""}, []),
    ("another driver has it, by its link", {**host(), INFORMATION: None, **bound("mlx5_vfio_pci")}, []),
]


@pytest.mark.parametrize(("files", "lost"), [row[1:] for row in LOST], ids=[row[0] for row in LOST])
def test_a_lost_gpu_is_said_and_not_only_shown(files: dict[str, Any], lost: list[str]) -> None:
    driver = parse(files)
    assert driver.state == "ok"
    assert [note for note in driver.notes if "dmesg" in note] == ([gpus.UNSERVED.format(", ".join(lost))] if lost else [])
    assert ("not served" in driver.evidence) == bool(lost)


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


@pytest.mark.parametrize(("files", "state", "platform"), [row[2:] for row in PLATFORMS], ids=[row[1] for row in PLATFORMS])
def test_platforms_whose_gpus_get_no_spec(files: dict[str, Any], state: str, platform: str) -> None:
    driver = parse(files)
    assert (driver.state, driver.platform) == (state, platform), driver.evidence
    assert not platform or not driver.gpus


def test_only_a_host_of_the_vgpu_manager_is_asked_for_the_library_of_cuda() -> None:
    question = queries.paths(platforms.NAME, list(platforms.CUDA))
    assert question["id"] not in {q["id"] for q in gpus.questions(Policy())}


INSIDE: list[tuple[str, dict[str, Any], str, dict[str, Any], str, list[str], list[str]]] = [
    # what the host is like, its files, what systemd says of it, options, the state, what is said, what is not
    ("LXC without the module", pci(1), "lxc\n", {}, "not-loaded", ["container (lxc)", "Load the driver there", "cgroup2"], ["modprobe"]),
    ("Incus with other libraries", host(version="550.9"), "lxc\n", {}, "broken", ["libraries of its version here"], ["Reboot", "modprobe"]),
    ("modules of its own, which are never loaded", {**host(), **OTHER_MODULE}, "lxc\n", {}, "ok", [], ["reboot"]),
    ("the same on a host", {**host(), **OTHER_MODULE}, "", {}, "ok", ["works until the next reboot"], []),
    ("WSL is none", pci(1), "wsl\n", {}, "not-loaded", [], ["container"]),
    ("another procfs is somebody's word", pci(1), "systemd-nspawn\n", {"proc_root": "/srv/proc"}, "not-loaded", [], ["container"]),
    ("a tree that is the root of one", pci(1), "lxc\n", {"root": "/srv/tree"}, "not-loaded", ["container (lxc)"], ["modprobe"]),
    ("words that are no name", pci(1), "a b; c\n", {}, "not-loaded", [], ["container", "a b"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "mark", "policy", "state", "says", "leaves"), [row[1:] for row in INSIDE], ids=[row[0] for row in INSIDE]
)
def test_what_helps_on_a_host_that_is_a_container(
    files: dict[str, Any], mark: str, policy: dict[str, Any], state: str, says: list[str], leaves: list[str]
) -> None:
    seen = obs(files={**files, outer_host.MARK: mark or None}, host={"kernel": "6.1.0", "os_release": {}})
    driver = gpus.parse(Policy(**policy), seen)
    told = " ".join((driver.remedy, *driver.notes))
    assert (driver.state, [text for text in says if text not in told]) == (state, [])
    assert [text for text in leaves if text in told] == []
