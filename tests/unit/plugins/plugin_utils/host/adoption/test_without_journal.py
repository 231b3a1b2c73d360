# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""state: absent where the journal is gone: the result says which files of other tools cannot come
back, as the host's record knows them.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
)

from tests.unit.bare_trees import Tree
from tests.unit.containerd_leftovers import COPY, ROOT, SITE, THEIRS, rendered
from tests.unit.crio_leftovers import BARE

CRIO = "/etc/crio/crio.conf.d/99-nvidia.toml"
GONE = "The journal of this host, which kept the original files, is gone. Files of other tools that were taken over cannot be restored"
# engine, release, what is there -> the files that are taken over
HOSTS: dict[str, tuple[str, str, dict[str, str], list[str]]] = {
    "containerd 1.7": ("containerd", "1.7.24", rendered("1.7.24", {ROOT: SITE, THEIRS: COPY}), [THEIRS]),
    "containerd 2.1": ("containerd", "2.1.9", rendered("2.1.9", {ROOT: SITE, THEIRS: COPY}), [THEIRS]),
    "CRI-O": ("crio", "1.34.0", {CRIO: BARE}, [CRIO]),
    "nothing of others": ("containerd", "2.1.9", rendered("2.1.9", {ROOT: SITE}), []),
}  # fmt: skip


def recorded(home: Tree) -> Any:
    return json.loads(home.read(earlier_runs.FACT_PATH)).get("taken_over", [])


@pytest.mark.parametrize("name", HOSTS)
def test_what_cannot_come_back_is_named(tmp_path: pathlib.Path, name: str) -> None:
    engine, version, files, taken = HOSTS[name]
    home = Tree(tmp_path / "host")
    for path, text in files.items():
        home.write(path, text)
    options: dict[str, Any] = {"engines": (engine,), "engine_version": version}
    assert home.run_host(**options)["failed"] is False
    assert recorded(home) == taken
    assert home.run_host(**options)["changed"] is False  # the journal tells the same
    home.forget_journal()
    assert recorded(home) == taken
    home.run_host(**options)  # the record outlives the journal
    assert recorded(home) == taken
    home.forget_journal()
    (said,) = [a for a in home.run_host(state="absent", **options)["advice"] if a.startswith(GONE)]
    assert said.startswith(
        f"{GONE}{''.join(f': {path}. ' for path in taken) or ', if there were any. '}"
    )
    assert said.endswith("have its tool write it again (nvidia-ctk runtime configure)")


@pytest.mark.parametrize("name", ["containerd 2.1", "CRI-O"])
def test_the_module_of_an_engine_says_it_too(tmp_path: pathlib.Path, name: str) -> None:
    engine, version, files, _taken = HOSTS[name]
    home = Tree(tmp_path / "host")
    for path, text in files.items():
        home.write(path, text)
    assert home.single(engine, engine_version=version)["failed"] is False
    home.forget_journal()
    assert any(
        a.startswith(GONE)
        for a in home.single(engine, state="absent", engine_version=version)["advice"]
    )


@pytest.mark.parametrize("name", HOSTS)
def test_nothing_is_said_where_the_journal_gives_the_files_back(
    tmp_path: pathlib.Path, name: str
) -> None:
    engine, version, files, _taken = HOSTS[name]
    home = Tree(tmp_path / "host")
    for path, text in files.items():
        home.write(path, text)
    before = home.state()
    home.run_host(engines=(engine,), engine_version=version)
    back = home.run_host(state="absent", engines=(engine,), engine_version=version)
    assert (home.state(), [a for a in back["advice"] if "journal" in a]) == (before, [])
