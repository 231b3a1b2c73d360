# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verification's container through an engine's HTTP API, against a server that answers as such an
engine does.
"""

import json
import struct

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test import (
    entry as container_test_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test.http_api import (
    HttpEngine,
    read_log_words,
)

NODE = {"path": "/dev/null", "rdev": [1, 3], "expect": "allowed"}
CASE = {
    "name": "one",
    "image": "probe:1",
    "create": {"User": "0"},
    "nodes": [NODE],
    "list": "/dev/none*",
}


def reply(status="200 OK", body=b""):
    return ("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body))).encode() + body


def frames(*texts):
    return b"".join(struct.pack(">BxxxI", 1, len(text)) + text for text in texts)


EMPTY, IMAGE, CREATED = reply(body=b"[]"), reply(body=b"{}"), reply("201 Created", b'{"Id": "c1"}')
STARTED, ENDED = reply("204 No Content"), reply(body=b'{"StatusCode": 0}')
LOGS = reply(body=frames(b"there|/dev/n", b"ull|ok\n"))


@pytest.fixture
def engine(runtime):
    def make(*replies):
        server = runtime(*replies)
        server._request = whole
        return server

    return make


def whole(connection):
    """First line and body of one request."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(65536)
    head, _end, body = text.partition(b"\r\n\r\n")
    size = [
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    while size and len(body) < size[0]:
        body += connection.recv(65536)
    return head.split(b"\r\n")[0].decode(), json.loads(body.decode()) if body else None


def run(server, **case):
    request = {
        "schema": 1,
        "timeout": 5,
        "phrases": ["no such thing", "nope"],
        "cases": [dict(CASE, socket=server.path, **case)],
    }
    return container_test_entry.run(request)["cases"][0]


def test_a_container_is_made_read_and_removed(engine):
    server = engine(EMPTY, IMAGE, CREATED, STARTED, ENDED, LOGS, STARTED)
    found = run(server)
    assert (found["error"], found["ok"], found["found"]) == (None, True, {"/dev/null": "ok"})
    assert [line for line, _body in server.requests][1:] == [
        "GET /images/probe:1/json HTTP/1.1",
        "POST /containers/create HTTP/1.1",
        "POST /containers/c1/start HTTP/1.1",
        "POST /containers/c1/wait HTTP/1.1",
        "GET /containers/c1/logs?stdout=1&stderr=1 HTTP/1.1",
        "DELETE /containers/c1?force=1&v=1 HTTP/1.1",
    ]
    body = server.requests[2][1]
    assert (body["User"], body["Image"], body["Entrypoint"], body["Cmd"][:2]) == (
        "0",
        "probe:1",
        [],
        ["/bin/sh", "-c"],
    )
    assert body["Cmd"][4:] == ["/dev/none*", "/dev/null", "1", "3"]


UNREPORTED = "the engine does not report how the shell in the container ended"
REFUSED = [
    ([reply("404 Not Found")], "image", "image probe:1 is not on this host"),
    ([reply("500 Oops", b'{"message": "no such thing in the store"}')], "image", "no such thing"),
    ([reply("500 Oops", b'["no such thing"]')], "image", "status 500"),
    ([IMAGE, reply("201 Created", b"not JSON")], "create", "the answer is no JSON"),
    ([IMAGE, CREATED, STARTED, reply(body=b"{}"), STARTED], "wait", UNREPORTED),
    ([IMAGE, CREATED, STARTED, reply(body=b'{"StatusCode": null}'), STARTED], "wait", UNREPORTED),
    (
        [
            IMAGE,
            CREATED,
            STARTED,
            ENDED,
            reply("500 Oops", b'{"message": "nope, token=x"}'),
            STARTED,
        ],
        "logs",
        "nope",
    ),
    (
        [IMAGE, reply("400 Bad Request", b'{"message": "no such thing at https://u:pw@h"}')],
        "create",
        "no such thing",
    ),
    (
        [IMAGE, CREATED, reply("500 Oops", b'{"message": "password=x"}'), STARTED],
        "start",
        "status 500",
    ),
    ([IMAGE, CREATED, STARTED, reply("500 Oops", b"not JSON"), STARTED], "wait", "status 500"),
    (
        [
            IMAGE,
            CREATED,
            STARTED,
            reply(body=b'{"StatusCode": 2}'),
            reply(body=frames(b"nope, token=x")),
            STARTED,
        ],
        "wait",
        "with 2: nope",
    ),
]


@pytest.mark.parametrize("replies, step, message", REFUSED)
def test_what_the_engine_says_against_it(engine, replies, step, message):
    server = engine(EMPTY, *replies)
    found = run(server)
    assert (found["ok"], found["error"]["step"]) == (False, step)
    assert found["error"]["message"].endswith(message), "known phrases, and nothing around them"
    made = any(line.startswith("POST /containers/c1/start") for line, _body in server.requests)
    assert made == server.requests[-1][0].startswith("DELETE /containers/c1"), (
        "what was made is removed"
    )


def test_no_engine(tmp_path):
    case = dict(CASE, socket=str(tmp_path / "none.sock"))
    (found,) = container_test_entry.run({"schema": 1, "timeout": 1, "cases": [case]})["cases"]
    assert "No such file or directory" in found["error"]["message"]


@pytest.mark.parametrize(("longest", "most"), [(HttpEngine.LONGEST, host_files.MIB), (1000, 1000)])
def test_of_a_container_that_prints_without_an_end_the_beginning_is_read(
    engine, monkeypatch, longest, most
):
    monkeypatch.setattr(HttpEngine, "LONGEST", longest)
    line = b"listed|/dev/none1|\n"
    logs = reply(body=frames(*[line * (most // len(line))] * 3))
    found = run(engine(EMPTY, IMAGE, CREATED, STARTED, ENDED, logs, STARTED))
    assert found["error"] is None
    assert 0 < len(found["listed"]) <= most // len(line) + 1


def test_only_what_was_left_long_ago_is_swept(engine):
    listed = json.dumps([{"Id": "old", "Created": 1}, {"Id": "new", "Created": 2**33}]).encode()
    server = engine(reply(body=listed), STARTED)
    HttpEngine(server.path, 5, str).clean_earlier("gpufleet-check", 900)
    assert [line.split()[:2] for line, _body in server.requests][1:] == [
        ["DELETE", "/containers/old?force=1&v=1"]
    ]
    assert "gpufleet-check" in server.requests[0][0]


def test_logs_that_were_cut_off():
    assert read_log_words(frames(b"whole") + b"\1\0\0") == "whole"
    assert read_log_words(b"") == ""
