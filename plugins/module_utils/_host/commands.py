# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one command, bounded in time and output, in a process group that is killed as a whole.

The program is judged first (trust.judge_program), or is the very one that a process runs. It gets
an environment of our own making: root's programs must not obey what a login, sudo or a service has
left in ours. Host side: standard library only, Python 3.6. Nothing ever goes through a shell.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust

# how long output is still read after the command ended: a child that it left behind may hold the
# pipe
GRACE = 0.5
# Names of the variables that the task itself sets (`environment:`), such as the proxies of a
# package manager: these, and no others, reach what is run here.
asked_for = []


def run(argv, timeout=10, cap=host_files.MIB, stdin=None, env=None, process=None, become=None):
    """Run a command. Return {"rc", "stdout", "stderr", "timed_out", "truncated"}.

    The streams are bytes. rc is None after a timeout. Raise HostError if the command cannot be
    started, or must not be.

    process: {"pid", "ticks"} of the process whose program this is, wherever it lies. argv[0] names
    the program that this must be. become: called in the child before the program.
    """
    if (
        not isinstance(argv, (list, tuple))
        or not argv
        or not all(isinstance(word, str) for word in argv)
    ):
        raise host_files.HostError(
            "bad-question", "argv must be a list of strings, not %r" % (argv,)
        )
    with _open_program(argv[0], process) as (program, fds):
        found = dict(_search_path(process), **dict(env or {}))
        return _run(argv, program, fds, timeout, cap, stdin, found, become)


@contextlib.contextmanager
def _open_program(name, process):
    """Yield (the program to start, the descriptors that it is reached through)."""
    if process:
        with trust.open_running_program(process["pid"], process["ticks"], name) as fd:
            yield "/proc/self/fd/%d" % fd, (fd,)
    elif name == sys.executable:  # we are it
        yield name, ()
    else:
        yield trust.require_root_program(name), ()


def _search_path(process):
    """Return the PATH of the process itself: its own validation must find the same programs (a
    proxy, a monitor). {} if it has none.
    """
    if not process:
        return {}
    with open("/proc/%d/environ" % process["pid"], "rb") as stream:
        paths = [
            entry[len(b"PATH=") :]
            for entry in stream.read(host_files.MIB).split(b"\0")
            if entry.startswith(b"PATH=")
        ]
    return {"PATH": paths[0].decode("utf-8", "surrogateescape")} if paths and paths[0] else {}


def _run(argv, program, fds, timeout, cap, stdin, env, become):
    try:
        # A plain program: it has no AnsibleModule, whose run_command() knows no process groups.
        child = subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv,
            executable=program,
            pass_fds=fds,
            # Never the working directory of this process, where this very program may be coming
            # from; and no file, since a full disk must not keep commands from running.
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_build_environment(env),
            cwd="/",
            preexec_fn=become,
            start_new_session=True,
        )
    except OSError as exc:
        raise host_files.build_os_error(exc, argv[0])
    timed_out = True
    try:
        streams, timed_out, truncated = _drain(child, time.monotonic() + timeout, cap, stdin or b"")
    finally:
        _end(child, kill=timed_out)
    return {
        "rc": None if timed_out else child.returncode,
        "stdout": streams[0],
        "stderr": streams[1],
        "timed_out": timed_out,
        "truncated": truncated,
    }


def decode_answer(answer):
    """Return the same answer with its streams as text."""
    return dict(
        answer,
        stdout=answer["stdout"].decode("utf-8", "replace"),
        stderr=answer["stderr"].decode("utf-8", "replace"),
    )


def get_task_environment():
    """Return the variables of our own environment that the task's `environment:` names, but none
    of the dynamic linker's: what it loads is judged as if there were none.
    """
    return {
        name: os.environ[name]
        for name in asked_for
        if name in os.environ and not name.startswith("LD_")
    }


def _build_environment(extra):
    made = {"PATH": ":".join(trust.PROGRAM_PATH), "HOME": "/root", "LANG": "C"}
    made.update(get_task_environment())
    made.update(LC_ALL="C", LANGUAGE="C")
    made.update(extra or {})
    return made


def _drain(child, deadline, cap, unfed):
    """Read both streams until they end or the time is over: ([stdout, stderr], timed out, truncated).

    What a stream has beyond the cap is read and dropped, so that the command does not wait for us.
    unfed: the bytes for the command's stdin.
    """
    chunks, sizes = {child.stdout: [], child.stderr: []}, {child.stdout: 0, child.stderr: 0}
    truncated = False
    with selectors.DefaultSelector() as selector:
        for stream in chunks:
            selector.register(stream, selectors.EVENT_READ)
        if child.stdin:
            os.set_blocking(child.stdin.fileno(), False)
            selector.register(child.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                break
            if child.poll() is not None:
                deadline = min(deadline, time.monotonic() + GRACE)
            for key, _events in selector.select(min(left, 0.1)):
                if key.fileobj is child.stdin:
                    unfed = _write_stdin(selector, child.stdin, unfed)
                    continue
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                room = cap - sizes[key.fileobj]
                truncated = truncated or len(data) > room
                chunks[key.fileobj].append(data[: max(room, 0)])
                sizes[key.fileobj] += len(data)
    try:
        child.wait(max(deadline - time.monotonic(), 0.01))
        timed_out = False
    except subprocess.TimeoutExpired:
        timed_out = True
    return [b"".join(chunks[child.stdout]), b"".join(chunks[child.stderr])], timed_out, truncated


def _write_stdin(selector, stream, unfed):
    """Write to the command's stdin. Return what is left. Close the stream once nothing is left, or
    if the command no longer reads.
    """
    try:
        unfed = unfed[os.write(stream.fileno(), unfed[:65536]) :]
    except BlockingIOError:
        return unfed
    except OSError:
        unfed = b""
    if not unfed:
        selector.unregister(stream)
        stream.close()
    return unfed


def _end(child, kill):
    if kill:  # and only then: a daemon that a finished command started may live on
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except OSError:
            pass
        child.wait()
    if child.stdin:
        child.stdin.close()
    child.stdout.close()
    child.stderr.close()
