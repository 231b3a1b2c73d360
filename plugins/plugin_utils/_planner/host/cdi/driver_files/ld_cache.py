# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read /etc/ld.so.cache to find libraries outside the usual folders.

A driver with a prefix of its own has such libraries. The file is read and understood here, because
asking `ldconfig -p` would run a program of the host, which can hang on a dead mount, and there is
none to run in an offline tree or a driver container's. It is some 20 to 150 kB, so it is asked for
only where the usual folders have no driver.
"""

from __future__ import annotations

import dataclasses as dc
import struct

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    messages,
)

PATH = "/etc/ld.so.cache"
OLD, NEW = b"ld.so-1.7.0", b"glibc-ld.so.cache1.1"
OLD_HEADER, OLD_ENTRY = struct.Struct("<12sI"), struct.Struct("<iII")
NEW_HEADER, NEW_ENTRY = struct.Struct("<20sIIB3xI12x"), struct.Struct("<iIIIQ")
# Kind of a library in the upper byte of its flags (sysdeps/generic/ldconfig.h); the lower byte
# stands for ELF and libc6.
BITS_64 = {0x0300: "x86_64", 0x0A00: "aarch64"}
MOST = 20_000  # entries; a real cache has some thousands at most
# Bytes of a name and of a path, NUL left out (linux/limits.h). The entries of a forged cache may
# all name one long text, which would be as many copies of it.
LONGEST_NAME, LONGEST_PATH = 255, 4095


@dc.dataclass(frozen=True)
class Entry:
    """A library that the loader knows.

    name: what programs ask for. cpu: '' for 32 bit and others.
    """

    name: str
    path: str
    cpu: str


def parse_ld_cache(data: bytes) -> tuple[Entry, ...]:
    """Read the entries of the cache, the 64-bit ones and all others.

    Raise ValueError with one sentence if the data is not such a file, or is cut short.
    """
    start = 0
    if data.startswith(OLD):
        _magic, count = unpack_ld_cache(OLD_HEADER, data, 0)
        start = align_ld_cache_offset(OLD_HEADER.size + count * OLD_ENTRY.size)
        if not data[start:].startswith(NEW):
            raise ValueError(messages.CACHE_TOO_OLD.fill())
    if not data[start:].startswith(NEW):
        raise ValueError(messages.NO_CACHE_OF_LOADER.fill())
    _magic, count, _length, flags, _extension = unpack_ld_cache(NEW_HEADER, data, start)
    if flags & 0x3 == 0x3:
        raise ValueError(messages.CACHE_BIG_ENDIAN.fill())
    if count > MOST:
        raise ValueError(messages.CACHE_CLAIMS.fill(count=count))
    return tuple(read_ld_cache_entry(data, start, number) for number in range(count))


def read_ld_cache_entry(data: bytes, start: int, number: int) -> Entry:
    flags, key, value, _osversion, _hwcap = unpack_ld_cache(
        NEW_ENTRY, data, start + NEW_HEADER.size + number * NEW_ENTRY.size
    )
    return Entry(
        read_ld_cache_text(data, start + key, LONGEST_NAME),
        read_ld_cache_text(data, start + value, LONGEST_PATH),
        BITS_64.get(flags & 0xFF00, ""),
    )


def unpack_ld_cache(form: struct.Struct, data: bytes, offset: int) -> tuple[int, ...]:
    if offset + form.size > len(data):
        raise ValueError(messages.CACHE_CUT_SHORT.fill())
    return form.unpack_from(data, offset)


def read_ld_cache_text(data: bytes, offset: int, longest: int) -> str:
    end = data.find(b"\0", offset, offset + longest + 1)
    if end < 0 and offset + longest < len(data):
        raise ValueError(messages.CACHE_TEXT_LONG.fill(longest=longest))
    if end < 0:
        raise ValueError(messages.CACHE_CUT_SHORT.fill())
    return data[offset:end].decode("utf-8", "surrogateescape")


def align_ld_cache_offset(offset: int) -> int:
    return (offset + 7) // 8 * 8
