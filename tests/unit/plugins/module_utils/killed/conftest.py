# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a transaction that is killed, and what must be true of it afterwards. Python 3.6."""

import os

import pytest

from ..conftest import CONFIG, RESTART, HostDirectory, first_on_path, sha

NEW = "new\n"


class Host(HostDirectory):
    """An engine with a file that is edited, one that is made with its directory, one that goes, and
    a unit that others must not run.
    """

    def __init__(self, directory, systemd):
        super(Host, self).__init__(directory)
        self.systemd = systemd
        self.old = self.etc / "old.toml"
        self.old.write_text("old\n")
        systemd.add("engine.service")
        systemd.add("refresh.path")
        self.made = directory / "made"
        self.before = self.look()

    def look(self):
        return (
            self.tree(),
            self.systemd.state("refresh.path"),
            self.systemd.state("refresh.path", "UnitFileState"),
            self.made.exists(),
        )

    def change(self, **more):
        changes = [
            self.write(self.config, NEW, expect=sha(CONFIG)),
            self.write(self.dropin, "a = 1\n", mode="0600", expect=None),
            {"path": str(self.old), "op": "remove", "expect": sha("old\n")},
        ]
        first = [{"argv": ["touch", str(self.made)], "undo": ["rm", "-f", str(self.made)]}]
        return self.run(
            changes, units=RESTART, disable=["refresh.path"], commands_before=first, **more
        )

    def is_new(self):
        """Everything that was wanted, and nothing else."""
        files = (
            self.config.read_text(),
            self.dropin.exists() and self.dropin.read_text(),
            self.old.exists(),
            self.made.exists(),
        )
        states = (
            self.systemd.state("refresh.path"),
            self.systemd.state("refresh.path", "UnitFileState"),
        )
        return files == (NEW, "a = 1\n", False, True) and states == ("inactive", "disabled")

    def left_over(self):
        """The names that must not be there once nothing is open any more."""
        found = [
            name
            for _dir, subdirs, names in os.walk(str(self.directory))
            for name in subdirs + names
        ]
        return [name for name in found if name.startswith((".gpufleet-", "stage-", ".new-"))]

    def restarts(self):
        return self.systemd.actions.count("restart engine.service")


@pytest.fixture
def host(tmp_path, systemd):
    return Host(tmp_path / "host", systemd)


def in_child(work):
    """Do it in a child that may be killed: its status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] >> 8


class Patched(object):
    """A monkeypatch of its own for one round, and the PATH on which the host's systemctl lies."""

    def __init__(self, directory):
        self.directory = directory

    def __enter__(self):
        self.patch = (
            pytest.MonkeyPatch()
            if hasattr(pytest, "MonkeyPatch")
            else __import__("_pytest.monkeypatch").monkeypatch.MonkeyPatch()
        )
        # no power is lost here, and disks are slow
        self.patch.setattr(os, "fsync", lambda fd: None)
        first_on_path(self.patch, str(self.directory / "bin"))
        return self

    def path(self):
        return self

    def __exit__(self, *_exc):
        self.patch.undo()
