# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab host on which a transaction is made to fail: the action's own code, with the lab's door in the place of SSH.

What runs on the host is what the action sends, byte for byte. It may run under strace, which kills it at a given system call, or lets that
call fail. Everything that a try changed is put back from copies; the host is not booted again.
"""

from __future__ import annotations

import dataclasses as dc
import json
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gpufleet.nvidia.plugins.action import base, transport
from ansible_collections.gpufleet.nvidia.plugins.action.node import planner
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import host as whole
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Policy

from tests.lab import hosts, kinds, roots
from tests.lab.lab import Lab

POLICY = Policy(packages="ignore", proc_root="/opt/fakegpu/proc", sys_root="/opt/fakegpu/sys")
ABSENT = dc.replace(POLICY, state="absent")
CRICTL = "/opt/lab/bin/crictl"
# Stands for the packages: the sweeps are about files and restarts, and install nothing.
RUNTIME = "printf '#!/bin/sh\\nexec runc \"$@\"\\n' >/usr/bin/nvidia-container-runtime; chmod 755 /usr/bin/nvidia-container-runtime"
PLACES = ("/etc", "/run/cdi", "/var/lib/gpufleet", "/usr/local")
KEPT = "/root/kept"
UNITS = {"containerd": "containerd.service", "crio": "crio.service"}

# Runs inside the host: every file below the given directories, or what is to be said of it; and what the engine says of itself.
LOOK = r"""
import hashlib, json, os, re, stat, subprocess, sys
crictl, places = sys.argv[1], sys.argv[2:]
noise = re.compile(r"/etc/(ld\.so\.cache|mtab|resolv\.conf|\.pwd\.lock|apt/.*)$")
files = {}
for top in places:
    for home, folders, names in os.walk(top):
        for name in folders + names:
            path = os.path.join(home, name)
            if noise.match(path):
                continue
            s = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(s.st_mode) else ""
            if stat.S_ISREG(s.st_mode):
                with open(path, "rb") as handle:
                    what = hashlib.sha256(handle.read()).hexdigest()
            files[path] = "%o %d:%d %s" % (s.st_mode, s.st_uid, s.st_gid, what)
said = subprocess.run([crictl, "--timeout", "3s", "info"], capture_output=True, text=True).stdout
try:
    info = json.loads(said)
except ValueError:
    info = {}
runtimes = (((info.get("config") or {}).get("containerd") or {}).get("runtimes") or {})
handlers = set(runtimes) | {handler.get("name", "") for handler in info.get("runtimeHandlers") or []}
ready = [c.get("status") for c in (info.get("status") or {}).get("conditions") or [] if c.get("type") == "RuntimeReady"]
print(json.dumps({"files": files, "serves": ready == [True], "nvidia": "nvidia" in handlers}))
"""


@dc.dataclass(frozen=True)
class State:
    """What there is on the host at one moment."""

    files: Mapping[str, str]
    serves: bool
    nvidia: bool  # the running engine has our handler

    def of(self, paths: Iterable[str]) -> dict[str, str | None]:
        return {path: self.files.get(path) for path in paths}

    def litter(self, known: Iterable[Mapping[str, str]]) -> list[str]:
        """What is neither there before a transaction nor after one, outside of the journal."""
        names = {name for files in known for name in files}
        return sorted(path for path in self.files if path not in names and not path.startswith("/var/lib/gpufleet/"))


@dc.dataclass(frozen=True)
class Outcome:
    """What the action said, or why it could say nothing."""

    result: Mapping[str, Any]
    lost: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.lost or self.result.get("failed"))

    @property
    def words(self) -> str:
        return str(self.lost or self.result.get("msg") or "ok").splitlines()[0][:300]


def program(script: bytes) -> str:
    """Which of the node's programs a script brings."""
    job = re.search(rb"^job = unpack\('([^']+)'\)$", script, re.MULTILINE)
    assert job, script[:2000]
    return str(transport.unpack(job[1].decode())["main"])


class Door:
    """What our actions need of Ansible's: a way to run a command on the host with something on its stdin."""

    def __init__(self, lab: Lab, name: str, prefix: Sequence[str] = (), *, check: bool = False) -> None:
        self.lab, self.name, self.prefix = lab, name, tuple(prefix)
        self._task = SimpleNamespace(check_mode=check, diff=False, delegate_to=None)
        self._connection = SimpleNamespace(become=None, has_pipelining=True)
        self._templar = SimpleNamespace(template=lambda text: text)

    def _compute_environment_string(self) -> str:
        return ""

    def _low_level_execute_command(self, line: str, in_data: bytes) -> dict[str, Any]:
        words = shlex.split(line)
        prefix = self.prefix if program(in_data) == "transaction" else ()
        done = hosts.execute(self.lab.host(self.name), [*prefix, *words], in_data.decode())
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


class Victim:
    """One host with one engine, ready for the first transaction."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name = lab, name
        self.kind = lab.host(name).spec.kind
        self.unit = UNITS[self.kind.split("-")[0]]

    # The host

    def shell(self, script: str, *, fails: bool = False) -> str:
        done = self.lab.exec(self.name, ["sh", "-ec", script])
        assert fails or done.returncode == 0, f"{self.name}: {script}: status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def prepare(self) -> None:
        """Bring the tracer and the stand-in for the packages, and keep copies of everything as it is now."""
        layer = roots.package_layer(roots.base_root(kinds.KINDS[self.kind].suite), ("strace",))
        root = Path(f"/proc/{hosts.first_process(self.lab.host(self.name))}/root")
        for found in [layer / "usr/bin/strace", *(layer / "usr/lib").rglob("lib*.so*")]:
            target = root / found.relative_to(layer)
            if not target.is_symlink() and not target.exists():
                shutil.copy2(found, target, follow_symlinks=False)
        self.shell(f"{RUNTIME}; mkdir -p /run/cdi; rm -rf {KEPT}; mkdir {KEPT}; cp -a --parents /etc /run/cdi /usr/local {KEPT}/")

    def look(self) -> State:
        done = self.lab.exec(self.name, ["python3", "-", CRICTL, *PLACES], stdin=LOOK)
        assert done.returncode == 0, done.stderr
        return State(**json.loads(done.stdout))

    def put_back(self, before: State, now: State) -> None:
        """Undo what a try did: files from the copies, and the engine only where it runs with something else."""
        differing = [path for path in {*before.files, *now.files} if before.files.get(path) != now.files.get(path)]
        gone = sorted((path for path in differing if path not in before.files), reverse=True)
        back = sorted(path for path in differing if path in before.files)
        script = [f"systemctl reset-failed {self.unit} || true"]  # tries follow one another faster than systemd lets a unit start
        script += [f"rm -rf {shlex.quote(path)}" for path in gone]
        script += [f"rm -rf {shlex.quote(p)}; cp -a {KEPT}{shlex.quote(p)} {shlex.quote(p)}" for p in back]
        if now.nvidia or not now.serves:
            script.append(f"systemctl restart {self.unit}; {self.until_it_serves()}")
        self.shell("\n".join(["rm -rf /var/lib/gpufleet", *script]))

    @staticmethod
    def until_it_serves(seconds: int = 60) -> str:
        return f"timeout {seconds} sh -c 'until {CRICTL} info >/dev/null 2>&1; do :; done'"

    # The action

    def run(self, prefix: Sequence[str] = (), *, check: bool = False, policy: Policy = POLICY) -> Outcome:
        """One task `node`, its hands behind the prefix (a tracer)."""
        door: Any = Door(self.lab, self.name, prefix, check=check)
        variables = {"ansible_python_interpreter": "/usr/bin/python3"}
        try:
            found = base.converge(door, variables, policy, whole.questions, planner, reason="faults", way="stdin")
        except AnsibleActionFail as lost:
            return Outcome({}, str(lost))
        return Outcome(found)
