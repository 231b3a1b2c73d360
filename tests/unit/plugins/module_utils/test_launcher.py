# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host finishes alone: the executor as a program of its own, the caller that waits, the watch
over both, the lock.
"""

import errno
import hashlib
import multiprocessing
import os
import re
import shlex
import signal
import stat
import subprocess

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import journal, observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    deadline,
    health,
    journal_writer,
    launcher,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)

from .conftest import CONFIG, RESTART, script

REFUSING = """#!/bin/sh
echo "Failed to start transient service unit: Connection reset by peer" >&2
exit 1
"""


def test_the_program_has_every_part_that_a_part_imports():
    for part in launcher.PARTS:
        wanted = set()
        for package, names in re.findall(
            r"^from \S+\._host(\S*) import (\(.*?\)|[^\n]*)",
            launcher.read_part_source(part),
            re.DOTALL | re.MULTILINE,
        ):
            modules = [
                name.split(" as ")[0].strip("() \n")
                for name in names.strip("() \n,").partition("#")[0].split(",")
            ]
            own = package.lstrip(".")
            wanted |= (
                {own}
                if own in launcher.PARTS
                else {(own + "." + name).lstrip(".") for name in modules}
            )
        assert wanted - set(launcher.PARTS) <= {"loader"}, part


def test_systemd_does_it_and_nothing_of_the_way_there_stays(host):
    found = host.run([host.write(host.config, "new\n")], units=RESTART, alone=True)
    assert found["error"] is None
    assert (found["changed"], found["restarted"]) == (True, ["engine.service"])
    assert host.config.read_text() == "new\n"
    assert host.states() == ["committed"]
    assert os.listdir(os.path.join(host.journal, "job")) == []
    assert stat.S_IMODE(os.stat(os.path.join(host.journal, "program")).st_mode) == 0o700
    assert "--unit=gpufleet-" in host.runs.read_text()
    assert [name for _dir, _subdirs, names in os.walk(str(host.units)) for name in names] == [], (
        "the boot's unit came and went"
    )


def test_in_an_image_without_systemd_it_is_done_here_and_nobody_is_asked(host, monkeypatch):
    monkeypatch.setattr(deadline, "RUNNING", "/nowhere")
    found = host.run([host.write(host.config, "new\n")], alone=True)
    assert (found["error"], found["changed"], host.states()) == (None, True, ["committed"])
    assert not host.runs.exists()


@pytest.mark.parametrize(
    "program, says",
    [(REFUSING, "systemd-run: "), ("#!/bin/sh\nexec sleep 1000\n", "no end within 30 s")],
    ids=["it refuses", "it hangs"],
)
def test_what_systemd_does_not_start_changes_nothing(host, monkeypatch, program, says):
    script(host.systemd.bin / "systemd-run", program)
    run = deadline.commands.run
    monkeypatch.setattr(
        deadline.commands,
        "run",
        lambda argv, timeout=10, **more: run(argv, min(timeout, 1), **more),
    )
    before = host.tree()
    found = host.run([host.write(host.config, "new\n")], units=RESTART, alone=True)
    assert (found["error"]["phase"], found["changed"], found["rolled_back"]) == (
        "backup",
        False,
        False,
    )
    assert found["error"]["message"].startswith("the transaction cannot be started: ")
    assert says in found["error"]["message"]
    assert (host.tree(), os.listdir(os.path.join(host.journal, "job"))) == (before, [])


@pytest.mark.parametrize(
    "program", [REFUSING, "#!/bin/sh\nexec sleep 1000\n"], ids=["it refuses", "it hangs"]
)
def test_a_timer_that_systemd_does_not_take_is_no_timer(host, monkeypatch, program):
    script(host.systemd.bin / "systemd-run", program)
    run = deadline.commands.run
    monkeypatch.setattr(
        deadline.commands,
        "run",
        lambda argv, timeout=10, **more: run(argv, min(timeout, 1), **more),
    )
    with pytest.raises(journal_writer.host_files.HostError) as caught:
        deadline.arm(host.journal, {"id": "a" * 32}, "/program")
    assert str(caught.value).startswith("the timer that rolls the change back cannot be armed: ")


def test_what_goes_wrong_is_told_the_same_way(host):
    host.systemd.hook("engine.service", "restart", "grep -q new %s && exit 1; exit 0" % host.config)
    found = host.run([host.write(host.config, "new\n")], units=RESTART, alone=True)
    assert (found["error"]["phase"], found["rolled_back"]) == ("restart", True)
    assert host.config.read_text() == CONFIG


def test_the_tasks_environment_is_the_executors_and_nothing_else_is(host, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("LD_PRELOAD", "/home/somebody/x.so")
    commands_before = [{"argv": ["sh", "-c", "echo $HTTPS_PROXY $LD_PRELOAD; exit 1"]}]
    found = host.run([], commands_before=commands_before, environment=["HTTPS_PROXY"], alone=True)
    with open(found["said"]) as words:
        assert words.read().endswith("exit 1\nhttp://proxy:3128\n\n")
    found = host.run([], commands_before=commands_before, alone=True, id="2" * 32)
    assert (found["error"]["phase"], found["said"]) == ("command", None), (
        "what nobody asked for is left behind"
    )


def test_an_executor_that_is_killed_is_told_and_taken_back_by_the_caller(host):
    # What restarts the engine kills its grandparent: the executor, whose process group leads nobody
    # else.
    host.systemd.hook(
        "engine.service",
        "restart",
        "grep -q new %s && kill -9 $(ps -o ppid= -p $PPID); exit 0" % host.config,
    )
    found = host.run([host.write(host.config, "new\n")], units=RESTART, alone=True)
    assert (found["error"]["phase"], found["rolled_back"], found["changed"]) == (
        "executor",
        True,
        False,
    )
    assert "its process died in the middle (state swapped)" in found["error"]["message"]
    assert host.config.read_text() == CONFIG


@pytest.mark.parametrize(
    "spoil, says",
    [
        (None, "ran after /base id"),
        (
            lambda path: path.write_bytes(path.read_bytes() + b"# more"),
            "was changed, and is not run",
        ),
        (lambda path: path.write_bytes(b""), "was changed, and is not run"),
        (
            lambda path: (path.rename(str(path) + ".real"), path.symlink_to(str(path) + ".real")),
            "Too many levels of symbolic links",
        ),
        (lambda path: (path.unlink(), os.mkfifo(str(path))), "was changed, and is not run"),
    ],
    ids=["as it was", "longer", "empty", "a link", "a pipe"],
)
def test_the_program_on_disk_is_run_by_its_digest(tmp_path, spoil, says):
    """An account that has got hold of its directory since its unit was made runs nothing."""
    text = b"import sys; print('ran', *sys.argv[1:])"
    program = tmp_path / (hashlib.sha256(text).hexdigest() + ".py")
    program.write_bytes(text)
    if spoil:
        spoil(program)
    argv = deadline.build_later_command(str(program), "after", "/base", "id")
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", check=False
    )
    assert says in done.stdout.decode()
    assert (done.returncode == 0) is (spoil is None)


def test_a_line_of_a_unit_means_the_same_words():
    words = ["/usr/bin/python3", "-c", 'a = "b"; c', "/x/%n.py", "boot"]
    assert shlex.split(deadline.write_unit_command(words).replace("%%", "%")) == words


def test_under_systemd_there_is_a_unit_with_its_follower_and_a_timer(host):
    request = {
        "id": "a" * 32,
        "reason": "test",
        "units": RESTART,
        "health": [{"timeout": 90}],
        "probation": 15,
    }
    program = launcher.install(host.journal)
    launcher._start(host.journal, program, request, str(host.directory))
    deadline.arm(host.journal, request, program)
    unit, timer = [
        line for line in host.runs.read_text().splitlines() if line.startswith("--quiet")
    ]
    assert "--unit=gpufleet-%s.service" % ("a" * 32) in unit
    assert "--property=KillMode=process" in unit
    assert re.search(
        r"--property=ExecStopPost=\S+ -I -S -c '.*' %s after %s a{32} "
        % (re.escape(program), re.escape(host.journal)),
        unit,
    )
    assert "--on-active=%ds" % (2 * (20 + 90) + 15 + deadline.MARGIN) in timer
    assert timer.endswith("%s undo %s %s" % (program, host.journal, "a" * 32))


def test_what_runs_later_is_not_run_by_an_interpreter_that_somebody_else_may_change(
    tmp_path, monkeypatch
):
    """A virtual environment of the account that Ansible logs in with serves for the connection, and
    not for the next boot.
    """
    own = tmp_path / "python"
    script(own, "#!/bin/sh\n")
    monkeypatch.setattr(deadline.sys, "executable", str(own))
    assert deadline.find_later_python() == str(own)
    os.chown(str(own), 1001, 0)
    system = script(tmp_path / "python3", "#!/bin/sh\n")
    monkeypatch.setattr(deadline, "PYTHONS", ("/there/is/none", system))
    assert deadline.find_later_python() == system
    monkeypatch.setattr(deadline, "PYTHONS", ())
    with pytest.raises(journal_writer.host_files.HostError) as caught:
        deadline.find_later_python()
    assert "belongs to user" in str(caught.value)


def test_the_boots_unit_is_a_file_and_a_link_and_both_go(host):
    deadline.arm_boot(host.journal, "/var/lib/gpufleet/program/x.py")
    text = (host.units / deadline.BOOT_UNIT).read_text()
    assert "Before=sysinit.target" in text
    assert re.search(
        r"^ExecStart=\S+ -I -S -c '.*' /var/lib/gpufleet/program/x.py boot %s$"
        % re.escape(host.journal),
        text,
        re.MULTILINE,
    )
    assert os.readlink(str(host.units / deadline.WANTS / deadline.BOOT_UNIT)) == str(
        host.units / deadline.BOOT_UNIT
    )
    deadline.cancel_boot_unit()
    assert [name for _dir, _subdirs, names in os.walk(str(host.units)) for name in names] == []


def test_old_versions_of_the_program_go(host):
    for number in range(6):
        path = os.path.join(host.journal, "program", "%d.py" % number)
        journal_writer.make_durable_dirs(os.path.dirname(path))
        journal_writer.write_durably(path, b"")
        os.utime(path, (number, number))
    kept = launcher.install(host.journal)
    assert len(os.listdir(os.path.dirname(kept))) == launcher.KEPT
    assert os.path.exists(kept)


# --- the lock
# --------------------------------------------------------------------------------------------------


def test_the_lock_of_the_dead_is_free_and_that_of_the_living_is_not(host):
    """A holder that was killed left its name in the file; that alone holds nothing."""
    fork = multiprocessing.get_context("fork")
    ready = fork.Event()

    def hold():
        with journal_writer.hold_transaction_lock(
            host.journal, "the other one", keep=True, token="other"
        ):
            ready.set()
            signal.pause()

    child = fork.Process(target=hold)
    child.start()
    assert ready.wait(30)
    message = host.run([host.write(host.config, "new\n")])["error"]["message"]
    assert re.match(r"locked by process %d, for \d+ s: the other one" % child.pid, message)
    assert not launcher._stop_holder(host.journal, "mine"), (
        "only a transaction's own timer may end its executor"
    )
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert journal_writer.find_lock_holder(host.journal)["who"] == "the other one"
    assert host.run([host.write(host.config, "new\n")])["error"] is None


def test_who_ends_an_earlier_probation_is_waited_for(host):
    fork = multiprocessing.get_context("fork")
    ready, go = fork.Event(), fork.Event()

    def judge():
        with journal_writer.hold_transaction_lock(
            host.journal, "transaction 1 (%s)" % journal_writer.PROBATION, keep=True
        ):
            ready.set()
            go.wait(0.5)

    child = fork.Process(target=judge)
    child.start()
    assert ready.wait(30)
    assert host.run([host.write(host.config, "new\n")])["error"] is None
    child.join()


def test_who_has_no_name_yet_or_any_more_is_waited_for(host):
    fork = multiprocessing.get_context("fork")
    ready, seen = fork.Event(), fork.Event()

    def nobody():
        with journal_writer.hold_transaction_lock(host.journal, "the other one", keep=True):
            with open(os.path.join(host.journal, "lock"), "w"):
                ready.set()
            seen.wait(0.5)

    child = fork.Process(target=nobody)
    child.start()
    assert ready.wait(30)
    assert host.run([host.write(host.config, "new\n")])["error"] is None
    child.join()


def test_the_timer_ends_its_own_executor_when_it_hangs(host):
    fork = multiprocessing.get_context("fork")
    ready = fork.Event()

    def hang():
        with journal_writer.hold_transaction_lock(
            host.journal, "an executor that hangs", keep=True, token="mine"
        ):
            ready.set()
            signal.pause()

    child = fork.Process(target=hang)
    child.start()
    assert ready.wait(30)
    assert launcher._stop_holder(host.journal, "mine")
    child.join()
    assert child.exitcode == -signal.SIGKILL


def test_a_lock_file_that_was_removed_holds_nobody_up(host):
    with journal_writer.hold_transaction_lock(host.journal, "one", keep=True):
        os.unlink(os.path.join(host.journal, "lock"))
        with journal_writer.hold_transaction_lock(host.journal, "two", keep=True):
            assert journal_writer.find_lock_holder(host.journal)["who"] == "two"


# --- what hangs
# --------------------------------------------------------------------------------------------------


def test_a_systemctl_that_hangs_is_bounded(host, monkeypatch):
    monkeypatch.setattr(health, "DEFAULT_TIMEOUT", 1)
    host.systemd.hook(
        "engine.service", "restart", "grep -q new %s && exec sleep 1000; exit 0" % host.config
    )
    found = host.run([host.write(host.config, "new\n")], units=[dict(RESTART[0], timeout=1)])
    assert (found["error"]["phase"], found["rolled_back"]) == ("restart", True)
    assert "did not end within 1 s" in found["error"]["message"]
    assert host.config.read_text() == CONFIG


def test_on_probation_a_crash_is_taken_back_and_a_restart_by_somebody_is_not(host, monkeypatch):
    on_probation(host, monkeypatch)
    meta = journal.list_transactions(host.journal)[0]
    assert (meta["state"], host.config.read_text()) == ("probation", "new\n")
    (host.systemd.units / "engine.service" / "InvocationID").write_text("i9\n")
    assert transaction_entry.rollback.judge_probation(meta) is None
    (host.systemd.units / "engine.service" / "ActiveState").write_text("failed\n")
    outcome = transaction_entry.recover_transactions(journal_dir=host.journal, by="its probation")[
        0
    ]
    assert outcome["why"].startswith("engine.service came up and has crashed since")
    assert host.config.read_text() == CONFIG
    assert host.originals() == {}


def test_the_next_transaction_ends_a_probation_and_stops_at_nothing(host, monkeypatch):
    on_probation(host, monkeypatch)
    found = host.run([{"path": str(host.config), "op": "restore", "id": ""}], id="2" * 32)
    assert (found["error"], found["recovered"]) == (None, [])
    assert host.states() == ["committed", "committed"]
    assert host.config.read_text() == CONFIG


@pytest.mark.parametrize(
    "what, value",
    [("name_boot", lambda: "another"), ("get_process_start", lambda pid: None)],
    ids=["a boot", "a death"],
)
def test_a_probation_that_was_cut_short_is_nobodys_until_the_next_run(
    host, monkeypatch, what, value
):
    on_probation(host, monkeypatch)
    question = {"id": "o", "kind": "originals", "dir": host.journal}

    def at_work():
        found = observe.run({"schema": 1, "root": "/", "questions": [question]})["answers"]["o"][
            "unfinished"
        ]
        return [entry["at_work"] for entry in found]

    assert at_work() == [True], "its watch lives"
    with monkeypatch.context() as patched:
        patched.setattr(transaction_entry.rollback.system, what, value)
        assert at_work() == [False]
        assert host.run([], id="2" * 32)["recovered"] == [], "it has come to its end, and not back"
    assert (at_work(), host.states(), host.config.read_text()) == ([], ["committed"], "new\n")


def test_a_probation_is_left_out_at_boot_only_when_nothing_lies_beside_the_files_any_more(
    host, monkeypatch
):
    calls = []
    clean = transaction_entry.executor.swap.remove_leftovers
    monkeypatch.setattr(
        transaction_entry.executor.swap,
        "remove_leftovers",
        lambda *given: (calls.append("clean"), clean(*given)),
    )
    on_probation(host, monkeypatch, cancel_boot_unit=lambda *args: calls.append("disarm the boot"))
    assert calls == ["clean", "disarm the boot"]


def on_probation(host, monkeypatch, **more):
    for name in ("arm", "arm_boot", "cancel_timer", "cancel_boot_unit"):
        monkeypatch.setattr(deadline, name, more.get(name) or (lambda *args: None))
    request = {
        "id": "1" * 32,
        "journal_dir": host.journal,
        "changes": [host.write(host.config, "new\n")],
        "units": RESTART,
    }
    answer = transaction_entry.executor.Transaction(dict(request, probation=15), "/program").run()
    assert (answer["error"], answer["probation"]) == (None, 15)


# --- the next step is the cause's
# --------------------------------------------------------------------------------------


def _no_room(*_args, **_more):
    raise OSError(errno.ENOSPC, "no room", "/var/lib/gpufleet/journal")


def _read_only(*_args, **_more):
    raise OSError(errno.EROFS, "read-only", "/var/lib/gpufleet")


def _held(*_args, **_more):
    raise journal_writer.host_files.HostError(
        "locked", "locked by process 7", "Wait until it is done, then run again"
    )


CAUSES = [
    (
        "lock",
        "_lock",
        _read_only,
        "Mount the file system of /var/lib/gpufleet writable, then run again",
    ),
    (
        "lock",
        "_lock",
        _no_room,
        "Make room on the file system of /var/lib/gpufleet/journal, then run again",
    ),
    ("lock", "_lock", _held, "Wait until it is done, then run again"),
    (
        "backup",
        "begin_transaction",
        _read_only,
        "Mount the file system of /var/lib/gpufleet writable, then run again",
    ),
    (
        "backup",
        "begin_transaction",
        _no_room,
        "Make room on the file system of /var/lib/gpufleet/journal, then run again",
    ),
]


@pytest.mark.parametrize("phase, name, fault, following", CAUSES)
def test_the_next_step_is_the_causes_and_not_the_phases(
    host, monkeypatch, phase, name, fault, following
):
    monkeypatch.setattr(journal_writer, name, fault)
    error = host.run([host.write(host.config, "new\n")])["error"]
    assert (error["phase"], error["next"]) == (phase, following)


def test_a_missing_systemd_run_is_named_with_what_brings_it(host, monkeypatch):
    monkeypatch.setattr(deadline.commands.trust, "PROGRAM_PATH", (str(host.directory),))
    with pytest.raises(journal_writer.host_files.HostError) as caught:
        deadline.arm(host.journal, {"id": "a" * 32}, "/program")
    assert "systemd-run" in str(caught.value)
    assert "install systemd-run" in caught.value.following


def test_the_timer_waits_for_what_is_undone_as_long_as_that_may_take():
    """It kills the executor, and a package manager that is killed in its middle leaves the host
    without the way back.
    """
    install = {"argv": ["true"], "timeout": 900}
    plain = deadline.compute_time_limit({"commands_before": [install]})
    assert (
        deadline.compute_time_limit(
            {"commands_before": [dict(install, undo=["true"], undo_within=900)]}
        )
        - plain
        == 900
    )
    assert (
        deadline.compute_time_limit({"commands_before": [dict(install, undo=["true"])]}) - plain
        == health.ENDS_WITHIN
    )
    assert deadline.compute_time_limit({"commands_before": [dict(install, undo=None)]}) == plain
