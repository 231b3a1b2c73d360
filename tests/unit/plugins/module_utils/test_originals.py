# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies from before our first change: verified before they are written, kept as long as ours is in
the file, never passed over.
"""

import json
import os
import re

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    journal,
    journal_queries,
    observe,
)

from .conftest import CONFIG, RESTART, put, told


def restore(path, **more):
    return dict({"path": str(path), "op": "restore", "id": ""}, **more)


def kept(host_dir, name):
    return os.path.join(
        journal.get_original_directory(host_dir.journal, str(host_dir.config)), name
    )


def changed_meta(host_dir, **more):
    meta = dict(journal.read_json(kept(host_dir, "meta.json")), **more)
    put(
        kept(host_dir, "meta.json"),
        json.dumps({key: value for key, value in meta.items() if value is not ...}).encode("utf-8"),
    )


DAMAGE = {
    "emptied": (
        lambda host_dir: put(kept(host_dir, "content"), b""),
        "content has 0 bytes, and other bytes were kept",
    ),
    "cut": (
        lambda host_dir: put(kept(host_dir, "content"), CONFIG[:7].encode()),
        "content has 7 bytes, and other bytes",
    ),
    "another file": (
        lambda host_dir: put(kept(host_dir, "content"), b"x" * len(CONFIG)),
        "and other bytes were kept",
    ),
    "no content": (lambda host_dir: os.unlink(kept(host_dir, "content")), "content: No such file"),
    "no meta": (
        lambda host_dir: os.unlink(kept(host_dir, "meta.json")),
        "its meta.json cannot be read: No such file",
    ),
    "empty meta": (
        lambda host_dir: put(kept(host_dir, "meta.json"), b""),
        "its meta.json is not JSON",
    ),
    "a list": (
        lambda host_dir: put(kept(host_dir, "meta.json"), b"[]"),
        "another release (schema None, known is 1)",
    ),
    "another schema": (
        lambda host_dir: changed_meta(host_dir, schema=2),
        "another release (schema 2, known is 1)",
    ),
    "no mode": (lambda host_dir: changed_meta(host_dir, mode=...), "does not say mode"),
    "gone and not gone": (
        lambda host_dir: changed_meta(host_dir, existed=False),
        "does not say whether the file was there",
    ),
    "no hash": (
        lambda host_dir: changed_meta(host_dir, sha256_after=...),
        "does not say sha256_after",
    ),
}
BY_HAND = "Bring the file into the intended state by hand, then remove that directory"
STEPS = {"another schema": "Restore the host with that release"}


@pytest.mark.parametrize("check", [False, True], ids=["run", "check mode"])
@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_damaged_copy_is_never_written(host_dir, damage, check):
    host_dir.run(
        [host_dir.write(host_dir.config, "ours\n"), host_dir.write(host_dir.dropin, "a\n")]
    )
    strike, said = DAMAGE[damage]
    strike(host_dir)
    before = host_dir.tree()
    found = host_dir.run(
        [restore(host_dir.dropin), restore(host_dir.config)], id="2" * 32, check=check
    )
    assert said in found["error"]["message"]
    assert found["error"]["message"].startswith(
        "%s: the copy of the original in %s"
        % (host_dir.config, os.path.dirname(kept(host_dir, "")))
    )
    assert found["error"]["message"].endswith(STEPS.get(damage, BY_HAND))
    assert host_dir.tree() == before


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_look_tells_of_a_damaged_copy_instead_of_passing_over_it(host_dir, damage):
    host_dir.run(
        [host_dir.write(host_dir.config, "ours\n"), host_dir.write(host_dir.dropin, "a\n")]
    )
    DAMAGE[damage][0](host_dir)
    found = journal_queries.look_at_journal("", host_dir.journal)
    assert list(found["originals"]) == [str(host_dir.dropin)]
    assert [entry["path"] for entry in found["damaged"]] == [str(host_dir.config)]
    assert DAMAGE[damage][1] in found["damaged"][0]["why"]
    assert found["damaged"][0]["directory"] == os.path.dirname(kept(host_dir, "x"))


PIPE = "it is a fifo, not a regular file"


@pytest.mark.parametrize("name", ["content", "meta.json"])
def test_a_pipe_in_the_place_of_a_copy_holds_nothing_up(host_dir, name):
    """Opening a pipe that nobody writes to waits forever, and so would the whole look."""
    host_dir.run([host_dir.write(host_dir.config, "ours\n")])
    os.unlink(kept(host_dir, name))
    os.mkfifo(kept(host_dir, name))
    question = {"id": "q", "kind": "originals", "dir": host_dir.journal, "keep": []}
    found = observe.run(
        {"schema": 1, "root": "/", "limits": {"seconds": 5}, "questions": [question]}
    )["answers"]["q"]
    assert [(entry["path"], PIPE in entry["why"]) for entry in found["damaged"]] == [
        (str(host_dir.config), True)
    ]


@pytest.mark.parametrize("name", ["states", "meta.json", "outcome.json"])
def test_a_pipe_in_the_place_of_an_entrys_file_holds_nothing_up(host_dir, name):
    token = host_dir.run([host_dir.write(host_dir.config, "ours\n")])["id"]
    entry = next(
        meta["entry"] for meta in journal.list_transactions(host_dir.journal) if meta["id"] == token
    )
    place = os.path.join(entry, name)
    if os.path.exists(place):
        os.unlink(place)
    os.mkfifo(place)
    if os.path.exists(os.path.join(host_dir.journal, "lock")):
        os.unlink(os.path.join(host_dir.journal, "lock"))
    os.mkfifo(os.path.join(host_dir.journal, "lock"))
    question = {
        "id": "q",
        "kind": "originals",
        "dir": host_dir.journal,
        "keep": [],
        "listing": True,
    }
    found = observe.run(
        {"schema": 1, "root": "/", "limits": {"seconds": 5}, "questions": [question]}
    )["answers"]["q"]
    assert (len(found["journal"]), found["pending"]) == (1, [])


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, lambda path: open(path, "w").close()],
    ids=["a pipe", "a directory", "emptied"],
)
def test_restarts_that_are_due_and_cannot_be_read_are_not_taken_for_none(host_dir, make):
    host_dir.run([host_dir.write(host_dir.config, "ours\n")])
    make(os.path.join(host_dir.journal, "pending.json"))
    question = {"id": "q", "kind": "originals", "dir": host_dir.journal, "keep": []}
    found = observe.run(
        {"schema": 1, "root": "/", "limits": {"seconds": 5}, "questions": [question]}
    )["answers"]["q"]
    assert found["error"]["kind"] == "damaged"
    assert re.search(
        "pending.json: the list of units .* cannot be read. Restart the units .* then remove that file",
        found["error"]["message"],
    )


def test_a_copy_that_names_another_file_is_told_as_damaged(host_dir):
    host_dir.run(
        [host_dir.write(host_dir.config, "ours\n"), host_dir.write(host_dir.dropin, "a\n")]
    )
    changed_meta(host_dir, path="/etc/passwd")
    found = journal_queries.look_at_journal("", host_dir.journal)
    assert list(found["originals"]) == [str(host_dir.dropin)]
    assert [entry["directory"] for entry in found["damaged"]] == [
        os.path.dirname(kept(host_dir, "x"))
    ]
    assert "names a file that is kept by another name" in found["damaged"][0]["why"]


def test_a_write_over_a_file_whose_copy_cannot_be_told_is_refused(host_dir):
    host_dir.run([host_dir.write(host_dir.config, "ours\n")])
    changed_meta(host_dir, schema=2)
    assert (
        "another release"
        in host_dir.run([host_dir.write(host_dir.config, "more\n")], id="2" * 32)["error"][
            "message"
        ]
    )
    assert host_dir.config.read_text() == "ours\n"


def test_when_the_directory_of_a_damaged_copy_is_removed_the_file_is_free_again(host_dir):
    host_dir.run([host_dir.write(host_dir.config, "ours\n")])
    put(kept(host_dir, "content"), b"")
    nodefs_dir = os.path.dirname(kept(host_dir, "x"))
    for name in os.listdir(nodefs_dir):
        os.unlink(os.path.join(nodefs_dir, name))
    os.rmdir(nodefs_dir)
    assert (
        host_dir.run([host_dir.write(host_dir.config, "by hand\n")], id="2" * 32)["error"] is None
    )
    assert host_dir.run([restore(host_dir.config)], id="3" * 32)["error"] is None
    assert host_dir.config.read_text() == "ours\n"


@pytest.mark.parametrize(
    "present, now, trouble",
    [
        ("ours\n", told("ours\n"), None),
        ("theirs\n", told("theirs\n"), None),
        (None, None, None),
        ("a directory", None, "is a dir, not a regular file"),
    ],
)
def test_a_look_says_how_the_file_is_now(host_dir, present, now, trouble):
    host_dir.run([host_dir.write(host_dir.config, "ours\n")])
    host_dir.config.unlink()
    if present == "a directory":
        host_dir.config.mkdir()
    elif present is not None:
        host_dir.config.write_text(present)
    found = host_dir.originals()[str(host_dir.config)]
    assert (found["now"], found["sha256_before"], found["sha256_after"]) == (
        now,
        told(CONFIG),
        told("ours\n"),
    )
    assert (trouble is None) == (found["trouble"] is None)
    assert (trouble or "") in (found["trouble"] or "")


def spoil(host_dir, text):
    """Return shell commands for a hook. They spoil what the journal keeps, and take away the second
    name of the old file.
    """
    entry = os.path.join(host_dir.journal, "journal", "*")
    return "rm -rf %s/etc/.gpufleet-*; printf %s > $(ls -d %s/0.before); exit 1" % (
        host_dir.directory,
        text or "''",
        entry,
    )


@pytest.mark.parametrize("text", ["", "vers"], ids=["emptied", "cut"])
def test_a_spoilt_copy_of_this_very_transaction_is_not_written_either(host_dir, systemd, text):
    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", spoil(host_dir, text))
    found = host_dir.run(
        [host_dir.write(host_dir.config, "ours\n"), host_dir.write(host_dir.dropin, "a\n")],
        units=RESTART,
    )
    assert found["error"]["phase"] == "rollback"
    assert (
        "0.before has %d bytes, and other bytes were kept" % len(text) in found["error"]["message"]
    )
    assert host_dir.config.read_text() == "ours\n", "left as it is, and named"
    assert not host_dir.dropin.exists(), "the other file is as before"


# An engine that does not live with ours, and someone who writes a line to its configuration
# meanwhile.
DOWN = "grep -q theirs %(config)s || echo '# theirs' >> %(config)s; ! grep -q ours %(config)s"


def test_a_foreign_line_does_not_cost_the_copy_from_before(host_dir, systemd):
    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", DOWN % {"config": host_dir.config})
    found = host_dir.run(
        [host_dir.write(host_dir.config, "ours\n"), host_dir.write(host_dir.dropin, "a\n")],
        units=RESTART,
    )
    assert found["foreign"] == [str(host_dir.config)]
    left = (
        "%s: another program has written to it in the meantime, so it is left as found, including the part of this collection"
        % host_dir.config
    )
    assert left in found["error"]["message"]
    assert "kept for state: absent" in found["error"]["next"]
    assert (found["rolled_back"], found["changed"]) == (False, True), (
        "the engine is down for good, and that is told, too"
    )
    assert host_dir.config.read_text() == "ours\n# theirs\n"
    assert not host_dir.dropin.exists()
    original = host_dir.originals()[str(host_dir.config)]
    assert list(host_dir.originals()) == [str(host_dir.config)]
    digests = [original[name] for name in ("sha256_before", "sha256_after", "now")]
    assert digests == [told(CONFIG), told("ours\n"), told("ours\n# theirs\n")]

    # Mended by hand and run again: the copy is still the one from before the first change.
    systemd.hook("engine.service", "restart", "true")
    assert (
        host_dir.run([host_dir.write(host_dir.config, "ours again\n")], id="2" * 32, units=RESTART)[
            "error"
        ]
        is None
    )
    assert host_dir.originals()[str(host_dir.config)]["sha256_after"] == told("ours again\n")
    assert host_dir.run([restore(host_dir.config)], id="3" * 32)["error"] is None
    assert (host_dir.config.read_text(), host_dir.originals()) == (CONFIG, {})


def test_the_files_name_stands_in_the_message_also_when_the_engine_serves_again(host_dir, systemd):
    systemd.add("engine.service")
    once = "grep -q theirs %(config)s || { echo '# theirs' >> %(config)s; exit 1; }"
    systemd.hook("engine.service", "restart", once % {"config": host_dir.config})
    found = host_dir.run([host_dir.write(host_dir.config, "ours\n")], units=RESTART)
    assert (found["rolled_back"], found["changed"], found["foreign"]) == (
        True,
        True,
        [str(host_dir.config)],
    )
    assert "%s: another program has written to it" % host_dir.config in found["error"]["message"]
    assert "All other files are as before" in found["error"]["next"]


def test_a_foreign_line_in_a_later_change_leaves_the_copy_from_before_the_first(host_dir, systemd):
    systemd.add("engine.service")
    host_dir.run([host_dir.write(host_dir.config, "first\n")])
    systemd.hook("engine.service", "restart", "echo '# theirs' >> %s; exit 1" % host_dir.config)
    host_dir.run([host_dir.write(host_dir.config, "second\n")], id="2" * 32, units=RESTART)
    assert host_dir.originals()[str(host_dir.config)]["sha256_before"] == told(CONFIG)
    assert host_dir.run([restore(host_dir.config, changed=True)], id="3" * 32)["error"] is None
    assert host_dir.config.read_text() == CONFIG


def test_without_a_foreign_line_no_copy_is_left(host_dir, systemd):
    systemd.add("engine.service")
    systemd.hook("engine.service", "restart", "exit 1")
    host_dir.run([host_dir.write(host_dir.config, "ours\n")], units=RESTART)
    assert (host_dir.config.read_text(), host_dir.originals()) == (CONFIG, {})
    assert os.listdir(os.path.join(host_dir.journal, "originals")) == []


@pytest.mark.parametrize("earlier", [False, True], ids=["first change", "later change"])
@pytest.mark.parametrize(
    "works, times",
    [(True, 1), (False, 1), (False, 2)],
    ids=["works", "fails", "fails, and cleared twice"],
)
def test_a_journal_that_is_cleared_meanwhile_is_written_again(
    host_dir, systemd, works, times, earlier
):
    systemd.add("engine.service")
    if earlier:
        host_dir.run([host_dir.write(host_dir.config, "earlier\n")])
    before = host_dir.tree()
    clear = "echo x >> %(dir)s/count; [ $(wc -l < %(dir)s/count) -gt %(times)d ] || rm -rf %(journal)s; ! grep -q %(refused)s %(config)s"
    told = {
        "dir": host_dir.directory,
        "times": times,
        "journal": host_dir.journal,
        "config": host_dir.config,
    }
    told["refused"] = "nothing" if works else "ours"
    systemd.hook("engine.service", "restart", clear % told)
    found = host_dir.run(
        [host_dir.write(host_dir.config, "ours\n"), host_dir.write(host_dir.dropin, "a\n")],
        id="2" * 32,
        units=RESTART,
    )
    assert found["rewritten"]
    assert "TypeError" not in str(found["error"])
    assert [
        name for name in os.listdir(str(host_dir.directory / "etc")) if name.startswith(".gpufleet")
    ] == []
    if works:
        assert (found["error"], found["changed"], host_dir.config.read_text()) == (
            None,
            True,
            "ours\n",
        )
        assert (
            host_dir.run([restore(host_dir.config), restore(host_dir.dropin)], id="3" * 32)["error"]
            is None
        )
        assert host_dir.config.read_text() == CONFIG, "the copy from before the first change"
        assert host_dir.originals() == {}
    else:
        assert (found["rolled_back"], found["changed"]) == (True, False)
        assert host_dir.tree() == before
        assert list(host_dir.originals()) == ([str(host_dir.config)] if earlier else [])
