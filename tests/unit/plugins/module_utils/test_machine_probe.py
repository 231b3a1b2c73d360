# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at a machine as it runs on a host: a child with its source on standard input."""

import json
import os
import re
import subprocess
import sys

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes import machine


def probe(path):
    with open(machine.__file__, "rb") as stream:
        said = subprocess.check_output(
            [sys.executable, "-I", "-S", "-", json.dumps({"path": str(path)})],
            stdin=stream,
            timeout=60,
        )
    return json.loads(said.decode())


CPUS = [
    # what the kernel lists, vendor, flags
    (
        "vendor_id\t: GenuineIntel\nflags\t\t: fpu sse2 avx2\n",
        "GenuineIntel",
        ["avx2", "fpu", "sse2"],
    ),
    # flags of one CPU alone allow nothing to run
    (
        "vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2\n\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu\n",
        "AuthenticAMD",
        ["fpu"],
    ),
    ("Features\t: fp asimd\nCPU implementer\t: 0x41\n", "0x41", ["asimd", "fp"]),
    ("cpu\t\t: POWER9, altivec supported\n", "", []),
    ("", "", []),
]


@pytest.mark.parametrize("text, vendor, flags", CPUS)
def test_a_machine_tells_its_cpus(tmp_path, text, vendor, flags):
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    said = probe(path)
    assert (said["vendor"], said["flags"]) == (vendor, flags)
    assert said["architecture"] == os.uname()[4]


def test_the_machine_that_runs_this_tells_its_c_library():
    said = probe("/proc/cpuinfo")
    assert re.match(r"(glibc \d+\.\d+)?$", said["library"])
    assert said["flags"]
