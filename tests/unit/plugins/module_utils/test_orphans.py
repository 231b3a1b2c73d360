# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command of a dead executor is waited for; its unit's other processes, and those of other units,
are nobody's concern.
"""

import os
import subprocess
import sys

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import orphans

UNIT = "gpufleet-1.service"
# the control groups of the host's first process
FIRST = "12:pids:/\n1:name=systemd:/init.scope\n0::/init.scope\n"
GROUPS = {
    # the control groups of a process, its output, and whether it is waited for
    "version 2": ("0::/system.slice/" + UNIT + "\n", subprocess.PIPE, True),
    "version 1": ("12:pids:/x\n1:name=systemd:/system.slice/" + UNIT + "\n", subprocess.PIPE, True),
    "of a user's manager": (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/" + UNIT + "\n",
        subprocess.PIPE,
        False,
    ),
    "of a user's manager, in a slice of the system's name": (
        "0::/user.slice/user-1000.slice/user@1000.service/system.slice/" + UNIT + "\n",
        subprocess.PIPE,
        False,
    ),
    "of a container": ("0::/kubepods/pod1/c1/system.slice/" + UNIT + "\n", subprocess.PIPE, False),
    "a daemon that a package has started": (
        "0::/system.slice/" + UNIT + "\n",
        subprocess.DEVNULL,
        False,
    ),
    "of another transaction": ("0::/system.slice/gpufleet-2.service\n", subprocess.PIPE, False),
    "of a name that ends alike": ("0::/system.slice/x-" + UNIT + "\n", subprocess.PIPE, False),
}


@pytest.mark.parametrize("case", sorted(GROUPS))
def test_a_command_is_waited_for(case, monkeypatch):
    groups, output, waited = GROUPS[case]
    program = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=output)
    known = "/proc/%d/cgroup" % child.pid
    monkeypatch.setattr(
        orphans.trust, "read_proc_file", lambda name: groups if name == known else FIRST
    )
    try:
        if waited:
            with pytest.raises(host_files.HostError) as raised:
                orphans.require_ended(UNIT, 0)
            assert "process %d" % child.pid in raised.value.message
        else:
            orphans.require_ended(UNIT, 0)
    finally:
        child.communicate()
    orphans.require_ended(UNIT, 0)


def test_this_process_is_none_of_them(monkeypatch):
    """systemd runs what takes a transaction back in the unit of the transaction, with whatever
    output.
    """
    monkeypatch.setattr(orphans.os, "readlink", lambda name: "pipe:[1]")
    monkeypatch.setattr(
        orphans.trust,
        "read_proc_file",
        lambda name: (
            "0::/system.slice/" + UNIT if name == "/proc/%d/cgroup" % os.getpid() else FIRST
        ),
    )
    orphans.require_ended(UNIT, 0)


def test_a_host_that_is_itself_in_a_group_has_its_units_below_that(monkeypatch):
    """As in a container without a control group namespace of its own."""
    for first in (
        "0::/machine.slice/m.scope/payload/init.scope\n",
        "0::/machine.slice/m.scope/payload\n",
    ):
        monkeypatch.setattr(orphans.trust, "read_proc_file", lambda name, first=first: first)
        assert orphans._groups(UNIT) == {"0::/machine.slice/m.scope/payload/system.slice/" + UNIT}
