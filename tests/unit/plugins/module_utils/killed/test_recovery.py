# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A transaction that was cut short is brought to its end: by the next one, the timer, or a boot."""

import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    journal,
    journal_queries,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

from ..conftest import RESTART
from .conftest import NEW, Patched, in_child


def test_the_next_transaction_takes_back_what_was_cut_short_and_says_so(host):
    with Patched(host.systemd.bin.parent) as patched:
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
