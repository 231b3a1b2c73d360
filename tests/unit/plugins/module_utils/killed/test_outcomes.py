# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was rolled back or left to do is told until a person acknowledges or does it."""

import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
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

from ..conftest import RESTART
from .conftest import NEW, Patched, in_child


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
