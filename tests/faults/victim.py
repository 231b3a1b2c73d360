# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab host on which a transaction is made to fail: the action's own code, with the lab's door in
the place of SSH.

The host runs what the action sends, byte for byte but for the seconds of a probation. It may run
under strace, which kills it at a given system call, or lets that call fail. Everything that a try
changed is put back from copies; the host is not booted again.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
import hashlib
import json
import os
import re
import shlex
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.action.host import plan_host_module
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import base, transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import seen_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import results

from tests.lab import artefacts, hosts, kinds, roots
from tests.lab.lab import Lab
from tests.tools import wire
from tests.tools.onlab import NVIDIA_RUNTIME, stand_in

POLICY = Policy(packages="ignore", proc_root="/opt/fakegpu/proc", sys_root="/opt/fakegpu/sys")
ABSENT = dc.replace(POLICY, state="absent")
PROBATION = 1  # seconds, instead of the action's own: a try is over when the executor has judged
CRICTL = "/opt/lab/bin/crictl"
# Stands for the packages: the sweeps are about files and restarts, and install nothing.
RUNTIME = "; ".join(stand_in(path) for path in (NVIDIA_RUNTIME, f"{NVIDIA_RUNTIME}.cdi"))
# How the real nvidia-ctk is called on a host that is to be adopted: with another program than ours,
# which shows whose handler is in force.
CTK = "/root/nvidia-ctk"
CONFIGURE = f"{CTK} --quiet runtime configure --nvidia-runtime-path={NVIDIA_RUNTIME}.cdi --runtime="
VARIABLES = {"ansible_python_interpreter": "/usr/bin/python3"}
PLACES = ("/etc", "/run/cdi", "/var/lib/gpufleet", "/usr/local")
KEPT = "/root/kept"
TRACE = "/run/faults.trace"
TRACER = "/run/faults.tracer"  # the words that stand before the executor's own
# Stands before systemd's own in PATH. It puts the tracer before the executor when it is started as
# a unit. When it is to be left to others to take back what it leaves, neither systemd nor the
# caller may: the one does not learn how, the other is killed at its start. And when it is to be
# seen that the timer does its work, its time comes soon.
SYSTEMD_RUN = """#!/bin/sh
[ -s %(tracer)s ] || [ -e %(tracer)s.soon ] || exec /usr/bin/systemd-run "$@"
n=$# i=0 timer=
while [ $i -lt $n ]; do
    word=$1
    shift
    case $word in
    --on-active=*) timer=1; [ ! -e %(tracer)s.soon ] || word=--on-active=1s ;;
    --property=ExecStopPost=*) [ ! -e %(tracer)s.alone ] || word=--property=ExecStopPost=/bin/true ;;
    esac
    set -- "$@" "$word"
    if [ "$word" = -- ] && [ -z "$timer" ] && [ -s %(tracer)s ]; then
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


@dc.dataclass(frozen=True)
class Engine:
    """An engine under test, by its unit. client: the program that the host asks about it. its:
    further places of its configuration.
    """

    unit: str
    client: str = CRICTL
    its: tuple[str, ...] = ()
    program: str = "containerd"  # that prints its version

    def until_it_serves(self, seconds: int = 60) -> str:
        asked = f"{CRICTL} info" if self.client == CRICTL else f"{self.client} info"
        return f"timeout {seconds} sh -c 'until {asked} >/dev/null 2>&1; do sleep 0.05; done'"


# By the beginning of a kind's name.
ENGINES = {
    "containerd": Engine("containerd.service"),
    "crio": Engine("crio.service", program="crio"),
    "docker": Engine("docker.service", client="docker", program="docker"),
    "k3s": Engine(
        "k3s.service",
        its=("/var/lib/rancher/k3s/agent/etc",),
        program="/var/lib/rancher/k3s/data/current/bin/containerd",
    ),
    "microk8s": Engine(
        "snap.microk8s.daemon-containerd.service",
        its=("/var/snap/microk8s/7234/args",),
        program="/snap/microk8s/7234/bin/containerd",
    ),
}

# Runs inside the host. It reports every file below the given directories, and what the engine
# reports of itself. Before it looks, it waits until nothing of this collection is at work any more,
# a probation's watch included; armed timers do not count.
LOOK = r"""
import hashlib, json, os, re, stat, subprocess, sys, time
client, unit, packaged, patience, places = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5:]
noise = re.compile(r"/etc/(ld\.so\.cache|mtab|resolv\.conf|\.pwd\.lock|apt/.*)$")
ours = re.compile(rb"/var/lib/gpufleet/program/|--unit=gpufleet-")
transient, journal = "/run/systemd/transient", "/var/lib/gpufleet/"
def transients():
    return os.listdir(transient) if os.path.isdir(transient) else []
def at_work():
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as handle:
                    if ours.search(handle.read()):
                        return True
            except OSError:
                pass
    return any(re.match(r"gpufleet-[0-9a-f]{32}\.service$", name) for name in transients())
deadline = time.monotonic() + patience
while at_work() and time.monotonic() < deadline:
    # The pause between two looks at processes and units, until the deadline: the kernel announces the end of a process to its parent alone,
    # and these have other parents.
    time.sleep(0.02)
def plain(text):
    return re.sub(r"[0-9a-f]{32}|\d{8}T\d{6}Z|\d{4}-\d\d-\d\dT[\d:]+Z|\d{6,}(\.\d+)?|\"pid\": \d+", "~", text)
def record(path, data):
    name = os.path.basename(path)
    if name == "states":
        slots = [json.loads(slot) for slot in re.findall(r"\{.*\}", data.decode("ascii", "replace"))]
        return str([(s["state"], bool(s.get("closed")), s.get("was")) for s in sorted(slots, key=lambda s: s["n"])[-1:]])
    if name in ("lock", "outcome.json") or "/job/" in path or "/compiled/" in path:
        return "something" if data else "nothing"
    return hashlib.sha256(plain(data.decode("utf-8", "replace")).encode()).hexdigest()
files, kept = {}, []
for top in places:
    for home, folders, names in os.walk(top):
        for name in folders + names:
            path = os.path.join(home, name)
            if noise.match(path):
                continue
            s = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(s.st_mode) else ""
            data = b""
            if stat.S_ISREG(s.st_mode):
                with open(path, "rb") as handle:
                    data = handle.read()
                what = hashlib.sha256(data).hexdigest()
                if path.endswith(("/decision.json", "/gpufleet.fact")):  # tells what was seen, which may differ from run to run
                    what = "a whole record" if data.endswith(b"}\n") else what
            files[path] = "%o %d:%d %s" % (s.st_mode, s.st_uid, s.st_gid, what)
            of_journal = path.startswith(journal) and stat.S_ISREG(s.st_mode) and not path.endswith("/decision.json")
            kept.append("%s %s" % (plain(path), record(path, data) if of_journal else plain(files[path])))
def answer(words):
    said = subprocess.run(words, capture_output=True, text=True).stdout
    try:
        return json.loads(said) or {}
    except ValueError:
        return {}
if client == "docker":
    info = answer(["timeout", "3", "docker", "info", "--format", "{{json .}}"])
    runtimes, ready = info.get("Runtimes") or {}, [bool(info.get("ServerVersion"))]
else:
    info = answer([client, "--timeout", "3s", "info"])
    config = info.get("config") or {}
    runtimes = (config.get("containerd") or {}).get("runtimes") or (config.get("crio") or {}).get("Runtimes") or {}
    ready = [c.get("status") for c in (info.get("status") or {}).get("conditions") or [] if c.get("type") == "RuntimeReady"]
# CRI-O keeps some of its lists in no order.
handler = {k: sorted(v) if isinstance(v, list) else v for k, v in (runtimes.get("nvidia") or {}).items()}
program = handler.get("RuntimePath") or handler.get("path") or (handler.get("options") or {}).get("BinaryName")
def over(name):
    try:
        with open(journal + "journal/" + name + "/states", "rb") as handle:
            return b'"closed": true' in handle.read()
    except OSError:
        return False
opened = os.listdir(journal + "open") if os.path.isdir(journal + "open") else []
unfinished = [name[-32:] for name in opened if not over(name)]
units = sorted(name for name in transients() if name.startswith("gpufleet-"))
invocation = os.path.join("/run/systemd/units/invocation:" + unit)
print(json.dumps({
    "files": files, "serves": ready == [True], "nvidia": program == packaged, "handler": json.dumps(handler, sort_keys=True),
    "units": units, "unfinished": unfinished,
    "invocation": os.readlink(invocation) if os.path.islink(invocation) else "",
    "digest": hashlib.sha256(repr(sorted(kept)).encode()).hexdigest(),
}))
"""


@dc.dataclass(frozen=True)
class State:
    """A host's state at one moment, when no process of this collection is at work."""

    files: Mapping[str, str]
    serves: bool
    nvidia: bool  # the running engine has our handler, with our program
    handler: str  # all that the running engine reports of that handler
    units: Sequence[str]  # of this collection, that systemd still has: timers
    unfinished: Sequence[str]  # transactions that are still to be ended, if only by a timer
    invocation: str  # of the engine's unit: another one after each start
    digest: str  # of all files, and of the journal without ids, times and reasons

    @property
    def key(self) -> tuple[str, bool, str, int]:
        """Key of the state. Two states with the same key differ in nothing that a next run could
        see.
        """
        return self.digest, self.serves, self.handler, len(self.units)

    def of(self, paths: Iterable[str]) -> dict[str, str | None]:
        return {path: self.files.get(path) for path in paths}

    def litter(self, known: Iterable[Mapping[str, str]]) -> list[str]:
        """List what is there neither before nor after a transaction, outside the journal, and
        timers of what is over.
        """
        names = {name for files in known for name in files}
        timers = [
            unit for unit in self.units if not any(token in unit for token in self.unfinished)
        ]
        return sorted(
            [
                *(
                    p
                    for p in self.files
                    if p not in names and not p.startswith("/var/lib/gpufleet/")
                ),
                *timers,
            ]
        )


@dc.dataclass(frozen=True)
class Outcome:
    """An outcome of the action: its result, or the reason for which there is none."""

    result: Mapping[str, Any]
    lost: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.lost or self.result.get("failed"))

    @property
    def words(self) -> str:
        return str(self.lost or self.result.get("msg") or "ok").splitlines()[0]


def executor_version() -> str:
    """Return the version of the executor that is struck: a digest of its source."""
    return hashlib.sha256(repr(transport.list_program_sources("transaction")).encode()).hexdigest()[
        :12
    ]


class Door:
    """A stand-in for what our actions need of Ansible: a way to run a command on the host with
    something on its stdin.
    """

    def __init__(
        self,
        lab: Lab,
        name: str,
        prefix: Sequence[str] = (),
        *,
        check: bool = False,
        between: str = "",
    ) -> None:
        self.lab, self.name, self.prefix, self.between = lab, name, tuple(prefix), between
        self.requests: list[dict[str, Any]] = []  # of transactions
        self._task = SimpleNamespace(check_mode=check, diff=False, delegate_to=None)
        self._connection = SimpleNamespace(become=None, has_pipelining=True)
        self._templar = SimpleNamespace(template=lambda text: text)

    def _compute_environment_string(self, raw_environment_out: dict[str, Any] | None = None) -> str:
        return ""

    def _low_level_execute_command(self, line: str, in_data: bytes) -> dict[str, Any]:
        words = shlex.split(line)
        prefix: tuple[str, ...] = ()
        brought = wire.job(in_data)
        if brought["main"] == transport.MAIN["transaction"]:
            brought["request"]["probation"] = min(
                PROBATION, brought["request"].get("probation") or 0
            )
            in_data = wire.with_job(in_data, brought)
            self.requests.append(brought["request"])
            prefix, between, self.between = self.prefix, self.between, ""
            if between:
                self.lab.exec(self.name, ["sh", "-ec", between])
        done = hosts.execute(self.lab.host(self.name), [*prefix, *words], in_data)
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


class Victim:
    """A host with one engine, ready for the first transaction."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name = lab, name
        self.kind = lab.host(name).spec.kind
        self.engine = ENGINES[self.kind.split("-")[0]]
        self.unit, self.places = self.engine.unit, (*PLACES, *self.engine.its)
        self.requests: list[dict[str, Any]] = []  # of the last run's transactions
        self.started = ""  # the invocation of the engine's unit when the last try began

    # The host

    def shell(self, script: str, *, fails: bool = False) -> str:
        return self.lab.shell(self.name, script, fails=fails)

    def configure(self) -> None:
        """Have the real nvidia-ctk configure the engine, so that each transaction adopts. Call this
        before prepare().
        """
        shutil.copy2(
            artefacts.go_tool("nvidia-toolkit") / "nvidia-ctk", self.root / CTK.lstrip("/")
        )
        engine = self.kind.split("-")[0]
        self.shell(
            f"{RUNTIME}; {CONFIGURE}{engine}; systemctl restart {self.unit}; {self.until_it_serves()}"
        )

    def prepare(self) -> None:
        """Bring the tracer and the stand-in for the packages, and keep copies of everything as it
        is now.
        """
        layer = roots.package_layer(roots.base_root(kinds.KINDS[self.kind].suite), roots.STRACE)
        root = self.root
        for found in [layer / "usr/bin/strace", *(layer / "usr/lib").rglob("lib*.so*")]:
            target = root / found.relative_to(layer)
            if not target.is_symlink() and not target.exists():
                shutil.copy2(found, target, follow_symlinks=False)
        wrapper = root / "usr/sbin/systemd-run"
        wrapper.write_text(SYSTEMD_RUN % {"tracer": TRACER})
        wrapper.chmod(0o755)
        # A manager renders its engine's configuration when it starts, and some look for the runtime
        # then.
        rendered = (
            f"systemctl restart {self.unit}; {self.until_it_serves()}; " if self.engine.its else ""
        )
        fresh = (
            f"{RUNTIME}; {rendered}mkdir -p /run/cdi; rm -rf /var/lib/gpufleet {KEPT}; mkdir {KEPT}"
        )
        self.shell(
            f"{fresh}; cp -a --parents /etc /run/cdi /usr/local {' '.join(self.engine.its)} {KEPT}/"
        )

    @property
    def root(self) -> Path:
        return Path(f"/proc/{hosts.first_process(self.lab.host(self.name))}/root")

    def read(self, path: str) -> str:
        """Return a file's text, '' if it is missing. It is read from outside, so no process is
        started on the host.
        """
        try:
            return (self.root / path.lstrip("/")).read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def at_work(self) -> bool:
        """Tell whether an executor of this collection runs, or watches, as a unit."""
        return any(
            re.fullmatch(r"gpufleet-[0-9a-f]{32}\.service", path.name)
            for path in (self.root / "run/systemd/transient").glob("*")
        )

    def look(self, *, settled: bool = True) -> State:
        """Return the host's state when no process of this collection is at work any more;
        settled=False: as it is now.
        """
        patience = "150" if settled else "0"
        done = self.lab.exec(
            self.name,
            [
                "python3",
                "-I",
                "-",
                self.engine.client,
                self.unit,
                NVIDIA_RUNTIME,
                patience,
                *self.places,
            ],
            stdin=LOOK,
        )
        assert done.returncode == 0, done.stderr
        return State(**json.loads(done.stdout))

    def put_back(self, before: State, now: State) -> None:
        """Undo what a try did: files from the copies, and the engine only if it runs with something
        else.
        """
        names = {
            path
            for path in {*before.files, *now.files}
            if not path.startswith("/var/lib/gpufleet/")
        }
        differing = [path for path in names if before.files.get(path) != now.files.get(path)]
        gone = sorted((path for path in differing if path not in before.files), reverse=True)
        back = sorted(path for path in differing if path in before.files)
        script = ["rm -rf /var/lib/gpufleet"]
        if now.units:
            script.insert(0, f"systemctl stop {' '.join(now.units)} || true")
        script += [f"rm -rf {shlex.quote(path)}" for path in gone]
        script += [
            f"rm -rf {shlex.quote(p)}; cp -a {KEPT}{shlex.quote(p)} {shlex.quote(p)}" for p in back
        ]
        # tries follow one another faster than systemd lets a unit start
        if now.invocation != self.started:
            script.append(f"systemctl reset-failed {self.unit} || true")
        if now.handler != before.handler or not now.serves:
            script.append(f"systemctl restart {self.unit}; {self.until_it_serves()}")
        self.shell("\n".join(script))
        self.started = self.invocation()

    def invocation(self) -> str:
        path = self.root / f"run/systemd/units/invocation:{self.unit}"
        return os.readlink(path) if path.is_symlink() else ""

    def until_it_serves(self) -> str:
        return self.engine.until_it_serves()

    # The action

    def run(
        self,
        tracer: Sequence[str] = (),
        *,
        traced: str = "executor",
        check: bool = False,
        policy: Policy = POLICY,
        between: str = "",
    ) -> Outcome:
        """Run one task `node`.

        traced: whether the tracer stands before the executor, before its caller, or before the
        executor that is left unwatched ("alone").

        between: a script that runs on the host between the look and the first transaction.
        """
        door: Any = Door(
            self.lab, self.name, tracer if traced == "caller" else (), check=check, between=between
        )
        with self.tracing(tracer, traced):
            try:
                return Outcome(self.converge(door, policy))
            except PlanError as lost:
                return Outcome({}, str(lost))
            finally:
                self.requests = door.requests or self.requests

    def again(
        self, request: Mapping[str, Any], tracer: Sequence[str], traced: str = "executor"
    ) -> Outcome:
        """Run the transaction of an earlier run again, under a new id and with references to the
        engine as it runs now.
        """
        door: Any = Door(self.lab, self.name, tracer if traced == "caller" else ())
        fresh = self.renewed(request)
        with self.tracing(tracer, traced):
            try:
                answer = transport.run_host_program(door, "transaction", fresh, VARIABLES, "stdin")
            except PlanError as lost:
                return Outcome({}, str(lost))
        trouble = results.describe_answer_trouble(answer)
        return Outcome({"failed": True, "msg": trouble} if trouble else {})

    def renewed(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request with what another start of the engine, or another boot, has made of its
        references.
        """
        expect = request["expect"]
        units = {
            name: self.invocation() if name == self.unit else seen
            for name, seen in expect["units"].items()
        }
        files = {path: self.digest(path) for path in expect["files"]}
        changes = [
            {**change, "expect": self.digest(change["path"])} if "expect" in change else change
            for change in request["changes"]
        ]
        process = self.process()
        validate = [self.renewed_check(check, process) for check in request["validate"]]
        known = {"units": units, "files": files}
        return {
            **request,
            "id": uuid.uuid4().hex,
            "expect": {**expect, **known},
            "changes": changes,
            "validate": validate,
        }

    @staticmethod
    def renewed_check(check: Mapping[str, Any], process: Mapping[str, int]) -> dict[str, Any]:
        """Return a check with the engine's process as it is now.

        Docker judges a file with the arguments of its process, so that process stands among the
        words as well.
        """
        named = {"process": process["pid"], "ticks": process["ticks"]}
        argv = [
            {**word, **named} if isinstance(word, dict) and "process" in word else word
            for word in check["argv"]
        ]
        return {**check, "argv": argv, **({"process": process} if check.get("process") else {})}

    def digest(self, path: str) -> str | None:
        place = self.root / path.lstrip("/")
        return hashlib.sha256(place.read_bytes()).hexdigest() if place.is_file() else None

    def process(self) -> dict[str, int]:
        """Return the engine's main process, and when it began, in the kernel's ticks."""
        words = self.shell(
            f"p=$(systemctl show --property=MainPID --value {self.unit}); echo $p; sed 's/.*) //' /proc/$p/stat"
        ).split()
        return {"pid": int(words[0]), "ticks": int(words[20])}

    @contextlib.contextmanager
    def tracing(self, tracer: Sequence[str], traced: str) -> Iterator[None]:
        place = self.root / TRACER.lstrip("/")
        alone = place.with_name(place.name + ".alone")
        (self.root / TRACE.lstrip("/")).unlink(missing_ok=True)
        if tracer and traced != "caller":
            place.write_text(" ".join(tracer))
            if traced == "alone":
                alone.touch()
        try:
            yield
        finally:
            place.unlink(missing_ok=True)
            alone.unlink(missing_ok=True)

    @staticmethod
    def converge(door: Any, policy: Policy = POLICY) -> dict[str, Any]:
        """Run the whole of the action but its options."""
        return base.converge_host(
            door,
            dict(VARIABLES),
            policy,
            seen_host.list_host_questions,
            plan_host_module,
            reason="faults",
            way="stdin",
        )

    def timer(self) -> None:
        """Do what the host's timer does when its time has come, since no try waits that long."""
        timers = "systemctl list-units --plain --no-legend 'gpufleet-undo-*.timer' | cut -d' ' -f1"
        self.shell(
            f"for unit in $({timers}); do systemctl start --wait ${{unit%.timer}}.service; done"
        )
