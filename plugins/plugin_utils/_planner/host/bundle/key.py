# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the expiry date of a repository's key from the key's own signatures, for people to read.

The format is that of RFC 4880, 5.2.3.

gpgv and the package managers judge whether a signature is valid.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import values
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository_key,
)

SIGNATURE = 2
# a certification of a user id, and a signature directly on the key
OF_THE_KEY = (
    0x10,
    0x11,
    0x12,
    0x13,
    0x1F,
)
CREATED, KEY_EXPIRES, ISSUER = 2, 9, 16


def get_key_expiry(key: str) -> str:
    """Return the moment as 2027-01-31T00:00:00Z, '' for a key that does not expire.

    Of several self-signatures the newest counts, as for gpg.
    """
    made, newest, lasts = 0, -1, 0
    own = bytes.fromhex(repository_key.compute_key_fingerprint(key)[-16:])
    for kind, body in repository_key.list_key_packets(key):
        if kind == repository_key.PRIMARY:
            made = int.from_bytes(body[1:5], "big")
        if kind == SIGNATURE and body[:1] == b"\x04" and body[1] in OF_THE_KEY:
            hashed, other = _read_signature_fields(body)
            at = int.from_bytes(hashed.get(CREATED, b"")[:4], "big")
            if at > newest and {**other, **hashed}.get(ISSUER, own) == own:
                newest, lasts = at, int.from_bytes(hashed.get(KEY_EXPIRES, b"")[:4], "big")
    if not lasts:
        return ""
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(
        seconds=made + lasts
    )
    return values.format_moment(moment)


def _read_signature_fields(body: bytes) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Return the hashed and the other subpackets of a version 4 signature."""
    hashed = int.from_bytes(body[4:6], "big")
    start = 6 + hashed
    other = int.from_bytes(body[start : start + 2], "big")
    return dict(_list_subpackets(body[6:start])), dict(
        _list_subpackets(body[start + 2 : start + 2 + other])
    )


def _list_subpackets(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    # else it is cut off, and nothing can follow
    while at + 5 < len(data) or (at < len(data) and data[at] < 192):
        length, at = data[at], at + 1
        if length == 255:
            length, at = int.from_bytes(data[at : at + 4], "big"), at + 4
        elif length >= 192:
            length, at = ((length - 192) << 8) + data[at] + 192, at + 1
        yield (data[at] & 0x7F if at < len(data) else 0), data[at + 1 : at + length]
        at += length
