# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others left in a state that nobody can judge, or that is back: one sentence each, and no
file of the host is changed.
"""

from __future__ import annotations

import pathlib

import pytest

from tests.unit.bare_trees import Tree
from tests.unit.containerd_leftovers import COPY, ROOT, SITE, THEIRS, rendered
from tests.unit.crio_leftovers import BARE

CRIO = "/etc/crio/crio.conf.d/99-nvidia.toml"
LATER = "/etc/containerd/conf.d/95-gpus.toml"
# what is there -> engine, release, files, what the one sentence says
ROWS: dict[str, tuple[str, str, dict[str, str], tuple[str, ...]]] = {
    "half a file, containerd": ("containerd", "1.7.24", {ROOT: SITE, THEIRS: COPY[: len(COPY) // 2] + '"'}, (THEIRS, "not valid TOML")),
    "half a file, CRI-O": ("crio", "1.34.0", {CRIO: BARE[: len(BARE) - 6]}, (CRIO, "not valid TOML")),
    "two tools": (
        "containerd", "1.7.24", {ROOT: SITE, THEIRS: COPY, LATER: COPY},
        (LATER, THEIRS, "[containerd.file-of-tool-read-later]", "two tools")),
    "ours below an edited one of theirs": (
        "containerd", "1.7.24", {ROOT: SITE, THEIRS: COPY.replace("16384", "8192").replace("true\n\n        [", "false\n\n        [")},
        (THEIRS, "[containerd.file-of-tool-read-later]", "nothing explains")),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_one_sentence_and_nothing_changed(tmp_path: pathlib.Path, name: str) -> None:
    engine, version, files, said = ROWS[name]
    home = Tree(tmp_path / "host")
    for path, text in (rendered(version, files) if engine == "containerd" else files).items():
        home.write(path, text)
    before = home.state()
    done = home.single(engine, engine_version=version)
    assert (done["failed"], home.state() == before) == (True, True), done
    assert [word for word in said if word not in done["msg"]] == [], done["msg"]


@pytest.mark.parametrize(
    ("engine", "version", "path", "text"),
    [
        ("containerd", "1.7.24", THEIRS, COPY),
        ("crio", "1.34.0", CRIO, BARE),
    ],
)
def test_a_template_that_comes_back_is_named_and_nothing_changed(
    tmp_path: pathlib.Path, engine: str, version: str, path: str, text: str
) -> None:
    home = Tree(tmp_path / "host")
    if engine == "containerd":
        home.write(ROOT, rendered(version, {ROOT: SITE})[ROOT])
        text = rendered(version, {path: text})[path]
    home.write(path, text)
    assert [left["fate"] for left in home.single(engine, engine_version=version)["leftovers"]] == [
        "adopted"
    ]
    home.write(path, text)  # a boot script does that
    before = home.state()
    done = home.single(engine, engine_version=version)
    code = (done.get("error") or {}).get("code", "")
    refused = code in ("containerd.file-of-tool-read-later", "crio.not-taken-over")
    assert refused or "is back" in str(done.get("leftovers")), done
    assert home.state() == before
