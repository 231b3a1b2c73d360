# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices a container of a measurement may open."""

from __future__ import annotations

import struct

import pytest

from tests.gpu import (
    device_rules,
)


def run_device_rules(program: bytes, access: int, major: int, minor: int) -> int:
    """Run such a program as the kernel does for one access, and return what it returns.

    access: the kind of node in the low half, the operation in the high one (linux/bpf.h,
    bpf_cgroup_dev_ctx).
    """
    context = {0: access, 4: major, 8: minor}
    registers = dict.fromkeys(range(5), 0)
    at = 0
    while True:
        operation, both, offset, value = struct.unpack_from("<BBhi", program, 8 * at)
        register = both & 15
        at += 1
        if operation == device_rules.LOAD_WORD:
            registers[register] = context[offset]
        elif operation == device_rules.SHIFT_RIGHT:
            registers[register] >>= value
        elif operation == device_rules.SET:
            registers[register] = value
        elif operation == device_rules.JUMP_NOT_EQUAL:
            at += offset if registers[register] != value else 0
        else:
            assert operation == device_rules.EXIT
            return registers[device_rules.RESULT]


OPEN, MAKE = 0x60002, 0x10002  # to read and write a character device; to make one


@pytest.mark.parametrize(
    ("access", "major", "minor", "allowed"),
    [
        (OPEN, 195, 0, 1),
        (OPEN, 195, 255, 1),
        (OPEN, 10, 1, 1),
        (OPEN, 195, 1, 0),
        (OPEN, 10, 255, 0),
        (OPEN, 194, 0, 0),
        (OPEN, 0, 0, 0),
        (MAKE, 195, 1, 1),
        (MAKE | OPEN, 195, 1, 0),
    ],
)
def test_a_container_opens_its_own_devices_and_makes_any(
    access: int, major: int, minor: int, allowed: int
) -> None:
    program = device_rules.write_program([(195, 0), (195, 255), (10, 1)])
    assert run_device_rules(program, access, major, minor) == allowed
