# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failure to read or to ask is a failure, and never an empty answer. Python 3.6."""

import errno
import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
    journal_queries,
    process_queries,
    process_trust,
    system,
    trust,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    health,
    preconditions,
    swap,
)

from .conftest import CONFIG, fail


def printed(stdout="", stderr="", **more):
    """Return a replacement for commands.run that answers so."""
    found = dict({"rc": 0, "timed_out": False, "truncated": False}, **more)
    return lambda *_args, **_more: dict(found, stdout=stdout.encode(), stderr=stderr.encode())


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("content", [b"", b"\0" * 20, b"[]"])
def test_a_damaged_list_of_restarts_is_reported_before_anything_is_touched(
    host_dir, systemd, content, check
):
    systemd.add("engine.service")
    host_dir.run([host_dir.write(host_dir.dropin, "a = 1\n")], pending=["engine.service"])
    path = os.path.join(host_dir.journal, "pending.json")
    with open(path, "wb") as stream:
        stream.write(content)
    before = host_dir.tree()
    found = host_dir.run(
        [host_dir.write(host_dir.config, "new\n")],
        pending=["engine.service"],
        check=check,
        id="2" * 32,
    )
    assert (found["error"]["phase"], found["changed"]) == ("backup", False)
    assert path in found["error"]["message"]
    assert host_dir.tree() == before
    with open(path, "rb") as stream:
        assert stream.read() == content


def taken_back(host_dir, monkeypatch):
    """Take a transaction back. Return its token."""
    with monkeypatch.context() as patched:
        patched.setattr(swap, "apply", fail(errno.EIO))
        assert host_dir.run([host_dir.write(host_dir.config, "new\n")])["rolled_back"]
    return journal.list_transactions(host_dir.journal)[0]["id"]


@pytest.mark.parametrize("content", [b"", b'{"id": "1"', b"\0" * 9])
def test_a_finished_transaction_whose_description_cannot_be_read_stops_nothing_and_is_reported_once(
    host_dir, monkeypatch, content
):
    token = taken_back(host_dir, monkeypatch)
    (meta,) = journal.list_transactions(host_dir.journal)
    with open(os.path.join(meta["entry"], "meta.json"), "wb") as stream:
        stream.write(content)
    found = journal_queries.look_at_journal("", host_dir.journal, listing=True)
    assert [entry["id"] for entry in found["outcomes"]] == [token]
    assert [(entry["id"], entry["state"]) for entry in found["journal"]] == [
        (token, "unreadable")
    ], "and not one that wrote no file"
    assert (
        host_dir.run(
            [host_dir.write(host_dir.config, "newer\n")], acknowledged=[token], id="2" * 32
        )["error"]
        is None
    )
    assert journal_queries.look_at_journal("", host_dir.journal)["outcomes"] == []


def test_a_directory_of_the_journal_that_cannot_be_listed_is_not_one_that_holds_nothing(
    host_dir, monkeypatch
):
    host_dir.run([host_dir.write(host_dir.config, "new\n")])
    monkeypatch.setattr(
        os, "scandir", fail(only=lambda path: str(path).endswith("/originals"), real=os.scandir)
    )
    with pytest.raises(OSError):
        journal.require_own(host_dir.journal)
    found = host_dir.run([host_dir.write(host_dir.config, "newer\n")], id="2" * 32)
    assert found["error"]["phase"] == "lock"
    assert host_dir.config.read_text() == "new\n"


@pytest.mark.parametrize(
    "baseline, finding",
    [
        ("sleep 20", "did not end within 0.5 s"),
        ("head -c 3000000 /dev/zero", "printed more than can be compared"),
    ],
    ids=["hangs", "prints without end"],
)
def test_a_validator_that_tells_nothing_of_the_present_configuration_has_not_refused_it(
    host_dir, baseline, finding
):
    validator = {"argv": ["true"], "baseline": ["sh", "-c", baseline], "timeout": 0.5}
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], validate=[validator])
    (report,) = found["validation"]
    assert [finding in line for line in report["findings"]] == [True]
    assert (found["error"]["phase"], host_dir.config.read_text()) == ("validate", CONFIG)


def test_a_directory_that_cannot_be_listed_is_not_staged_as_an_empty_one(host_dir, monkeypatch):
    host_dir.run([host_dir.write(host_dir.dropin, "a = 1\n")])
    files = [{"source": str(host_dir.etc), "name": "engine", "tree": True}]
    staged = {"stage": {"files": files}, "validate": [{"argv": ["true"]}]}
    monkeypatch.setattr(
        os, "scandir", fail(only=lambda path: str(path).endswith("/conf.d"), real=os.scandir)
    )
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], id="2" * 32, **staged)
    assert (found["error"]["phase"], host_dir.config.read_text()) == ("stage", CONFIG)
    monkeypatch.undo()
    lstat = fail(only=lambda path: path == str(host_dir.dropin), real=os.lstat)
    monkeypatch.setattr(host_files.os, "lstat", lstat)
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], id="3" * 32, **staged)
    assert (found["error"]["phase"], host_dir.config.read_text()) == ("stage", CONFIG)


def test_a_directory_that_does_not_exist_is_staged_as_an_empty_one(host_dir):
    files = [{"source": str(host_dir.etc / "none"), "name": "engine", "tree": True}]
    found = host_dir.run(
        [host_dir.write(host_dir.config, "new\n")],
        stage={"files": files},
        validate=[{"argv": ["test", "-d", "{stage}/engine"]}],
    )
    assert found["error"] is None


@pytest.mark.parametrize(
    "more, kind",
    [
        ({"truncated": True}, "too-large"),
        ({"rc": 1}, "failed"),
        ({"rc": None, "timed_out": True}, "timeout"),
    ],
)
def test_units_that_systemd_did_not_come_to_are_not_absent(monkeypatch, more, kind):
    monkeypatch.setattr(
        commands, "run", printed("Id=a.service\nNames=a.service\nLoadState=loaded\n\n", **more)
    )
    with pytest.raises(host_files.HostError) as error:
        system.list_units(["a.service", "b.service"])
    assert error.value.kind == kind


def test_packages_that_apt_did_not_come_to_are_not_without_a_candidate(monkeypatch):
    monkeypatch.setattr(commands, "run", printed("one:\n  Candidate: 1\n", truncated=True))
    assert "candidates" not in system._list_apt_offers(["one", "two"])


class Verified(object):
    """The judge of a host where each process counts."""

    first = ""

    def __init__(self, _show):
        pass

    def find_unit(self, _process):
        return None

    def find_doubt(self, _process):
        return None


@pytest.mark.parametrize("ended", [True, False])
def test_an_environment_that_cannot_be_read_is_not_an_empty_one(monkeypatch, ended):
    monkeypatch.setattr(process_queries.process_trust, "Judge", Verified)
    own = trust.read_process(os.getpid())
    assert process_queries._judge_process([own], {}, {"PATH": "name"})[0]["verified"]
    if ended:
        monkeypatch.setattr(system, "get_process_start", lambda _pid: None)
        assert process_queries._judge_process([own], {}, {"PATH": "name"}) == []
        assert len(process_queries._judge_process([own], {}, {})) == 1, "nothing of it is read then"
        return
    read = fail(errno.EACCES, only=lambda path: str(path).endswith("/environ"), real=os.open)
    monkeypatch.setattr(host_files.os, "open", read)
    with pytest.raises(host_files.HostError):
        process_queries._judge_process([own], {}, {"PATH": "name"})


def deny(monkeypatch, module, name, number, only):
    """Let a function of the system fail for the paths that `only` names."""
    real = getattr(module.os, name)
    monkeypatch.setattr(module.os, name, fail(number, only=only, real=real))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE, errno.EIO])
def test_a_process_that_cannot_be_read_has_not_ended(monkeypatch, number):
    own = "/proc/%d" % os.getpid()
    deny(monkeypatch, trust, "open", number, lambda path: path == own)
    with pytest.raises(OSError) as failed:
        trust.read_process(os.getpid())
    assert failed.value.errno == number


@pytest.mark.parametrize("number", trust.ENDED)
def test_a_process_that_has_ended_is_gone(monkeypatch, number):
    wanted = {FileNotFoundError: errno.ENOENT, ProcessLookupError: errno.ESRCH}[number]
    deny(monkeypatch, trust, "readlink", wanted, lambda path: path == "/proc/7/exe")
    assert trust.get_process_name(7) is None


def test_a_program_that_cannot_be_opened_is_not_that_of_a_process_that_has_ended(monkeypatch):
    own = trust.read_process(os.getpid())
    exe = "/proc/%d/exe" % own.pid
    deny(monkeypatch, trust, "open", errno.EACCES, lambda path: path == exe)
    with pytest.raises(PermissionError):
        with trust.open_running_program(own.pid, own.start, own.exe):
            pass


# What the kernel calls a process that may not be looked at, whose it is, who looks, and whether the
# list of processes fails.
UNREAD = [
    ("engine", 0, 0, True),
    ("engine", 1000, 0, False),
    ("another", 0, 0, False),
    ("engine", 0, 1000, False),
]


@pytest.mark.parametrize(("called", "owner", "account", "fails"), UNREAD)
def test_an_engine_of_roots_that_may_not_be_looked_at_is_not_absent(
    monkeypatch, called, owner, account, fails
):
    """In a container not even root may look at the outer host's processes, which are not engines."""
    texts = {"comm": called + "\n", "status": "Uid:\t%d\t%d\t%d\t%d\n" % ((owner,) * 4)}
    monkeypatch.setattr(process_queries.os, "listdir", lambda _path: ["7"])
    monkeypatch.setattr(process_queries.os, "geteuid", lambda: account)
    deny(monkeypatch, trust, "readlink", errno.EACCES, lambda path: path == "/proc/7/exe")
    deny(monkeypatch, trust, "open", errno.EACCES, lambda path: path == "/proc/7")
    monkeypatch.setattr(
        trust, "read_proc_file", lambda name, _place=None: texts[name.rpartition("/")[2]]
    )
    if fails:
        with pytest.raises(PermissionError):
            process_queries.list_processes(["engine"])
        return
    assert process_queries.list_processes(["engine"])["processes"] == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_whose_a_process_is_and_cannot_be_read_is_not_that_it_has_ended(monkeypatch, number):
    deny(monkeypatch, trust, "open", number, lambda path: path == "/proc/7/status")
    with pytest.raises(OSError):
        process_trust.is_root(7)


def test_a_holder_that_cannot_be_read_is_no_service(monkeypatch):
    deny(monkeypatch, trust, "readlink", errno.EACCES, lambda path: path == "/proc/7/exe")
    assert process_queries._is_service(7, ["daemon"]) is False


def test_a_time_of_boot_that_cannot_be_read_is_not_1970(monkeypatch):
    monkeypatch.setattr(process_queries.process_trust, "Judge", Verified)
    own = trust.read_process(os.getpid())
    monkeypatch.setattr(
        host_files.os, "open", fail(only=lambda path: path == "/proc/stat", real=os.open)
    )
    with pytest.raises(host_files.HostError):
        process_queries._judge_process([own], {}, {})


@pytest.mark.parametrize(
    "where", ["the file", "its directory", "its attributes", "the list of mounts"]
)
def test_what_protects_a_file_and_cannot_be_read_is_not_absent(host_dir, monkeypatch, where):
    if where == "its attributes":
        monkeypatch.setattr(preconditions.fcntl, "ioctl", lambda *_words: fail(errno.EIO)("flags"))
    elif where == "the list of mounts":
        read = fail(only=lambda path: path == "/proc/self/mountinfo", real=open)
        monkeypatch.setattr(preconditions, "open", read, raising=False)
    else:
        asked = str(host_dir.config if where == "the file" else host_dir.etc)
        monkeypatch.setattr(
            preconditions.os, "open", fail(only=lambda path: path == asked, real=os.open)
        )
    with pytest.raises(host_files.HostError) as error:
        preconditions.require_changeable("", str(host_dir.config), str(host_dir.config), [])
    assert "Input/output error" in error.value.message
    monkeypatch.undo()
    preconditions.require_changeable("", str(host_dir.config), str(host_dir.config), [])


@pytest.mark.parametrize("number", [errno.ENOTTY, errno.EOPNOTSUPP])
def test_a_file_system_without_attributes_protects_nothing(host_dir, monkeypatch, number):
    monkeypatch.setattr(preconditions.fcntl, "ioctl", lambda *_words: fail(number)("flags"))
    preconditions.require_changeable("", str(host_dir.config), str(host_dir.config), [])


def test_without_proc_nothing_is_known_of_mounts_and_the_rename_decides(host_dir, monkeypatch):
    monkeypatch.setattr(preconditions, "open", fail(errno.ENOENT), raising=False)
    assert not preconditions.is_mount_point(str(host_dir.config))


@pytest.mark.parametrize("state", ["failed", "active"])
@pytest.mark.parametrize(
    "more",
    [{"rc": 1}, {"rc": None, "timed_out": True}, {"truncated": True}],
    ids=["fails", "hangs", "cut"],
)
def test_a_log_that_cannot_be_read_is_not_one_without_a_failure(monkeypatch, state, more):
    monkeypatch.setattr(commands, "run", printed("", **more))
    monkeypatch.setattr(
        health, "read_unit_states", lambda names: {name: {"ActiveState": state} for name in names}
    )
    found = health.log("engine.service", 0)
    assert (found["failed"], found["causes"]) == (state == "failed", [])
    assert found["evidence"].startswith("journalctl --unit=engine.service")


def test_a_runtime_that_listens_and_does_not_answer_is_the_one_to_be_replaced(runtime):
    server = runtime(None)
    version = cri.read_cri_version
    check = {"kind": "cri", "socket": server.path}
    try:
        cri.read_cri_version = lambda path, _timeout: version(path, 0.2)
        assert health.require_replacement(check)["replaces"] == os.getpid()
    finally:
        cri.read_cri_version = version


def break_sync(place):
    """Return a replacement for os.fsync that finds the disk full for a file below a directory."""
    sync = os.fsync

    def check(fd):
        name = os.readlink("/proc/self/fd/%d" % fd)
        if name.startswith(str(place)) and not os.path.isdir(name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(fd)

    return check


@pytest.mark.parametrize(
    "full, named",
    [("the engine's", "dropin"), ("the journal's", "journal")],
)
def test_a_full_disk_is_told_by_the_file_that_lies_on_it(host_dir, monkeypatch, full, named):
    """A write names no file: the place is that of the step, and the step's own file system is the
    one that needs room.
    """
    host_dir.dropin.parent.mkdir(exist_ok=True)
    place = {"dropin": str(host_dir.dropin), "journal": str(host_dir.journal)}[named]
    disk = host_dir.etc if named == "dropin" else host_dir.journal
    monkeypatch.setattr(os, "fsync", break_sync(disk))
    found = host_dir.run([host_dir.write(host_dir.dropin, "a = 1\n")])
    monkeypatch.undo()
    assert found["error"]["message"].startswith("%s: No space left on device" % place)
    assert found["error"]["next"] == "Make room on the file system of %s, then run again" % place
    assert not host_dir.dropin.exists()
