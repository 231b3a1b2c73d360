# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of a package repository: one primary key in one block, and nothing else."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository,
    repository_key,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.repository_hosts import URL, observe_distribution
from tests.unit.repository_keys import BODY, FINGERPRINT, OLD, armor

OLD_TWO = bytes([0x99, 0, len(BODY)]) + BODY
NEW = bytes([0xC6, len(BODY)]) + BODY
SECOND = b"\x04" + bytes(range(1, 41))
SUBKEY = bytes([0xB8, len(SECOND)]) + SECOND  # tag 14
USER_ID = bytes([0xB4, 4]) + b"lab@"  # tag 13
KEYS = {
    "old format": armor(OLD),
    "old format, two length bytes": armor(OLD_TWO),
    "new format": armor(NEW),
    "with a user id and a subkey": armor(OLD + USER_ID + SUBKEY),
    "without a header": armor(OLD, header=""),
    "with blank lines around": "\n" + armor(OLD) + "\n\n",
    "with line ends of another system": armor(OLD).replace("\n", "\r\n"),
}


# The lengths of a packet in the new format, each edge of RFC 4880, 4.2.2: the length and its bytes.
LENGTHS = [
    (1, b"\x01"),
    (191, b"\xbf"),
    (192, b"\xc0\x00"),
    (447, b"\xc0\xff"),
    (448, b"\xc1\x00"),
    (8383, b"\xdf\xff"),
    (8384, b"\xff\x00\x00\x20\xc0"),
    (1, b"\xff\x00\x00\x00\x01"),
]


@pytest.mark.parametrize(("length", "written"), LENGTHS)
def test_a_packet_of_the_new_format_has_its_length_in_one_two_or_five_bytes(
    length: int, written: bytes
) -> None:
    body = b"\x04".ljust(length, b"x")
    name = (13, b"name")
    packets = b"\xc6" + written + body + b"\xcd\x04name"
    assert repository_key.list_key_packets(armor(packets)) == [(6, body), name]


def test_each_of_the_four_bytes_of_a_length_counts() -> None:
    with pytest.raises(ValueError) as caught:
        repository_key.list_key_packets(armor(b"\xc6\xff\x01\x00\x00\x01\x04"))
    assert get_code(read_error_message(caught.value)) == "repository.packet-truncated"


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_fingerprint(key: str) -> None:
    assert repository_key.compute_key_fingerprint(key) == FINGERPRINT


TWO = bytes([0x98, len(SECOND)]) + SECOND
MORE_THAN_ONE = {
    "a second primary key in the block": (armor(OLD + TWO), "primary-keys"),
    "a second primary key behind a user id": (armor(OLD + USER_ID + TWO), "primary-keys"),
    "a second key in the new format": (
        armor(OLD + bytes([0xC6, len(SECOND)]) + SECOND),
        "primary-keys",
    ),
    "a second block": (armor(OLD) + armor(TWO), "second-block"),
    "a block within the block": (armor(OLD).replace("=abcd", armor(TWO)), "second-block"),
    "text before the block": ("trust me\n" + armor(OLD), "text-beside-key"),
    "text behind the block": (armor(OLD) + "mQINBFnNWDEBEAC", "text-beside-key"),
    "a key in the header": (
        armor(OLD, header=base64.b64encode(TWO).decode() + "\n"),
        "odd-key-line",
    ),
    "bytes behind the checksum": (
        armor(OLD).replace("=abcd", "=abcd\n" + base64.b64encode(TWO).decode()),
        "odd-key-line",
    ),
    "padding and more": (
        armor(OLD).replace("=abcd", base64.b64encode(TWO).decode()),
        "key-unreadable",
    ),
    "a user id first": (armor(USER_ID + OLD), "first-packet"),
    "a secret key": (armor(OLD + bytes([0x94, 2]) + b"\x04a"), "strange-packet"),
    "a packet in parts": (armor(OLD + b"\xcd\xe0a"), "packet-in-parts"),
    "a packet without a length": (armor(OLD + b"\xb7a"), "packet-without-length"),
    "bytes that are no packet": (armor(OLD + b"\x00"), "not-a-packet"),
}


@pytest.mark.parametrize(("key", "code"), MORE_THAN_ONE.values(), ids=MORE_THAN_ONE)
def test_a_text_that_holds_more_than_one_key_is_refused(key: str, code: str) -> None:
    """The whole text becomes the keyring, and whatever else is in it would be trusted as well."""
    assert refuse_key(key) == f"repository.{code}"


def refuse_key(key: str) -> str:
    """Return the code of what is wrong with a key."""
    with pytest.raises(PlanError) as refused:
        repository.plan_repository_files(
            repository.read_repository_facts(observe_distribution("debian")),
            url=URL,
            key=key,
            expected=FINGERPRINT,
            state="present",
        )
    return get_code(refused.value.values.get("problem", "")) or refused.value.code


CHANGED_ON_THE_WAY = {
    "indented lines": (armor(OLD).replace("\n", "\n    "), "key-lines-changed"),
    "folded by YAML's >": (armor(OLD).replace("\n", " "), "key-lines-changed"),
    "newlines as two characters": (armor(OLD).replace("\n", "\\n"), "key-lines-changed"),
    "cut off": (armor(OLD).partition("=abcd")[0], "key-without-end"),
}


@pytest.mark.parametrize(("key", "code"), CHANGED_ON_THE_WAY.values(), ids=CHANGED_ON_THE_WAY)
def test_one_key_whose_lines_were_changed_is_not_called_more_than_one(key: str, code: str) -> None:
    assert refuse_key(key) == f"repository.{code}"


@given(st.binary(max_size=64))
def test_bytes_behind_the_key_never_bring_a_second_one(more: bytes) -> None:
    """Bytes after the primary key are refused, or are packets without another primary key."""
    try:
        assert repository_key.compute_key_fingerprint(armor(OLD + more)) == FINGERPRINT
    except PlanError:
        return
    at = 0
    while at < len(more):
        kind, _body, at = repository_key._read_packet(more, at)
        assert kind in repository_key.PACKETS
        assert kind != repository_key.PRIMARY


@pytest.mark.parametrize(
    "key",
    [
        "",
        "ssh-ed25519 AAAA",
        armor(b""),
        armor(OLD[:20]),
        armor(b"\xc2" + NEW[1:]),
        armor(bytes([0xC6, 3]) + b"\x03ab"),
        armor(OLD).replace("=abcd", "%%%"),
    ],
)
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(PlanError, match=r"\[repository.key-(not-armored|unreadable)\]"):
        repository_key.compute_key_fingerprint(key)


def test_another_key_than_expected_writes_nothing() -> None:
    with pytest.raises(PlanError) as refused:
        repository.plan_repository_files(
            repository.read_repository_facts(observe_distribution("debian")),
            url=URL,
            key=armor(OLD),
            expected="00" * 20,
            state="present",
        )
    assert (refused.value.code, refused.value.values) == (
        "repository.other-key",
        {"found": FINGERPRINT, "expected": "00" * 20},
    )
