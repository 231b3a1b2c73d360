# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Killed at calls that change something, or refused by the system at them: the host is as before or
as wanted, nothing is left over.
"""

import errno
import json
import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    journal,
    journal_queries,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)

from tests.counted_calls import CountedCalls

from ..conftest import CONFIG, Systemd
from .conftest import Host, Patched, in_child

CHANGING = "open rename unlink mkdir rmdir link symlink write pwrite fsync chmod fchmod fchown utime setxattr".split()
ERRORS = ["ENOSPC", "EIO", "EROFS", "EACCES", "EMFILE"]
STRIDE = 13  # of the sample


def count_changes(monkeypatch, at, then, on=False):
    """Count the calls that change something, and have `then` called before one of them."""
    functions = [(os, name) for name in CHANGING] + [(commands, "run")]
    return CountedCalls(monkeypatch, functions, at, then, on=on, counts=is_change)


def is_change(name, args):
    return name != "open" or (len(args) > 1 and args[1] & (os.O_WRONLY | os.O_RDWR))


def kill(_name, _args):
    os._exit(9)


def fail(number):
    def then(name, _args):
        # those need no room, and a full disk does not hinder them
        if name not in (
            "unlink",
            "rmdir",
            "run",
        ):
            raise OSError(number, os.strerror(number))

    return then


def steps_of_a_whole_run(host, monkeypatch, **more):
    counting = count_changes(monkeypatch, 0, kill)
    read, write = os.pipe()

    def work():
        answer = host.change(**more)
        os.write(write, json.dumps([counting.count, answer["error"]]).encode())

    in_child(work)
    monkeypatch.undo()
    count, error = json.loads(os.read(read, 65536).decode())
    os.close(read)
    os.close(write)
    assert error is None
    return count


def test_killed_at_any_step_the_host_is_old_or_new_after_recovery(tmp_path):
    """The same for the next transaction, the timer and the boot: they all recover, from the journal
    alone.
    """
    total = count_steps(tmp_path)
    assert total > 60, "the sweep sees the calls"
    seen = {"old": 0, "new": 0}
    for at in sweep(total, 1):
        host, monkeypatch = fresh(tmp_path, "at%d" % at)
        with monkeypatch:
            count_changes(monkeypatch.patch, at, kill)
            assert in_child(host.change) == 9, "killed at call %d" % at
        with monkeypatch.path():
            transaction_entry.recover_transactions(journal_dir=host.journal)
            settled(host, seen, "killed at call %d of %d" % (at, total))
            once = host.look()
            transaction_entry.recover_transactions(journal_dir=host.journal)
            assert host.look() == once, "recovery twice is recovery once"
    assert seen["old"] > seen["new"] > 0


def test_killed_while_it_is_taken_back_it_is_taken_back_all_the_same(tmp_path):
    """An executor that dies in the restart, then whoever takes back dies at any step, then the next
    one.
    """

    def cut_short(name):
        host, monkeypatch = fresh(tmp_path, name)
        with monkeypatch:
            monkeypatch.patch.setattr(
                transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
            )
            assert in_child(host.change) == 9
        return host, monkeypatch

    seen, at, status = {"old": 0, "new": 0}, 1, 9
    while status == 9:
        host, monkeypatch = cut_short("again%d" % at)
        with monkeypatch:
            count_changes(monkeypatch.patch, at, kill)
            status = in_child(
                lambda journal_dir=host.journal: transaction_entry.recover_transactions(
                    journal_dir=journal_dir
                )
            )
        with monkeypatch.path():
            transaction_entry.recover_transactions(journal_dir=host.journal)
            settled(host, seen, "killed at call %d of the taking back" % at)
        at += 1 if os.environ.get("GPUFLEET_EVERY_STEP") else 5
    assert seen["new"] == 0
    assert at > 20


def settled(host, seen, where):
    state = "new" if host.is_new() else "old" if host.look() == host.before else "half"
    assert state != "half", "%s: %s" % (where, host.look())
    seen[state] += 1
    assert host.left_over() == [], where
    assert [
        meta["state"] for meta in journal.list_transactions(host.journal) if not meta["closed"]
    ] == [], where
    assert host.systemd.state("engine.service") == "active", where
    originals = sorted(journal_queries.look_at_journal("", host.journal)["originals"])
    wanted = (
        sorted(str(path) for path in (host.config, host.dropin, host.old)) if state == "new" else []
    )
    assert originals == wanted, where


def fresh(tmp_path, name):
    directory = tmp_path / name
    directory.mkdir()
    return Host(directory / "host", Systemd(directory)), Patched(directory)


def sweep(total, first):
    """Every call when asked for, else a sample."""
    return range(first, total + 1, 1 if os.environ.get("GPUFLEET_EVERY_STEP") else STRIDE)


def count_steps(tmp_path):
    host, monkeypatch = fresh(tmp_path, "whole")
    with monkeypatch:
        total = steps_of_a_whole_run(host, monkeypatch.patch)
    assert host.is_new()
    return total


@pytest.mark.parametrize("number", ERRORS)
def test_refused_at_any_step_the_host_is_old_or_new(number, tmp_path):
    """One call fails, and all goes on from there in the same process; what it leaves open, the next
    one ends.
    """
    total = count_steps(tmp_path)
    seen = {"old": 0, "new": 0}
    for at in sweep(total, 1 + ERRORS.index(number)):
        host, monkeypatch = fresh(tmp_path, number + str(at))
        with monkeypatch:
            count_changes(monkeypatch.patch, at, fail(getattr(errno, number)))
            in_child(host.change)
        with monkeypatch.path():
            transaction_entry.recover_transactions(journal_dir=host.journal)
            settled(host, seen, "%s at call %d of %d" % (number, at, total))
    assert seen["old"]


def test_a_disk_that_is_full_from_some_step_on_still_gives_everything_back(tmp_path):
    """What takes the files back needs no room: a rename, and a state that is written into room
    taken before.
    """
    total = count_steps(tmp_path)

    def full(name, args):
        if name in ("write", "mkdir", "link", "symlink") or (
            name == "open" and args[1] & os.O_CREAT
        ):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for at in sweep(total, 3):
        host, monkeypatch = fresh(tmp_path, "full%d" % at)
        with monkeypatch:
            host.systemd.hook(
                "engine.service", "restart", "grep -q new %s && exit 1; exit 0" % host.config
            )
            count_changes(monkeypatch.patch, at, full, on=True)
            in_child(host.change)
        assert host.config.read_text() == CONFIG, "at call %d" % at
        assert host.old.exists(), "at call %d" % at
        assert not host.dropin.exists(), "at call %d" % at
