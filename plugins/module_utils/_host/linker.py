# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the files that the dynamic linker may load for a program, by the rules of ld.so(8) and
elf(5). Nothing is judged here.

Programs that stay on a host carry this text as well. Host side: standard library only, Python 3.6.
"""

import mmap
import os
import re
import struct

CACHE, PRELOAD = "/etc/ld.so.cache", "/etc/ld.so.preload"
# ldconfig makes the cache by the last two, whenever a package has it run.
CONFIGURATION = (CACHE, PRELOAD, "/etc/ld.so.conf", "/etc/ld.so.conf.d")
MAGIC = b"glibc-ld.so.cache1.1"
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3  # kinds of segments
NEEDED, TEXTS, RPATH, RUNPATH = 1, 5, 15, 29  # tags in the dynamic segment
LARGEST = 1 << 23  # bytes of a program in which such names are looked for
NAMES_OF_LIBRARIES = re.compile(rb"lib[\w.+-]{1,80}\.so[.\d]*(?=\0)")


def list_preloaded(tree=""):
    """List the names and paths of what the linker loads into every program. tree: the one in which
    the linker runs.
    """
    text = re.sub(b"#.*|:", b" ", _read_whole_file(tree + PRELOAD))  # as glibc does, elf/rtld.c
    return os.fsdecode(text).split()


def _read_whole_file(path):
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return b""


def map_libraries(tree=""):
    """Map the name of each library in the linker's cache to its paths. {} if there is no cache.
    tree: the one in which the linker runs.
    """
    known, cache = {}, _read_whole_file(tree + CACHE)
    start = cache.find(MAGIC)
    if start >= 0:  # else it is another file, which the linker does not use either
        (count,) = struct.unpack_from("<I", cache, start + len(MAGIC))
        for at in range(start + 48, start + 48 + 24 * count, 24):
            key, value = (
                _cut_text(cache, start + to) for to in struct.unpack_from("<II", cache, at + 4)
            )
            known.setdefault(key, []).append(value)
    return known


def _cut_text(data, at):
    return os.fsdecode(data[at : data.find(b"\0", at)])


def list_places(name, folders, known):
    """List the paths at which the linker may find a library, besides the system's own folders.

    folders: those to search first. known: of map_libraries.
    """
    if "/" in name:
        return [name]
    return [os.path.join("/", folder, name) for folder in folders] + known.get(name, [])


def list_needs(file, called, inherited=(), later=False):
    """List what a file has the linker load: (name or path, folders to search first).

    [] for one that is not there, or that the linker does not load. called: its own path. inherited:
    folders of the programs that load it. later: add what the file's text names, which it may load
    while it runs.
    """
    try:
        with open(file, "rb") as stream, mmap.mmap(
            stream.fileno(), 0, access=mmap.ACCESS_READ
        ) as data:
            return _read_needs(data, os.path.dirname(called), inherited, later)
    except (FileNotFoundError, NotADirectoryError, ValueError, struct.error):
        return []


def _read_needs(data, folder, inherited, later):
    if data[:2] == b"#!":
        return [(os.fsdecode(word), ()) for word in data[2:256].split()[:1]]
    if data[:6] != b"\x7fELF\2\1":  # 64 bits, the lowest byte first
        return []
    (first,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    parts = [struct.unpack_from("<IIQQQQ", data, first + 56 * at) for at in range(count)]
    tags = [
        struct.unpack_from("<QQ", data, at)
        for kind, _flags, start, _to, _physical, size in parts
        if kind == DYNAMIC
        for at in range(start, start + size, 16)
    ]
    # where the texts are in the file, by where they are in memory
    starts = [
        start + place - to
        for kind, _flags, start, to, _physical, size in parts
        for tag, place in tags
        if kind == LOAD and tag == TEXTS and to <= place < to + size
    ]

    def texts(*wanted):
        return [
            _cut_text(data, at + value) for at in starts for tag, value in tags if tag in wanted
        ]

    folders = [
        each.replace("${ORIGIN}", folder).replace("$ORIGIN", folder)
        for text in texts(RPATH, RUNPATH)
        for each in text.split(":")
    ]
    names = texts(NEEDED) + [_cut_text(data, part[2]) for part in parts if part[0] == INTERPRETER]
    if later:
        names += map(os.fsdecode, set(NAMES_OF_LIBRARIES.findall(data, 0, LARGEST)))
    return [(name, (*inherited, *folders)) for name in names]
