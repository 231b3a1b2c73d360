# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends of a container that prove nothing, so that the case is started again, and how often it is."""

import struct

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test import (
    entry as container_test_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import grpc_wire

from .conftest import GOOD, Runtime, verify


def test_a_sandbox_taken_away_by_a_node_agent_is_tried_again(tmp_path):
    gone = grpc_wire.CriError(container_test_entry.NOT_FOUND, "sandbox not found")
    runtime = Runtime(GOOD, CreateContainer=[gone, gone])
    assert verify(runtime, tmp_path)["cases"][0]["ok"]
    assert runtime.methods.count("RunPodSandbox") == 3


def test_a_sandbox_that_is_taken_away_each_time_is_an_error(tmp_path):
    gone = [
        grpc_wire.CriError(container_test_entry.NOT_FOUND, "sandbox not found") for _try in range(9)
    ]
    runtime = Runtime(GOOD, CreateContainer=gone)
    assert verify(runtime, tmp_path)["cases"][0]["error"]["step"] == "CreateContainer"
    assert runtime.methods.count("RunPodSandbox") == container_test_entry.TRIES


# how the container of a sandbox ends that was stopped meanwhile, by the states of its sandbox
TAKEN = [
    ("at once", [1], 1, True),
    ("a moment later", [0, 0, 1], 1, True),
    ("five times", [1], 5, True),
    ("each time", [1], 99, False),
    ("not at all: it is evidence", [0], 1, False),
]


@pytest.mark.parametrize(
    "states, times, ok", [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN]
)
def test_a_sandbox_that_was_stopped_under_a_case_is_no_evidence(states, times, ok, tmp_path):
    """A kubelet kills the container of a sandbox that it does not know, and then the sandbox."""
    killed = [{"exit_code": 137} for _try in range(times)]
    runtime = Runtime(GOOD, ExecSync=killed)
    runtime.states = list(states)
    (case,) = verify(runtime, tmp_path)["cases"]
    assert case["ok"] is ok
    tries = runtime.methods.count("RunPodSandbox")
    most = container_test_entry.TAKEN_TRIES if states != [0] else 1
    assert tries == min(times + 1, most)
    assert len(case["again"]) == tries - 1
    assert runtime.methods.count("RemovePodSandbox") == tries


# the words of the engine, how often it says them, whether the case is carried through, and what was
# noted of each earlier try
STARTED_AGAIN = [
    ("once", "broken: token=x", 1, True, 1),
    ("twice", "broken: token=x", 2, True, 2),
    ("each time", "broken: token=x", 9, False, 2),
    ("words that are evidence", "busy: token=x", 1, False, 0),
    ("words that stay on the host", "token=broke", 1, False, 0),
]


@pytest.mark.parametrize(
    "said, times, ok, noted",
    [row[1:] for row in STARTED_AGAIN],
    ids=[row[0] for row in STARTED_AGAIN],
)
def test_a_runtime_that_ended_before_it_read_the_case_is_started_again(
    said, times, ok, noted, tmp_path
):
    failures = [grpc_wire.CriError(2, "gRPC status 2", said) for _try in range(times)]
    runtime = Runtime(GOOD, StartContainer=failures)
    (case,) = verify(runtime, tmp_path)["cases"]
    assert (case["ok"], case["again"]) == (ok, ["StartContainer: broken"] * noted)
    assert bool(case["error"]) is not ok
    sandboxes = runtime.methods.count("RunPodSandbox")
    assert sandboxes == noted + 1
    assert runtime.methods.count("RemovePodSandbox") == sandboxes, "each try is cleaned up after"


@pytest.mark.parametrize("step", ["create", "start"])
def test_so_it_is_with_an_engine_that_speaks_http(step, tmp_path, monkeypatch):
    asked = []

    def call(self, at, method, target, body=None):
        asked.append(at)
        if at == step and asked.count(at) == 1:
            return 500, b'{"message": "runtime broken: token=x"}'
        said = b"\1\0\0\0" + struct.pack(">I", len(GOOD)) + GOOD.encode()
        return 200, {"logs": said, "wait": b'{"StatusCode": 0}'}.get(at, b'{"Id": "c"}')

    monkeypatch.setattr(container_test_entry.HttpEngine, "call", call)
    monkeypatch.setattr(container_test_entry.HttpEngine, "clean_earlier", lambda *_words: None)
    (case,) = verify(None, tmp_path, create={})["cases"]
    assert (case["ok"], case["again"]) == (True, [step + ": broken"])
    assert asked.count("remove") == asked.count("create") - (step == "create")


def test_so_it_is_with_an_engine_without_a_daemon(tmp_path, monkeypatch):
    failures = [{"rc": 126, "stderr": b"Error: OCI runtime broken: token=x"}]

    def answer(argv, *_words, **_more):
        usual = {"rc": 0, "stdout": GOOD.encode(), "stderr": b"", "timed_out": False}
        failed = failures.pop() if argv[1] == "run" and failures else {}
        return dict(dict(usual, truncated=False), **failed)

    monkeypatch.setattr(container_test_entry.commands, "run", answer)
    (case,) = verify(None, tmp_path, run=["podman", "run"], image_there=["podman", "image"])[
        "cases"
    ]
    assert (case["ok"], case["again"]) == (True, ["run: exit status 126: broken"])
