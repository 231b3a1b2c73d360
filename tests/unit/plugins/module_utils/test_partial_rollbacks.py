# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file, a unit or a command that cannot come back keeps no other from coming back, and a later run
tries it again. Python 3.6.
"""

import errno
import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    journal,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    rollback,
    swap,
)

from .conftest import CONFIG, RESTART, fail


@pytest.fixture
def cut_short(host_dir, monkeypatch):
    """Return a host with a transaction on three files that has ended in its middle. Its entry stays
    open.
    """
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
    """Return a host whose engine fails with its new file, beside a file that cannot come back."""
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
