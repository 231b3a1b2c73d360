# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for orphans: commands that outlive the process that started them.

Host side: standard library only, Python 3.6. An executor's unit has KillMode=process, so a command
that it waited for goes on when it is killed: a package manager must not be cut short. Changes that
such a command makes after it was undone would stay.
"""

import os
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust

PAUSE = 0.1
_FIRST = "/init.scope"  # systemd's own group, below the group of all of the host's processes


def require_ended(unit, within):
    """Wait until no command of a unit runs.

    Raise HostError if one still runs after so many seconds.
    """
    until, groups = time.monotonic() + within, _groups(unit)
    while True:
        left = [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if _is_command(pid, groups)
        ]
        if not left:
            return
        if time.monotonic() > until:
            raise host_files.HostError(
                "failed",
                "a command still runs after %d s (process %d), so what it does may stay"
                % (within, left[0]),
            )
        # The pause between two looks, until the time is over: its parent is dead, so no process
        # learns when it ends.
        time.sleep(PAUSE)


def _groups(unit):
    """Return the lines of /proc/PID/cgroup that a process of the unit has, as a set.

    The lines are compared whole: a user's own manager calls its units as it likes.
    """
    lines = trust.read_proc_file("/proc/1/cgroup").splitlines()
    tops = (line[: -len(_FIRST)] if line.endswith(_FIRST) else line.rstrip("/") for line in lines)
    return {"%s/system.slice/%s" % (top, unit) for top in tops}


def _is_command(pid, groups):
    """Tell whether a process is a command of the unit.

    It is by its control group, and by its output, a pipe, which a package's daemon does not have.
    """
    try:
        if pid == os.getpid() or groups.isdisjoint(
            trust.read_proc_file("/proc/%d/cgroup" % pid).splitlines()
        ):
            return False
        return os.readlink("/proc/%d/fd/1" % pid).startswith("pipe:")
    except OSError:  # it has ended
        return False
