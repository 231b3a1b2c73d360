# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is fetched by the controller, and what a host is asked to reach: from a web server of this test, on this machine alone."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.action import online
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.probes import reach

requests: list[str] = []


class _Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        requests.append(self.path)
        body = {"/gpgkey": b"the key", "/long": b"x" * (online.LONGEST + 1)}.get(self.path)
        self.send_response(200 if body else 404)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        """Nobody reads it."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
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


@pytest.mark.parametrize(("path", "says"), [("/nothing", "404"), ("/long", "longer than 65536 bytes")])
def test_what_cannot_be_fetched_is_an_answer_too_and_asked_for_again(server: str, path: str, says: str) -> None:
    for _again in (1, 2):
        assert says in online.fetch(server + path)["error"]["message"]
    assert requests == [path, path]


PROXIES = {
    'Acquire::http::Proxy "http://proxy.example:3128";\n': True,
    'Acquire { http { Proxy "http://me:secret@proxy.example"; }; };\n': True,
    'Acquire::http::Proxy-Auto-Detect "/usr/bin/found";\n': True,
    "proxy=http://proxy.example:3128\n": True,
    "[main]\nproxy = http://proxy.example\n": True,
    '// Acquire::http::Proxy "http://proxy.example";\n': False,
    "# proxy=http://proxy.example\n": False,
    'Acquire::Retries "3";\n': False,
    'PROXY_ENABLED="yes"\nHTTP_PROXY="http://me:secret@proxy.example:3128"\n': True,  # /etc/sysconfig/proxy
    'PROXY_ENABLED="no"\nHTTP_PROXY=""\n': False,
}


@pytest.mark.parametrize("text", PROXIES)
def test_a_package_manager_with_a_proxy_of_its_own_is_not_second_guessed(tmp_path: Path, text: str, server: str) -> None:
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


def test_a_directory_of_this_host_is_reached(tmp_path: Path) -> None:
    assert reach.run({"url": f"file://{tmp_path}"})["reached"]
