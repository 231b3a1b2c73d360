# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways of other people to one host: how the account becomes root, and how it gets there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PASSWORD = "p4ss word"
# A login of its own: a connection that is shared keeps the shell and the home of its first one.
ALONE = "-o ControlPath=none"
# As Ansible has it if nobody sets it: a terminal for a become method that asks.
PLAIN = {"ansible_ssh_pipelining": False, "ansible_pipelining": False}
ASKED = {"ansible_become_password": PASSWORD}
DOAS = "community.general.doas"
SUDOERS = "/etc/sudoers.d/lab"
JUMP, PARAMIKO = "a jump host", "Paramiko"


@dataclass(frozen=True)
class HostWay:
    """A way to the host.

    method: of becoming root, from an account without rights; '' for root itself. prepare: the
    command that sets it up there. restore: the command that undoes what would be in the way of
    others. facts: whether the play gathers facts, by a module of Ansible's own. reported: addresses
    of reports about it.
    """

    method: str = ""
    prepare: str = ":"
    restore: str = ":"
    variables: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    facts: bool = True
    reported: tuple[str, ...] = ()

    def list_variables(self) -> dict[str, Any]:
        """Return the variables of the inventory."""
        become = {
            "ansible_user": "ops",
            "ansible_become": True,
            "ansible_become_method": self.method,
        }
        return {**(become if self.method else {}), **self.variables}


def write_sudoers(*lines: str) -> str:
    """Return the command that writes the settings of sudo for the account."""
    return f"printf '%s\\n' {' '.join(repr(line) for line in lines)} >{SUDOERS}"


def write_doas(line: str) -> str:
    """Return the command that writes the settings of doas."""
    return f"echo '{line}' >/etc/doas.conf; chmod 600 /etc/doas.conf"


FREE, ASKS = "ops ALL=(ALL) NOPASSWD: ALL", "ops ALL=(ALL) ALL"
TERMINAL = "Defaults:ops requiretty"
RC = "/home/ops/.bashrc"
# what `npm completion` printed at each login (ansible#14503)
NPM = r'printf "\033[?25h\033[0G\033[K"'
ISSUES = "https://github.com/ansible/ansible/issues/"
GENERAL = "https://github.com/ansible-collections/community.general/issues/"
HOST_WAYS = {
    "sudo that wants a terminal": HostWay(
        "sudo", write_sudoers(FREE, TERMINAL), variables=PLAIN, reported=(f"{ISSUES}12103",)
    ),
    "sudo with a password": HostWay(
        "sudo", write_sudoers(ASKS), variables=ASKED, reported=(f"{ISSUES}13289",)
    ),
    "sudo that wants both": HostWay(
        "sudo", write_sudoers(ASKS, TERMINAL), variables={**PLAIN, **ASKED}
    ),
    "su with a password": HostWay("su", variables={**PLAIN, **ASKED}, reported=(f"{ISSUES}35698",)),
    "doas without a password": HostWay(
        DOAS, write_doas("permit nopass ops"), variables=PLAIN, reported=(f"{GENERAL}11411",)
    ),
    "doas with a password": HostWay(
        DOAS, write_doas("permit ops"), variables={**PLAIN, **ASKED}, reported=(f"{GENERAL}9977",)
    ),
    "doas with a password, and its pipelining allowed": HostWay(
        DOAS,
        write_doas("permit ops"),
        variables={**PLAIN, **ASKED, "ansible_doas_allow_pipelining": True},
        reported=(f"{GENERAL}9977",),
    ),
    "sudo, and remote files are kept": HostWay(
        "sudo",
        write_sudoers(FREE),
        variables=PLAIN,
        environment={"ANSIBLE_KEEP_REMOTE_FILES": "1"},
    ),
    "sudo with a terminal of its own, a lecture and a umask of 077": HostWay(
        "sudo",
        write_sudoers(
            FREE, "Defaults:ops use_pty", "Defaults:ops lecture=always", "Defaults:ops umask=0077"
        ),
        variables=PLAIN,
        reported=(
            "https://github.com/YouROK/TorrServer/pull/812",
            "https://github.com/sensu/sensu-ansible/issues/94",
        ),
    ),
    "sudo as the login of root": HostWay(
        "sudo",
        write_sudoers(FREE),
        variables={**PLAIN, "ansible_become_flags": "-i -H -S -n"},
        reported=(f"{ISSUES}1882",),
    ),
    "fish as the login shell": HostWay(
        "sudo",
        f"usermod -s /usr/bin/fish ops; {write_sudoers(FREE)}",
        "usermod -s /bin/bash ops",
        {**PLAIN, "ansible_ssh_extra_args": ALONE},
        reported=(f"{ISSUES}13882", f"{ISSUES}1238"),
    ),
    "a login shell that prints, with escapes and without an end of line": HostWay(
        "sudo",
        f"usermod -s /bin/bash ops; printf '%s\\n' 'echo Welcome; {NPM}' >{RC}; {write_sudoers(FREE)}",
        f"rm {RC}",
        {**PLAIN, "ansible_ssh_extra_args": ALONE},
        reported=(
            f"{ISSUES}2268",
            f"{ISSUES}14282",
            "https://github.com/ansible/ansible/pull/15337",
        ),
    ),
    "a locale that the host does not have": HostWay(
        "sudo",
        write_sudoers(FREE),
        variables={**PLAIN, "ansible_ssh_extra_args": f"{ALONE} -o SetEnv=LC_ALL=gd_GB.ISO8859-1"},
        reported=(f"{ISSUES}61457", f"{ISSUES}37757"),
    ),
    "an account that cannot write in its home directory": HostWay(
        "sudo",
        f"chown root: /home/ops; chmod 755 /home/ops; {write_sudoers(FREE)}",
        "chown ops: /home/ops",
        {**PLAIN, "ansible_ssh_extra_args": ALONE},
        facts=False,
        reported=(
            "https://github.com/ansible/awx/issues/5849",
            "https://github.com/openshift/openshift-ansible/pull/12446",
        ),
    ),
    "a home directory that is full, and on which nothing runs": HostWay(
        "sudo",
        f"cp -a /home/ops/.ssh /run/keys; mount -t tmpfs -o size=64k,noexec,mode=755 home /home/ops; "
        "mv /run/keys /home/ops/.ssh; chown ops: /home/ops; "
        # Beside the keys it has less room than that, so the command fails.
        f"! head -c 64k /dev/zero >/home/ops/full; {write_sudoers(FREE)}",
        "umount --lazy /home/ops",
        {**PLAIN, "ansible_ssh_extra_args": ALONE},
        facts=False,
        reported=(f"{ISSUES}73179", f"{ISSUES}17215", f"{ISSUES}1609"),
    ),
    JUMP: HostWay(),
    PARAMIKO: HostWay(
        "sudo",
        write_sudoers(FREE),
        variables={**PLAIN, "ansible_connection": "ansible.builtin.paramiko_ssh"},
    ),
}
