# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the processes of a control group open some devices only, as an OCI runtime does.

cgroup v2 has no file for that: a program of BPF judges each open(2). A refusal of the kernel is
raised as OSError. Standard library only, Python 3.6.
"""

import ctypes
import os
import platform
import struct

NUMBERS = {"x86_64": 321, "aarch64": 280}  # of bpf(2)
PROG_LOAD, PROG_ATTACH = 5, 8
PROG_TYPE_CGROUP_DEVICE, CGROUP_DEVICE = 15, 6
MKNOD = 1
# Operations of BPF's machine, and its registers 0 to 4.
LOAD_WORD, JUMP_NOT_EQUAL, SHIFT_RIGHT, SET, EXIT = 0x61, 0x55, 0x77, 0xB7, 0x95
RESULT, CONTEXT, ACCESS, MAJOR, MINOR = range(5)


def instruct(operation, register=0, source=0, offset=0, value=0):
    return struct.pack("<BBhi", operation, register | source << 4, offset, value)


def write_program(allowed):
    """Return the program that allows these pairs of numbers, and making any node.

    Runtimes allow all containers to make nodes (runc, libcontainer/specconv), which are of no use
    to them if they cannot open them.
    """
    allow = instruct(SET, RESULT, value=1) + instruct(EXIT)
    text = b"".join(
        instruct(LOAD_WORD, register, CONTEXT, offset)
        for register, offset in ((ACCESS, 0), (MAJOR, 4), (MINOR, 8))
    )
    for major, minor in allowed:
        text += instruct(JUMP_NOT_EQUAL, MAJOR, offset=3, value=major)
        text += instruct(JUMP_NOT_EQUAL, MINOR, offset=2, value=minor)
        text += allow
    text += instruct(SHIFT_RIGHT, ACCESS, value=16)
    text += instruct(JUMP_NOT_EQUAL, ACCESS, offset=2, value=MKNOD) + allow
    return text + instruct(SET, RESULT, value=0) + instruct(EXIT)


def call(command, attributes):
    """Call bpf(2), and return its result. Raise OSError if it fails."""
    machine = platform.machine()
    if machine not in NUMBERS:
        raise OSError(0, "bpf(2) has no number here for %s" % machine)
    libc = ctypes.CDLL(None, use_errno=True)
    room = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    found = libc.syscall(ctypes.c_long(NUMBERS[machine]), command, room, len(room))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, "bpf: %s" % os.strerror(number))
    return found


def attach(group, allowed):
    """Attach the rules to a control group's folder."""
    text, licence = write_program(allowed), b"GPL\0"
    code, words = ctypes.create_string_buffer(text), ctypes.create_string_buffer(licence)
    program = call(
        PROG_LOAD,
        struct.pack(
            "=IIQQ",
            PROG_TYPE_CGROUP_DEVICE,
            len(text) // 8,
            ctypes.addressof(code),
            ctypes.addressof(words),
        ),
    )
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        call(PROG_ATTACH, struct.pack("=IIII", folder, program, CGROUP_DEVICE, 0))
    finally:
        os.close(folder)
        os.close(program)


def find_hierarchy():
    """Return the mount point of cgroup v2. Raise OSError if there is none."""
    with open("/proc/self/mounts") as handle:
        for line in handle:
            where, kind = line.split(" ")[1:3]
            if kind == "cgroup2":
                return where
    raise OSError(0, "no cgroup2 is mounted")


def enter(name, allowed):
    """Make a control group of this name with rules, and put this process into it."""
    group = os.path.join(find_hierarchy(), name)
    os.mkdir(group)
    attach(group, allowed)
    with open(os.path.join(group, "cgroup.procs"), "w") as handle:
        handle.write(str(os.getpid()))


def list_groups(prefix):
    """Return the names of the control groups at the top that begin so; [] without cgroup v2."""
    try:
        return sorted(name for name in os.listdir(find_hierarchy()) if name.startswith(prefix))
    except OSError:
        return []


def remove(name):
    """Remove a control group that has no process any more. Return whether it is gone."""
    try:
        hierarchy = find_hierarchy()
    except OSError:
        return True  # without cgroup v2 there has never been one
    try:
        if os.path.isdir(os.path.join(hierarchy, name)):
            os.rmdir(os.path.join(hierarchy, name))
    except OSError:
        return False
    return True
