# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a transaction has left beside files: it is told and removed if nothing may need it."""

import os
import time

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    journal,
    journal_queries,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

from .conftest import CONFIG, put

DEAD, ALIVE = "d" * 32, "a" * 32


def left_beside(host_dir, token, name="0acfdb3a", age=7200, mode="dir"):
    place = host_dir.directory / "etc" / (".gpufleet-%s-%s" % (token, name))
    if mode == "dir":
        place.mkdir()
        (place / "old").write_text("the old bytes\n")
    elif mode == "link":
        place.symlink_to(host_dir.etc)
    else:
        place.write_text("")
    then = time.time() - age
    os.utime(str(place), (then, then), follow_symlinks=False)
    return str(place)


def test_names_that_nobody_refers_to_are_told_and_removed(host_dir):
    stray = left_beside(host_dir, DEAD)
    beside = [str(host_dir.directory / "etc"), str(host_dir.etc), "/no/such/directory"]
    assert journal_queries.look_at_journal("", host_dir.journal, stray_globs=beside)["strays"] == [
        stray
    ]
    found = host_dir.run([], id="2" * 32, strays=[stray])
    assert (found["error"], found["swept"]) == (None, [stray])
    assert not os.path.lexists(stray)
    assert host_dir.config.read_text() == CONFIG
    assert journal_queries.look_at_journal("", host_dir.journal, stray_globs=beside)["strays"] == []


@pytest.mark.parametrize("case", ["open", "at work", "new", "a link", "a file", "another name"])
def test_what_may_be_needed_or_is_not_ours_is_left(host_dir, case):
    if case == "open":
        host_dir.run([host_dir.write(host_dir.config, "x\n")], id=ALIVE)
        put(
            os.path.join(
                host_dir.journal, "open", journal.list_transaction_names(host_dir.journal)[0]
            ),
            b"",
        )
    kinds = {"a link": "link", "a file": "file"}
    place = left_beside(
        host_dir, ALIVE, age=60 if case == "new" else 7200, mode=kinds.get(case, "dir")
    )
    if case == "another name":
        os.rename(place, place + "x")
        place += "x"
    if case == "at work":
        with journal_writer.hold_transaction_lock(
            host_dir.journal, "somebody", keep=True, token=ALIVE
        ):
            assert (
                journal_queries.look_at_journal(
                    "", host_dir.journal, stray_globs=[os.path.dirname(place)]
                )["strays"]
                == []
            )
    else:
        assert (
            journal_queries.look_at_journal(
                "", host_dir.journal, stray_globs=[os.path.dirname(place)]
            )["strays"]
            == []
        )
        found = host_dir.run([], id="2" * 32, strays=[place])
        assert not found["swept"]
        assert (found["error"] is None) == (case != "another name"), (
            "what is no such name is no request"
        )
    assert os.path.lexists(place)
