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
    observe,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    acknowledge,
    journal_writer,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)

from tests.counted_calls import CountedCalls

from .conftest import CONFIG, RESTART, HostDirectory, Systemd, first_on_path, sha

CHANGING = "open rename unlink mkdir rmdir link symlink write pwrite fsync chmod fchmod fchown utime setxattr".split()
NEW = "new\n"
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


def test_the_next_transaction_takes_back_what_was_cut_short_and_says_so(host, monkeypatch):
    with Patched(host.systemd.bin.parent) as patched:
        count_changes(patched.patch, 0, kill)
        patched.patch.setattr(
            transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
        )
        assert in_child(host.change) == 9
    assert host.config.read_text() == NEW
    seen = journal_queries.look_at_journal("", host.journal)
    assert [entry["state"] for entry in seen["unfinished"]] == ["swapped"]
    found = host.run([], id="2" * 32)
    assert [(entry["outcome"], entry["by"]) for entry in found["recovered"]] == [
        ("rolled_back", "the next transaction")
    ]
    assert "died in the middle (state swapped)" in found["recovered"][0]["why"]
    assert host.look() == host.before
    assert host.restarts() == 1, (
        "it may run with the new files, so it is restarted with the old ones"
    )


def test_check_mode_takes_nothing_back_but_says_that_a_run_would(host):
    with Patched(host.systemd.bin.parent) as patched:
        patched.patch.setattr(
            transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
        )
        assert in_child(host.change) == 9
    cut = host.look()
    found = host.run([], check=True, id="2" * 32)
    assert found["error"]["phase"] == "recover"
    assert "a run without check mode rolls it back first" in found["error"]["message"]
    assert host.look() == cut


def test_a_unit_that_began_again_with_half_of_the_files_is_restarted_with_the_old_ones(host):
    swap = transaction_entry.executor.swap
    with Patched(host.systemd.bin.parent) as patched:

        def dying(*args):
            (host.systemd.units / "engine.service" / "InvocationID").write_text("i2\n")
            os._exit(9)

        patched.patch.setattr(swap, "_settle", dying)
        assert in_child(host.change) == 9
    assert host.restarts() == 0
    transaction_entry.recover_transactions(journal_dir=host.journal)
    assert host.restarts() == 1
    assert host.look() == host.before


def test_a_file_that_somebody_wrote_after_the_executor_died_is_left_to_them(host):
    with Patched(host.systemd.bin.parent) as patched:
        patched.patch.setattr(
            transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
        )
        in_child(host.change)
    host.config.write_text("mended by hand\n")
    outcome = transaction_entry.recover_transactions(journal_dir=host.journal)[0]
    assert outcome["foreign"] == [str(host.config)]
    assert host.config.read_text() == "mended by hand\n"
    assert not host.dropin.exists()


def test_after_a_boot_files_come_back_and_no_unit_is_waited_for(host, monkeypatch):
    undo = transaction_entry.rollback
    with Patched(host.systemd.bin.parent) as patched:
        patched.patch.setattr(
            transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
        )
        in_child(host.change)
    with journal_writer.hold_transaction_lock(host.journal, "boot", keep=True):
        assert (
            undo.recover_open_transactions("", host.journal, "the next boot", booting=True) == []
        ), "this very boot is none"
    monkeypatch.setattr(undo.system, "name_boot", lambda: "another")
    actions = len(host.systemd.actions)
    with journal_writer.hold_transaction_lock(host.journal, "boot", keep=True):
        outcome = undo.recover_open_transactions("", host.journal, "the next boot", booting=True)[0]
    assert outcome["why"] == "the host was switched off in the middle of it"
    assert host.tree() == host.before[0]
    assert host.systemd.actions[actions:] == [
        "--no-reload enable refresh.path",
        "--no-block start refresh.path",
    ]


@pytest.mark.parametrize(("within", "undone"), [(900, False), (10, True)])
def test_a_boot_undoes_what_is_quick_and_names_what_a_package_manager_has_left_to_do(
    within, undone, host, monkeypatch
):
    """That would be killed in its middle; and before the network is up it could do nothing."""
    left = host.config.parent / "undone"
    command = {"argv": ["true"], "undo": ["touch", str(left)], "undo_within": within}
    with Patched(host.systemd.bin.parent) as patched:
        patched.patch.setattr(
            transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
        )
        in_child(
            lambda: host.run(
                [host.write(host.config, NEW)], commands_before=[command], units=RESTART
            )
        )
    monkeypatch.setattr(transaction_entry.rollback.system, "name_boot", lambda: "another")
    with journal_writer.hold_transaction_lock(host.journal, "boot", keep=True):
        outcome = transaction_entry.rollback.recover_open_transactions(
            "", host.journal, "the next boot", booting=True
        )[0]
    assert left.exists() is undone
    assert (
        outcome["trouble"] is None
        if undone
        else "a boot cannot undo it; run: touch %s" % left in outcome["trouble"]
    )


def test_a_command_that_outlives_its_executor_is_waited_for_as_long_as_it_may_take(
    host, monkeypatch
):
    """By that the time of who takes a transaction back is measured: longer, and systemd would end
    them before units run again.
    """
    quick = [{"argv": ["true"], "undo": ["true"], "timeout": seconds} for seconds in (7, 5)]
    with Patched(host.systemd.bin.parent) as patched:
        patched.patch.setattr(
            transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
        )
        in_child(
            lambda: host.run([host.write(host.config, NEW)], commands_before=quick, units=RESTART)
        )
    waited = []
    monkeypatch.setattr(
        transaction_entry.rollback.orphans,
        "require_ended",
        lambda _unit, within: waited.append(within),
    )
    transaction_entry.recover_transactions(journal_dir=host.journal, by="systemd")
    assert waited == [7]


def by_a_transaction(host, ids):
    host.run([], id="2" * 32, acknowledged=ids)


def by_itself(host, ids):
    answer = acknowledge.run(
        {"schema": 1, "root": "/", "journal_dir": host.journal, "ids": ids, "strays": []}
    )
    assert answer == {"swept": [], "error": None}


@pytest.mark.parametrize("way", [by_a_transaction, by_itself])
def test_what_was_rolled_back_is_told_until_somebody_says_that_he_knows(host, way):
    with Patched(host.systemd.bin.parent) as patched:
        patched.patch.setattr(
            transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
        )
        in_child(host.change)
    transaction_entry.recover_transactions(journal_dir=host.journal, by="the timer")
    question = {"id": "o", "kind": "originals", "dir": host.journal, "listing": True}

    def look():
        return observe.run({"schema": 1, "root": "/", "questions": [question]})["answers"]["o"]

    assert [(entry["state"], entry["by"]) for entry in look()["outcomes"]] == [
        ("rolled_back", "the timer")
    ]
    files = host.tree()
    way(host, ["f" * 32])
    assert len(look()["outcomes"]) == 1, "another one is no word about it"
    way(host, [look()["outcomes"][0]["id"]])
    assert look()["outcomes"] == []
    assert [entry["state"] for entry in look()["journal"]] == ["rolled_back"], (
        "people can still read it"
    )
    assert host.tree() == files


def test_what_is_not_over_is_not_acknowledged_away(host):
    with Patched(host.systemd.bin.parent) as patched:
        patched.patch.setattr(
            transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
        )
        in_child(host.change)
    (entry,) = journal.list_transactions(host.journal)
    by_itself(host, [entry["id"]])
    assert journal.list_transaction_names(host.journal, "open") == [entry["name"]], (
        "somebody still has to take it back"
    )


def test_who_is_at_work_is_not_disturbed_by_an_acknowledgement(host):
    host.change()
    with journal_writer.hold_transaction_lock(host.journal, "the other one", keep=True):
        answer = acknowledge.run(
            {"schema": 1, "root": "/", "journal_dir": host.journal, "ids": [], "strays": []}
        )
    assert "locked by process" in answer["error"]


def test_a_restart_that_is_left_to_somebody_is_remembered_until_the_unit_began_again(host):
    host.run([host.write(host.config, NEW)], pending=["engine.service"])
    found = journal_queries.look_at_journal("", host.journal)["pending"]
    assert [(entry["unit"], entry["reason"]) for entry in found] == [("engine.service", "test")]
    (host.systemd.units / "engine.service" / "InvocationID").write_text("i2\n")
    assert journal_queries.look_at_journal("", host.journal)["pending"] == []
    host.run([host.write(host.config, "newer\n")], pending=["engine.service"], id="2" * 32)
    assert len(journal_queries.look_at_journal("", host.journal)["pending"]) == 1
    host.run([host.write(host.config, "newest\n")], units=RESTART, id="3" * 32)
    assert journal_queries.look_at_journal("", host.journal)["pending"] == []


UNREADABLE = [
    (
        "meta.json",
        b"",
        "cannot be read; put the files back by hand from the copies in it, then remove",
    ),
    ("meta.json", b'{"id": "1"', "cannot be read"),
    (
        "meta.json",
        b'{"schema": 7, "id": "1"}',
        "was written by another release (schema 7); finish it with that release, then remove",
    ),
    ("states", b" " * 8192, "cannot be read"),
]


@pytest.mark.parametrize("name, content, said", UNREADABLE)
def test_an_entry_that_cannot_be_read_is_neither_passed_over_nor_guessed_at(
    host, name, content, said
):
    with Patched(host.systemd.bin.parent) as patched:
        patched.patch.setattr(
            transaction_entry.executor.health, "run_unit_action", lambda *args: os._exit(9)
        )
        in_child(host.change)
    entry = journal.list_transactions(host.journal)[0]["entry"]
    with open(os.path.join(entry, name), "wb") as stream:
        stream.write(content)
    cut = host.look()
    found = host.run([host.write(host.config, "newer\n")], id="2" * 32)
    assert found["error"]["phase"] == "recover"
    assert said in found["error"]["message"]
    assert entry in found["error"]["message"]
    assert host.look() == cut
    os.unlink(os.path.join(host.journal, "open", os.path.basename(entry)))
    assert host.run([host.write(host.config, "newer\n")], id="3" * 32)["error"] is None


def test_a_torn_state_leaves_the_one_before(host):
    host.change()
    entry = journal.list_transactions(host.journal)[0]["entry"]
    before = journal.list_entry_states(entry)
    journal_writer.mark_state(entry, "undoing", why="x" * 5000)
    with open(os.path.join(entry, "states"), "r+b") as stream:
        stream.seek((len(before) % journal.SLOTS) * journal.SLOT)
        stream.write(b'{"n": 99, "sta')
        stream.write(b"\0" * 40)
    assert journal.list_entry_states(entry) == before
