# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Until when a key counts: keys that GnuPG 2.2.40 has made, and what it says of them."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.bundle import key
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository_key,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.bundle_keys import NEVER

SHORT = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEaVW5ABYJKwYBBAHaRw8BAQdAdjz12ovr65+Q8B5FhN9xiU7qUoPbaLcWTs3G
/X8GnvS0FnNob3J0QGdwdWZsZWV0LmludmFsaWSIlgQTFggAPhYhBMVC7ZN1ywpK
n1mdglJ7O06DVRZ3BQJpVbkAAhsDBQkAKYdABQsJCAcCBhUKCQgLAgQWAgMBAh4B
AheAAAoJEFJ7O06DVRZ3fXYBAPliv10inmkQvN3rcqlEcRibO72pc6KnirZWHmO/
VyHMAP456or1O55OFjR5aGrWzY2rfox3n/hKQDmsEufu07YzDA==
=Gh6R
-----END PGP PUBLIC KEY BLOCK-----
"""
# The same key, whose owner has signed a later end since.
RENEWED = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEaVW5ABYJKwYBBAHaRw8BAQdAdjz12ovr65+Q8B5FhN9xiU7qUoPbaLcWTs3G
/X8GnvS0FnNob3J0QGdwdWZsZWV0LmludmFsaWSIlgQTFggAPgIbAwULCQgHAgYV
CgkICwIEFgIDAQIeAQIXgBYhBMVC7ZN1ywpKn1mdglJ7O06DVRZ3BQJpaC4ABQkC
CrrAAAoJEFJ7O06DVRZ3L64BAL0j+gSFtNEGXn6X48c+yBccth9KJBVcIUPSCza9
QVUZAQDboNoLXv5ulgT85SKR4w58u7LrxdAuEMIAH/rP+0qSBA==
=EQzs
-----END PGP PUBLIC KEY BLOCK-----
"""


@pytest.mark.parametrize(
    ("text", "end"),
    [(NEVER, ""), (SHORT, "2026-02-01T12:00:00Z"), (RENEWED, "2027-02-01T12:00:00Z")],
    ids=["never", "short", "renewed"],
)
def test_the_newest_signature_says_until_when(text: str, end: str) -> None:
    assert key.get_key_expiry(text) == end


def test_the_newest_signature_counts_whichever_comes_first() -> None:
    old, new = (
        [packet for packet in repository_key.list_key_packets(text) if packet[0] == key.SIGNATURE]
        for text in (SHORT, RENEWED)
    )
    others = [
        packet for packet in repository_key.list_key_packets(SHORT) if packet[0] != key.SIGNATURE
    ]
    for signatures in ([*old, *new], [*new, *old]):
        assert key.get_key_expiry(armored([*others, *signatures])) == "2027-02-01T12:00:00Z"


def armored(packets: list[tuple[int, bytes]]) -> str:
    data = b"".join(
        bytes([0xC0 | kind, 0xFF]) + len(body).to_bytes(4, "big") + body for kind, body in packets
    )
    return f"{repository_key.BEGIN}\n\n{base64.b64encode(data).decode()}\n{repository_key.END}\n"


@given(st.binary(max_size=60))
def test_whatever_a_signature_holds_is_no_accident(body: bytes) -> None:
    others = [
        packet for packet in repository_key.list_key_packets(SHORT) if packet[0] != key.SIGNATURE
    ]
    key.get_key_expiry(armored([*others, (key.SIGNATURE, b"\x04\x13\x16\x08" + body)]))
