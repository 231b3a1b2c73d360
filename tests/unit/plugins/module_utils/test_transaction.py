# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A transaction on files: the state wanted or the state before, and an answer that says which and
why.
"""

import base64
import errno
import itertools
import os
import stat
import sys

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    host_files,
    journal,
    observe,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)

from .conftest import CONFIG, ask, edit, restore, sha, told

# --- files
# --------------------------------------------------------------------------------------------------


def test_a_new_file_in_new_directories(host_dir):
    found = host_dir.run([host_dir.write(host_dir.dropin, "a = 1\n", mode="0600", expect=None)])
    assert found["error"] is None
    assert found["changed"]
    assert found["written"] == [str(host_dir.dropin)]
    assert host_dir.dropin.read_text() == "a = 1\n"
    assert stat.S_IMODE(host_dir.dropin.stat().st_mode) == 0o600
    assert stat.S_IMODE(host_dir.dropin.parent.stat().st_mode) == 0o755
    # nothing temporary is left anywhere
    assert sorted(os.listdir(str(host_dir.etc))) == [
        "conf.d",
        "config.toml",
    ]
    assert os.listdir(str(host_dir.directory / "etc")) == ["engine"]
    assert host_dir.states() == ["committed"]


def test_bytes_that_are_no_text(host_dir):
    """A package, for example: they come as base64, and stay as they are."""
    data = bytes(range(256)) * 10
    found = host_dir.run(
        [
            host_dir.write(
                host_dir.dropin,
                base64.b64encode(data).decode("ascii"),
                encoding="base64",
                expect=None,
            )
        ]
    )
    assert found["error"] is None
    assert host_dir.dropin.read_bytes() == data
    again = host_dir.run(
        [
            host_dir.write(
                host_dir.dropin, base64.b64encode(data).decode("ascii"), encoding="base64"
            )
        ],
        id="f" * 32,
    )
    assert not again["changed"]
    back = host_dir.run([restore(host_dir.dropin)], id="e" * 32)
    assert back["error"] is None
    assert not host_dir.dropin.exists()


def test_a_second_run_changes_nothing(host_dir):
    host_dir.run([host_dir.write(host_dir.dropin, "a = 1\n")])
    before = os.stat(str(host_dir.dropin))[:7]  # all but the times: reading may change one
    written = os.stat(str(host_dir.dropin)).st_mtime_ns
    found = host_dir.run([host_dir.write(host_dir.dropin, "a = 1\n")], id="f" * 32)
    assert found["error"] is None
    assert not found["changed"]
    assert found["written"] == []
    assert found["journal"] is None
    assert os.stat(str(host_dir.dropin))[:7] == before
    assert os.stat(str(host_dir.dropin)).st_mtime_ns == written


@pytest.mark.parametrize(
    "before, edits, after",
    [
        ("a\nb\nc\n", [(1, 2, "B\n")], "a\nB\nc\n"),
        ("a\nb\nc\n", [(3, 3, "d\n")], "a\nb\nc\nd\n"),
        ("a\nb\nc\n", [(0, 1, ""), (2, 3, "C\nD\n")], "b\nC\nD\n"),
        ("a\nb\nc\n", [(0, 0, "x\n"), (0, 1, "A\n")], "x\nA\nb\nc\n"),
        ("a\r\nb\r\n", [(1, 2, "B\r\n")], "a\r\nB\r\n"),
        ("a\u2028b\x0cc\nd", [(1, 2, "D")], "a\u2028b\x0cc\nD"),  # only \n ends a line
        ("", [(0, 0, "a\n")], "a\n"),
    ],
)
def test_edits_are_line_ranges_of_the_file_that_was_seen(host_dir, before, edits, after):
    host_dir.config.write_bytes(before.encode("utf-8"))
    found = host_dir.run([edit(host_dir, edits, after, before)])
    assert found["error"] is None
    assert host_dir.config.read_bytes() == after.encode("utf-8")
    assert stat.S_IMODE(host_dir.config.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "edits, said",
    [
        ([(1, 9, "x")], "overlaps another or the end"),
        ([(0, 2, "x"), (1, 3, "y")], "overlaps"),
        ([(0, 1, "y\n")], "another file than was planned"),
    ],
)
def test_edits_that_cannot_be_meant(host_dir, edits, said):
    found = host_dir.run([edit(host_dir, edits, "whatever")])
    assert said in found["error"]["message"]
    assert host_dir.config.read_text() == CONFIG


def test_a_symlinked_config_stays_a_link(host_dir):
    real = host_dir.directory / "real.toml"
    host_dir.config.rename(real)
    host_dir.config.symlink_to(real)
    assert (
        host_dir.run([edit(host_dir, [(1, 2, "")], CONFIG.replace("# a comment\n", ""))])["error"]
        is None
    )
    assert host_dir.config.is_symlink()
    assert real.read_text() == CONFIG.replace("# a comment\n", "")


def test_owner_mode_and_attributes_of_an_existing_file_stay(host_dir):
    try:
        os.setxattr(str(host_dir.config), "user.note", b"mine")
    except OSError:
        pass  # a file system without them
    attributes = os.listxattr(str(host_dir.config))
    if os.geteuid() == 0:
        os.chown(str(host_dir.config), 12, 34)
    before = host_dir.config.stat()
    host_dir.run([host_dir.write(host_dir.config, "new\n")])
    after = host_dir.config.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (
        before.st_uid,
        before.st_gid,
        before.st_mode,
    )
    assert os.listxattr(str(host_dir.config)) == attributes


@pytest.mark.parametrize(
    "number, refused", [(errno.EOPNOTSUPP, False), (errno.EIO, True), (errno.EPERM, True)]
)
def test_a_file_whose_attributes_cannot_be_read_is_not_written_without_them(
    host_dir, monkeypatch, number, refused
):
    def fails(*_words, **_more):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "listxattr", fails)
    found = host_dir.run([host_dir.write(host_dir.config, "new\n")])
    assert bool(found["error"]) is refused
    assert host_dir.config.read_text() == (CONFIG if refused else "new\n")


@pytest.mark.parametrize("kind", ["fifo", "dir", "dangling"])
def test_what_is_no_regular_file_is_refused(host_dir, kind):
    path = host_dir.etc / "odd"
    {
        "fifo": lambda: os.mkfifo(str(path)),
        "dir": path.mkdir,
        "dangling": lambda: path.symlink_to("/nowhere/at/all"),
    }[kind]()
    before = host_dir.tree()
    found = host_dir.run([host_dir.write(path, "x")])
    assert found["error"]["phase"] == "expect"
    assert str(path) in found["error"]["message"]
    assert host_dir.tree() == before


# --- expectations
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expect, found",
    [(sha("other"), told(CONFIG)), (None, told(CONFIG))],
)
def test_a_file_that_moved_on_is_a_conflict(host_dir, expect, found):
    result = host_dir.run([host_dir.write(host_dir.config, "new\n", expect=expect)])
    assert result["conflict"] == [
        {"what": "file", "path": str(host_dir.config), "expected": expect, "found": found}
    ]
    assert result["error"]["phase"] == "expect"
    assert host_dir.config.read_text() == CONFIG


def test_files_units_packages_and_programs_that_were_only_looked_at_count_too(host_dir, systemd):
    systemd.add("engine.service", invocation="i2")
    expect = {
        "files": {str(host_dir.config): sha("x")},
        "units": {"engine.service": "i1"},
        "packages": {"no-such-package": "1"},
    }
    expect["programs"] = {
        "/no/such/program": "1:2:3",
        sys.executable: host_files.identify_program("", sys.executable),
        "/nor/this": None,
    }
    found = host_dir.run([host_dir.write(host_dir.dropin, "x")], expect=expect)
    assert [(entry["what"], entry["expected"], entry["found"]) for entry in found["conflict"]] == [
        ("file", sha("x"), told(CONFIG)),
        ("unit", "i1", "i2"),
        ("package", "1", None),
        ("program", "1:2:3", None),
    ]
    assert not host_dir.dropin.exists()


def test_two_transactions_at_once(host_dir):
    with journal_writer.hold_transaction_lock(host_dir.journal, "the other one", keep=True):
        found = host_dir.run([host_dir.write(host_dir.config, "new\n")])
    assert found["error"]["phase"] == "lock"
    assert "the other one" in found["error"]["message"]
    assert host_dir.config.read_text() == CONFIG


def test_a_journal_that_others_may_write_to_is_refused(host_dir):
    os.mkdir(host_dir.journal)
    os.chmod(host_dir.journal, 0o777)
    assert (
        "only root may be able to write to the journal"
        in host_dir.run([host_dir.write(host_dir.config, "x")])["error"]["message"]
    )
    assert host_dir.config.read_text() == CONFIG


# --- restore
# --------------------------------------------------------------------------------------------------


def test_restore_gives_back_bytes_mode_time_absence_and_directories(host_dir):
    before, time_before = host_dir.tree(), os.stat(str(host_dir.config)).st_mtime_ns
    host_dir.run(
        [host_dir.write(host_dir.config, "first\n"), host_dir.write(host_dir.dropin, "a\n")]
    )
    # the original is the one from before the first
    host_dir.run([host_dir.write(host_dir.config, "second\n", mode="0600")], id="2" * 32)
    found = host_dir.run([restore(host_dir.config), restore(host_dir.dropin)], id="3" * 32)
    assert found["error"] is None
    assert found["changed"]
    assert (found["written"], found["removed"]) == ([str(host_dir.config)], [str(host_dir.dropin)])
    assert host_dir.tree() == before
    assert os.stat(str(host_dir.config)).st_mtime_ns == time_before
    assert host_dir.originals() == {}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("last", ["restore", "remove"])
def test_a_directory_goes_with_the_last_of_our_files_in_it(host_dir, order, last):
    """One transaction made it, another wrote a second file into it, and they go in any order,
    changed by someone or not.
    """
    before = host_dir.tree()
    specs = [host_dir.etc / "made" / "deep" / name for name in ("a.yaml", "b.yaml")]
    host_dir.run([host_dir.write(specs[0], "a\n")], id="1" * 32)
    host_dir.run([host_dir.write(specs[1], "b\n")], id="2" * 32)
    first, second = (specs[number] for number in order)
    assert host_dir.run([restore(first)], id="3" * 32)["error"] is None
    assert second.exists()
    goes = {"restore": restore(second), "remove": {"path": str(second), "op": "remove"}}[last]
    assert host_dir.run([goes], id="4" * 32)["error"] is None
    assert host_dir.tree() == before
    assert host_dir.originals() == {}


def test_the_journal_is_in_the_order_in_which_it_happened_also_within_a_second(host_dir):
    for number, first in enumerate("c1b0"):  # names begin with the second, and continue with the id
        host_dir.run([host_dir.write(host_dir.config, "%d\n" % number)], id=first * 32)
    assert [entry["id"][0] for entry in journal.list_transactions(host_dir.journal)] == list("c1b0")


def test_a_directory_in_which_somebody_else_has_a_file_stays(host_dir):
    host_dir.run([host_dir.write(host_dir.dropin, "a\n")])
    (host_dir.dropin.parent / "50-theirs.toml").write_text("theirs\n")
    host_dir.run([restore(host_dir.dropin)], id="2" * 32)
    assert os.listdir(str(host_dir.dropin.parent)) == ["50-theirs.toml"]


def test_restore_of_a_removed_file(host_dir):
    host_dir.run([{"path": str(host_dir.config), "op": "remove", "expect": sha(CONFIG)}])
    assert not host_dir.config.exists()
    host_dir.run([restore(host_dir.config)], id="2" * 32)
    assert host_dir.config.read_text() == CONFIG


def test_restore_of_a_file_that_somebody_changed_since_is_a_conflict(host_dir):
    host_dir.run([host_dir.write(host_dir.config, "ours\n")])
    host_dir.config.write_text("theirs\n")
    found = host_dir.run([restore(host_dir.config)], id="2" * 32)
    assert found["conflict"] == [
        {
            "what": "original",
            "path": str(host_dir.config),
            "expected": told("ours\n"),
            "found": told("theirs\n"),
        }
    ]
    assert host_dir.config.read_text() == "theirs\n"
    # a file that is ours alone
    forced = dict(restore(host_dir.config), expect=sha("theirs\n"), changed=True)
    assert host_dir.run([forced], id="3" * 32)["error"] is None
    assert (host_dir.config.read_text(), host_dir.originals()) == (CONFIG, {})


def test_an_edit_that_takes_ours_out_forgets_the_original(host_dir):
    host_dir.run([host_dir.write(host_dir.config, "ours\n")])
    host_dir.run([host_dir.write(host_dir.config, "ours and theirs\n")], id="2" * 32)
    host_dir.run([host_dir.write(host_dir.config, "theirs\n", forget=True)], id="3" * 32)
    assert host_dir.originals() == {}


def test_of_originals_what_is_listed_is_told(host_dir):
    host_dir.config.write_text('password = "hunter2"\n')
    host_dir.run([host_dir.write(host_dir.config, "ours\n")])
    question = {
        "id": "o",
        "kind": "originals",
        "dir": host_dir.journal,
        "keep": [{"ends": ".toml", "keep": {"format": "toml"}}],
    }
    found = observe.run({"schema": 1, "root": "/", "questions": [question]})["answers"]["o"]
    original = found["originals"][str(host_dir.config)]
    assert original["content"] == 'xxxxxxxx = "       "\n'
    assert original["existed"]
    assert original["sha256_before"] == told('password = "hunter2"\n')
    assert original["sha256_after"] == told("ours\n")
    assert found["unfinished"] == []


def test_the_journal_is_private_and_bounded(host_dir):
    for number in range(journal_writer.KEPT_ENTRIES + 3):
        host_dir.run([host_dir.write(host_dir.config, "%d\n" % number)], id="%032x" % number)
    assert len(host_dir.states()) == journal_writer.KEPT_ENTRIES
    for directory, _subdirs, names in os.walk(host_dir.journal):
        # The top may be entered by everyone: the decision that others read lies there.
        assert stat.S_IMODE(os.stat(directory).st_mode) == (
            0o755 if directory == host_dir.journal else 0o700
        )
        assert all(
            stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode) == 0o600 for name in names
        )


def test_a_clock_that_is_set_back_hides_no_transaction(host_dir, monkeypatch):
    """All that the journal keeps is of next year, and what happens now is kept, and is the newest."""
    kept = journal_writer.KEPT_ENTRIES
    monkeypatch.setattr(journal.time, "strftime", lambda *_words: "20991231T235959Z")
    for number in range(kept):
        host_dir.run([host_dir.write(host_dir.config, "%d\n" % number)], id="%032x" % number)
    monkeypatch.undo()
    for number in (kept, kept + 1):
        host_dir.run([host_dir.write(host_dir.config, "%d\n" % number)], id="%032x" % number)
    found = [entry["id"] for entry in journal.list_transactions(host_dir.journal)]
    assert len(found) == kept
    assert found[-2:] == ["%032x" % kept, "%032x" % (kept + 1)]
    listed = ask(kind="originals", dir=host_dir.journal, listing=True)
    assert [entry["id"] for entry in listed["journal"]] == found[::-1]


def test_transactions_are_in_the_order_of_their_numbers(host_dir, monkeypatch):
    times = itertools.count(9999, -1)
    monkeypatch.setattr(journal.time, "strftime", lambda *_words: "20300101T%06dZ" % next(times))
    for number in range(12):
        host_dir.run([host_dir.write(host_dir.config, "%d\n" % number)], id="%032x" % (99 - number))
    assert [entry["id"] for entry in journal.list_transactions(host_dir.journal)] == [
        "%032x" % (99 - number) for number in range(12)
    ]
    assert [
        name.partition("-")[0] for name in journal.list_transaction_names(host_dir.journal)
    ] == ["n%010d" % number for number in range(1, 13)]


def test_what_is_newest_stays_whatever_the_clock_says(tmp_path):
    paths = [tmp_path / ("%d.txt" % number) for number in range(5)]
    for number, path in enumerate(paths):
        path.write_text("")
        os.utime(str(path), (4e9 + number, 4e9 + number))
    new = tmp_path / "0-new.txt"
    new.write_text("")
    assert journal_writer.list_older_files(str(new)) == [str(path) for path in paths]
    last = tmp_path / "0-last.txt"
    last.write_text("")
    assert journal_writer.list_older_files(str(last))[-1] == str(new)
