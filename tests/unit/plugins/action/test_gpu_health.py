# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_health as a task: one operation, what is not known is said, and a diagnosis that
fails is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit import running_host
from tests.unit.running_host import Host, Node

TABLE = "| Diagnostic | Result |\n| Denylist | {} |\n"
LINE = "dcgmi diag -r 1"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    yield from running_host.nodes()


@pytest.fixture
def host(node: Node) -> Iterator[Host]:
    made = Host(node)
    yield made
    made.close()


def probed(host: Host, answer: str) -> None:
    """The probe is a child of this Python."""
    host.program("/", answer)


def run(host: Host, **options: Any) -> dict[str, Any]:
    return host.task("gpu_health", **options)


LOG = (
    '{"boot": "b", "first": 0, "last": 9, "complete": true, "found": '
    '[{"sequence": 7, "time": 1769878724, "groups": {"pci": "0000:C6:00", "xid": "79"}}]}'
)


def test_errors_are_told_with_their_gpu_and_time(host: Host) -> None:
    probed(host, LOG)
    found = run(host)
    assert found["kernel_log"]["errors"] == [
        {"xid": 79, "pci": "0000:c6:00", "time": "2026-01-31T16:58:44Z", "sequence": 7}
    ]
    assert (found["changed"], found["diagnosis"], found["kernel_log"]["known"]) == (False, {}, True)
    assert len(host.wire) == 2, "one request, one answer"


def test_a_log_that_cannot_be_read_is_not_known_and_no_failure(host: Host) -> None:
    probed(host, '{"why": "/dev/kmsg cannot be read: Operation not permitted"}')
    found = run(host)
    assert not found.get("failed")
    assert found["kernel_log"] == {
        "known": False,
        "why": "/dev/kmsg cannot be read: Operation not permitted",
        "errors": [],
    }


@pytest.mark.parametrize(
    ("verdict", "status", "failed", "known"),
    [("Pass", 0, False, True), ("Fail", 226, True, True), ("nothing", 1, False, False)],
)
def test_a_diagnosis_that_fails_is_a_failure(
    host: Host, verdict: str, status: int, failed: bool, known: bool
) -> None:
    host.program(LINE, TABLE.format(verdict), status=status)
    probed(host, LOG)
    found = run(host, diagnosis=True)
    assert bool(found.get("failed")) is failed, found
    assert found["diagnosis"]["known"] is known
    assert not failed or f"{LINE} failed: Denylist" in found["msg"]


def test_a_tree_has_no_kernel_log(host: Host) -> None:
    found = run(host, root="/srv/image", diagnosis=True)
    assert (found["kernel_log"]["known"], found["diagnosis"], host.wire) == (False, {}, [])
