# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make one HTTP request over a unix socket, as the engines' own endpoints expect it.

http.client does the same and more, but takes a tenth of a look's time to import (it brings email
and ssl). Only a little of RFC 9112 is needed: one request, the connection closed behind it. Host
side: standard library only, Python 3.6.
"""

import _socket
import json
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust

_REQUEST = (
    "%s %s HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    "Connection: close\r\n\r\n"
)
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: |\r?\n)")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?\r?\n")
_LONGEST = 65536  # bytes of a line, as of http.client
_MOST = 256  # lines of headers
_LARGEST = 1 << 30  # bytes that an answer may say it has


class _Broken(Exception):
    """An answer that is not HTTP, or ends too early."""


def ask_http(path, method, target, timeout, body=None, cap=None):
    """Return (status, the first `cap` bytes of the answer). Raise HostError if there is no answer.
    body: a value to send as JSON.
    """
    data = b"" if body is None else json.dumps(body).encode("utf-8")
    try:
        with trust.connect(path, timeout) as connection:
            connection.sendall((_REQUEST % (method, target, len(data))).encode("ascii") + data)
            with _stream(connection, timeout) as stream:
                return _read_answer(stream, cap)
    except _socket.timeout:
        raise host_files.HostError(
            "timeout", "%s: no answer to %s %s within %g s" % (path, method, target, timeout)
        )
    except OSError as exc:
        raise host_files.build_os_error(exc, path)
    except _Broken as exc:
        raise host_files.HostError("failed", "%s: %s %s: %s" % (path, method, target, exc))


def _stream(connection, timeout):
    """Return the bytes that arrive as a file. Closing it closes the connection."""
    import socket  # here, since few looks get to this point

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, connection.detach()) as whole:
        whole.settimeout(timeout)
        return whole.makefile("rb")


def _read_answer(stream, cap):
    status, headers = 100, {}
    while status < 200:  # 1xx: the answer is still to come
        match = _STATUS.match(stream.readline(_LONGEST))
        if not match:
            raise _Broken("the response is not HTTP")
        status, headers = int(match.group(1)), _read_headers(stream)
    if status in (204, 304):
        return status, b""
    if headers.get(b"transfer-encoding", b"identity").lower() != b"identity":
        return status, _chunks(stream, cap)
    size = headers.get(b"content-length")
    if size is None:
        return status, stream.read(cap)
    if not size.isdigit() or int(size) > _LARGEST:
        raise _Broken("the answer does not say how long it is")
    return status, _read_exactly(stream, int(size) if cap is None else min(int(size), cap))


def _read_headers(stream):
    headers = {}
    for _number in range(_MOST):
        line = stream.readline(_LONGEST)
        if line in (b"\r\n", b"\n"):
            return headers
        if not line.endswith(b"\n"):
            break
        name, _colon, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    raise _Broken("the answer ends within its headers")


def _chunks(stream, cap):
    parts, room = [], _LARGEST if cap is None else cap
    while room > 0:
        match = _SIZE.match(stream.readline(_LONGEST))
        if not match:
            raise _Broken("the answer ends within its content")
        size = int(match.group(1), 16)
        if size == 0:
            break
        parts.append(_read_exactly(stream, min(size, room)))
        room -= len(parts[-1])
        if room > 0:
            _read_exactly(stream, 2)  # the line's end
    return b"".join(parts)


def _read_exactly(stream, size):
    data = stream.read(size)
    if len(data) != size:
        raise _Broken("the answer ends after %d of %d bytes" % (len(data), size))
    return data
