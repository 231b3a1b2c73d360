# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules gpu_health_info and gpu_diagnose as tasks: one operation each, what is not known is
said, and a diagnosis that fails is a failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible.errors import AnsibleActionSkip

from tests.unit import gpus, running_host
from tests.unit.running_host import Host, HostProcess

TABLE = "| Diagnostic | Result |\n| Denylist | {} |\n"
LINE = "dcgmi diag -r 1"


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from running_host.start_process()


@pytest.fixture
def host(process: HostProcess) -> Iterator[Host]:
    made = Host(process)
    yield made
    made.close()


def probed(host: Host, answer: str) -> None:
    """The probe is a child of this Python."""
    host.program("/", answer)


def listen(*listeners: tuple[int, int, list[int]], reached: bool = True) -> str:
    """Return what the probe prints: of each listener the user, the inode, and the processes."""
    names = ("uid", "inode", "pids")
    told = [dict(zip(names, listener, strict=True)) for listener in listeners]
    return json.dumps({"listeners": told, "reached": reached})


# nv-hostengine, which root's systemd has started
ENGINE = 40
ROOTS = listen((0, 7, [ENGINE]))


def start_engine(host: Host) -> None:
    unit = "nvidia-dcgm.service"
    host.process(ENGINE, "/usr/bin/nv-hostengine", "-n", unit=unit)
    host.units({unit: {"MainPID": str(ENGINE)}})


def play_in_turn(host: Host, answers: list[str]) -> dict[str, Any]:
    """Run the diagnosis on a host whose probe gives these answers, one in each request."""
    asked = host.answers.ask
    left = iter(answers)

    def ask(*given: Any) -> Any:
        root, program, request, known, *more = given
        return asked(root, program, request, [*known, ("/", 0, next(left), "")], *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host.answers, "ask", ask)
        return host.task("gpu_diagnose")


LOG = (
    '{"boot": "b", "first": 0, "last": 9, "complete": true, "found": '
    '[{"sequence": 7, "time": 1769878724, "groups": {"pci": "0000:C6:00", "xid": "79"}}]}'
)


STATE = {
    "index": 0, "bus_id": "0000:17:00.0", "name": "NVIDIA H100 80GB HBM3", "lost": None, "pages_pending": None, "rows_pending": False,
    "rows_failed": True, "links": [True], "fabric": None, "slowdown": 0, "recovery": 0, "unread": [],
}  # fmt: skip


def answer_probe(argv: list[str]) -> str:
    """What the two programs answer that the task brings."""
    if '"pattern"' in argv[-1]:
        return LOG
    return json.dumps({"driver_version": "580.95.05", "gpus": [STATE], "errors": []})


def test_errors_are_told_with_their_gpu_and_time(host: Host) -> None:
    probed(host, LOG)
    found = host.task("gpu_health_info")
    assert found["kernel_log"]["errors"] == [
        {
            "xid": 79,
            "pci": "0000:c6:00",
            "step": "reboot",
            "time": "2026-01-31T16:58:44Z",
            "sequence": 7,
        }
    ]
    assert found["kernel_log"]["lines"] == []
    assert (found["changed"], found["kernel_log"]["known"]) == (False, True)
    assert len(host.wire) == 2, "one request, one answer"


def test_a_log_that_cannot_be_read_is_not_known_and_no_failure(host: Host) -> None:
    probed(host, '{"why": "/dev/kmsg cannot be read: Operation not permitted"}')
    found = host.task("gpu_health_info")
    assert not found.get("failed")
    assert found["kernel_log"] == {
        "known": False,
        "why": "/dev/kmsg cannot be read: Operation not permitted",
        "code": "gpu-health.log-unreadable",
        "errors": [],
        "lines": [],
    }


def test_the_driver_is_asked_on_request_in_the_same_operation(host: Host) -> None:
    host.program("/", answer_probe)
    assert "nvml" not in host.task("gpu_health_info")
    unasked = host.task("gpu_health_info", nvml=True)["nvml"]
    assert (unasked["known"], unasked["code"]) == (False, "gpu-health.state-not-asked")
    for path, entry in gpus.host(1).items():
        if isinstance(entry, str):
            host.put(path, entry)
    host.write("/dev/nvidiactl", "")
    host.write("/dev/nvidia0", "")
    asked = host.task("gpu_health_info", nvml=True)
    assert asked["nvml"]["gpus"] == [STATE]
    assert [found["code"] for found in asked["nvml"]["findings"]] == ["gpu-health.rows-failed"]
    assert [error["xid"] for error in asked["kernel_log"]["errors"]] == [79]
    assert len(host.wire) == 6, "one request and one answer each"


@pytest.mark.parametrize(
    ("verdict", "status", "failed", "known"),
    [("Pass", 0, False, True), ("Fail", 226, True, True), ("nothing", 1, False, False)],
)
def test_a_diagnosis_that_fails_is_a_failure(
    host: Host, verdict: str, status: int, failed: bool, known: bool
) -> None:
    host.program(LINE, TABLE.format(verdict), status=status)
    start_engine(host)
    probed(host, ROOTS)
    found = host.task("gpu_diagnose")
    assert bool(found.get("failed")) is failed, found
    assert found["diagnosis"]["known"] is known
    assert found["diagnosis"]["failed"] == (["Denylist"] if failed else [])
    assert found.get("error", {}).get("code") == ("host.diagnosis-failed" if failed else None)
    assert len(host.wire) == 4, "one request and one answer each"


OTHERS = listen((0, 7, [ENGINE]), (1000, 8, []))
NOBODY = listen(reached=False)
NO_SERVER = "gpu-health.diagnosis-no-server"
UNVERIFIED = "gpu-health.diagnosis-server-unverified"


@pytest.mark.parametrize(
    ("first", "second", "code", "runs"),
    [  # who listens where dcgmi connects to, before and after
        (ROOTS, ROOTS, "", True),
        (NOBODY, "", NO_SERVER, False),
        # root of a container with the host's network, or docker-proxy for a published port
        (listen((0, 7, [])), "", UNVERIFIED, False),
        # one that calls itself so, and that the host's systemd has not started
        (listen((0, 7, [41])), "", UNVERIFIED, False),
        (listen((0, 7, [ENGINE]), (0, 8, [])), "", UNVERIFIED, False),
        # a rule of the packet filter sends the port to a container
        (listen((0, 7, [ENGINE]), reached=False), "", "gpu-health.diagnosis-diverted", False),
        (OTHERS, "", "gpu-health.diagnosis-server-of-another", False),
        ("no JSON", "", "gpu-health.diagnosis-server-unknown", False),
        (ROOTS, OTHERS, "gpu-health.diagnosis-server-of-another", True),
        (ROOTS, NOBODY, NO_SERVER, True),
        (ROOTS, listen((0, 9, [ENGINE])), "gpu-health.diagnosis-server-changed", True),
    ],
)
def test_only_the_server_of_root_is_asked(
    host: Host, first: str, second: str, code: str, runs: bool
) -> None:
    """Any user may listen at that port: the failed test of a stranger counts for nothing."""
    host.program(LINE, TABLE.format("Pass" if not code else "Fail"))
    start_engine(host)
    if not runs:
        probed(host, first)
        found = host.task("gpu_diagnose")
        assert len(host.wire) == 2, "dcgmi is not run"
    else:
        # the host's process gets the table of programs with each request
        found = play_in_turn(host, [first, second])
    assert (found["diagnosis"]["code"], found["diagnosis"]["known"]) == (code, not code)
    assert not found.get("failed")


def test_check_mode_runs_no_diagnosis(host: Host) -> None:
    with pytest.raises(AnsibleActionSkip):
        host.task("gpu_diagnose", check=True)
    assert host.wire == []


def test_a_tree_has_no_kernel_log_and_no_driver(host: Host) -> None:
    found = host.task("gpu_health_info", root="/srv/image", nvml=True)
    assert (found["kernel_log"]["known"], found["nvml"]["known"], host.wire) == (False, False, [])


def test_a_tree_is_not_diagnosed(host: Host) -> None:
    found = host.task("gpu_diagnose", root="/srv/image")
    assert (found["diagnosis"], host.wire) == ({}, [])
