# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that stay on a host: they leave a transaction alone, and work if there is none."""

import contextlib
import fcntl
import json
import os
import stat

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import (
    device_nodes,
    modes,
    mps,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
    waiting,
)

from ..conftest import script, sha
from .conftest import UNIT, every_step

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
