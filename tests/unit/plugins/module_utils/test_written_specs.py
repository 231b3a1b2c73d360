# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A spec travels as a whole only if it is just as a transaction of this collection wrote it."""

import json
import os
import shutil

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    journal,
    observe,
)

from .conftest import put

SPEC = "# theirs\nkind: x/y\npassword: /hunter2\n"
# What became of a spec that a transaction wrote -> whether all of it may travel.
WRITTEN = {
    "as it was written": (lambda host_dir: None, True),
    "edited since": (
        lambda host_dir: put(str(host_dir.dropin), (SPEC + "more: 1\n").encode("utf-8")),
        False,
    ),
    "no longer ours": (lambda host_dir: told_of(host_dir, forget=True), False),
    "another file's digest": (lambda host_dir: told_of(host_dir, sha256_after="0" * 64), False),
    "damaged": (lambda host_dir: put(told_in(host_dir), b"[]"), False),
    "anybody may write to the journal": (lambda host_dir: os.chmod(host_dir.journal, 0o777), False),
    "no journal": (lambda host_dir: shutil.rmtree(host_dir.journal), False),
}


def told_in(host_dir):
    return os.path.join(
        journal.get_original_directory(host_dir.journal, str(host_dir.dropin)), "meta.json"
    )


def told_of(host_dir, **more):
    put(
        told_in(host_dir),
        json.dumps(dict(journal.read_json(told_in(host_dir)), **more)).encode("utf-8"),
    )


@pytest.mark.parametrize("case", sorted(WRITTEN))
def test_a_spec_travels_whole_only_as_a_transaction_wrote_it(host_dir, case):
    """Any other text is read place by place, by name, by pattern and for what it points at."""
    host_dir.run([host_dir.write(host_dir.dropin, SPEC)])
    WRITTEN[case][0](host_dir)
    keep = {
        "format": "document",
        "places": [[["kind"], ["split", "/", "name", {"*": "name"}]]],
        "journal": host_dir.journal,
    }
    path = str(host_dir.dropin)
    questions = [
        {"id": "file", "kind": "file", "path": path, "keep": keep},
        {"id": "glob", "kind": "glob", "pattern": path, "keep": keep},
        {
            "id": "paths",
            "kind": "mentioned",
            "pattern": path,
            "find": [r"(/hunter2)"],
            "keep": keep,
        },
        {
            "id": "elsewhere",
            "kind": "file",
            "path": path,
            "keep": {"format": "document", "places": []},
        },
    ]
    found = observe.run({"schema": 1, "root": "/", "questions": questions})["answers"]
    shown = [found["file"]["content"], found["glob"]["files"][0]["content"]]
    assert [content == SPEC for content in shown] == [WRITTEN[case][1]] * 2
    assert ["hunter2" in content for content in shown] == [WRITTEN[case][1]] * 2
    assert "hunter2" not in found["elsewhere"]["content"]
    assert sorted(found["paths"]["paths"]) == (["/hunter2"] if WRITTEN[case][1] else [])
