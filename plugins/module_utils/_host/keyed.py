# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make digests that can be compared, and that do not let another account guess the text.

The plain hash of a known file with one short password could be guessed. The key never leaves the
host and is stored nowhere: a look writes nothing, and the transaction that follows needs the same
key. It is made from the place in memory where the kernel has put the first process of this boot,
which root alone may read. That place is in its auxiliary vector: more than 80 random bits on 64-bit
systems. If that is denied, the key is made from the random seed that systemd keeps for root.
Without root there is no such secret, and nothing is read that another account keeps to itself. Host
side: standard library only, Python 3.6.
"""

import functools
import json

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import loader

_SOURCES = ("/proc/1/auxv", "/var/lib/systemd/random-seed", "/proc/sys/kernel/random/boot_id")


def _read_key():
    for path in _SOURCES:
        try:
            with open(path, "rb") as stream:
                key = stream.read(4096)
        except OSError:
            continue
        if key:
            return loader.sha256(b"gpufleet:" + key).digest()
    return b"gpufleet"


@functools.lru_cache(maxsize=1)
def _begin_hmac():
    """Begin an HMAC (RFC 2104, SHA-256) with the key. It is kept: a file with many values has as
    many tags.
    """
    key = _read_key().ljust(64, b"\0")
    return tuple(
        loader.sha256(bytes(bytearray(byte ^ pad for byte in bytearray(key))))
        for pad in (0x36, 0x5C)
    )


def _digest_keyed(kind, data):
    inner, outer = (begun.copy() for begun in _begin_hmac())
    inner.update(kind + b":" + data)
    outer.update(inner.digest())
    return outer.hexdigest()


def digest_with_key(plain):
    """Return the digest that leaves the host for a file's plain SHA-256; None for a file that does
    not exist.
    """
    return None if plain is None else _digest_keyed(b"file", plain.encode("ascii"))


def matches_keyed_digest(reported, plain):
    """Tell whether a file has the digest that was reported of it. A caller that knows its plain
    SHA-256 may pass that instead.
    """
    return reported == plain or (plain is not None and reported == digest_with_key(plain))


def tag(value):
    """Return a sign for a value that is not sent: equal values have equal signs until the next
    boot.
    """
    return _digest_keyed(
        b"value", json.dumps(value, sort_keys=True).encode("utf-8", "surrogateescape")
    )
