# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a container runtime over its CRI socket: one unary gRPC call with the standard library alone.

Hosts have no client for this protocol (crictl is a separate package) and no Python library for it.
So this file contains the part of HTTP/2 (RFC 9113) that one call takes; grpc_wire.py contains the
part of protobuf and HPACK. Host side: Python 3.6.
"""

import _socket
import json
import struct
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc.grpc_wire import (
    INTERNAL,
    CriError,
    HeaderTable,
    decode_fields,
    encode_fields,
    encode_varint,
    get_string_field,
    list_field_values,
)

DEADLINE, NOT_FOUND, DENIED, UNIMPLEMENTED, UNAVAILABLE = 4, 5, 7, 12, 14  # gRPC status codes
CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED "
    "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
).split()
MAX_ANSWER = 32 * 1024 * 1024
# the second: engines of before 2022
SERVICES = (
    "runtime.v1.RuntimeService",
    "runtime.v1alpha2.RuntimeService",
)
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = (
    0,
    1,
    3,
    4,
    6,
    7,
    8,
    9,
)
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_MAX_FRAME = 16384
_WINDOW = 2**31 - 1


# --- HTTP/2 and gRPC: one request, one answer
# -------------------------------------------------------------------------


def call_unary(path, service, method, request=b"", timeout=5):
    """Call service/method over the unix socket at path. Return the answer's protobuf bytes, or
    raise CriError.
    """
    deadline = time.monotonic() + timeout
    try:
        with trust.connect(path, timeout) as connection:
            connection.sendall(_request(service, method, request, timeout))
            return _read_answer(connection, deadline)
    except host_files.HostError as exc:
        raise CriError(DENIED, exc.message)
    except _socket.timeout:
        raise CriError(DEADLINE, "%s: no answer to %s within %g s" % (path, method, timeout))
    except OSError as exc:
        raise CriError(UNAVAILABLE, "%s: %s" % (path, exc.strerror or exc))


def _build_frame(kind, flags, stream, payload=b""):
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes(bytearray((kind, flags)))
        + struct.pack(">I", stream)
        + payload
    )


def _encode_literal(name, value):
    # a literal field, not indexed, its name not indexed, no Huffman code
    coded = bytearray(b"\x00")
    for word in (name.encode("ascii"), value.encode("ascii")):
        coded += (
            bytes(bytearray((len(word),)))
            if len(word) < 127
            else b"\x7f" + encode_varint(len(word) - 127)
        ) + word
    return bytes(coded)


def _request(service, method, request, timeout):
    message = struct.pack(">BI", 0, len(request)) + request
    if len(message) > 65535:
        raise CriError(
            INTERNAL, "a request of %d bytes is more than a server takes unasked" % len(request)
        )
    fields = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/%s/%s" % (service, method)),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", "%dm" % max(int(timeout * 1000), 1)),
    )
    bodies = [message[at : at + _MAX_FRAME] for at in range(0, len(message), _MAX_FRAME)]
    return b"".join(
        [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            # No table to keep, no pushes, and windows as wide as they come: a big answer flows
            # without more updates.
            _build_frame(_SETTINGS, 0, 0, struct.pack(">HIHIHI", 1, 0, 2, 0, 4, _WINDOW)),
            _build_frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW - 65535)),
            _build_frame(
                _HEADERS,
                _END_HEADERS,
                1,
                b"".join(_encode_literal(name, value) for name, value in fields),
            ),
        ]
        + [_build_frame(_DATA, 0, 1, body) for body in bodies[:-1]]
        + [_build_frame(_DATA, _END_STREAM, 1, bodies[-1])]
    )


class _Stream(object):
    """The part of the one answer that has arrived: header blocks (headers and trailers alike) and
    the message's bytes.
    """

    def __init__(self):
        self.table = HeaderTable()
        self.headers, self.block, self.body = {}, b"", bytearray()
        self.in_block = self.last = False

    @property
    def complete(self):
        return self.last and not self.in_block

    def take(self, kind, flags, payload):
        if kind == _RST_STREAM:
            raise CriError(
                UNAVAILABLE, "the server reset the call (HTTP/2 error %d)" % _numbers(payload, 1)
            )
        if kind == _DATA:
            self.body += _strip(payload, flags & ~_PRIORITY)
        elif kind in (_HEADERS, _CONTINUATION):
            self.block += _strip(payload, flags) if kind == _HEADERS else payload
            self.in_block = not flags & _END_HEADERS
            if not self.in_block:
                self.headers.update(self.table.decode(self.block))
                self.block = b""
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            self.last = True
        if len(self.body) + len(self.block) > MAX_ANSWER:
            raise CriError(INTERNAL, "the answer is larger than %d bytes" % MAX_ANSWER)


def _read_answer(connection, deadline):
    answer = _Stream()
    while not answer.complete:
        kind, flags, stream, payload = _read_frame(connection, deadline)
        if stream == 1:
            answer.take(kind, flags, payload)
        elif kind == _SETTINGS and not flags & _ACK:
            connection.sendall(_build_frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and not flags & _ACK:
            connection.sendall(_build_frame(_PING, _ACK, 0, payload))
        elif kind == _GOAWAY:
            last, code = _numbers(payload, 2)
            if last & _WINDOW < 1 or code:
                raise CriError(
                    UNAVAILABLE, "the server closed the connection (HTTP/2 error %d)" % code
                )
    return _read_message(answer.headers, bytes(answer.body))


def _numbers(payload, count):
    if len(payload) < 4 * count:
        raise CriError(INTERNAL, "a frame of the answer is cut off")
    return struct.unpack(">%dI" % count, payload[: 4 * count])


def _name_code(code):
    return "%d (%s)" % (code, CODES[code]) if code < len(CODES) else str(code)


def _read_message(headers, body):
    if headers.get(":status", "200") != "200":
        raise CriError(UNAVAILABLE, "the server answered HTTP status %s" % headers[":status"])
    code = headers.get("grpc-status", "")
    if code != "0":
        import urllib.parse  # here, since few calls fail

        said = urllib.parse.unquote(headers.get("grpc-message", ""))
        number = int(code) if code.isdigit() and len(code) < 3 else INTERNAL
        raise CriError(
            number,
            "gRPC status %s" % (_name_code(number) if code else "missing: not a gRPC server?"),
            said,
        )
    if len(body) < 5 or body[0] or struct.unpack(">I", body[1:5])[0] != len(body) - 5:
        raise CriError(INTERNAL, "the answer is not one uncompressed gRPC message")
    return body[5:]


def _strip(payload, flags):
    """Return a frame's payload without padding and priority."""
    end = len(payload)
    start = 0
    if flags & _PADDED:
        start, end = 1, end - payload[0] if payload else 0
    if flags & _PRIORITY:
        start += 5
    return payload[start:end]


def _read_frame(connection, deadline):
    head = _read_bytes(connection, 9, deadline)
    size = struct.unpack(">I", b"\0" + head[:3])[0]
    if size > _MAX_FRAME:
        raise CriError(INTERNAL, "the server does not speak HTTP/2")
    return (
        head[3],
        head[4],
        struct.unpack(">I", head[5:])[0] & _WINDOW,
        _read_bytes(connection, size, deadline),
    )


def _read_bytes(connection, size, deadline):
    data = bytearray()
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise _socket.timeout()
        connection.settimeout(left)
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise CriError(UNAVAILABLE, "the server closed the connection before it answered")
        data += chunk
    return bytes(data)


# --- the two questions that everyone asks
# ----------------------------------------------------------------------------


def read_cri_status(path, timeout=5):
    """Return the runtime's whole Status: conditions, handlers and its effective configuration. For
    use on this host alone.
    """
    service, fields = ask_cri(path, "Status", [(1, 0, 1)], timeout)
    conditions = []
    for value in [
        condition
        for part in list_field_values(fields, 1)
        for condition in list_field_values(decode_fields(part), 1)
    ]:
        condition = decode_fields(value)
        good = bool((list_field_values(condition, 2) or [0])[-1])
        conditions.append(
            {
                "type": get_string_field(condition, 1),
                "status": good,
                "reason": get_string_field(condition, 3),
                "message": get_string_field(condition, 4),
            }
        )
    info = {}
    for pair in [decode_fields(value) for value in list_field_values(fields, 2)]:
        info[get_string_field(pair, 1)] = parse_cri_value(get_string_field(pair, 2))
    return {
        "service": service,
        "runtime": {condition["type"]: condition["status"] for condition in conditions},
        "conditions": conditions,
        "handlers": [
            get_string_field(decode_fields(value), 1) for value in list_field_values(fields, 3)
        ],
        "info": info,
    }


def read_cri_version(path, timeout=5):
    """Return the name and the version of a runtime, as far as they have the shape of such values."""
    service, fields = ask_cri(path, "Version", [], timeout)
    name, number = (
        selection.show_value_in_shape("name", get_string_field(fields, 2)),
        selection.show_value_in_shape("version", get_string_field(fields, 3)),
    )
    return {"service": service, "runtime_name": name, "runtime_version": number}


def ask_cri(path, method, request, timeout):
    """Return (service, the answer's fields) from the newest service that the runtime has."""
    for service in SERVICES:
        try:
            return service, decode_fields(
                call_unary(path, service, method, encode_fields(request), timeout)
            )
        except CriError as exc:
            if exc.code != UNIMPLEMENTED or service == SERVICES[-1]:
                raise


def parse_cri_value(value):
    """Return a value of the verbose status, from JSON if it is JSON. Raise CriError if it is nested
    too deep.
    """
    try:
        return json.loads(value)
    except ValueError:
        return value
    except RecursionError:
        raise CriError(INTERNAL, "the answer has JSON that is nested too deep")
