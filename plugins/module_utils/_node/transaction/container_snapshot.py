# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Note the first processes of containers, and which of them live on.

Node side: standard library only, Python 3.6.
"""

import os

from ansible_collections.gpufleet.nvidia.plugins.module_utils._node import host_files, trust
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.system import started


def contained():
    """Return {pid: (beginning, name)} of the first process of every container here.

    That is process 1 of a PID namespace below ours.
    """
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        status = host_files.read_text("", "/proc/%s/status" % entry, 64 * 1024) or ""
        numbers = trust.field(status, "NSpid:")
        if len(numbers) == 2 and numbers[1] == "1":
            found[int(entry)] = (started(int(entry)), " ".join(trust.field(status, "Name:")))
    return found


def lost(before):
    """List the processes of an earlier snapshot that are gone: ["pid (name)"]."""
    return ["%d (%s)" % (pid, before[pid][1]) for pid in sorted(before) if started(pid) != before[pid][0]]
