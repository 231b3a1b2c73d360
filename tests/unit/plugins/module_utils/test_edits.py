# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits whose planner has seen a projection: what is hidden stays to the byte, and what would mean
something else is refused.
"""

import hashlib
import os
import re

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import projector
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    edits,
    staging,
)

KEEP = {"format": "toml", "places": [[["a"], "int"], [["t", "b"], "int"], [["t", "c"], "names"]]}
TEXT = "a = 1 # hunter2\npassword = '''\nhunter2\n\n'''\n[t]\n  b = 2   # hunter2\n  secret = 'x'\n[[u]]\nb = 'hunter2'\n"


def planned(text, change):
    """What a planner makes of what it sees: `change` takes that text and gives another. As one edit
    of the lines that differ.
    """
    before = projector.project_file(text.encode(), KEEP).data.decode()
    after = change(before)
    old, new = edits.split_lines(before.encode()), edits.split_lines(after.encode())
    head = len(os.path.commonprefix([old, new]))
    tail = len(os.path.commonprefix([old[head:][::-1], new[head:][::-1]]))
    edit = {
        "start": head,
        "end": len(old) - tail,
        "text": b"".join(new[head : len(new) - tail]).decode(),
    }
    return {
        "path": "/c.toml",
        "op": "edit",
        "edits": [edit],
        "keep": KEEP,
        "result": hashlib.sha256(after.encode()).hexdigest(),
    }


def edited(text, change):
    return edits.apply_line_edits("/c.toml", text.encode(), planned(text, change)).decode()


@pytest.mark.parametrize(
    "old, new, in_file",
    [
        ("a = 1", "a = 23", ("a = 1", "a = 23")),
        ("b = 2", "b = 4711", ("b = 2", "b = 4711")),
        ("[t]\n", "[t]\n  c = ['runc']\n", ("[t]\n", "[t]\n  c = ['runc']\n")),
        ("a = 1", "t.c = []\na = 1", None),
    ],
)
def test_an_edit_of_what_is_seen_is_an_edit_of_the_file(old, new, in_file):
    if in_file is None:  # a table that is opened twice: refused as it would be in any other text
        with pytest.raises(
            host_files.HostError, match=r"/c\.toml:7: this could not be read \(toml-twice\)"
        ):
            edited(TEXT, lambda text: text.replace(old, new))
    else:
        assert edited(TEXT, lambda text: text.replace(old, new)) == TEXT.replace(*in_file)


def test_a_table_goes_with_all_that_is_hidden_in_it():
    assert (
        edited(TEXT, lambda text: re.sub(r"(?s)\[t\].*(?=\[\[)", "", text))
        == TEXT[: TEXT.index("[t]")] + TEXT[TEXT.index("[[u]]") :]
    )


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda text: text.replace("\n\n", "\nb = 1\n"), "could not be read"),
        (
            lambda text: (
                text.replace('secret = "', 'x = "')
                if 'secret = "' in text
                else text.replace("xxxxxx = ", "y = ")
            ),
            "not sent",
        ),
        (lambda text: re.sub(r"a = 1 (#x+)\n", r"\1\na = 2\n", text), "not sent|would lose text"),
        (
            lambda text: text.replace("a = 1 #", "a = 1\n[v]\n#"),
            "mean something else|would lose|not sent",
        ),
    ],
    ids=[
        "within a hidden string",
        "a hidden key's name",
        "a hidden comment elsewhere",
        "a header within a line",
    ],
)
def test_an_edit_that_would_cost_a_hidden_byte_is_refused(change, why):
    with pytest.raises(host_files.HostError, match=why):
        edited(TEXT, change)


def test_a_planner_that_saw_another_text_is_refused():
    change = dict(planned(TEXT, lambda text: text.replace("a = 1", "a = 2")), result="0" * 64)
    with pytest.raises(host_files.HostError, match="another file than was planned"):
        edits.apply_line_edits("/c.toml", TEXT.encode(), change)


def test_in_one_line_of_json_what_is_hidden_stays():
    keep = {"format": "json", "places": [[["a"], "int"]]}
    text = '{"token": "hunter2", "a": 1, "b": "hunter2"}'
    seen = projector.project_file(text.encode(), keep).data.decode()
    after = seen.replace('"a": 1', '"a": 2')
    change = {
        "edits": [{"start": 0, "end": 1, "text": after}],
        "keep": keep,
        "result": hashlib.sha256(after.encode()).hexdigest(),
    }
    assert edits.apply_line_edits("/d.json", text.encode(), change).decode() == text.replace(
        '"a": 1', '"a": 2'
    )


ONE_LINE = {
    "format": "json",
    "places": [[["runtimes", "*", "path"], "program"], [["features", "*"], "bool"]],
}


@pytest.mark.parametrize(
    "text",
    [
        '{"data-root": "/srv/döcker", "default-runtime": "x", "runtimes": {}}\n',
        '{"runtimes": {}, "proxy": "http://u:pw@h", "labels": ["a", "b"]}',
        '{"a": "12", "runtimes": {}, "b": "34", "c": "56"}\n',
    ],
)
def test_what_is_hidden_between_two_changes_of_one_line_stays(text):
    seen = projector.project_file(text.encode(), ONE_LINE).data.decode()
    after = seen.replace("{", '{"features": {"cdi": true}, ', 1).replace(
        '"runtimes": {}', '"runtimes": {"n": {"path": "/usr/bin/n"}}'
    )
    edit = {"start": 0, "end": 1, "text": after}
    change = {
        "path": "/d.json",
        "edits": [edit],
        "keep": ONE_LINE,
        "result": hashlib.sha256(after.encode()).hexdigest(),
    }
    wanted = text.replace("{", '{"features": {"cdi": true}, ', 1).replace(
        '"runtimes": {}', '"runtimes": {"n": {"path": "/usr/bin/n"}}'
    )
    assert edits.apply_line_edits("/d.json", text.encode(), change).decode() == wanted


MINE, OTHERS = os.getegid(), 54321
COPIED = {"format": "toml", "places": [[["e"], "names"]]}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.mark.parametrize(
    "mode, gid, folder, wanted",
    [
        (0o644, MINE, 0o755, 0o644),
        (0o600, MINE, 0o755, 0o600),
        (0o640, MINE, 0o755, 0o640),
        (0o644, MINE, 0o700, 0o600),
        (0o644, MINE, 0o750, 0o640),
        pytest.param(0o640, OTHERS, 0o755, 0o600, marks=as_root),
        pytest.param(0o604, OTHERS, 0o755, 0o644, marks=as_root),
    ],
)
def test_what_is_copied_from_a_file_can_be_read_by_nobody_who_cannot_read_it_there(
    tmp_path, mode, gid, folder, wanted
):
    source, text = tmp_path / "etc" / "site" / "c.toml", b'e = ["KEY=hunter2"]\n'
    source.parent.mkdir(parents=True)
    source.write_bytes(text)
    source.chmod(mode)
    if gid != MINE:
        os.chown(str(source), -1, gid)
    source.parent.chmod(folder)
    expect = host_files.digest_bytes(text)
    reference = {"at": 4, "path": "/etc/site/c.toml", "expect": expect, "span": [4, 19]}
    shown = projector.project_file(text, COPIED).data.decode()
    change = {
        "path": "/etc/ours.toml",
        "op": "write",
        "content": shown,
        "mode": "0644",
        "references": [reference],
    }
    tmp_path.chmod(0o755)
    [planned], conflicts = staging.plan_file_changes(
        str(tmp_path), str(tmp_path / "journal"), [dict(change, keep=COPIED)]
    )
    assert (conflicts, planned.after.data) == ([], text)
    assert oct(planned.after.mode) == oct(wanted)
