# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request over a unix socket: every form of an answer that servers give, and none that ends too
early is taken for a whole one.
"""

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import unix_http

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def ask(runtime, reply, cap=None, body=None):
    server = runtime(reply)
    server._request = lambda connection: connection.recv(65536)
    return unix_http.ask_http(server.path, "GET", "/x", 5, body, cap), server.requests[0]


ANSWERS = {
    "a length": (OK + b"Content-Length: 3\r\n\r\nabc", None, (200, b"abc")),
    "a length, and more behind it": (OK + b"content-length:3\r\n\r\nabcdef", None, (200, b"abc")),
    "no length": (OK + b"\r\nabc", None, (200, b"abc")),
    "no length, of which a part is wanted": (OK + b"\r\nabc", 2, (200, b"ab")),
    "a length, of which a part is wanted": (OK + b"Content-Length: 3\r\n\r\nabc", 2, (200, b"ab")),
    "chunks": (CHUNKED + b"2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n", None, (200, b"abc")),
    "chunks, of which a part is wanted": (
        CHUNKED + b"2\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\n",
        5,
        (200, b"ab012"),
    ),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", None, (204, b"")),
    "an older server": (b"HTTP/1.0 404 Not Found\nServer: x\n\nno", None, (404, b"no")),
    "a word before the answer": (
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na",
        None,
        (200, b"a"),
    ),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", None, (200, b"a")),
}


@pytest.mark.parametrize("form", sorted(ANSWERS))
def test_an_answer(runtime, form):
    reply, cap, answer = ANSWERS[form]
    assert ask(runtime, reply, cap)[0] == answer


BROKEN = {
    "nothing": (b"", "the response is not HTTP"),
    "another protocol": (b"\0\0\x12\x04\0\0\0\0\0", "the response is not HTTP"),
    "a status that is none": (b"HTTP/1.1 999 x\r\n\r\n", "the response is not HTTP"),
    "an end within the headers": (OK + b"Content-Le", "ends within its headers"),
    "headers without end": (OK + b"a: b\r\n" * 300 + b"\r\n", "ends within its headers"),
    "less than it says": (OK + b"Content-Length: 4\r\n\r\nabc", "ends after 3 of 4 bytes"),
    "a length that is none": (OK + b"Content-Length: -1\r\n\r\nabc", "does not say how long"),
    "a length that nobody has room for": (
        OK + b"Content-Length: 99999999999\r\n\r\nabc",
        "does not say how long",
    ),
    "an end within a chunk": (CHUNKED + b"5\r\nabc", "ends after 3 of 5 bytes"),
    "an end between chunks": (CHUNKED + b"3\r\nabc\r\n", "ends within its content"),
    "a chunk without a size": (CHUNKED + b"x\r\nabc\r\n0\r\n\r\n", "ends within its content"),
}


@pytest.mark.parametrize("form", sorted(BROKEN))
def test_what_is_no_whole_answer_is_an_error(runtime, form):
    reply, words = BROKEN[form]
    with pytest.raises(host_files.HostError, match="GET /x: .*" + words) as caught:
        ask(runtime, reply)
    assert caught.value.kind == "failed"


def test_a_request(runtime):
    sent = ask(runtime, OK + b"\r\n", body={"a": 1})[1]
    assert sent.startswith(b"GET /x HTTP/1.1\r\nHost: localhost\r\n")
    assert sent.endswith(b'Content-Length: 8\r\nConnection: close\r\n\r\n{"a": 1}')


def test_a_server_that_says_nothing_is_not_waited_for(runtime):
    server = runtime(None)
    server._request = lambda connection: connection.recv(65536)
    with pytest.raises(host_files.HostError, match=r"no answer to GET /x within 0\.2 s") as caught:
        unix_http.ask_http(server.path, "GET", "/x", 0.2)
    assert caught.value.kind == "timeout"
