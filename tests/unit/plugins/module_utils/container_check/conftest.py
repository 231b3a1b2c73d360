# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scripted runtime that answers a verification, and plays each mishap. Python 3.6."""

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test import (
    entry as container_test_entry,
)

IMAGE = "localhost/probe:lab"
GPU0, GPU1, CONTROL = "/dev/gpufleet-test0", "/dev/gpufleet-test1", "/dev/gpufleet-testctl"
NODES = [
    {"path": GPU0, "rdev": [195, 0], "expect": "allowed"},
    {"path": GPU1, "rdev": [195, 1], "expect": "refused"},
    {"path": CONTROL, "rdev": [195, 255], "expect": "optional"},
]
CASE = {
    "env": {"B": "2", "A": "1"},
    "mounts": [["/dev/null", "/c"]],
    "annotations": {"a.b/c": "d"},
    "capabilities": ["SYS_ADMIN"],
    "devices": ["v/c=0"],
}


class Runtime(object):
    """A runtime that answers each call well, but as a test says.

    said: what the shell in the container prints. answers: method -> message or exception, or a list
    with one for each call.
    """

    def __init__(self, said="", **answers):
        self.said, self.answers, self.calls = said, answers, []
        # of each question about one sandbox, the oldest first; the last one stays
        self.states = [container_test_entry.SANDBOX_READY]

    def state(self):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def __call__(self, path, service, method, request, timeout):
        values = container_test_entry.decode_message(method + "Request", request)
        self.calls.append((method, values))
        answer = self.answers.get(method, {})
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else {}
        if isinstance(answer, Exception):
            raise answer
        usual = {
            "ImageStatus": {"image": {"id": "sha256:1"}},
            "RunPodSandbox": {"pod_sandbox_id": "pod-1"},
            "CreateContainer": {"container_id": "container-1"},
            "ExecSync": {"stdout": self.said.encode()},
        }
        if method == "ListPodSandbox" and values["filter"]["id"]:
            usual[method] = {"items": [{"id": "pod-1", "state": self.state()}]}
        return container_test_entry.encode_message(
            method + "Response", dict(usual.get(method, {}), **answer)
        )

    @property
    def methods(self):
        return [method for method, _values in self.calls]


PHRASES = ["no shell", "(?:busy|broken|[a-z]+ not found)"]
AGAIN = ["broken"]


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    """Let a sandbox end at the second question, without a pause."""
    monkeypatch.setattr(container_test_entry.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(container_test_entry, "TAKEN_SECONDS", 0.05)


def verify(runtime, tmp_path, phrases=PHRASES, **case):
    """Run one case, and return the whole answer. phrases: words of the engine that may be told."""
    wanted = dict(
        {"name": "one", "socket": "/run/x.sock", "nodes": NODES, "list": "/dev/gpufleet-test*"},
        **case,
    )
    request = {
        "schema": 1,
        "image": IMAGE,
        "log_parent": str(tmp_path),
        "cases": [wanted],
        "phrases": phrases,
        "again": AGAIN,
    }
    return container_test_entry.run(request, runtime)


def lines(*rows):
    """Return what the script prints: one line for each row."""
    return "".join("|".join(row) + "\n" for row in rows)


ENXIO = "sh: can't open X: No such device or address"
EPERM = "/bin/sh: 1: cannot open X: Operation not permitted"
GOOD = lines(
    ("listed", GPU0, ""), ("there", GPU0, ENXIO), ("made", GPU1, EPERM), ("made", CONTROL, EPERM)
)
