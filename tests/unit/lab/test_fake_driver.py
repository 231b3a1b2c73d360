# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake libnvidia-ml.so.1, asked through the lab's nvidia-smi and through NVIDIA's own Python
binding.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.fakegpu import driver_libraries, inventories, nvml_answers

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="the library is compiled for this test, and there is no gcc"
)

Ask = Callable[..., "subprocess.CompletedProcess[str]"]
FIELDS = "--query-gpu=index,uuid,pci.bus_id,mig.mode.current,driver_version,name"
BINDING = """
import pynvml
try:
    pynvml.nvmlInit()
    gpus = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
    for gpu in gpus:
        print(pynvml.nvmlDeviceGetMinorNumber(gpu), pynvml.nvmlDeviceGetPciInfo(gpu).busId, *pynvml.nvmlDeviceGetMigMode(gpu))
except pynvml.NVMLError as error:
    print("error", error.value)
"""


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("libraries")
    driver_libraries.compile_libraries(out)
    return out


@pytest.fixture
def ask(libraries: Path, tmp_path: Path) -> Ask:
    """Run a Python program on a host of this description."""

    def run(host: dict[str, object], *command: str) -> subprocess.CompletedProcess[str]:
        conf = tmp_path / "fake-nvml.conf"
        conf.write_text(nvml_answers.nvml_conf(inventories.inventory("node1", host)))
        env = {
            **os.environ,
            "LD_LIBRARY_PATH": str(libraries),
            "FAKE_NVML": str(conf),
            "FAKE_MODES": str(tmp_path / "modes.json"),
        }
        return subprocess.run(
            [sys.executable, *command], env=env, capture_output=True, text=True, check=False
        )

    return run


def smi(ask: Ask, host: dict[str, object], *options: str) -> subprocess.CompletedProcess[str]:
    return ask(host, str(driver_libraries.HERE / "nvidia-smi"), *options)


def test_the_list_of_gpus(ask: Ask) -> None:
    first, second = inventories.inventory("node1", {"gpus": 2}).gpus
    assert smi(ask, {"gpus": 2}, "-L").stdout.splitlines() == [
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {first.uuid})",
        f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {second.uuid})",
    ]


def test_mig_devices_stand_below_their_gpu(ask: Ask) -> None:
    lines = smi(ask, {"gpus": [{"mig": "on", "migs": 2}]}, "-L").stdout.splitlines()
    assert [line.split("(")[0].rstrip() for line in lines[1:]] == [
        "  MIG 1g.10gb     Device  0:",
        "  MIG 1g.10gb     Device  1:",
    ]
    assert all("(UUID: MIG-" in line for line in lines[1:])


@pytest.mark.parametrize("mig, shown", [("off", "Disabled"), ("on", "Enabled"), ("-", "[N/A]")])
def test_a_query(ask: Ask, mig: str, shown: str) -> None:
    (gpu,) = inventories.inventory("node1", {"gpus": 1}).gpus
    answer = smi(ask, {"gpus": [{"mig": mig}]}, FIELDS, "--format=csv,noheader")
    assert (
        answer.stdout
        == f"0, {gpu.uuid}, 00000000:17:00.0, {shown}, 550.163.01, NVIDIA H100 80GB HBM3\n"
    )


@pytest.mark.parametrize(
    "form, lines",
    [
        ("csv", ["index, memory.total [MiB]", "0, 81559 MiB"]),
        ("csv,noheader", ["0, 81559 MiB"]),
        ("csv,noheader,nounits", ["0, 81559"]),
        ("csv,nounits", ["index, memory.total", "0, 81559"]),
    ],
)
def test_forms_of_a_query(ask: Ask, form: str, lines: list[str]) -> None:
    assert (
        smi(
            ask, {"gpus": 1}, "--query-gpu=index,memory.total", f"--format={form}"
        ).stdout.splitlines()
        == lines
    )


@pytest.mark.parametrize(
    "host, status, text",
    [
        ({"gpus": 1, "driver": "broken"}, 18, "Driver/library version mismatch"),
        (
            {"gpus": 1, "nvml": {"errors": {"nvmlInit": 9}}},
            9,
            "couldn't communicate with the NVIDIA driver",
        ),
        ({"gpus": 2, "nvml": {"errors": {"nvmlDeviceGetHandleByIndex@1": 15}}}, 15, "GPU is lost"),
    ],
)
def test_injected_errors(ask: Ask, host: dict[str, object], status: int, text: str) -> None:
    answer = smi(ask, host, "-L")
    assert answer.returncode == status
    assert text in answer.stdout


def test_modes_are_set_and_read_back(ask: Ask) -> None:
    _first, second = inventories.inventory("node1", {"gpus": 2}).gpus
    assert smi(ask, {"gpus": 2}, "-i", second.uuid, "-c", "EXCLUSIVE_PROCESS").stdout.endswith(
        "All done.\n"
    )
    assert (
        smi(ask, {"gpus": 2}, "compute-policy", "-i", "1", "--set-timeslice", "3").returncode == 0
    )
    computing = smi(ask, {"gpus": 2}, "--query-gpu=compute_mode", "--format=csv,noheader").stdout
    listed = smi(ask, {"gpus": 2}, "compute-policy", "--list").stdout.splitlines()
    assert computing.split() == ["Default", "Exclusive_Process"]
    assert [line.strip("| ").split() for line in listed[4:6]] == [
        ["0", "Timeslice", "Default"],
        ["1", "Timeslice", "Long"],
    ]


@pytest.mark.parametrize(
    "options", [("-i", "9", "-c", "DEFAULT"), ("-c", "SHARED")], ids=["no such GPU", "no such mode"]
)
def test_a_wrong_mode_is_refused(ask: Ask, options: tuple[str, ...]) -> None:
    assert smi(ask, {"gpus": 1}, *options).returncode != 0


def test_an_unknown_field_is_refused(ask: Ask) -> None:
    assert smi(ask, {"gpus": 1}, "--query-gpu=colour", "--format=csv").returncode == 2


@pytest.mark.parametrize(
    "host, answer",
    [
        ({"gpus": 2}, "0 00000000:17:00.0 0 0\n1 00000000:43:00.0 0 0\n"),
        ({"gpus": [{"minor": 1, "mig": "on"}]}, "1 00000000:17:00.0 1 1\n"),
        ({"gpus": 1, "mig": "-"}, "error 3\n"),
        ({"gpus": 1, "driver": "broken"}, "error 18\n"),
    ],
)
def test_nvidias_own_binding(ask: Ask, host: dict[str, object], answer: str) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is a development dependency")
    assert ask(host, "-c", BINDING).stdout == answer


@pytest.mark.parametrize(
    ("loaded", "code"),
    [("550.163.01", 0), ("535.261.03", 18), ("", 9)],
    ids=["same", "old", "none"],
)
def test_the_library_of_a_package_works_with_its_own_module_alone(
    loaded: str, code: int, tmp_path: Path
) -> None:
    driver_libraries.compile_nvml(tmp_path, "550.163.01")
    if loaded:
        (tmp_path / "nvml.conf").write_text(f"driver {loaded}\n")
    asked = f"import ctypes; print(ctypes.CDLL('{tmp_path}/libnvidia-ml.so.1').nvmlInit_v2())"
    environment = {**os.environ, "FAKE_NVML": str(tmp_path / "nvml.conf")}
    said = subprocess.run(
        [sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True
    )
    assert int(said.stdout) == code
