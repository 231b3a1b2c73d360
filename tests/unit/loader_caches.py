# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caches of the loader, as ldconfig writes them."""

from __future__ import annotations

import struct

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    ld_cache,
)

X86, ARM, I386 = 0x0303, 0x0A03, 0x0003


def cache(*entries: tuple[int, str, str], old: bool = False, flags: int = 2) -> bytes:
    """A cache as ldconfig writes it: (kind, name, path); old: with the table of older loaders in
    front.
    """
    start = 48 + 24 * len(entries)
    table, strings = b"", b""
    for kind, name, path in entries:
        place = start + len(strings)
        strings += f"{name}\0{path}\0".encode()
        table += struct.pack("<iIIIQ", kind, place, place + len(name) + 1, 0, 0)
    new = (
        struct.pack("<20sIIB3xI12x", ld_cache.NEW, len(entries), len(strings), flags, 0)
        + table
        + strings
    )
    if not old:
        return new
    before = struct.pack("<12sI", ld_cache.OLD, len(entries)) + bytes(12 * len(entries))
    return before.ljust((len(before) + 7) // 8 * 8, b"\0") + new
