# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is fetched by the controller, and what a host is asked to reach: from a web server of this
test, on this machine alone.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes import reach
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    online,
    outside,
    registry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.drain import (
    OutOfReach,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

requests: list[str] = []


class _Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        requests.append(self.path)
        body = {
            "/gpgkey": b"the key",
            "/long": b"x" * (online.LONGEST + 1),
            "/long-in-two-bytes": "\u00e9".encode() * online.LONGEST,
        }.get(self.path)
        self.send_response(200 if body else 404)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        """Nobody reads it."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    for name in (
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    requests.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()


def test_a_text_is_fetched_once_for_a_whole_run(server: str) -> None:
    found = [online.fetch(f"{server}/gpgkey") for _again in (1, 2)]
    assert [answer["content"] for answer in found] == ["the key", "the key"]
    assert requests == ["/gpgkey"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/nothing", "404"),
        ("/long", "longer than 65536 bytes"),
        ("/long-in-two-bytes", "longer than 65536 bytes"),
    ],
)
def test_what_cannot_be_fetched_is_an_answer_too_and_asked_for_again(
    server: str, path: str, says: str
) -> None:
    for _again in (1, 2):
        assert says in online.fetch(server + path)["error"]["message"]
    assert requests == [path, path]


DESCRIBED: list[tuple[Exception, str]] = [
    (URLError(socket.gaierror(-2, "Name or service not known")), "Name or service not known"),
    (URLError(ConnectionRefusedError(111, "Connection refused")), "Connection refused"),
    (URLError(TimeoutError("timed out")), "timed out"),
    (URLError("unknown url type: x"), "<urlopen error unknown url type: x>"),
    (ValueError("one\n  two"), "one two"),
    (ValueError(), "ValueError"),
]


@pytest.mark.parametrize(("error", "said"), DESCRIBED)
def test_an_error_is_told_as_the_system_says_it(error: Exception, said: str) -> None:
    assert online.describe_error(error) == said


PROXIES = {
    'Acquire::http::Proxy "http://proxy.example:3128";\n': True,
    'Acquire { http { Proxy "http://me:secret@proxy.example"; }; };\n': True,
    'Acquire::http::Proxy-Auto-Detect "/usr/bin/found";\n': True,
    "proxy=http://proxy.example:3128\n": True,
    "[main]\nproxy = http://proxy.example\n": True,
    '// Acquire::http::Proxy "http://proxy.example";\n': False,
    "# proxy=http://proxy.example\n": False,
    'Acquire::Retries "3";\n': False,
    # /etc/sysconfig/proxy
    'PROXY_ENABLED="yes"\nHTTP_PROXY="http://me:secret@proxy.example:3128"\n': True,
    'PROXY_ENABLED="no"\nHTTP_PROXY=""\n': False,
}


@pytest.mark.parametrize("text", PROXIES)
def test_a_package_manager_with_a_proxy_of_its_own_is_not_second_guessed(
    tmp_path: Path, text: str, server: str
) -> None:
    (tmp_path / "apt.conf").write_text(text)
    said = reach.run({"url": server, "proxies": [str(tmp_path / "*.conf")]})
    assert said["tried"] is not PROXIES[text]
    assert "secret" not in json.dumps(said)


def test_any_answer_of_a_server_counts(server: str) -> None:
    assert reach.run({"url": f"{server}/nothing"}) == {"tried": True, "reached": True, "why": ""}


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:9/", "nothing listens there"),
        ("http://repository.invalid/", "its name is not known"),
        ("file:///no/such/place", "there is no such directory"),
    ],
)
def test_what_is_not_reached_has_a_reason_of_our_own_list(server: str, url: str, why: str) -> None:
    assert reach.run({"url": url}) == {"tried": True, "reached": False, "why": why}


@pytest.mark.parametrize("name", ["scandir", "open"])
def test_a_file_that_cannot_be_read_may_name_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(path: object, *_args: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "a.conf").write_text("")
    patterns = [str(tmp_path / "*.conf")]
    assert not reach.has_proxy([*patterns, str(tmp_path / "none" / "x")])
    if name == "open":
        monkeypatch.setattr(reach, "open", refuse, raising=False)
    else:
        monkeypatch.setattr(reach.os, "scandir", refuse)
    assert reach.has_proxy(patterns)


def test_a_directory_of_this_host_is_reached(tmp_path: Path) -> None:
    assert reach.run({"url": f"file://{tmp_path}"})["reached"]


class _Trickle(http.server.BaseHTTPRequestHandler):
    """A mirror that keeps whoever asks waiting: it gives a byte now and then, of the body or of the
    headers.
    """

    def do_GET(self) -> None:
        with contextlib.suppress(OSError):
            if self.path == "/headers":
                for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000:
                    self.wfile.write(bytes([byte]))
                    if stopped.wait(0.02):
                        return
            self.send_response(200)
            self.send_header("Content-Length", "100000000")
            self.end_headers()
            while not stopped.wait(0.02):
                self.wfile.write(b"x")
                self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        """Nobody reads it."""


stopped = threading.Event()


@pytest.fixture
def trickle(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Its address, where limits are short."""
    assert server
    for of, name, seconds in (
        (online, "SECONDS", 1),
        (online, "WHOLE", 1),
        (outside, "ADDRESS_SECONDS", 1),
        (reach, "WHOLE", 1),
    ):
        monkeypatch.setattr(of, name, seconds)
    monkeypatch.setattr(registry, "SECONDS", 1)
    stopped.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Trickle) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        stopped.set()
        found.shutdown()


def refused(work: Callable[[], Any]) -> str:
    with pytest.raises(PlanError) as raised:
        work()
    return str(raised.value)


@pytest.mark.parametrize("path", ["/body", "/headers"])
def test_a_server_that_gives_a_byte_now_and_then_keeps_nobody_waiting(
    trickle: str, path: str
) -> None:
    """The limit of a connection begins again with each byte."""
    assert "within 1 s" in online.fetch(trickle + path)["error"]["message"]
    assert "cannot fetch this" in refused(lambda: online.download(trickle + path))
    if path == "/headers":
        assert "within 1 s" in outside.send_request(trickle + path, None, {}, "GET")
        assert reach.run({"url": trickle + path}) == {
            "tried": True,
            "reached": False,
            "why": "no answer in time",
        }


class _Slow:
    """A body that a clock is played to: each part takes so many seconds."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, part: int, seconds: float, size: int
    ) -> None:
        self.now, self.part, self.seconds, self.left = 0.0, part, seconds, size
        monkeypatch.setattr(online, "time", self)

    def monotonic(self) -> float:
        return self.now

    def read1(self, _most: int) -> bytes:
        self.now += self.seconds
        given = min(self.part, self.left)
        self.left -= given
        return b"x" * given


BODIES = [
    # bytes of a part, seconds for each, bytes; whether it comes
    (65536, 0.1, 10 << 20, True),  # 650 kB a second
    (65536, 1.0, 20 << 20, True),  # 65 kB a second, for 5 minutes
    (1, 15.0, 100, False),  # a byte each 15 seconds
    (65536, 1.0, 60 << 20, False),  # longer than 10 minutes
    (1024, 1.0, 1 << 20, False),  # 1 kB a second
    (1024, 1.0, 30 << 10, True),  # the same, for half a minute
]


@pytest.mark.parametrize(("part", "seconds", "size", "comes"), BODIES)
def test_a_download_ends_in_time_or_is_given_up(
    monkeypatch: pytest.MonkeyPatch, part: int, seconds: float, size: int, comes: bool
) -> None:
    answer = _Slow(monkeypatch, part, seconds, size)
    with contextlib.nullcontext() if comes else pytest.raises(TimeoutError):
        assert len(online.read_answer_body(answer)) == size
    assert answer.now <= online.WHOLE + seconds


def test_more_than_may_come_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "LARGEST", 1000)
    answer = _Slow(monkeypatch, 300, 0, 10_000)
    assert len(online.read_answer_body(answer)) == 1200
    assert answer.left == 8800


def test_a_module_that_never_ends_is_interrupted() -> None:
    """Without a limit of its own, as actions are that ask the API of a cluster."""
    never = threading.Event()

    def hangs() -> None:
        with online.interrupt_after(0.05, "the API", OutOfReach), contextlib.suppress(Exception):
            never.wait(60)

    handler = signal.getsignal(signal.SIGALRM)
    assert refused(hangs).startswith("the API did not answer")
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_the_time_limit_of_a_task_counts_where_there_is_one() -> None:
    signal.setitimer(signal.ITIMER_REAL, 600)
    try:
        with online.interrupt_after(0.001, "the API"):
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 500
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
