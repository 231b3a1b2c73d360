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
    deadline,
    health,
    preconditions,
    rollback,
    swap,
)

from .conftest import CONFIG, RESTART


def fail(number=errno.EIO, only=None, real=None):
    """Return what raises an OSError in place of a function, or only for paths that `only` names."""

    def call(path, *args, **more):
        if only is None or only(path):
            raise OSError(number, os.strerror(number), path)
        return real(path, *args, **more)

    return call


def printed(stdout="", stderr="", **more):
    """Return a replacement for commands.run that answers so."""
    found = dict({"rc": 0, "timed_out": False, "truncated": False}, **more)
    return lambda *_args, **_more: dict(found, stdout=stdout.encode(), stderr=stderr.encode())


# --- what is taken back
# -----------------------------------------------------------------------------------------------


@pytest.fixture
def cut_short(host_dir, monkeypatch):
    """A transaction on three files that ends in its middle: its entry stays open."""
    others = [host_dir.etc / name for name in ("a.toml", "z.toml")]
    for path in others:
        path.write_text("old\n")

    apply = swap.apply

    def die(*words):
        apply(*words)
        raise KeyboardInterrupt

    monkeypatch.setattr(swap, "apply", die)
    with pytest.raises(KeyboardInterrupt):
        host_dir.run(
            [host_dir.write(path, "new\n") for path in [others[0], host_dir.config, others[1]]]
        )
    monkeypatch.undo()
    host_dir.others = others
    return host_dir


def lose_backup(host_dir):
    """Take the second name of the middle file, and the readability of its copy in the journal."""
    (meta,) = journal.list_transactions(host_dir.journal)
    record = meta["changes"][1]
    os.unlink(swap.find_swap_spot("", record["real"], (), meta["id"])[0] + "/old")
    place = os.path.join(meta["entry"], record["backup"])
    os.unlink(place)
    os.mkdir(place)
    return place


def test_a_copy_that_cannot_be_read_keeps_no_other_file_from_coming_back(cut_short):
    place = lose_backup(cut_short)
    found = cut_short.run([], id="2" * 32)
    assert [path.read_text() for path in cut_short.others] == ["old\n", "old\n"]
    assert cut_short.config.read_text() == "new\n"
    assert found["error"]["phase"] == "recover"
    assert place in found["error"]["message"]
    assert cut_short.states() == ["undoing"], "it stays open"
    os.rmdir(place)
    with open(place, "w") as stream:
        stream.write(CONFIG)
    assert cut_short.run([], id="3" * 32)["error"] is None
    assert cut_short.config.read_text() == CONFIG


def test_a_full_disk_keeps_no_other_file_from_coming_back(cut_short, monkeypatch):
    (meta,) = journal.list_transactions(cut_short.journal)
    os.unlink(swap.find_swap_spot("", meta["changes"][1]["real"], (), meta["id"])[0] + "/old")
    monkeypatch.setattr(swap, "_write_spare", fail(errno.ENOSPC))
    found = cut_short.run([], id="2" * 32)
    assert [path.read_text() for path in cut_short.others] == ["old\n", "old\n"]
    assert (found["error"]["phase"], "room" in found["error"]["next"]) == ("recover", True)


@pytest.fixture
def lost_file(host_dir, systemd, monkeypatch):
    """An engine that fails with its new file, beside a file that cannot come back."""
    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", "grep -q new %s && exit 1; exit 0" % host_dir.config)
    other = host_dir.etc / "other.toml"
    other.write_text("old\n")
    take_back = swap._take_one_back

    def refuse(root, record, token, entry):
        if record["path"] == str(other):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(other))
        return take_back(root, record, token, entry)

    monkeypatch.setattr(swap, "_take_one_back", refuse)
    host_dir.answer = host_dir.run(
        [host_dir.write(host_dir.config, "new\n"), host_dir.write(other, "new\n")], units=RESTART
    )
    host_dir.other = other
    return host_dir


TAKE_ONE_BACK = swap._take_one_back


def count_restarts(systemd):
    return systemd.log_file.read_text().split("\n").count("restart engine.service")


def test_a_file_that_cannot_come_back_keeps_no_unit_from_running_with_the_others(
    lost_file, systemd
):
    assert (lost_file.config.read_text(), lost_file.other.read_text()) == (CONFIG, "new\n")
    assert systemd.state("engine.service") == "active"
    error = lost_file.answer["error"]
    assert (error["phase"], str(lost_file.other) in error["message"]) == ("rollback", True)
    assert (lost_file.answer["rolled_back"], lost_file.answer["changed"]) == (False, True)
    assert lost_file.states() == ["undoing"], "it stays open"


@pytest.mark.parametrize("stopped", [False, True])
def test_a_later_run_starts_what_does_not_run_and_restarts_nothing_that_serves(
    lost_file, systemd, stopped
):
    if stopped:
        (systemd.units / "engine.service" / "ActiveState").write_text("failed\n")
    before = count_restarts(systemd)
    assert lost_file.run([], id="2" * 32)["error"]["phase"] == "recover"
    assert systemd.state("engine.service") == "active"
    assert count_restarts(systemd) - before == int(stopped)
    assert lost_file.states() == ["undoing"]


def test_the_engine_gets_the_file_that_comes_back_later(lost_file, systemd, monkeypatch):
    before = count_restarts(systemd)
    monkeypatch.setattr(swap, "_take_one_back", TAKE_ONE_BACK)
    assert lost_file.run([], id="2" * 32)["error"] is None
    assert lost_file.other.read_text() == "old\n"
    assert count_restarts(systemd) - before == 1


def test_a_unit_that_does_not_come_back_either_is_named_with_the_file(
    host_dir, systemd, monkeypatch
):
    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", "exit 1")
    monkeypatch.setattr(swap, "_take_one_back", fail(errno.EROFS))
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART)
    assert found["error"]["phase"] == "rollback"
    assert "Read-only file system" in found["error"]["message"]
    assert "Job for engine.service failed" in found["error"]["message"]


def test_originals_that_cannot_be_written_keep_no_unit_from_running_with_the_files_from_before(
    host_dir, systemd, monkeypatch
):
    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", "grep -q new %s && exit 1; exit 0" % host_dir.config)
    monkeypatch.setattr(rollback.journal_writer, "restore_originals", fail(errno.ENOSPC))
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")], units=RESTART)
    assert (host_dir.config.read_text(), systemd.state("engine.service")) == (CONFIG, "active")
    assert (found["error"]["phase"], host_dir.states()) == ("rollback", ["undoing"])
    before = count_restarts(systemd)
    assert host_dir.run([], id="2" * 32)["error"]["phase"] == "recover"
    assert count_restarts(systemd) == before, "it serves with the files from before"


def test_a_later_run_undoes_no_command_again_that_is_undone(host_dir, monkeypatch):
    """A person may have installed again by then what was taken away. One that failed is tried again,
    and named again.
    """
    log = host_dir.etc / "undone"
    commands_before = [
        {"argv": ["true"], "undo": ["sh", "-c", "echo %s >>%s; %s" % (name, log, end)]}
        for name, end in (("first", "true"), ("second", "false"), ("third", "true"))
    ]
    for module, name in ((swap, "_take_one_back"), (swap, "apply")):
        monkeypatch.setattr(module, name, fail(errno.EROFS))
    for number, undone in ((1, ["third", "second", "first"]), (2, ["second"]), (3, ["second"])):
        log.write_text("")
        found = host_dir.run(
            [host_dir.write(host_dir.config, "new\n")] if number == 1 else [],
            id=str(number) * 32,
            commands_before=commands_before if number == 1 else [],
        )
        assert log.read_text().split() == undone
        assert "exit status 1" in found["error"]["message"]
        assert host_dir.states() == ["undoing"]


def test_a_later_run_switches_no_unit_on_again_that_is_on_again(host_dir, systemd, monkeypatch):
    """A person, or another tool, may have switched it off again by then. One that would not start
    is tried again.
    """
    names = ["first.path", "second.path"]
    for name in names:
        systemd.add(name)
    systemd.hook("second.path", "start", "exit 1")
    for module, name in ((swap, "_take_one_back"), (swap, "apply")):
        monkeypatch.setattr(module, name, fail(errno.EROFS))
    for number, started in ((1, ["second.path", "first.path"]), (2, ["second.path"])):
        systemd.log_file.write_text("")
        host_dir.run(
            [host_dir.write(host_dir.config, "new\n")] if number == 1 else [],
            id=str(number) * 32,
            disable=names if number == 1 else [],
        )
        done = systemd.log_file.read_text().splitlines()
        assert [line.split()[-1] for line in done if line.startswith("start ")] == started
        assert host_dir.states() == ["undoing"]


# --- the journal
# --------------------------------------------------------------------------------------------------


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


# --- before anything is touched
# ---------------------------------------------------------------------------------------


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


# --- what a look asks
# -------------------------------------------------------------------------------------------------


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
    """In a container not even root may look at the outer host's processes, which are no engines."""
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


# --- units
# --------------------------------------------------------------------------------------------------


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


# --- what the host does later
# -----------------------------------------------------------------------------------------

# What systemd makes of a word in single quotes: systemd.syntax(7), then specifiers, then variables
# (systemd.service(5), "Command lines").
ODD = [
    "/var/lib/gpufleet",
    "/a b",
    "/a%n",
    "/a$HOME",
    "/a${HOME}b",
    "/it's",
    "/back\\slash",
    '/quo"te',
    "/semi;colon",
    "/a'b\\'$%",
]


def read_by_systemd(text):
    """Return the words of a line as systemd reads them."""
    words, word, quoted, at = [], "", False, 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
            word += text[at]
        elif text[at] == "'":
            quoted = not quoted
        elif text[at] == " " and not quoted:
            words, word = words + [word], ""
        else:
            word += text[at]
        at += 1
    return words + [word]


@pytest.mark.parametrize("base", ODD)
def test_the_unit_of_the_boot_names_the_journal_wherever_it_lies(host, base):
    deadline.arm_boot(base, base + "/program/x.py")
    lines = dict(
        line.split("=", 1)
        for line in (host.units / deadline.BOOT_UNIT).read_text().splitlines()
        if "=" in line
    )
    for key in ("ExecStart", "RequiresMountsFor"):
        assert "%" not in lines[key].replace("%%", ""), "no specifier"
    words = read_by_systemd(lines["ExecStart"].replace("%%", "%"))
    assert all("$" not in word.replace("$$", "") for word in words), "no variable"
    assert [word.replace("$$", "$") for word in words][-3:] == [
        base + "/program/x.py",
        "boot",
        base,
    ]
    assert read_by_systemd(lines["RequiresMountsFor"].replace("%%", "%")) == [base]


@pytest.mark.parametrize("own", ["", None])
def test_a_python_that_does_not_know_its_own_path_is_not_what_an_error_names(monkeypatch, own):
    monkeypatch.setattr(deadline.sys, "executable", own)
    monkeypatch.setattr(deadline, "PYTHONS", ("/there/is/none", "/nor/here"))
    with pytest.raises(host_files.HostError) as error:
        deadline.find_later_python()
    assert error.value.message.startswith("/there/is/none is no executable file")


def test_an_undo_that_does_not_end_at_a_boot_is_reported_with_the_limit_of_a_boot(monkeypatch):
    monkeypatch.setattr(commands, "run", lambda *_words, **_more: {"rc": None, "timed_out": True})
    for booting, limit in ((True, rollback.QUICK), (False, health.ENDS_WITHIN)):
        with pytest.raises(host_files.HostError) as error:
            rollback._undo({"argv": ["true"], "undo": ["undo"]}, {"ran": []}, booting)
        assert error.value.message == "undo: no end within %d s" % limit
