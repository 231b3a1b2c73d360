# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard of a file, held or killed at every step, beside a transaction that writes the file."""

import json
import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    journal,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import (
    programs,
)

from .conftest import NEW, OLD, OTHER, UNIT, Host, Killed, every_step


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
