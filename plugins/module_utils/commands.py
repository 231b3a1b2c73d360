# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one command, bounded in time and output, in a process group that is killed as a whole.

Node side: standard library only, Python 3.6. Nothing ever goes through a shell.
"""

import os
import selectors
import signal
import subprocess
import tempfile
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils import nodefs

GRACE = 0.5  # how long output is still read after the command ended: a child that it left behind may hold the pipe


def run(argv, timeout=10, cap=nodefs.MIB, stdin=None, env=None):
    """{"rc", "stdout", "stderr", "timed_out", "truncated"}; the streams as bytes. NodeError when it cannot be started."""
    if not isinstance(argv, (list, tuple)) or not argv or not all(isinstance(word, str) for word in argv):
        raise nodefs.NodeError("bad-question", "argv must be a list of strings, not %r" % (argv,))
    try:
        # A plain program: it has no AnsibleModule, whose run_command() knows no process groups.
        child = subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv,
            stdin=_source(stdin),  # never ours: that is where this very program may be coming from
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(env),
            cwd="/",
            start_new_session=True,
        )
    except OSError as exc:
        raise nodefs.from_os_error(exc, argv[0])
    timed_out = True
    try:
        streams, timed_out, truncated = _drain(child, time.monotonic() + timeout, cap)
    finally:
        _end(child, kill=timed_out)
    return {
        "rc": None if timed_out else child.returncode,
        "stdout": streams[0],
        "stderr": streams[1],
        "timed_out": timed_out,
        "truncated": truncated,
    }


def _source(data):
    """Where a command reads from. A file only where there is something to read: a full disk must not keep commands from running."""
    if not data:
        return subprocess.DEVNULL
    with tempfile.TemporaryFile() as stream:
        stream.write(data)
        stream.seek(0)
        return os.fdopen(os.dup(stream.fileno()), "rb")


def text(answer):
    """The same answer with readable streams."""
    return dict(answer, stdout=answer["stdout"].decode("utf-8", "replace"), stderr=answer["stderr"].decode("utf-8", "replace"))


def _environment(extra):
    merged = dict(os.environ, LC_ALL="C", LANGUAGE="C")
    have = [part for part in merged.get("PATH", "").split(":") if part]
    merged["PATH"] = ":".join(have + [part for part in nodefs.DEFAULT_PATH if part not in have])  # sshd's PATH may lack sbin
    merged.update(extra or {})
    return merged


def _drain(child, deadline, cap):
    """Read both streams until they end, the time is over or one is full: ([stdout, stderr], timed out, truncated)."""
    chunks, sizes = {child.stdout: [], child.stderr: []}, {child.stdout: 0, child.stderr: 0}
    truncated = False
    with selectors.DefaultSelector() as selector:
        for stream in chunks:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                break
            if child.poll() is not None:
                deadline = min(deadline, time.monotonic() + GRACE)
            for key, _events in selector.select(min(left, 0.1)):
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


def _end(child, kill):
    if kill:  # and only then: a daemon that a finished command started may live on
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except OSError:
            pass
        child.wait()
    child.stdout.close()
    child.stderr.close()
