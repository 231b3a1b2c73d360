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
TRACER = "/run/faults.tracer"  # the words that stand before the hands' own
# Stands before systemd's own in PATH. It puts the tracer before the hands when they are started as a unit. When it is to be left to
# others to take back what they leave, neither systemd nor the caller may: the one is not told how, the other is killed as soon as they run.
SYSTEMD_RUN = """#!/bin/sh
[ -s %(tracer)s ] || exec /usr/bin/systemd-run "$@"
n=$# i=0 timer=
while [ $i -lt $n ]; do
    word=$1
    shift
    case $word in
    --on-active=*) timer=1 ;;
    --property=ExecStopPost=*) [ ! -e %(tracer)s.alone ] || word=--property=ExecStopPost=/bin/true ;;
    esac
    set -- "$@" "$word"
    if [ "$word" = -- ] && [ -z "$timer" ]; then
        set -- "$@" $(cat %(tracer)s)
    fi
    i=$((i + 1))
done
if [ -e %(tracer)s.alone ] && [ -z "$timer" ]; then
    /usr/bin/systemd-run "$@"
    kill -9 $PPID
fi
exec /usr/bin/systemd-run "$@"
"""
ALONE = "systemctl list-units --plain --no-legend 'gpufleet-*.service' | grep -v -e undo -e recover | grep -q ."
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
                    data = handle.read()
                what = hashlib.sha256(data).hexdigest()
                if path.endswith(("/decision.json", "/gpufleet.fact")):  # tells what was seen, which may differ from run to run
                    what = "a whole record" if data.endswith(b"}\n") else what
            files[path] = "%o %d:%d %s" % (s.st_mode, s.st_uid, s.st_gid, what)
said = subprocess.run([crictl, "--timeout", "3s", "info"], capture_output=True, text=True).stdout
try:
    info = json.loads(said)
except ValueError:
    info = {}
runtimes = (((info.get("config") or {}).get("containerd") or {}).get("runtimes") or {})
handlers = set(runtimes) | {handler.get("name", "") for handler in info.get("runtimeHandlers") or []}
ready = [c.get("status") for c in (info.get("status") or {}).get("conditions") or [] if c.get("type") == "RuntimeReady"]
journal = "/var/lib/gpufleet/"
unsettled = [path for path in files if re.match(journal + "(open|job)/.|" + journal + "stage-", path)]
print(json.dumps({"files": files, "serves": ready == [True], "nvidia": "nvidia" in handlers, "unsettled": unsettled}))
"""


@dc.dataclass(frozen=True)
class State:
    """What there is on the host at one moment."""

    files: Mapping[str, str]
    serves: bool
    nvidia: bool  # the running engine has our handler
    unsettled: Sequence[str]  # what the journal has of transactions that are not over

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
        return str(self.lost or self.result.get("msg") or "ok").splitlines()[0]


def program(script: bytes) -> str:
    """Which of the node's programs a script brings."""
    job = re.search(rb"^job = unpack\('([^']+)'\)$", script, re.MULTILINE)
    assert job, script[:2000]
    return str(transport.unpack(job[1].decode())["main"])


class Door:
    """What our actions need of Ansible's: a way to run a command on the host with something on its stdin."""

    def __init__(self, lab: Lab, name: str, prefix: Sequence[str] = (), *, check: bool = False, between: str = "") -> None:
        self.lab, self.name, self.prefix, self.between = lab, name, tuple(prefix), between
        self._task = SimpleNamespace(check_mode=check, diff=False, delegate_to=None)
        self._connection = SimpleNamespace(become=None, has_pipelining=True)
        self._templar = SimpleNamespace(template=lambda text: text)

    def _compute_environment_string(self) -> str:
        return ""

    def _low_level_execute_command(self, line: str, in_data: bytes) -> dict[str, Any]:
        words = shlex.split(line)
        prefix: tuple[str, ...] = ()
        if program(in_data) == "transaction":
            prefix, between, self.between = self.prefix, self.between, ""
            if between:
                self.lab.exec(self.name, ["sh", "-ec", between])
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
        wrapper = root / "usr/local/sbin/systemd-run"
        wrapper.write_text(SYSTEMD_RUN % {"tracer": TRACER})
        wrapper.chmod(0o755)
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
        script = ["systemctl stop 'gpufleet-*' || true"]  # a transaction on probation, and the timers
        script += [f"systemctl reset-failed {self.unit} || true"]  # tries follow one another faster than systemd lets a unit start
        script += [f"rm -rf {shlex.quote(path)}" for path in gone]
        script += [f"rm -rf {shlex.quote(p)}; cp -a {KEPT}{shlex.quote(p)} {shlex.quote(p)}" for p in back]
        if now.nvidia or not now.serves:
            script.append(f"systemctl restart {self.unit}; {self.until_it_serves()}")
        self.shell("\n".join(["rm -rf /var/lib/gpufleet", *script]))

    @staticmethod
    def until_it_serves(seconds: int = 60) -> str:
        return f"timeout {seconds} sh -c 'until {CRICTL} info >/dev/null 2>&1; do :; done'"

    # The action

    def run(
        self, tracer: Sequence[str] = (), *, traced: str = "hands", check: bool = False, policy: Policy = POLICY, between: str = ""
    ) -> Outcome:
        """One task `node`.

        traced: whether the tracer stands before the hands, before their caller, or before the hands whom nobody watches ("alone").
        between: what somebody else does on the host between the look and the first transaction.
        """
        door: Any = Door(self.lab, self.name, tracer if traced == "caller" else (), check=check, between=between)
        if tracer and traced != "caller":
            self.shell(f"echo '{' '.join(tracer)}' >{TRACER}; " + (f"touch {TRACER}.alone" if traced == "alone" else "true"))
        try:
            found = self.converge(door, policy)
        except AnsibleActionFail as lost:
            if tracer and traced == "alone":
                self.shell(f"timeout 120 sh -c 'while {ALONE.replace(chr(39), chr(34))}; do sleep 0.1; done'")
            return Outcome({}, str(lost))
        finally:
            if tracer:
                self.shell(f"rm -f {TRACER} {TRACER}.alone")
        return Outcome(found)

    @staticmethod
    def converge(door: Any, policy: Policy = POLICY) -> dict[str, Any]:
        """The whole of the action but its options."""
        variables = {"ansible_python_interpreter": "/usr/bin/python3"}
        return base.converge(door, variables, policy, whole.questions, planner, reason="faults", way="stdin")

    def timer(self) -> None:
        """What the host's timer does when its time has come: no try waits that long."""
        timers = "systemctl list-units --plain --no-legend 'gpufleet-undo-*.timer' | cut -d' ' -f1"
        self.shell(f"for unit in $({timers}); do systemctl start --wait ${{unit%.timer}}.service; done")
