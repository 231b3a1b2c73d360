# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run each step of a measurement in a child of its own, within a limit of time.

A step that asks a driver may hang, and then it hangs in the kernel. So this program does not wait
for a child that it has killed: it leaves the child behind and reports it. Standard library only,
Python 3.6.
"""

import ctypes
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust

PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Seconds that a killed child has to go before it counts as one that the driver holds.
GRACE = 3
LAST_WORDS = 600


class Failed(Exception):
    """A step that gave no answer: a code, and one sentence."""

    def __init__(self, code, sentence):
        super(Failed, self).__init__(sentence)
        self.code, self.sentence = code, sentence


class Clock(object):
    """The time that is left for all steps together."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def share(self, seconds):
        """Return the limit of a step: its own, or what is left of the whole."""
        return max(0.0, min(float(seconds), self.end - time.monotonic()))


class BoundChild(subprocess.Popen):
    """A child that is killed when the process that started it dies, however that dies.

    What a daemon forks of itself lives on: the kernel binds no grandchild.
    """

    def __init__(self, *words, **options):
        bind = functools.partial(bind_to_parent, os.getpid(), ctypes.CDLL(None))
        super(BoundChild, self).__init__(*words, preexec_fn=bind, **options)


def bind_to_parent(parent, libc):
    """Have this process killed with its parent. End it at once if the parent is dead already."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def bind_children():
    """Bind every program that this process starts from now on, by whichever part of it."""
    subprocess.Popen = BoundChild


def find_program(wanted):
    """Return the path of a program, which is named or found by PATH. Raise Failed if there is none,
    or if another account could have put it there: it would be run as root.
    """
    found = shutil.which(wanted)
    if found is None:
        raise Failed("not-started", "%s cannot be started: there is no such program." % wanted)
    found = os.path.abspath(found)
    try:
        judged = trust.judge_program("", found) is None
    except host_files.HostError:
        judged = False
    if not judged:
        # The report has this sentence, and names no account.
        told = "%s is not run: another account can change it, or can turn its path."
        raise Failed("untrusted", told % os.path.basename(found))
    return found


def run(command, seconds, stdin=b"", environment=None):
    """Return exit status, output and errors of a command. Raise Failed if it takes too long or
    cannot be started.
    """
    if seconds <= 0:
        raise Failed("no-time", "No time was left for %s." % os.path.basename(command[0]))
    # Files, because a child that is left behind would hold a pipe open.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out:
        with tempfile.TemporaryFile() as errors:
            given.write(stdin)
            given.seek(0)
            # What already runs is this very program's Python.
            own = command[0] == sys.executable
            program = command[0] if own else find_program(command[0])
            try:
                child = BoundChild(
                    [program] + command[1:],
                    stdin=given,
                    stdout=out,
                    stderr=errors,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as exc:
                raise Failed(
                    "not-started", "%s cannot be started: %s." % (command[0], exc.strerror)
                )
            try:
                status = child.wait(seconds)
            except BaseException as exc:
                gone = end_group(child)
                if not isinstance(exc, subprocess.TimeoutExpired):
                    raise
                how = "was killed" if gone else "was killed, and the kernel still holds it"
                raise Failed(
                    "timeout",
                    "%s gave no answer within %d s, and %s."
                    % (os.path.basename(command[0]), seconds, how),
                )
            return status, read_all(out), read_all(errors)


def read_all(file):
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def end_group(child):
    """Kill a child and its children. Return whether it is gone."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        return False
    return True


def call(program, name, seconds, request=None, environment=None):
    """Return the JSON that a step of this program prints. Raise Failed for any other end."""
    command = [sys.executable, "-B", program, "--step", name]
    text = json.dumps(request or {}).encode("utf-8")
    try:
        status, out, errors = run(command, seconds, text, environment)
    except Failed as exc:
        raise Failed(exc.code, exc.sentence.replace(os.path.basename(sys.executable), name, 1))
    try:
        return json.loads(out)
    except ValueError:
        last = (errors.strip().splitlines() or ["it printed no JSON"])[-1]
        raise Failed(
            "failed", "%s ended with exit status %d: %s" % (name, status, last[:LAST_WORDS])
        )
