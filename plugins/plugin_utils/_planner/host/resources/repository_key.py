# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of a package repository: armored text, and the fingerprint that decides about it."""

from __future__ import annotations

import base64
import hashlib
import re

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
)

BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
HEADER = re.compile(r"[A-Za-z][A-Za-z-]*: [ -~]*")
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
FINGERPRINTS = re.compile(r"[0-9A-F]{40}")
CHECKSUM = re.compile(r"=[A-Za-z0-9+/]{4}")
# Signature, primary key, trust, user id, subkey, user attribute (RFC 4880, 4.3).
PRIMARY, PACKETS = 6, (2, 6, 12, 13, 14, 17)


def compute_key_fingerprint(key: str) -> str:
    """Return the SHA-1 fingerprint (RFC 4880, 12.2) of the one primary key in the text, in upper
    case hex.

    The whole text becomes the package manager's keyring, so it may contain nothing else. A second
    key, in the same block or in another, would be trusted like the first, although its fingerprint
    was never compared. Raise PlanError for such a text, or for an unreadable one.
    """
    if not key.partition(BEGIN)[2].partition(END)[0].strip():
        raise PlanError(messages.NOT_ARMORED.fill(begin=BEGIN))
    try:
        body = _find_primary_packet(decode_armored_key(key))
    except ValueError as error:
        raise PlanError(messages.KEY_UNREADABLE.fill(problem=error.args[0])) from error
    except IndexError as error:
        early = messages.KEY_ENDS_EARLY.fill()
        raise PlanError(messages.KEY_UNREADABLE.fill(problem=early)) from error
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()  # noqa: S324 - the format's own digest


def list_key_packets(key: str) -> list[tuple[int, bytes]]:
    """Return (type, body) of each packet of a key whose fingerprint was taken."""
    data, at, packets = decode_armored_key(key), 0, []
    while at < len(data):
        kind, body, at = _read_packet(data, at)
        packets.append((kind, body))
    return packets


def _require_lines(key: str, lines: list[str]) -> None:
    """Raise ValueError for a key that was cut off, and PlanError for one whose lines YAML has
    changed: neither contains more than a key.
    """
    if END not in key:
        raise ValueError(messages.KEY_WITHOUT_END.fill(end=END))
    if len(lines) == 1 or lines[-1] != END == lines[-1].strip():
        raise PlanError(messages.KEY_LINES_CHANGED.fill())


def decode_armored_key(key: str) -> bytes:
    """Return the bytes of the one armored block. Strict, so that a package manager's parser cannot
    find more in it than this one.
    """
    lines = [line.rstrip() for line in key.replace("\r\n", "\n").strip().split("\n")]
    _require_lines(key, lines)
    if lines[0] != BEGIN or lines[-1] != END:
        raise PlanError(messages.TEXT_BESIDE_KEY.fill())
    inside = lines[1:-1]
    if any(line.startswith("-----") for line in inside):
        raise PlanError(messages.SECOND_BLOCK.fill())
    blank = inside.index("") if "" in inside else -1
    headers, body = inside[: max(blank, 0)], inside[blank + 1 :]
    if body and CHECKSUM.fullmatch(body[-1]):
        body = body[:-1]
    if any(not HEADER.fullmatch(line) for line in headers) or any(
        not BASE64.fullmatch(line) for line in body
    ):
        raise ValueError(messages.ODD_KEY_LINE.fill())
    return base64.b64decode("".join(body), validate=True)


def _find_primary_packet(data: bytes) -> bytes:
    """Return the body of the one primary key. Each packet has to be of a type that a public key
    consists of.
    """
    packets: list[bytes] = []
    at = 0
    while at < len(data) or not packets:
        kind, body, at = _read_packet(data, at)
        if kind not in PACKETS:
            raise PlanError(messages.STRANGE_PACKET.fill(kind=kind))
        if kind == PRIMARY:
            packets.append(body)
        elif not packets:
            raise ValueError(messages.FIRST_PACKET.fill())
    if len(packets) > 1:
        raise PlanError(messages.PRIMARY_KEYS.fill(number=len(packets)))
    if not packets[0] or packets[0][0] != 4:
        raise ValueError(messages.FIRST_PACKET.fill())
    return packets[0]


def _read_packet(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Return (type, body, place of the next packet) for the packet at this place (RFC 4880, 4.2)."""
    tag = data[at]
    if not tag & 0x80:
        raise ValueError(messages.NOT_A_PACKET.fill())
    if tag & 0x40:
        kind, (length, start) = tag & 0x3F, _read_new_length(data, at)
    else:
        kind, size = (tag >> 2) & 0x0F, 1 << (tag & 3)
        if size == 8:
            raise ValueError(messages.PACKET_WITHOUT_LENGTH.fill())
        length, start = int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size
    body = data[start : start + length]
    if len(body) < length:
        raise ValueError(messages.PACKET_TRUNCATED.fill())
    return kind, body, start + length


def _read_new_length(data: bytes, at: int) -> tuple[int, int]:
    """Return (length, place of the body) for a packet in the new format."""
    first = data[at + 1]
    if first < 192:
        return first, at + 2
    if first < 224:
        return ((first - 192) << 8) + data[at + 2] + 192, at + 3
    if first < 255:
        raise ValueError(messages.PACKET_IN_PARTS.fill())
    return int.from_bytes(data[at + 2 : at + 6], "big"), at + 6


def normalise_fingerprint(fingerprint: str) -> str:
    """Return a fingerprint in the form that is compared, without spaces and in upper case."""
    return fingerprint.replace(" ", "").upper()


def require_expected(found: str, expected: str, where: str = "") -> None:
    """Raise PlanError if the key's fingerprint differs from the expected one, if one was given.
    where: the archive that the key came in.
    """
    awaited = normalise_fingerprint(expected)
    if awaited and not FINGERPRINTS.fullmatch(awaited):
        raise PlanError(messages.NOT_A_FINGERPRINT.fill(given=repr(expected)))
    if awaited and found != awaited:
        raise PlanError(messages.ANOTHER_KEY.fill(found=found, expected=awaited), where=where)
