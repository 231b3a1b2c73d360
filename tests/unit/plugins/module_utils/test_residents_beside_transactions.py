# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that stay on a host, held at every step while a transaction runs, and the other way
round. Python 3.6.
"""

import contextlib
import fcntl
import json
import os
import stat

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import (
    cdi_guard,
    device_nodes,
    modes,
    mps,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    acknowledge,
    journal_writer,
    launcher,
    waiting,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)

from .conftest import HostDirectory, script, sha

OLD, NEW, OTHER = "old: 1\n", "new: 2\n", "other: 3\n"
UNIT = "gpufleet-watch.service"
CALLS = "open rename link unlink mkdir rmdir symlink mknod chmod chown stat lstat fstat write pwrite ftruncate fsync fchmod fchown".split()


class Steps(object):
    """Counts calls of the system, and does something else before one of them, without counting what
    that does.
    """

    def __init__(self, monkeypatch, at, then):
        self.count, self.at, self.then, self.busy = 0, at, then, False
        for name in CALLS:
            monkeypatch.setattr(os, name, self.counted(getattr(os, name)))
        monkeypatch.setattr(fcntl, "flock", self.counted(fcntl.flock))

    def counted(self, function):
        def call(*args, **more):
            if not self.busy:
                self.count += 1
                if self.count == self.at:
                    self.busy = True
                    try:
                        self.then()
                    finally:
                        self.busy = False
            return function(*args, **more)

        return call


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
    """A host for each step of `work(host)`, with what `then(host)` gave there; as many as there are
    steps.
    """
    at, made = 0, []
    while True:
        at += 1
        with monkeypatch.context() as patch:
            host = Host(tmp_path / ("host%d" % at), patch)
            said = []
            steps = Steps(patch, at, lambda host=host, said=said: said.append(then(host)))
            work(host)
            steps.busy = True
            if steps.count < at:
                return made
            host.said = said[0] if said else None
            made.append(host)


def test_a_guard_that_is_held_at_any_step_takes_no_new_file_away(tmp_path, monkeypatch):
    hosts = every_step(tmp_path, monkeypatch, Host.guard, Host.transaction)
    done = [host for host in hosts if host.said["error"] is None]
    locked = [host for host in hosts if host.said["error"] is not None]
    assert len(done) > 3
    assert len(locked) > 20
    assert [host.now()[0] for host in done] == [NEW] * len(done)
    assert {host.said["error"]["message"].partition(" ")[0] for host in locked} == {"locked"}
    # it is not true, and the next run makes it again
    assert [host.now() for host in locked] == [[None, OLD]] * len(locked)
    assert [host.left_over() for host in hosts] == [[]] * len(hosts)


@pytest.mark.parametrize("keeps", [True, False], ids=["sets aside", "puts back"])
def test_a_guard_that_is_held_at_any_step_leaves_what_others_write(tmp_path, monkeypatch, keeps):
    def prepare(host):
        if not keeps:
            host.aside.parent.mkdir()
            host.aside.write_text(OLD)
            host.file.unlink()
            host.fact.write_text("")

    made = Host.__init__

    def prepared(host, *args):
        made(host, *args)
        prepare(host)

    monkeypatch.setattr(Host, "__init__", prepared)
    hosts = every_step(tmp_path, monkeypatch, Host.guard, Host.replace)
    assert len(hosts) > 25
    kept = [host.now()[0] for host in hosts]
    assert kept == [OTHER] * len(hosts)
    assert [host.left_over() for host in hosts] == [[]] * len(hosts)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("true", [True, False], ids=["true again", "still false"])
def test_a_guard_that_is_killed_at_any_step_has_lost_nothing(tmp_path, monkeypatch, true):
    def work(host):
        try:
            host.guard()
        except Killed:
            host.killed = True

    def kill(_host):
        raise Killed()

    hosts = every_step(tmp_path, monkeypatch, work, kill)
    assert len(hosts) > 25
    for host in hosts:
        monkeypatch.setattr(programs, "LOCK", os.path.join(host.journal, "lock"))
        if true:
            host.fact.write_text("")
        host.guard()
        host.guard()
        assert host.now() == ([OLD, None] if true else [None, OLD])
        assert host.left_over() == []


def test_a_guard_beside_a_transaction_that_is_held_at_any_step_does_nothing_and_is_started_afterwards(
    tmp_path, monkeypatch
):
    def work(host):
        host.answer = host.transaction()

    def then(host):
        before = host.now()
        host.guard()
        return before == host.now()

    hosts = every_step(tmp_path, monkeypatch, work, then)
    waited = [host for host in hosts if host.woken]
    assert len(waited) > 100
    assert all(host.said for host in waited)
    assert {tuple(host.woken) for host in waited} == {(UNIT,)}
    assert {host.answer["error"] is None for host in waited} == {True}
    assert [host.now()[0] for host in waited] == [NEW] * len(waited)
    for host in hosts:
        # Before the lock is taken the guard sets the old file aside, and the transaction finds
        # another host than the plan was made from.
        if host.answer["error"] is not None:
            assert host.answer["conflict"] or host.answer["error"]["phase"] == "lock"
            assert host.now() == [None, OLD]
        assert journal.list_transaction_names(host.journal, "waiting") == []


def test_the_file_of_a_reproduced_race(tmp_path, monkeypatch):
    """The guard's disk is slow (fsync), and a transaction writes the next spec meanwhile."""
    host = Host(tmp_path / "host", monkeypatch)
    real, said = os.fsync, []

    def slow(fd):
        real(fd)
        if not said:
            said.append(None)
            said.append(host.transaction())

    monkeypatch.setattr(os, "fsync", slow)
    host.guard()
    assert "locked by" in said[1]["error"]["message"]
    assert host.transaction()["error"] is None
    host.guard()
    assert host.now()[0] == NEW


# --- all programs
# --------------------------------------------------------------------------------------------------

TOOL = "#!/bin/sh\ncd %s\ncase $1 in get) cat mode;; set) echo $2 > mode;; esac\n"


def of_modes(host):
    script(host.directory / "tool", TOOL % host.directory)
    (host.directory / "mode").write_text("SLOW\n")
    tool = str(host.directory / "tool")

    def instructions(value):
        one = {
            "name": "1",
            "value": value,
            "read": [tool, "get"],
            "pattern": r"^(\w+)$",
            "set": [tool, "set", value],
            "accepts": [0],
        }
        return {"seconds": 20, "units": [UNIT], "settings": [one]}

    return modes.main, [], instructions, lambda: (host.directory / "mode").read_text().strip()


def of_device_nodes(host):
    (host.directory / "majors").write_text("Character devices:\n  1 mem\n\n")
    device = host.directory / "dev" / "null"

    def instructions(value):
        (host.directory / "params").write_text("Mode: %d\n" % (0o600 if value == "FAST" else 0o640))
        rule = {"path": str(device), "minor": 3, "drivers": ["mem"]}
        params = {"file": str(host.directory / "params"), "mode": "Mode"}
        return {
            "seconds": 20,
            "units": [UNIT],
            "majors": str(host.directory / "majors"),
            "params": params,
            "nodes": [rule],
        }

    return (
        device_nodes.main,
        [],
        instructions,
        lambda: (
            "FAST" if device.exists() and stat.S_IMODE(device.stat().st_mode) == 0o600 else "SLOW"
        ),
    )


def of_mps(host):
    host.directory.chmod(0o755)
    log = host.directory / "log" / "GPU-1"

    def instructions(_value):
        return {
            "seconds": 20,
            "units": [UNIT.replace("watch", "mps-places@NAME"), "gpufleet-mps@NAME.service"],
            "places": {"log": str(host.directory / "log" / "NAME")},
            "mounts": {},
            "majors": "/proc/devices",
            "device": "mem",
        }

    return mps.main, ["prepare", "GPU-1"], instructions, lambda: "FAST" if log.exists() else "SLOW"


PROGRAMS = [of_modes, of_mps] + ([of_device_nodes] if os.geteuid() == 0 else [])


@pytest.fixture(name="host")
def a_host(tmp_path, monkeypatch):
    return Host(tmp_path / "host", monkeypatch)


def start(host, of):
    main, words, instructions, now = of(host)
    host.settings.write_text(json.dumps(instructions("FAST")))
    assert now() == "SLOW"
    assert main([str(host.settings)] + words) == 0
    return now()


@pytest.mark.parametrize("of", PROGRAMS)
def test_a_program_works_where_no_transaction_is_under_way(host, of):
    assert start(host, of) == "FAST"
    assert host.woken == []


@pytest.mark.parametrize("of", PROGRAMS)
def test_a_program_leaves_a_transaction_alone_and_is_started_after_it(host, of):
    with journal_writer.hold_transaction_lock(host.journal, "somebody", keep=True):
        assert start(host, of) == "SLOW"
        assert host.woken == []
    assert host.woken == [
        json.loads(host.settings.read_text())["units"][0].replace("NAME", "GPU-1")
    ]
    with journal_writer.hold_transaction_lock(host.journal, "somebody", keep=True):
        pass
    assert len(host.woken) == 1


@pytest.mark.parametrize("of", PROGRAMS)
@pytest.mark.parametrize(
    "unit, works", [(UNIT, True), ("gpufleet-other.service", False), ("engine.service", False)]
)
def test_a_program_for_whose_unit_a_transaction_waits_works_in_its_place(host, of, unit, works):
    with journal_writer.hold_transaction_lock(host.journal, "somebody", keep=True):
        with waiting.write_awaited_units(
            host.journal,
            [
                "systemctl",
                "start",
                "gpufleet-mps@GPU-1.service" if of is of_mps and works else unit,
            ],
        ):
            assert (start(host, of) == "FAST") is works
        assert not journal_writer.find_lock_holder(host.journal).get("starts")


@pytest.mark.parametrize("of", [of_modes])
def test_a_transaction_between_judging_and_writing_is_what_counts(tmp_path, monkeypatch, of):
    """At whatever step it comes: the program begins again with the new instructions, or the
    transaction is told to come later.
    """

    def work(host):
        main, words, instructions, host.mode = of(host)
        host.settings.write_text(json.dumps(instructions("FAST")))
        host.instructions = instructions
        assert main([str(host.settings)] + words) == 0

    def then(host):
        if not hasattr(host, "instructions"):
            return None
        text = json.dumps(host.instructions("QUICK"))
        return host.run([host.write(host.settings, text, expect=sha(host.settings.read_text()))])

    hosts = [host for host in every_step(tmp_path, monkeypatch, work, then) if host.said]
    done = [host for host in hosts if host.said["error"] is None]
    assert len(done) > 3
    assert len(hosts) > len(done)
    late = [host for host in done if host.mode() != "QUICK"]
    assert len(late) <= 1  # it came when the program had done all
    assert {host.mode() for host in hosts if host.said["error"]} == {"FAST"}


def test_a_lock_of_somebody_who_died_keeps_nobody_waiting(host):
    """He has left his name in it; a program that shares the lock is not him."""
    with open(os.path.join(host.journal, "lock"), "w") as stream:
        json.dump({"pid": 2**22, "start": 1, "epoch": 0, "who": "who died", "id": ""}, stream)
    with programs.turn([UNIT]) as mine:
        assert mine
        error = host.transaction()["error"]["message"]
    assert "stays on the host" in error
    assert "who died" not in error
    assert host.transaction()["error"] is None


def test_programs_do_not_exclude_each_other(host):
    with programs.turn([UNIT]) as one, programs.turn(["gpufleet-other.service"]) as other:
        assert one
        assert other
    assert host.woken == []


def test_without_the_directory_of_transactions_none_is_under_way(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "LOCK", str(tmp_path / "none" / "lock"))
    with programs.turn([UNIT]) as mine:
        assert mine
    assert programs.get_lock_stamp() is None


def test_nothing_but_units_of_this_collection_is_started(host):
    place = os.path.join(host.journal, "waiting")
    os.makedirs(place, 0o700)
    for name in (
        "engine.service",
        "gpufleet-x.service",
        "gpufleet-y.timer",
        "gpufleet-a b.service",
    ):
        with open(os.path.join(place, name), "w"):
            pass
    with journal_writer.hold_transaction_lock(host.journal, "somebody", keep=True):
        pass
    assert host.woken == ["gpufleet-x.service"]


def waits(host, unit=UNIT):
    held = journal_writer.hold_transaction_lock(
        host.journal, "somebody", keep=True, root="/of another host"
    )
    with held, programs.turn([unit]) as mine:
        assert not mine


def left_waiting(host):
    return os.listdir(os.path.join(host.journal, "waiting"))


def test_whoever_is_killed_at_any_step_of_starting_units_leaves_them_to_the_next_one(
    tmp_path, monkeypatch
):
    def work(host):
        waits(host)
        host.waits = True
        try:
            waiting.start_waiting_units(host.journal)
        except Killed:
            pass

    def kill(host):
        if hasattr(host, "waits"):
            raise Killed()
        host.early = True

    hosts = [
        host for host in every_step(tmp_path, monkeypatch, work, kill) if not hasattr(host, "early")
    ]
    assert len(hosts) >= 2
    for host in hosts:
        monkeypatch.setattr(waiting.commands, "run", host._play(commands.run))
        waiting.start_waiting_units(host.journal)
        assert UNIT in host.woken
        assert left_waiting(host) == []


def unreachable():
    raise host_files.HostError("not-found", "systemctl: there is no such program")


def slow():
    return True


@pytest.mark.parametrize("systemd", [unreachable, slow])
def test_units_that_systemd_was_not_told_of_are_started_by_the_next_one(host, systemd):
    waits(host)
    host.systemd = systemd
    waiting.start_waiting_units(host.journal)
    assert host.woken == []
    waits(host, "gpufleet-other.service")
    host.systemd = lambda: False
    waiting.start_waiting_units(host.journal)
    assert sorted(host.woken) == ["gpufleet-other.service", UNIT]
    assert left_waiting(host) == []


@pytest.mark.parametrize(
    "first, second", [(UNIT, "gpufleet-other.service"), ("gpufleet-other.service", UNIT)]
)
def test_units_are_started_in_the_order_in_which_they_came(host, first, second):
    """The watch of specs comes after the device nodes, and would take a spec away whose nodes are
    about to be made.
    """
    for time, unit in enumerate([first, second]):
        waits(host, unit)
        os.utime(os.path.join(host.journal, "waiting", unit), (time, time))
    waiting.start_waiting_units(host.journal)
    assert host.woken == [first, second]


def test_a_program_that_has_to_wait_again_while_it_is_started_is_started_again(host):
    waits(host)
    host.systemd = lambda: waits(host) is not None
    waiting.start_waiting_units(host.journal)
    assert left_waiting(host) == [UNIT]
    host.systemd = lambda: False
    waiting.start_waiting_units(host.journal)
    assert host.woken == [UNIT, UNIT]


def test_whoever_ends_what_was_killed_before_it_began_starts_the_units(host):
    """It held the lock, and its entry is not there yet."""
    waits(host)
    assert launcher.main(["after", host.journal, "0" * 32], "program") == 0
    assert host.woken == [UNIT]


def test_work_on_the_files_of_another_host_starts_no_unit_here(host):
    tree = host.directory / "tree"
    for place in ("lib", "etc"):
        (tree / place).mkdir(parents=True)
    base = tree / "lib"
    (base / "waiting").mkdir(0o700)
    (base / "waiting" / UNIT).write_text("")
    answer = host.run(
        [{"path": "/etc/a", "op": "write", "content": NEW, "expect": None}],
        root=str(tree),
        journal_dir="/lib",
    )
    assert answer["error"] is None
    assert (tree / "etc" / "a").read_text() == NEW
    transaction_entry.recover_transactions(str(tree), "/lib")
    assert (
        acknowledge.run({"root": str(tree), "journal_dir": "/lib", "strays": [], "ids": []})[
            "error"
        ]
        is None
    )
    assert host.woken == []


def test_the_words_of_a_holder_who_was_killed_let_no_program_work_beside_the_next_one(host):
    lock = os.path.join(host.journal, "lock")
    with open(lock, "w") as stream:
        json.dump({"pid": 2**22, "start": 1, "starts": [UNIT]}, stream)
        stream.flush()
        fcntl.flock(stream.fileno(), fcntl.LOCK_EX)  # whose own words are still to come
        with programs.turn([UNIT]) as mine:
            assert not mine


def test_a_holder_that_begins_to_wait_for_a_unit_finds_its_program_at_work(host, monkeypatch):
    """The program was on its way already, and the second start of a unit that starts is none."""
    note = programs.note_waiting_unit
    held = journal_writer.hold_transaction_lock(host.journal, "somebody", keep=True)
    with held, contextlib.ExitStack() as stack:

        def noted(unit):
            note(unit)
            stack.enter_context(waiting.write_awaited_units(host.journal, [UNIT]))

        monkeypatch.setattr(programs, "note_waiting_unit", noted)
        with programs.turn([UNIT]) as mine:
            assert mine


# --- the guard's own
# --------------------------------------------------------------------------------------------------


def broken_rename(host, monkeypatch):
    """As of a file with `chattr +i`, or of one that is a mount of its own."""
    rename = os.rename

    def refused(source, target):
        if source == str(host.etc / "first.yaml"):
            raise PermissionError(1, os.strerror(1), source)
        rename(source, target)

    monkeypatch.setattr(os, "rename", refused)
    (host.etc / "first.yaml").write_text(OLD)
    return host.etc / "first.yaml", 1


def no_directory(host, _monkeypatch):
    return host.directory / "none" / "first.yaml", 0


@pytest.mark.parametrize("first", [broken_rename, no_directory])
def test_a_file_that_cannot_be_moved_keeps_no_other_in_place(host, monkeypatch, capsys, first):
    path, status = first(host, monkeypatch)
    settings = json.loads(host.settings.read_text())
    settings["files"].insert(0, dict(settings["files"][0], path=str(path)))
    host.settings.write_text(json.dumps(settings))
    assert host.guard() == status
    assert host.now() == [None, OLD]
    assert (str(path) in capsys.readouterr().out) is bool(status)


def test_a_file_is_left_alone_where_others_may_change_its_directory(host, capsys):
    host.etc.chmod(0o777)
    host.guard()
    assert host.now() == [OLD, None]
    assert "may be written to by others" in capsys.readouterr().out


def test_a_link_in_the_place_of_the_file_stays_one(host):
    real = host.directory / "real"
    real.write_text(OLD)
    host.file.unlink()
    host.file.symlink_to(str(real))
    host.guard()
    assert os.readlink(str(host.file)) == str(real)
