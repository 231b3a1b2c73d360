# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a case finds, what is told of a call that fails, and that everything is removed afterwards."""

import errno
import os
import subprocess

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test import (
    entry as container_test_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import grpc_wire

from .conftest import (
    CASE,
    CONTROL,
    ENXIO,
    EPERM,
    GOOD,
    GPU0,
    GPU1,
    IMAGE,
    NODES,
    Runtime,
    lines,
    verify,
)

EACCES = "sh: line 1: X: Permission denied"
# what the container said, and the problems that must be told
VERDICTS = [
    ("as it should be, no driver behind", GOOD, []),
    ("as it should be, with a driver", GOOD.replace(ENXIO, "ok"), []),
    (
        "the optional node is there as well",
        GOOD + lines(("listed", CONTROL, ""), ("there", CONTROL, ENXIO)),
        [],
    ),
    (
        "a container that may not even make nodes",
        GOOD.replace("made|" + GPU1, "unmade|" + GPU1),
        [],
    ),
    (
        "nothing was injected",
        GOOD.replace("there|" + GPU0, "made|" + GPU0).replace("listed|%s|\n" % GPU0, ""),
        [GPU0 + " was requested and is not in the container"],
    ),
    (
        "seen but not allowed",
        GOOD.replace("there|%s|%s" % (GPU0, ENXIO), "there|%s|%s" % (GPU0, EPERM)),
        [GPU0 + " is in the container, but opening it is refused (EPERM)"],
    ),
    (
        "another GPU can be opened by a node of its own making",
        GOOD.replace("made|%s|%s" % (GPU1, EPERM), "made|%s|%s" % (GPU1, ENXIO)),
        [GPU1 + " can be opened although it was not requested (ENXIO)"],
    ),
    (
        "another GPU is simply there",
        GOOD.replace("made|%s|%s" % (GPU1, EPERM), "there|%s|ok" % GPU1)
        + lines(("listed", GPU1, "")),
        [
            GPU1 + " can be opened although it was not requested (ok)",
            GPU1 + " is in the container and was not requested",
        ],
    ),
    (
        "a node that nobody knows of",
        GOOD + lines(("listed", "/dev/gpufleet-test7", "")),
        ["/dev/gpufleet-test7 is in the container and was not requested"],
    ),
    (
        "the image has no mknod",
        GOOD.replace("made|%s|%s" % (GPU1, EPERM), "unmade|%s|sh: mknod: not found" % GPU1),
        [GPU1 + ": whether access is refused could not be determined (mknod: not found)"],
    ),
    (
        "refused by something other than the device cgroup",
        GOOD.replace("made|%s|%s" % (GPU1, EPERM), "made|%s|%s" % (GPU1, EACCES)),
        [GPU1 + ": whether access is refused could not be determined (EACCES)"],
    ),
    (
        "the shell said nothing",
        "",
        [
            GPU0 + " was requested and is not in the container",
            GPU1 + ": whether access is refused could not be determined (no answer)",
        ],
    ),
]


@pytest.mark.parametrize(
    "said, problems", [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS]
)
def test_verdict(said, problems, tmp_path):
    case = verify(Runtime(said), tmp_path)["cases"][0]
    assert case["problems"] == problems
    assert case["ok"] is not bool(problems)


def test_evidence_says_what_was_found(tmp_path):
    case = verify(Runtime(GOOD), tmp_path)["cases"][0]
    assert case["found"] == {GPU0: "ENXIO", GPU1: "EPERM", CONTROL: "absent"}
    assert case["listed"] == [GPU0]
    assert case["expected"] == {GPU0: "allowed", GPU1: "refused", CONTROL: "optional"}


def test_the_container_is_started_as_asked_and_everything_is_removed(tmp_path):
    runtime = Runtime(GOOD)
    verify(runtime, tmp_path, handler="special", cgroup_parent="system.slice", **CASE)
    assert runtime.methods == [
        "ListPodSandbox", "ImageStatus", "RunPodSandbox", "CreateContainer", "StartContainer", "ExecSync",
        "StopContainer", "StopPodSandbox", "RemovePodSandbox",
    ]  # fmt: skip
    calls = dict(runtime.calls)
    assert calls["RunPodSandbox"]["runtime_handler"] == "special"
    linux = calls["RunPodSandbox"]["config"]["linux"]
    assert linux == {
        "cgroup_parent": "system.slice",
        "security_context": {"namespace_options": {"network": 2, "pid": 1, "ipc": 0}},
    }
    config = calls["CreateContainer"]["config"]
    assert config["device_names"] == [{"name": "v/c=0"}]
    assert config["annotations"] == {"a.b/c": "d"}
    assert config["envs"] == [{"key": "A", "value": "1"}, {"key": "B", "value": "2"}]
    assert calls["ExecSync"]["cmd"][3:] == [
        "sh", "/dev/gpufleet-test*", GPU0, "195", "0", GPU1, "195", "1", CONTROL, "195", "255",
    ]  # fmt: skip
    assert os.listdir(str(tmp_path)) == [], "the log directory is removed as well"


FAILURES = [
    ("ImageStatus", "image is missing", ["ListPodSandbox", "ImageStatus"]),
    (
        "RunPodSandbox",
        "no runtime for X is configured",
        ["ListPodSandbox", "ImageStatus", "RunPodSandbox"],
    ),
    ("CreateContainer", "unresolvable devices", ["StopPodSandbox", "RemovePodSandbox"]),
    ("StartContainer", "hook failed", ["StartContainer", "StopPodSandbox", "RemovePodSandbox"]),
    ("ExecSync", "timed out", ["StopContainer", "StopPodSandbox", "RemovePodSandbox"]),
]


@pytest.mark.parametrize("method, message, last", FAILURES, ids=[row[0] for row in FAILURES])
def test_a_call_that_fails_is_told_and_cleaned_up_after(method, message, last, tmp_path):
    runtime = Runtime(GOOD, **{method: grpc_wire.CriError(2, message)})
    case = verify(runtime, tmp_path)["cases"][0]
    assert case["error"] == {"step": method, "message": message}
    assert not case["ok"]
    asked_of_one = ("ListPodSandbox", "pod-1")
    done = [m for m, v in runtime.calls if (m, (v.get("filter") or {}).get("id")) != asked_of_one]
    assert done[-len(last) :] == last


def test_an_image_that_is_not_there_is_named(tmp_path):
    case = verify(Runtime(ImageStatus={"image": None}), tmp_path)["cases"][0]
    assert case["error"] == {
        "step": "ImageStatus",
        "message": "image localhost/probe:lab is not on this host",
    }


def test_a_shell_that_fails_is_an_error(tmp_path):
    case = verify(
        Runtime(ExecSync={"exit_code": 127, "stdout": b"", "stderr": b"no shell, token=x"}),
        tmp_path,
    )["cases"][0]
    assert case["error"] == {
        "step": "ExecSync",
        "message": "the shell in the container ended with 127: no shell",
    }


def test_what_cannot_be_removed_is_told(tmp_path):
    answer = verify(
        Runtime(GOOD, RemovePodSandbox=grpc_wire.CriError(2, "gRPC status 2", "busy: token=x")),
        tmp_path,
    )
    assert answer["left"] == [
        {"socket": "/run/x.sock", "sandbox": "pod-1", "message": "RemovePodSandbox: busy"}
    ]
    assert answer["cases"][0]["ok"]


def test_leftovers_of_a_killed_check_are_removed_and_those_of_a_running_one_are_not(tmp_path):
    found = [{"id": "old", "created_at": 1000000000}, {"id": "new", "created_at": 2**62}]
    runtime = Runtime(GOOD, ListPodSandbox={"items": found})
    verify(runtime, tmp_path)
    assert runtime.calls[1] == ("StopPodSandbox", {"pod_sandbox_id": "old"})
    assert runtime.calls[2] == ("RemovePodSandbox", {"pod_sandbox_id": "old"})
    assert runtime.calls[3][0] == "ImageStatus"


def test_a_bad_case_does_not_cost_the_others(tmp_path):
    cases = [{"name": "bad"}, {"name": "good", "socket": "/run/x.sock", "nodes": NODES}]
    answer = container_test_entry.run(
        {"schema": 1, "image": IMAGE, "log_parent": str(tmp_path), "cases": cases}, Runtime(GOOD)
    )
    assert [case["ok"] for case in answer["cases"]] == [False, True]
    assert answer["cases"][0]["error"]["step"] == "request"
    assert answer["cases"][0]["error"]["message"].startswith("KeyError at entry.py:")


def test_device_numbers_of_the_host_come_first_and_a_node_that_nobody_has_is_left_out(tmp_path):
    runtime = Runtime(lines(("there", "/dev/null", "ok")))
    nodes = [
        {"path": "/dev/null", "rdev": [9, 9], "expect": "allowed"},
        {"path": "/dev/gpufleet-none", "rdev": None, "expect": "refused"},
    ]
    case = verify(runtime, tmp_path, nodes=nodes)["cases"][0]
    assert dict(runtime.calls)["ExecSync"]["cmd"][5:] == ["/dev/null", "1", "3"]
    assert case["ok"]


def test_a_node_of_the_host_that_cannot_be_looked_at_is_not_left_out(tmp_path, monkeypatch):
    stat = os.stat

    def fail(path, *words, **more):
        if path == "/dev/gpufleet-lost":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return stat(path, *words, **more)

    monkeypatch.setattr(container_test_entry.os, "stat", fail)
    nodes = [{"path": "/dev/gpufleet-lost", "rdev": None, "expect": "allowed"}]
    (case,) = verify(Runtime(lines()), tmp_path, nodes=nodes)["cases"]
    assert (case["ok"], case["error"]["step"]) == (False, "request")
    assert "/dev/gpufleet-lost" in case["error"]["message"]


@pytest.mark.parametrize(
    "there, run, step, message",
    [
        (0, 0, None, None),
        (1, 0, "image", "image %s is not on this host" % IMAGE),
        (125, 0, "image", "exit status 125: no such thing"),
        (0, 125, "run", "exit status 125: no such thing"),
    ],
)
def test_an_engine_that_cannot_look_for_an_image_is_not_without_it(
    tmp_path, monkeypatch, there, run, step, message
):
    def answer(argv, *_words, **_more):
        said = lines(
            *[("there", node["path"], "ok") for node in NODES if node["expect"] == "allowed"]
        ).encode()
        rc = there if argv[1] == "image" else run
        return {
            "rc": rc,
            "stdout": said,
            "stderr": b"no such thing" if rc else b"",
            "timed_out": False,
            "truncated": False,
        }

    monkeypatch.setattr(container_test_entry.commands, "run", answer)
    commands = {"run": ["podman", "run"], "image_there": ["podman", "image", "exists"]}
    (case,) = verify(None, tmp_path, phrases=["no such thing"], **commands)["cases"]
    assert (case["error"] or {}).get("step") == step
    assert (case["error"] or {}).get("message") == message


class Recorder(Runtime):
    """A runtime whose hook writes a line to a record when the container starts."""

    def __init__(self, said, record, line):
        super(Recorder, self).__init__(said)
        self.record, self.line = record, line

    def __call__(self, path, service, method, request, timeout):
        if method == "StartContainer" and self.line:
            with open(self.record, "a") as stream:
                stream.write(self.line)
        return super(Recorder, self).__call__(path, service, method, request, timeout)


# wanted of the record, what the hook writes, what is found wrong
RECORDS = [
    ({"contains": ["--device=0(?![0-9])"]}, "--device=0 --compute\n", []),
    (
        {"contains": ["--device=0(?![0-9])"]},
        "--device=01\n",
        ["says nothing that matches --device=0(?![0-9])"],
    ),
    ({"contains": ["--device=0(?![0-9])"]}, "", ["says nothing that matches --device=0(?![0-9])"]),
    ({"silent": True}, "", []),
    ({"silent": True}, "--device=all\n", ["grew although nothing was requested"]),
]


@pytest.mark.parametrize("wanted, line, problems", RECORDS)
def test_a_record_is_read_from_where_it_ended_before(wanted, line, problems, tmp_path):
    record = tmp_path / "record.jsonl"
    record.write_text("--device=0 of another container\n")
    runtime = Recorder(GOOD, str(record), line)
    case = verify(
        runtime, tmp_path, record=dict(wanted, path=str(record), shows="--device=[a-z0-9]+")
    )["cases"][0]
    assert case["problems"] == ["%s %s" % (record, problem) for problem in problems]
    assert case["record"] == [text.split()[0] for text in line.splitlines()]


@pytest.fixture
def tools(tmp_path):
    """A PATH whose mknod refuses, so the test touches no device directory."""
    mknod = tmp_path / "mknod"
    mknod.write_text('#!/bin/sh\necho "mknod: $1: Operation not permitted" >&2\nexit 1\n')
    mknod.chmod(0o755)
    return "%s:/usr/bin:/bin" % tmp_path


# Not busybox, which prefers its own mknod to that of the PATH; the lab's containers run it.
SHELLS = [
    shell
    for shell in (["/bin/dash"], ["/bin/bash"], ["/bin/bash", "--posix"])
    if os.path.exists(shell[0])
]


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_script_speaks_the_same_in_every_shell(shell, tools):
    arguments = [
        "/dev/nul[l] /dev/gpufleet-no*",
        "/dev/null",
        "1",
        "3",
        "/dev/gpufleet-none",
        "195",
        "0",
    ]
    said = subprocess.check_output(
        shell + ["-c", container_test_entry.SCRIPT, "sh"] + arguments, env={"PATH": tools}
    ).decode()
    nodes = [
        {"path": "/dev/null", "expect": "allowed"},
        {"path": "/dev/gpufleet-none", "expect": "refused"},
    ]
    assert container_test_entry.judge_container_lines(nodes, said) == (
        ["/dev/null"],
        {"/dev/null": "ok", "/dev/gpufleet-none": "EPERM"},
        [],
    )
