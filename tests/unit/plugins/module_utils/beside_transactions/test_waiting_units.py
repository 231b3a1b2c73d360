# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units whose programs had to wait for a transaction: when they are started, and in which order."""

import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import (
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

from .conftest import NEW, UNIT, Killed, every_step


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


def test_whoever_ends_what_was_killed_before_it_began_starts_the_units(host, monkeypatch):
    """It held the lock, and its entry is not there yet."""
    monkeypatch.setattr(launcher.os, "umask", lambda _mask: 0o022)  # of this process, for all tests
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
