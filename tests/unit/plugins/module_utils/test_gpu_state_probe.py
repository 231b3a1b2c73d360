# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The question for the state of GPUs as it runs on a host: a child with its source on standard
input, against a library that answers what a case says.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", "..", ".."))
SOURCE = os.path.join(ROOT, "plugins", "module_utils", "_host", "probes", "gpu_state.py")
FAKE = os.path.join(ROOT, "tests", "fixtures", "gpu_state.c")
WELL = {
    "index": 0, "bus_id": "0000:17:00.0", "name": "NVIDIA H100 80GB HBM3", "lost": None, "pages_pending": False, "rows_pending": False,
    "rows_failed": False, "links": [True] * 4, "fabric": {"state": 3, "status": 0, "health": 0}, "slowdown": 0, "recovery": 0, "unread": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler for the stand-in of libnvidia-ml")
    path = str(tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1")
    subprocess.check_call([compiler, "-std=gnu11", "-shared", "-fPIC", "-o", path, FAKE])
    return path


def probe(library, words, samples=1):
    """The child as the observer starts it."""
    args = {"library": library, "samples": samples, "pause": 0}
    with open(SOURCE, "rb") as source:
        said = subprocess.check_output(
            [sys.executable, "-I", "-S", "-", json.dumps(args)],
            stdin=source,
            env=dict(os.environ, FAKE_STATE=" " + words),
            timeout=60,
        )
    return json.loads(said.decode())


# What the library says, and what differs from a GPU that is well.
STATES = [
    ("", {}),
    ("pages@0=1", {"pages_pending": True}),
    ("pages@0=E3", {"pages_pending": None}),
    ("rows@0=1", {"rows_pending": True}),
    ("rows_failed@0=1", {"rows_failed": True}),
    ("rows@0=E3", {"rows_pending": None, "rows_failed": None}),
    ("down@0=2", {"links": [True, True, False, True]}),
    ("links@0=E3", {"links": []}),
    ("fabric@0=2", {"fabric": {"state": 2, "status": 0, "health": 0}}),
    ("status@0=999 health@0=17", {"fabric": {"state": 3, "status": 999, "health": 17}}),
    ("fabric@0=E3", {"fabric": None}),
    ("slow@0=128", {"slowdown": 128}),
    ("slow@0=E3", {"slowdown": None}),
    ("recovery@0=4", {"recovery": 4}),
    ("recovery@0=E3", {"recovery": None}),
    ("rows@0=E15", {"rows_pending": None, "rows_failed": None, "lost": 15}),
    ("recovery@0=1 pages@0=E16", {"recovery": 1, "pages_pending": None, "lost": 16}),
]


# A call that fails for another reason than that the GPU does not have the value, and what is null.
FAILURES = [
    ("pages@0=E999", "nvmlDeviceGetRetiredPagesPendingStatus", ["pages_pending"]),
    ("rows@0=E999", "nvmlDeviceGetRemappedRows", ["rows_pending", "rows_failed"]),
    ("links@0=E999", "nvmlDeviceGetNvLinkState", ["links"]),
    ("fabric@0=E999", "nvmlDeviceGetGpuFabricInfoV", ["fabric"]),
    ("slow@0=E999", "nvmlDeviceGetCurrentClocksEventReasons", ["slowdown"]),
    ("recovery@0=E999", "nvmlDeviceGetFieldValues", ["recovery"]),
]


@pytest.mark.parametrize(("words", "call", "null"), FAILURES)
def test_a_call_that_fails_leaves_its_own_value_unknown(library, words, call, null):
    told = probe(library, words, samples=2)
    unread = told["gpus"][0]["unread"]
    assert [(error["call"], error["code"]) for error in unread] == [(call, 999)]
    assert told["gpus"] == [dict(WELL, unread=unread, **{key: None for key in null})]
    assert told["errors"] == []


@pytest.mark.parametrize(("words", "differs"), STATES)
def test_a_gpu_tells_its_state(library, words, differs):
    told = probe(library, words)
    assert told["gpus"] == [dict(WELL, **differs)]
    assert (told["driver_version"], told["errors"]) == ("580.95.05", [])


@pytest.mark.parametrize(
    ("said", "samples", "lasting"), [("72/8", 2, 8), ("64/0", 3, 0), ("64/1", 1, 64)]
)
def test_only_a_slowdown_of_every_sample_lasts(library, said, samples, lasting):
    [gpu] = probe(library, "slow@0=" + said, samples)["gpus"]
    assert gpu["slowdown"] == lasting


def test_a_gpu_without_a_handle_hides_no_other(library):
    told = probe(library, "gpus@0=3 handle@1=E15")
    assert [gpu["bus_id"] for gpu in told["gpus"]] == ["0000:17:00.0", "0000:19:00.0"]
    assert told["errors"] == [
        {"call": "nvmlDeviceGetHandleByIndex_v2", "code": 15, "message": "GPU is lost", "gpu": 1}
    ]


def test_a_library_that_refuses_is_no_failure(library, tmp_path):
    assert probe(library, "init@0=E9")["errors"] == [
        {"call": "nvmlInit_v2", "code": 9, "message": "refused"}
    ]
    [error] = probe(str(tmp_path / "none.so"), "")["errors"]
    assert (error["call"], error["code"]) == ("dlopen", 12)
