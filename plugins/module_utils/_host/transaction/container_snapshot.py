# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Note the first processes of containers, and which of them live on.

Host side: standard library only, Python 3.6.
"""

import os

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.system import get_process_start


def list_container_processes():
    """Return {pid: (beginning, name)} of the first process of every container here.

    That is process 1 of a PID namespace below ours.
    """
    processes = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        status = host_files.read_text("", "/proc/%s/status" % entry, 64 * 1024) or ""
        numbers = trust.get_proc_field(status, "NSpid:")
        if len(numbers) == 2 and numbers[1] == "1":
            processes[int(entry)] = (
                get_process_start(int(entry)),
                " ".join(trust.get_proc_field(status, "Name:")),
            )
    return processes


def list_lost_processes(before):
    """List the processes of an earlier snapshot that are gone: ["pid (name)"]."""
    return [
        "%d (%s)" % (pid, before[pid][1])
        for pid in sorted(before)
        if get_process_start(pid) != before[pid][0]
    ]
