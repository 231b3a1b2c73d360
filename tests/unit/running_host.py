# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that runs, beneath a directory. The real host programs see it as their own root, by
chroot, and whole actions work on it.

Played are the kernel's word of processes (files in /proc), what programs print (a table of command
lines), and what engines answer over their sockets. All else is real: files, trust, projections, the
journal, the transaction; and the actions with their wire.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import multiprocessing as mp
import os
import pathlib
import shutil
import socketserver
import stat
import tempfile
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    observe,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test import (
    entry as container_test_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import acknowledge
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
    transport,
)

from tests.tools import wire
from tests.unit.plugins.module_utils import conftest as runtime

ACTIONS = "ansible_collections.gpufleet.nvidia.plugins.action."
NEWUSER = 0x10000000
BOOT = "11111111-2222-3333-4444-555555555555"
# How a command line begins, and what such a program does: exit status, output (or what makes it of
# the words), errors.
Out = str | Callable[[list[str]], str]
Row = tuple[str, int, Out, str]


# --- a process of its own, whose root is the host's directory
# --------------------------------------------------


def answer_as_host(pipe: Any) -> None:
    """Answer requests in the directory that comes with each, until there are no more."""
    try:
        if os.geteuid() != 0:
            me, mine = os.geteuid(), os.getegid()
            if ctypes.CDLL(None, use_errno=True).unshare(NEWUSER):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            for name, text in (
                ("uid_map", f"0 {me} 1"),
                ("setgroups", "deny"),
                ("gid_map", f"0 {mine} 1"),
            ):
                pathlib.Path("/proc/self", name).write_text(text)
        # what the programs import late is not to be found once their root is the host's
        for name in ("http.client", "encodings.ascii"):
            importlib.import_module(name)
        outside = os.open("/", os.O_RDONLY)
        os.chroot("/")
    except OSError as error:
        pipe.send({"refused": str(error)})
        return
    pipe.send({"ready": True})
    os.umask(0o022)
    while (job := pipe.recv()) is not None:
        root, program, request, known, devices, kernel = job
        commands.run = Played(known).run
        os.uname = get_system_of(kernel)
        host_files.get_lstat = with_devices(devices)
        os.chroot(root)
        os.chdir("/")
        try:
            answer = PROGRAMS[program](request)
        finally:
            os.fchdir(outside)
            os.chroot(".")
        pipe.send(answer)


REAL_UNAME = os.uname


def get_system_of(kernel: str) -> Callable[[], os.uname_result]:
    """Return a uname that tells this release of the kernel. kernel: '' for this machine's."""
    told = REAL_UNAME()
    release = kernel or told.release
    return lambda: os.uname_result(
        (told.sysname, told.nodename, release, told.version, told.machine)
    )


REAL_LSTAT = host_files.get_lstat
STAT_FIELDS = (
    "st_mode",
    "st_rdev",
    "st_uid",
    "st_gid",
    "st_size",
    "st_mtime",
    "st_ctime",
    "st_ino",
    "st_dev",
    "st_nlink",
)


def with_devices(devices: Mapping[str, tuple[int, int, int, int]]) -> Callable[[str, str], Any]:
    """Return an lstat that shows files at these paths (as the host sees them) as device nodes.

    Only root can make real ones.

    devices: major and minor number, mode and group by the path.
    """

    def lstat(root: str, path: str) -> Any:
        found, device = REAL_LSTAT(root, path), devices.get(path)
        if found is None or device is None:
            return found
        major, minor, mode, group = device
        numbers = {
            "st_mode": stat.S_IFCHR | mode,
            "st_rdev": os.makedev(major, minor),
            "st_gid": group,
        }
        return types.SimpleNamespace(
            **{**{name: getattr(found, name) for name in STAT_FIELDS}, **numbers}
        )

    return lstat


PROGRAMS: Mapping[str, Callable[[Any], Any]] = {
    "observe": observe.run,
    transport.MAIN["transaction"]: lambda request: transaction_entry.run(
        {**request, "alone": False}
    ),
    transport.MAIN["acknowledge"]: acknowledge.run,
    transport.MAIN["container_check"]: container_test_entry.run,
}


class Played:
    """A table of played programs. The first row that begins as a command line does answers, and all
    other programs are missing.
    """

    def __init__(self, known: list[Row]) -> None:
        self.known = known

    def run(self, argv: list[str], *_more: Any, **_others: Any) -> dict[str, Any]:
        line = " ".join(argv)
        for begins, status, out, err in self.known:
            if line.startswith(begins):
                text = out if isinstance(out, str) else out(argv)
                return {
                    "rc": status,
                    "stdout": text.encode(),
                    "stderr": err.encode(),
                    "timed_out": False,
                    "truncated": False,
                }
        raise host_files.HostError("not-found", f"{argv[0]}: there is no such program")


class HostProcess:
    """A process that answers, started before any thread of this one."""

    def __init__(self) -> None:
        context = mp.get_context("fork")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=answer_as_host, args=(end,), daemon=True)
        self.process.start()
        self.refused: str = self.pipe.recv().get("refused", "")

    def ask(
        self,
        root: pathlib.Path,
        program: str,
        request: Any,
        known: Any,
        devices: Any = None,
        kernel: str = "",
    ) -> Any:
        self.pipe.send((str(root), program, request, known, devices or {}, kernel))
        while not self.pipe.poll(1):
            if not self.process.is_alive():
                raise RuntimeError("the host died")
        return self.pipe.recv()

    def end(self) -> None:
        if self.process.is_alive() and not self.refused:
            self.pipe.send(None)
        self.process.join(10)


def start_process() -> Iterator[HostProcess]:
    """Yield one process that answers for all tests of a file, for a fixture.

    Skip the tests if it may have no root of its own.
    """
    made = HostProcess()
    if made.refused:
        pytest.skip(f"no process may have a root of its own here: {made.refused}")
    yield made
    made.end()


# --- the host
# --------------------------------------------------------------------------------------------------


class Host:
    """A host's directory, its processes, sockets and programs."""

    def __init__(self, process: HostProcess) -> None:
        self.answers = process
        # a socket's path has to be short
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="gf", dir="/tmp"))
        self.root.chmod(0o755)
        self.known: list[Row] = []
        self.devices: dict[str, tuple[int, int, int, int]] = {}  # see with_devices
        self.kernel = ""  # the release that runs, '' for that of this machine
        self.closing: list[Callable[[], None]] = []
        self.wire: list[Any] = []
        for folder in ("tmp", "etc", "var/lib", "run", "usr/bin", "proc/1/ns"):
            (self.root / folder).mkdir(parents=True)
        self.write("/proc/1/cgroup", "0::/init.scope\n")
        self.write("/proc/stat", "btime 1000\n")
        self.write("/proc/sys/kernel/random/boot_id", BOOT + "\n")
        self.write("/proc/1/stat", "1 (systemd) S " + "0 " * 18 + "5 0\n")
        (self.root / "proc/1/ns/user").symlink_to("user:[1]")

    def path(self, name: str) -> pathlib.Path:
        return self.root / name.lstrip("/")

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        place = self.path(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", newline="")
        place.chmod(mode)

    def put(self, name: str, entry: str | Mapping[str, Any]) -> None:
        """Put an entry as the tables of tests have them: a text, a link to the `real` file, a
        device node by its `rdev`.
        """
        place = self.path(name)
        if isinstance(entry, str):
            self.write(name, entry)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if "rdev" in entry:
            os.mknod(place, stat.S_IFCHR | entry["mode"], os.makedev(*entry["rdev"]))
            place.chmod(entry["mode"])
        elif entry["real"] == name:
            self.write(name, "a library")
        else:
            place.unlink(missing_ok=True)
            place.symlink_to(entry["real"])

    def program(self, line: str, out: Out = "", *, status: int = 0, err: str = "") -> None:
        self.known.append((line, status, out, err))

    def process(
        self, pid: int, exe: str, *words: str, unit: str, environ: Mapping[str, str] | None = None
    ) -> None:
        """Add a process of root's, which is a service of the host's systemd."""
        place = self.path(f"/proc/{pid}")
        (place / "ns").mkdir(parents=True)
        self.write(f"/proc/{pid}/stat", f"{pid} (x) S 1 " + "0 " * 17 + "200 0\n")
        self.write(f"/proc/{pid}/status", f"Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t{pid}\n")
        self.write(f"/proc/{pid}/cmdline", "".join(word + "\0" for word in (exe, *words)))
        self.write(
            f"/proc/{pid}/environ",
            "".join(f"{name}={value}\0" for name, value in (environ or {}).items()),
        )
        self.write(f"/proc/{pid}/cgroup", f"0::/system.slice/{unit}\n")
        (place / "exe").symlink_to(exe)
        (place / "root").symlink_to("/")
        (place / "ns/user").symlink_to("user:[1]")
        if not self.path(exe).exists():
            self.write(exe, "a program", 0o755)

    def units(self, table: Mapping[str, Mapping[str, str]]) -> None:
        """Let systemctl show these units. It shows every unit, since a look asks for many at once."""
        blocks = [
            "\n".join(
                f"{key}={value}"
                for key, value in {"Id": name, "Names": name, "LoadState": "loaded", **more}.items()
            )
            for name, more in table.items()
        ]
        self.program("systemctl show", "\n\n".join(blocks) + "\n")

    def runtime(self, path: str, replies: Callable[[str], bytes]) -> None:
        """Answer CRI calls at a socket. replies: returns the message for a method's name."""
        self._serve(path, lambda stream: answer_cri(stream, replies))

    def api(self, path: str, replies: Callable[[str], Any]) -> None:
        """Answer GET with JSON at a socket. replies: returns the value for a path, None for 404."""
        self._serve(path, lambda stream: answer_http(stream, replies))

    def _serve(self, path: str, answer: Callable[[Any], bytes]) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(answer(self.rfile))

        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        server = socketserver.ThreadingUnixStreamServer(str(place), Handler)
        server.daemon_threads = True
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        self.closing += [server.shutdown, server.server_close, thread.join]

    def close(self) -> None:
        for step in self.closing:
            step()
        shutil.rmtree(self.root)

    # ------------------------------------------------------------ whole tasks

    def task(
        self, module: str, *, check: bool = False, way: str = "stdin", **options: Any
    ) -> dict[str, Any]:
        """Run a task, and return what its user gets: the result of the action, or of its failure."""
        return played_task(
            module, {**options, "transport": way}, self._by_stdin, self._by_module, check=check
        )

    def role_task(self, module: str, **variables: Any) -> dict[str, Any]:
        """Run a task of a role of this collection, whose options are in variables."""
        role = f"gpufleet.nvidia.{module.removeprefix('host_')}"
        variables = {"gpufleet_transport": "stdin", **variables}
        return played_task(
            module, {}, self._by_stdin, self._by_module, variables=variables, role=role
        )

    def _by_stdin(self, _line: str, in_data: bytes) -> dict[str, Any]:
        job = wire.job(in_data)
        answer = self.answers.ask(
            self.root, job["main"], job["request"], self.known, self.devices, self.kernel
        )
        self.wire += [job["request"], answer]
        return {"rc": 0, "stdout": f"\n{job['marker']}{host_answers.pack(answer)}\n", "stderr": ""}

    def _by_module(
        self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        program = module_args.get("program") or module_name.rpartition(".")[2]
        request = host_answers.unpack_answer(module_args["request"])
        answer = self.answers.ask(
            self.root,
            transport.MAIN.get(program, program),
            request,
            self.known,
            self.devices,
            self.kernel,
        )
        self.wire += [request, answer]
        return {"answer": host_answers.pack(answer)}

    def readable(self) -> Iterator[tuple[str, bytes]]:
        """Yield what accounts other than root can read: path and bytes.

        These are files whose mode allows it, in directories that let them through.
        """
        folders = ["/"]
        while folders:
            folder = folders.pop()
            for place in sorted(self.path(folder).iterdir()):
                seen, name = place.lstat(), f"{folder.rstrip('/')}/{place.name}"
                if stat.S_ISDIR(seen.st_mode) and seen.st_mode & 0o001 and name != "/proc":
                    folders.append(name)
                elif stat.S_ISREG(seen.st_mode) and seen.st_mode & 0o004:
                    yield name, place.read_bytes()


def played_task(
    module: str,
    options: dict[str, Any],
    by_stdin: Callable[..., Any],
    by_module: Callable[..., Any],
    *,
    check: bool = False,
    variables: Mapping[str, Any] | None = None,
    role: str = "",
) -> dict[str, Any]:
    """Run an action as Ansible does for a task, and return its result.

    by_stdin, by_module: the two ways on which it asks its host. variables: of the host, beside its
    name. role: the role that has the task.
    """
    cls = importlib.import_module(ACTIONS + module).ActionModule
    action = cls.__new__(cls)
    action._task = types.SimpleNamespace(
        _role=types.SimpleNamespace(get_name=lambda: role) if role else None,
        args=options,
        check_mode=check,
        diff=True,
        async_val=0,
        delegate_to=None,
        action=module,
    )
    action._connection = types.SimpleNamespace(
        _shell=types.SimpleNamespace(tmpdir=None), has_pipelining=True, become=None
    )
    action._templar = types.SimpleNamespace(template=lambda value: value)
    action._compute_environment_string = lambda _found=None: ""
    action._low_level_execute_command = by_stdin
    action._execute_module = by_module
    result: dict[str, Any] = action.run(None, {"inventory_hostname": "gpu1", **(variables or {})})
    return result


# --- engines' answers
# --------------------------------------------------------------------------------------------------


def answer_cri(stream: Any, replies: Callable[[str], bytes]) -> bytes:
    """Answer one call. Its path stands in the first headers."""
    stream.read(24)
    method = b""
    while True:
        head = stream.read(9)
        if len(head) < 9:
            break
        payload = stream.read(int.from_bytes(head[:3], "big"))
        if head[3] == 1:
            method = payload
        if head[3] == 0 and head[4] & 1:
            break
    if b"runtime.v1." not in method:
        return runtime.answer(None, code="12")
    name = method.split(b"RuntimeService/", 1)[1]
    called = next(
        (
            known
            for known in ("Status", "Version", "ListPodSandbox", "PodSandboxStatus")
            if name.startswith(known.encode())
        ),
        "",
    )
    return runtime.answer(replies(called))


def answer_http(stream: Any, replies: Callable[[str], Any]) -> bytes:
    target = stream.readline().split()[1].decode()
    with contextlib.suppress(OSError):
        while stream.readline().strip():
            pass
    said = replies(target)
    body = json.dumps(said).encode()
    head = f"HTTP/1.1 {200 if said is not None else 404} OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def version_message(name: str, version: str) -> bytes:
    return bytes(runtime.wire_version(name, version))


def status_message(config: Any, handlers: tuple[str, ...] = ()) -> bytes:
    return bytes(runtime.status_message(config, handlers))


def pods_message(pods: list[dict[str, str]]) -> bytes:
    """Return a message with pods and their labels (field 7 is a map of them)."""
    return bytes(
        cri.encode_fields(
            [
                (
                    1,
                    2,
                    [
                        (1, 2, p["id"]),
                        (7, 2, [(1, 2, "label"), (2, 2, p["label"])]),
                        (9, 2, p["handler"]),
                    ],
                )
                for p in pods
            ]
        )
    )
