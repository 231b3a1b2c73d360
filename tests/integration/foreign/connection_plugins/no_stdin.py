# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection that gives a command no stdin, as amazon.aws.aws_ssm 11 does.

Its exec_command() takes `in_data` and never sends it, has_pipelining is false, and what comes back
went through a terminal: one stream, and lines that end with CR LF
(https://github.com/ansible-collections/amazon.aws/blob/main/plugins/connection/aws_ssm.py).
"""

from __future__ import annotations

from ansible.errors import AnsibleError
from ansible.plugins.connection import local

DOCUMENTATION = local.DOCUMENTATION.replace("name: local", "name: no_stdin")


class Connection(local.Connection):  # type: ignore[misc]  # Ansible has no types
    """Commands on this machine, without a stdin."""

    transport = "no_stdin"
    has_pipelining = False

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        if in_data:
            raise AnsibleError("this connection has no stdin")
        status, out, err = super().exec_command(cmd, in_data=None, sudoable=sudoable)
        return status, (out + err).replace(b"\n", b"\r\n"), b""
