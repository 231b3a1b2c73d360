# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a file that a guard keeps and transactions write, and that can be stopped at each
step. Python 3.6.
"""

import fcntl
import json
import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import (
    cdi_guard,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
    waiting,
)

from tests.counted_calls import CountedCalls

from ..conftest import HostDirectory, sha

OLD, NEW, OTHER = "old: 1\n", "new: 2\n", "other: 3\n"
UNIT = "gpufleet-watch.service"
CALLS = "open rename link unlink mkdir rmdir symlink mknod chmod chown stat lstat fstat write pwrite ftruncate fsync fchmod fchown".split()


class Host(HostDirectory):
    """A directory that engines scan with a file that a guard keeps, and that transactions write."""

    def __init__(self, directory, monkeypatch):
        super(Host, self).__init__(directory)
        self.file, self.aside = self.etc / "a.yaml", directory / "aside" / "a.yaml"
        self.fact, self.settings = directory / "library", directory / "settings.json"
        self.running = directory / "running"
        self.file.write_text(OLD)
        self.woken, self.systemd = [], lambda: False
        os.makedirs(self.journal)
        monkeypatch.setattr(programs, "LOCK", os.path.join(self.journal, "lock"))
        monkeypatch.setattr(journal_writer, "PATIENCE", 0)
        monkeypatch.setattr(waiting.commands, "run", self._play(commands.run))
        self.guard_keeps(OLD)

    def _play(self, run):
        def played(argv, *args, **more):
            if argv[0] == "systemctl":
                late = self.systemd()
                self.woken += [] if late else argv[3:]
                return {"rc": 0, "stdout": b"", "stderr": b"", "timed_out": late}
            return run(argv, *args, **more)

        return played

    def guard_keeps(self, text):
        entry = {
            "path": str(self.file),
            "sha256": sha(text),
            "facts": [{"what": "files", "paths": [str(self.fact)]}],
        }
        said = {"aside": str(self.aside.parent), "running": str(self.running), "units": [UNIT]}
        self.settings.write_text(json.dumps(dict(said, files=[entry])))

    def guard(self):
        return cdi_guard.main([str(self.settings)])

    def transaction(self, text=NEW):
        before = self.file.read_text() if self.file.exists() else None
        return self.run(
            [self.write(self.file, text, expect=None if before is None else sha(before))]
        )

    def replace(self, text=OTHER):
        """As somebody does who has no lock."""
        spare = self.directory / "spare"
        spare.write_text(text)
        os.rename(str(spare), str(self.file))

    def now(self):
        return [path.read_text() if path.exists() else None for path in (self.file, self.aside)]

    def left_over(self):
        return sorted(name for name in os.listdir(str(self.etc)) if name.startswith("."))


def every_step(tmp_path, monkeypatch, work, then):
    """Return a host for each step of `work(host)`. `then(host)` was called before that step."""
    at, made = 0, []
    while True:
        at += 1
        with monkeypatch.context() as patch:
            host = Host(tmp_path / ("host%d" % at), patch)
            said = []

            def call_then(_name, _args, host=host, said=said):
                said.append(then(host))

            functions = [(os, name) for name in CALLS] + [(fcntl, "flock")]
            steps = CountedCalls(patch, functions, at, call_then)
            work(host)
            steps.busy = True
            if steps.count < at:
                return made
            host.said = said[0] if said else None
            made.append(host)


class Killed(BaseException):
    """The program is killed here."""


@pytest.fixture
def host(tmp_path, monkeypatch):
    return Host(tmp_path / "host", monkeypatch)
