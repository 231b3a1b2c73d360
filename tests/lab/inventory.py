# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Ansible inventory of the hosts that are up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .hosts import Host

FAKE_ROOT = "/opt/fakegpu"
# lines as /dev/kmsg has them: the machine's own kernel log tells of no GPU of a host's
KERNEL_LOG = "/opt/fakegpu/kmsg"
# what the recording nvidia-container-cli was asked for
RECORD = "/var/log/nvidia-container-cli.jsonl"


def imitated(root: str = FAKE_ROOT) -> dict[str, str]:
    """Return the environment variable that gives the controller the places of imitated GPUs on the
    lab's hosts.
    """
    places = {
        "proc_root": f"{root}/proc",
        "sys_root": f"{root}/sys",
        "evidence_file": RECORD,
        "kernel_log": KERNEL_LOG,
    }
    return {"GPUFLEET_TEST_HOSTS": json.dumps(places)}


SSH_ARGUMENTS = (
    "-o ControlMaster=auto -o ControlPersist=60s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    " -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3"
)


def render(hosts: Iterable[Host], key: Path, ssh: Path, control: Path) -> str:
    """Return the inventory as YAML. Every value is written as JSON, which is YAML."""
    common = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_executable": str(ssh),
        "ansible_control_path_dir": str(control),
        "ansible_ssh_common_args": SSH_ARGUMENTS,
        "ansible_ssh_pipelining": True,
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    lines = ["gpu_hosts:", "  vars:", *_pairs(common, 4), "  hosts:"]
    for host in hosts:
        lines += [f"    {host.spec.name}:", *_pairs(_own(host), 6)]
    return "\n".join(lines) + "\n"


def _own(host: Host) -> dict[str, Any]:
    gpus = host.spec.gpus
    return {
        "ansible_host": host.address,
        "lab_kind": host.spec.kind,
        "lab_gpus": len(gpus.gpus),
        "lab_driver": gpus.driver,
    }


def _pairs(values: dict[str, Any], indent: int) -> list[str]:
    return [f"{' ' * indent}{key}: {json.dumps(value)}" for key, value in values.items()]
