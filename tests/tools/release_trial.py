# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Try an archive as a new user does: an empty environment, README's first commands, and two hosts
that are trees of files on this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import yaml

FIRST_STEPS = re.compile(r"^## Try it\n(.*?)(?=^## )", re.DOTALL | re.MULTILINE)
# The fence may be indented or come with another word for the language.
BLOCK = re.compile(r"```(?:shell|console|bash)\n(.*?)```", re.DOTALL)
HOSTS = ("gpu1", "gpu2")
INSTALL = "ansible-galaxy collection install gpufleet.nvidia"


def list_commands(readme: str) -> list[str]:
    """Return the commands of README's first steps, [] if they do not begin with installing it."""
    steps = FIRST_STEPS.search(readme)
    blocks = BLOCK.findall(steps[1]) if steps else []
    lines = [line for block in blocks for line in block.splitlines()]
    commands = [" ".join(shlex.split(line, comments=True)) for line in lines]
    commands = [command for command in commands if command]
    return commands if commands and commands[0] == INSTALL else []


def make_project(place: Path, python: Path) -> None:
    """Make an inventory of two hosts with containerd 1.7, each a tree of files."""
    for host in HOSTS:
        (place / "trees" / host / "etc/containerd").mkdir(parents=True)
        (place / "trees" / host / "etc/containerd/config.toml").write_text("version = 2\n")
    (place / "inventory").mkdir()
    hosts = {
        host: {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(python),
            "gpufleet_engine_version": "1.7.24",
            "gpufleet_no_gpu": "prepare",
            "gpufleet_packages": "ignore",
            "gpufleet_root": str(place / "trees" / host),
            "gpufleet_toolkit_repository": "",
        }
        for host in HOSTS
    }
    inventory = {"all": {"children": {"gpu_hosts": {"hosts": hosts}}}}
    (place / "inventory/hosts.yml").write_text(yaml.safe_dump(inventory))
    (place / "rollout.yml").write_text("gpufleet_hosts: gpu_hosts\n")


def run_command(place: Path, programs: Path, built: Path, command: str) -> tuple[int, str]:
    """Run one of README's commands, and return its exit status and its words. The installation
    takes the archive instead of Galaxy's.
    """
    words = shlex.split(command)
    words[0] = str(programs / words[0])
    if command == INSTALL:
        words = [*words[:-1], "--offline", str(built)]
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TZ")}
    own = {
        "ANSIBLE_NOCOLOR": "1",
        "HOME": str(place / "home"),
        "PATH": f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin",
    }
    (place / "home").mkdir(exist_ok=True)
    done = subprocess.run(
        words, cwd=place, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env={**kept, **own},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr
