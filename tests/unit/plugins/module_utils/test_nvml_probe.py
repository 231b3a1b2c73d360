# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVML probe as it runs on a host: a child with its source on standard input, against a library
that answers from a file.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", "..", ".."))
SOURCE = os.path.join(ROOT, "plugins", "module_utils", "_host", "probes", "nvml.py")
FAKE = os.path.join(ROOT, "tests", "lab", "fakegpu", "nvml.c")
UUIDS = ["GPU-11111111-0000-5000-8000-000000000001", "GPU-22222222-0000-5000-8000-000000000002"]
DRIVER = "driver 550.163.01\ncuda 12040\n"
GPUS = [
    "gpu NVIDIA H100 80GB HBM3|%s|1|00000000:17:00.0|81559|on\n" % UUIDS[0],
    "gpu Tesla V100|%s|0|00000000:AF:00.0|16384|-\n" % UUIDS[1],
]
H100 = {
    "index": 0,
    "minor": 1,
    "bus_id": "0000:17:00.0",
    "name": "NVIDIA H100 80GB HBM3",
    "mig": True,
    "migs": [],
}
V100 = {
    "index": 1,
    "minor": 0,
    "bus_id": "0000:af:00.0",
    "name": "Tesla V100",
    "mig": None,
    "migs": [],
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The lab's libnvidia-ml, compiled; the C compiler is the one thing that this needs."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler for the stand-in of libnvidia-ml")
    path = str(tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1")
    subprocess.check_call([compiler, "-std=gnu11", "-shared", "-fPIC", "-o", path, FAKE])
    return path


@pytest.fixture
def ask(library, tmp_path):
    """Run the probe on a machine that is described by lines."""

    def run(*lines, **more):
        config = tmp_path / "fake-nvml.conf"
        config.write_text(DRIVER + "".join(lines))
        return probe(
            {"library": more.get("library", library)},
            FAKE_NVML=str(config),
            **more.get("environ", {}),
        )

    return run


def probe(args, **environ):
    """The child as the observer starts it."""
    with open(SOURCE, "rb") as source:
        child = subprocess.Popen(
            [sys.executable, *environ.pop("options", "-I -S").split(), "-", json.dumps(args)],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ, **environ),
        )
        out, err = child.communicate()
    assert child.returncode == 0, err
    return json.loads(out.decode("utf-8"))


def test_two_gpus(ask):
    answer = ask(*GPUS)
    assert answer["driver_version"] == "550.163.01"
    assert answer["errors"] == []
    assert answer["gpus"] == [
        dict(H100, uuid=UUIDS[0]),
        dict(V100, uuid=UUIDS[1]),
    ]


@pytest.mark.parametrize(
    "by_nvml, by_kernel",
    [
        ("00000008:06:00.0", "0008:06:00.0"),
        ("0000D9A7:00:00.0", "d9a7:00:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_domains_as_the_kernel_writes_them(ask, by_nvml, by_kernel):
    (gpu,) = ask(GPUS[0].replace("00000000:17:00.0", by_nvml))["gpus"]
    assert gpu["bus_id"] == by_kernel


def test_no_gpu(ask):
    answer = ask()
    assert (answer["gpus"], answer["errors"]) == ([], [])


@pytest.mark.parametrize("code", [9, 18, 999])
def test_a_driver_that_does_not_start(ask, code):
    answer = ask("error nvmlInit %d\n" % code)
    assert answer["gpus"] == []
    assert [error["code"] for error in answer["errors"]] == [code]
    assert answer["errors"][0]["message"]


def test_one_sick_gpu_does_not_hide_the_other(ask):
    answer = ask(*(GPUS + ["error nvmlDeviceGetUUID@0 15\n"]))
    assert [gpu["uuid"] for gpu in answer["gpus"]] == [UUIDS[1]]
    assert [(error["gpu"], error["code"]) for error in answer["errors"]] == [(0, 15)]


def test_a_library_that_is_not_there(tmp_path):
    answer = probe({"library": str(tmp_path / "libnvidia-ml.so.1")})
    assert [(error["call"], error["code"]) for error in answer["errors"]] == [("dlopen", 12)]
    assert answer["gpus"] == []


def test_a_library_that_is_none(tmp_path):
    path = tmp_path / "libnvidia-ml.so.1"
    path.write_text("not a library")
    assert [error["code"] for error in probe({"library": str(path)})["errors"]] == [12]


MIGS = [
    "mig 0|MIG-%d|%d|%d\n" % (number, gi, ci)
    for number, (gi, ci) in enumerate([(1, 0), (2, 0), (2, 1)])
]

# What a person would write with NVIDIA's binding; its words for the same answer.
BINDING = """
import ctypes, json, sys
import pynvml
pynvml.nvmlLib = ctypes.CDLL(sys.argv[1])
pynvml.nvmlInit()
gpus = []
for index in range(pynvml.nvmlDeviceGetCount()):
    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
    try:
        mig = bool(pynvml.nvmlDeviceGetMigMode(gpu)[0])
    except pynvml.NVMLError_NotSupported:
        mig = None
    migs = []
    for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu) if mig else 0):
        try:
            found = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)
        except pynvml.NVMLError_NotFound:
            continue
        numbers = {"gi": pynvml.nvmlDeviceGetGpuInstanceId(found), "ci": pynvml.nvmlDeviceGetComputeInstanceId(found)}
        migs.append(dict(numbers, index=place, uuid=pynvml.nvmlDeviceGetUUID(found), name=pynvml.nvmlDeviceGetName(found)))
    bus = pynvml.nvmlDeviceGetPciInfo(gpu).busId.lower()
    names = {"uuid": pynvml.nvmlDeviceGetUUID(gpu), "name": pynvml.nvmlDeviceGetName(gpu), "bus_id": bus[4:]}
    gpus.append(dict(names, index=index, minor=pynvml.nvmlDeviceGetMinorNumber(gpu), mig=mig, migs=migs))
print(json.dumps(gpus))
"""


def test_mig_devices(ask):
    first, second = ask(*(GPUS + MIGS))["gpus"]
    assert [(m["index"], m["uuid"], m["gi"], m["ci"]) for m in first["migs"]] == [
        (0, "MIG-0", 1, 0),
        (1, "MIG-1", 2, 0),
        (2, "MIG-2", 2, 1),
    ]
    assert first["migs"][0]["name"] == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert second["migs"] == []


def test_nvidias_binding_gives_the_same_answer(ask, library, tmp_path):
    pytest.importorskip(
        "pynvml", reason="nvidia-ml-py is a development dependency, and made for newer Pythons"
    )
    answer = ask(*(GPUS + MIGS))
    environ = dict(os.environ, FAKE_NVML=str(tmp_path / "fake-nvml.conf"))
    said = subprocess.check_output([sys.executable, "-c", BINDING, library], env=environ)
    assert answer["gpus"] == json.loads(said.decode("utf-8"))
