# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules gpu_health_info and gpu_diagnose as tasks: one operation each, what is not known is
said, and a diagnosis that fails is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ansible.errors import AnsibleActionSkip

from tests.unit import running_host
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


LOG = (
    '{"boot": "b", "first": 0, "last": 9, "complete": true, "found": '
    '[{"sequence": 7, "time": 1769878724, "groups": {"pci": "0000:C6:00", "xid": "79"}}]}'
)


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


@pytest.mark.parametrize(
    ("verdict", "status", "failed", "known"),
    [("Pass", 0, False, True), ("Fail", 226, True, True), ("nothing", 1, False, False)],
)
def test_a_diagnosis_that_fails_is_a_failure(
    host: Host, verdict: str, status: int, failed: bool, known: bool
) -> None:
    host.program(LINE, TABLE.format(verdict), status=status)
    found = host.task("gpu_diagnose")
    assert bool(found.get("failed")) is failed, found
    assert found["diagnosis"]["known"] is known
    assert found["diagnosis"]["failed"] == (["Denylist"] if failed else [])
    assert found.get("error", {}).get("code") == ("host.diagnosis-failed" if failed else None)
    assert len(host.wire) == 2, "one request, one answer"


def test_check_mode_runs_no_diagnosis(host: Host) -> None:
    with pytest.raises(AnsibleActionSkip):
        host.task("gpu_diagnose", check=True)
    assert host.wire == []


def test_a_tree_has_no_kernel_log(host: Host) -> None:
    found = host.task("gpu_health_info", root="/srv/image")
    assert (found["kernel_log"]["known"], host.wire) == (False, [])


def test_a_tree_is_not_diagnosed(host: Host) -> None:
    found = host.task("gpu_diagnose", root="/srv/image")
    assert (found["diagnosis"], host.wire) == ({}, [])
