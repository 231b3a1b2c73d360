# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are bare trees on this machine, and playbooks run on them as a user runs them."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from tests import preloaded


def tree(place: Path) -> Path:
    """Make a host as an image, with containerd 1.7 and nothing else."""
    (place / "etc/containerd").mkdir(parents=True, exist_ok=True)
    (place / "etc/containerd/config.toml").write_text("version = 2\n")
    return place


def variables(place: Path, host: str) -> dict[str, str]:
    """Return the variables that make a host of an inventory a bare tree."""
    return {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "gpufleet_engine_version": "1.7.24",
        "gpufleet_no_gpu": "prepare",
        "gpufleet_root": str(tree(place / "trees" / host)),
    }


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def run(place: Path, program: str, *arguments: Any, **environment: str) -> tuple[int, str]:
    """Run one of Ansible's programs beside this Python, and return the exit status and the output."""
    # rollouts at the same time know nothing of each other
    own = {
        "ANSIBLE_HOME": str(place / "home"),
        "ANSIBLE_LOCAL_TEMP": str(place / "tmp"),
    }
    settled = {**os.environ, **own, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORKS": "4", **environment}
    command = [str(Path(sys.executable).with_name(program)), *map(str, arguments)]
    done = preloaded.run(command, place, settled)
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


def read_errors(words: str) -> list[dict[str, Any]]:
    """Return the error of each task that failed, in its four parts. Ansible prints results as JSON,
    and what it prints besides them differs between its releases.
    """
    found = [
        json.loads(text)
        for text in re.findall(r"^fatal: .*?FAILED! => (\{.*\})$", words, re.MULTILINE)
    ]
    return [result["error"] for result in found if "error" in result]


def play(place: Path, inventory: Path, name: str, *arguments: str, **extra: Any) -> tuple[int, str]:
    """Run a playbook of the collection, or a file, on the group gpu_hosts."""
    extra = {"gpufleet_hosts": "gpu_hosts", **extra}
    rollout = written(
        place / "rollout.yml", yaml.safe_dump({k: v for k, v in extra.items() if v is not None})
    )
    wanted = name if "/" in name else f"gpufleet.nvidia.{name}"
    return run(place, "ansible-playbook", "-i", inventory, wanted, "-e", f"@{rollout}", *arguments)
