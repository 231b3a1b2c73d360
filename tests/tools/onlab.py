# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible against hosts of the lab, for tests and benchmarks: results as values, SSH operations
counted, hosts looked at from outside.
"""

from __future__ import annotations

import dataclasses as dc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

from tests import preloaded
from tests.lab import aptrepo, artefacts, hosts, images, inventory
from tests.lab.lab import Lab

HERE = "gpufleet.nvidia."
PROBE = images.PROBE
NVIDIA_RUNTIME = "/usr/bin/nvidia-container-runtime"

# Runs inside a host: everything below the given directories, as path -> [type, mode, uid, gid,
# content's hash or link's target].
TREE = """
import hashlib, json, os, stat, sys
def entry(path):
    s = os.lstat(path)
    kind = stat.S_IFMT(s.st_mode)
    what = os.readlink(path) if stat.S_ISLNK(s.st_mode) else ""
    if stat.S_ISREG(s.st_mode):
        with open(path, "rb") as handle:
            what = hashlib.sha256(handle.read()).hexdigest()
    return [oct(kind), oct(stat.S_IMODE(s.st_mode)), s.st_uid, s.st_gid, what]
found = {}
for top in sys.argv[1:]:
    for home, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(home, name)
            found[path] = entry(path)
print(json.dumps(found))
"""
WATCHED = ("/etc", "/run/cdi", "/usr/share/containers", "/usr/local")
VOLATILE = re.compile(r"/etc/(ld\.so\.cache|mtab|resolv\.conf|\.pwd\.lock|apt/.*|.*\.(dpkg-\w+))$")

Tree = dict[str, list[Any]]


def stand_in(path: str) -> str:
    """Return a command that puts a program there in place of the NVIDIA runtime. It runs containers
    as runc does.
    """
    return f"printf '#!/bin/sh\\nexec runc \"$@\"\\n' >{path}; chmod 755 {path}"


# for the packages' own, where a test is about configuration and installs nothing
RUNTIME = stand_in(NVIDIA_RUNTIME)


@dc.dataclass(frozen=True)
class Run:
    """A run of ansible-playbook."""

    status: int
    words: str
    entries: tuple[Mapping[str, Any], ...]
    operations: Mapping[str, int]

    def of(self, module: str) -> dict[str, dict[str, Any]]:
        """Return the last answer of one of our modules, or of a step of our playbooks, by host."""
        return {
            e["host"]: {**e["result"], "status": e["status"]}
            for e in self.entries
            if str(e["task"]).endswith(module) or e["step"] == module
        }

    @property
    def changed(self) -> dict[str, list[str]]:
        """Tasks that changed something, by host."""
        found: dict[str, list[str]] = {}
        for e in self.entries:
            if e["result"].get("changed"):
                found.setdefault(e["host"], []).append(str(e["task"]))
        return found

    @property
    def failed(self) -> dict[str, str]:
        return {
            e["host"]: str(e["result"].get("msg"))
            for e in self.entries
            if e["status"] in ("failed", "unreachable")
        }


def repository() -> dict[str, str]:
    """Return what a user would set: the repository of the packages, and its key."""
    key = artefacts.nvidia_debs() / "key.asc"
    listed = subprocess.run(
        ["gpg", "--with-colons", "--show-keys", key], capture_output=True, text=True, check=True
    ).stdout
    fingerprint = re.search(r"^fpr:+([0-9A-F]{40}):", listed, re.MULTILINE)
    return {
        "gpufleet_toolkit_repository": f"http://{aptrepo.ADDRESS}:{aptrepo.PORT}/{aptrepo.FLAT}",
        "gpufleet_toolkit_key": f"{{{{ lookup('ansible.builtin.file', '{key}') }}}}",
        "gpufleet_toolkit_key_fingerprint": fingerprint[1] if fingerprint else "",
    }


def settings() -> dict[str, str]:
    """Return the settings of the repository, and the image that the verification needs."""
    return {**repository(), "gpufleet_verify_image": PROBE}


class Fleet:
    """A fleet of hosts that are up."""

    def __init__(self, lab: Lab, *, forks: bool = False) -> None:
        """forks: whether runs of ansible-playbook are forks (preloaded.py)."""
        self.lab = lab
        self.forks = forks

    def play(
        self,
        playbook: str | list[dict[str, Any]],
        hosts: Sequence[str] = (),
        *,
        variables: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        around: Sequence[str] = (),
    ) -> Run:
        """Run a playbook of the collection by its name, or plays given as values.

        around: a command that runs the one behind it.
        """
        with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
            place = Path(folder)
            path = (
                ROOT / "playbooks" / f"{playbook}.yml"
                if isinstance(playbook, str)
                else place / "play.json"
            )
            if not isinstance(playbook, str):
                path.write_text(json.dumps(playbook))
            (place / "count").touch()
            (place / "results").touch()
            # All hosts in one wave, for time's sake; waves are tested in tests/unit/playbooks.
            extra = {
                "ansible_ssh_executable": str(ROOT / "tests/tools/count-ssh"),
                "gpufleet_serial": "100%",
                **(variables or {}),
            }
            (place / "variables.json").write_text(json.dumps(extra))
            command = [
                *around,
                str(Path(sys.executable).with_name("ansible-playbook")),
                "-i",
                str(self.lab.inventory_path()),
                str(path),
            ]
            command += [
                "-e",
                f"@{place}/variables.json",
                *(["--limit", ",".join(hosts)] if hosts else []),
                *arguments,
            ]
            settled = self._environment(place, environment)
            run = preloaded.run if self.forks and not around else preloaded.run_alone
            done = run(command, ROOT, settled)
            entries = tuple(
                json.loads(line) for line in (place / "results").read_text().splitlines()
            )
            return Run(
                done.returncode, done.stdout + done.stderr, entries, self._counted(place / "count")
            )

    def task(
        self,
        module: str,
        hosts: Sequence[str],
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Run:
        """Run one task of this collection on the named hosts. `keywords` are keywords of the play."""
        name = module if "." in module else HERE + module
        play = {"hosts": ",".join(hosts), "gather_facts": False, **more.pop("keywords", {})}
        return self.play([{**play, "tasks": [{name: dict(options or {})}]}], hosts, **more)

    def shell(self, host: str, script: str, *, fails: bool = False) -> str:
        return self.lab.shell(host, script, fails=fails)

    def read_daemon_settings(self, host: str) -> dict[str, Any]:
        """Return what the running containerd of a host says of its CRI settings."""
        said = json.loads(self.shell(host, "/opt/lab/bin/crictl info"))
        settings: dict[str, Any] = said["config"]["containerd"]
        return settings

    def bring(self, host: str, program: Path, target: str) -> None:
        """Put a program of this machine into a host."""
        shutil.copy2(
            program,
            Path(f"/proc/{hosts.first_process(self.lab.host(host))}/root") / target.lstrip("/"),
        )

    def text(self, host: str, path: str) -> str:
        return self.shell(host, f"cat {path}")

    def tree(self, host: str, *tops: str) -> Tree:
        """Return all files of a host that configure it, without volatile ones.

        tops: directories to read instead of the usual ones.
        """
        done = self.lab.exec(host, ["python3", "-", *(tops or WATCHED)], stdin=TREE)
        assert done.returncode == 0, done.stderr
        return {
            path: entry
            for path, entry in json.loads(done.stdout).items()
            if not VOLATILE.match(path)
        }

    def starts(self, host: str, unit: str) -> int:
        """Count how often systemd has started a unit since the host booted."""
        return int(
            self.shell(
                host,
                f"journalctl --unit {unit} --output cat --grep '^Started' | grep -c ^Started || true",
            )
        )

    def _environment(self, place: Path, more: Mapping[str, str] | None) -> dict[str, str]:
        return {
            **os.environ,
            **inventory.imitated(),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache/collections"),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/tools/callbacks"),
            "ANSIBLE_FORKS": "10",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCAL_TEMP": str(place),
            "GPUFLEET_RESULTS": str(place / "results"),
            "COUNT_SSH_LOG": str(place / "count"),
            "COUNT_SSH_PROGRAM": str(self.lab.runtime / "ssh"),
            **(more or {}),
        }

    def _counted(self, log: Path) -> dict[str, int]:
        names = {host.address: name for name, host in self.lab.hosts().items()}
        return dict(Counter(names.get(line, line) for line in log.read_text().split()))


def differing(before: Tree, after: Tree) -> dict[str, tuple[Any, Any]]:
    """Return the paths whose entries differ, each with both entries. None stands for a missing one."""
    return {
        path: (before.get(path), after.get(path))
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    }
