# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report of what kind this machine is: its CPUs and its C library.

A plain program, in a child that is killed when it takes too long. Standard library only, Python
3.6. Arguments are one JSON object: {"path": the kernel's list of the CPUs}. Prints one JSON object:
{"architecture", "vendor", "flags", "library"}. The flags are the common ones of all CPUs, since a
thread may run on any of them.
"""

import json
import os
import sys

FLAGS = ("flags", "Features")  # x86; ARM
VENDOR = ("vendor_id", "CPU implementer")
MOST = 4 << 20  # bytes: two thousand CPUs


def run(request):
    vendor, flags = list_cpus(request["path"])
    return {
        "architecture": os.uname()[4],
        "vendor": vendor,
        "flags": sorted(flags),
        "library": get_c_library(),
    }


def list_cpus(path):
    """Return the vendor of the CPUs, and the flags that all of them have."""
    with open(path, encoding="ascii", errors="replace") as stream:
        text = stream.read(MOST)
    vendor, flags = "", None
    for line in text.splitlines():
        key, _colon, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if key in FLAGS:
            flags = set(value.split()) if flags is None else flags & set(value.split())
        elif key in VENDOR and not vendor:
            vendor = value
    return vendor, flags or set()


def get_c_library():
    """Return the C library, such as `glibc 2.36`; '' if it is not glibc."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(json.loads(sys.argv[1]))))
