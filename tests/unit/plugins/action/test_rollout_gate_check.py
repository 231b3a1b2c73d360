# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever gpufleet_rollout_gate_check answers is a sentence without what opens its address, and no
error, which would take the report.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    batch_gates,
    outside,
)

ANSWERS = [
    # what an address answers, and what is said of it
    (b"HTTP/1.1 204 No Content\r\n\r\n", ""),
    (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "HTTP Error 503: Service Unavailable"),
    (b"SSH-2.0-OpenSSH_9.9\r\n", "SSH-2.0-OpenSSH_9.9"),
    (b"", "closed connection without response"),
]


@pytest.fixture
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of a server that gives one answer, whatever it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            asking, _from = server.accept()
            with asking:
                asking.recv(65536)
                asking.sendall(request.param)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(("port", "said"), ANSWERS, indirect=["port"])
def test_an_address_that_is_not_well(port: int, said: str) -> None:
    why = batch_gates.explain_gate_answer(
        (f"http://user:secret@127.0.0.1:{port}/alerts?token=secret",)
    )
    assert said in why
    assert bool(why) is bool(said)
    assert "secret" not in why


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://a.example:x/?token=secret", "http://a.example:x/: "),
        ("http://a.example/?q=a b&token=secret", "http://a.example/: "),
        ("http://[a.example/?token=secret", "http://...: "),
    ],
)
def test_an_address_that_is_none(address: str, said: str) -> None:
    why = batch_gates.explain_gate_answer((address,))
    assert why.startswith(said)
    assert "secret" not in why


COMMANDS = [
    (["true"], ""),
    (["sh", "-c", "echo fires >&2; exit 3", "--token=secret"], "sh ended with 3: fires"),
    (["sh", "-c", r"printf '\377 fires'; exit 3"], "sh ended with 3: \ufffd fires"),  # no UTF-8
    (["sh", "-c", "exit 3"], "sh ended with 3"),
    (
        ["/nowhere/healthy"],
        "/nowhere/healthy: [Errno 2] No such file or directory: '/nowhere/healthy'",
    ),
    (["healthy\0"], "healthy\0: embedded null byte"),
]


@pytest.mark.parametrize(("command", "said"), COMMANDS)
def test_a_command_that_is_not_well(command: list[str], said: str) -> None:
    assert batch_gates.explain_gate_answer(tuple(command)) == said


def test_a_command_that_does_not_end_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "COMMAND_SECONDS", 0.1)
    assert batch_gates.explain_gate_answer(("sleep", "60")) == "sleep did not end within 0.1 s"
