# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways of other people to one host: how the account becomes root, and how it gets there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PASSWORD = "p4ss word"
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
    command that sets it up there. reported: addresses of reports about it.
    """

    method: str = ""
    prepare: str = ":"
    variables: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
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
ISSUES = "https://github.com/ansible/ansible/issues/"
GENERAL = "https://github.com/ansible-collections/community.general/issues/"
HOST_WAYS = {
    "sudo that wants a terminal": HostWay(
        "sudo", write_sudoers(FREE, TERMINAL), PLAIN, reported=(f"{ISSUES}12103",)
    ),
    "sudo with a password": HostWay(
        "sudo", write_sudoers(ASKS), ASKED, reported=(f"{ISSUES}13289",)
    ),
    "sudo that wants both": HostWay("sudo", write_sudoers(ASKS, TERMINAL), {**PLAIN, **ASKED}),
    "su with a password": HostWay("su", variables={**PLAIN, **ASKED}, reported=(f"{ISSUES}35698",)),
    "doas without a password": HostWay(
        DOAS, write_doas("permit nopass ops"), PLAIN, reported=(f"{GENERAL}11411",)
    ),
    "doas with a password": HostWay(
        DOAS, write_doas("permit ops"), {**PLAIN, **ASKED}, reported=(f"{GENERAL}9977",)
    ),
    "doas with a password, and its pipelining allowed": HostWay(
        DOAS,
        write_doas("permit ops"),
        {**PLAIN, **ASKED, "ansible_doas_allow_pipelining": True},
        reported=(f"{GENERAL}9977",),
    ),
    "sudo, and remote files are kept": HostWay(
        "sudo", write_sudoers(FREE), PLAIN, {"ANSIBLE_KEEP_REMOTE_FILES": "1"}
    ),
    JUMP: HostWay(),
    PARAMIKO: HostWay(
        "sudo", write_sudoers(FREE), {**PLAIN, "ansible_connection": "ansible.builtin.paramiko_ssh"}
    ),
}
