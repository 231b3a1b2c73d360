# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CRI-O itself judges the plans: the executor stages them, `crio config` reads them, and prints
nothing new but our settings.

No daemon runs; the program is the lab's CRI-O 1.34, as far as this machine can build it.
"""

from __future__ import annotations

import dataclasses as dc
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)

from tests.integration.crio_trees import ROOTS, Tree, binary


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "etc").mkdir()
    return Tree(tmp_path / "etc")


SETTINGS: dict[str, tuple[dict[str, Any], bool]] = {
    "handler": ({}, False),
    "default handler": ({}, True),
    "spec directories": ({"cdi_spec_dirs": ("/etc/cdi", "/opt/cdi")}, False),
    "two handlers": (
        {"handlers": (Handler(), Handler("nvidia-legacy", options={"no_sync_log": True}))},
        False,
    ),
}


@pytest.mark.parametrize("case", list(SETTINGS))
@pytest.mark.parametrize("root", list(ROOTS))
def test_crio_reads_what_is_planned_and_nothing_else_changes(
    tree: Tree, root: str, case: str
) -> None:
    tree.write(ROOTS[root])
    options, default = SETTINGS[case]
    policy = tree.policy(**options)
    plan = tree.plan(policy, default)
    checked = tree.apply(plan, check=True)
    assert (checked["error"], checked["conflict"]) == (None, [])
    assert not list(tree.home.rglob("*gpufleet*"))

    applied = tree.apply(plan)
    assert (applied["error"], applied["changed"]) == (None, True)
    runtime = tree.printed()
    for handler in policy.handlers:
        entry = runtime["runtimes"][handler.name]
        assert (entry["runtime_path"], entry["runtime_type"]) == (handler.binary, "oci")
    base = runtime["runtimes"]["runc" if "runc" in root else "crun"]
    copied = ("runtime_root", "monitor_path", "monitor_cgroup", "allowed_annotations")
    assert {k: runtime["runtimes"]["nvidia"].get(k) for k in copied} == {
        k: base.get(k) for k in copied
    }
    assert runtime.get("default_runtime", "crun") == (
        "nvidia" if default else "runc" if "runc" in root else "crun"
    )
    assert tree.plan(policy, default).empty


def test_a_plan_that_would_lose_something_is_refused_by_the_comparison(tree: Tree) -> None:
    tree.write(ROOTS["as packaged"])
    plan = tree.plan(tree.policy())
    evil = (
        plan.changes[0]["content"] + '\n[crio.runtime.runtimes.runc]\nruntime_path = "/opt/other"\n'
    )
    answer = tree.apply(
        dc.replace(plan, changes=({**plan.changes[0], "content": evil},)), check=True
    )
    assert answer["error"]["phase"] == "validate"
    assert "the effective configuration would lose" in answer["error"]["message"]
    assert "/opt/other" not in str(answer)  # it stays on the host


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README", "Drop-ins go here.\n"),
        ("10-crio.conf.save", "[crio.runtime\n"),
        ("sub/notes.txt", "x\n"),
        ("90-mine", "a = 1\na = 2\n"),
    ],
)
def test_crio_and_the_planner_refuse_the_same_stray_files(tree: Tree, name: str, text: str) -> None:
    tree.write({**ROOTS["as packaged"], f"crio.conf.d/{name}": text})
    argv = [binary(), "--config", str(tree.config), "--config-dir", str(tree.directory), "config"]
    assert subprocess.run(argv, capture_output=True, check=False).returncode != 0
    with pytest.raises(PlanError, match=name):
        tree.plan(tree.policy())


def test_absent_gives_the_tree_back_byte_for_byte(tree: Tree) -> None:
    tree.write(ROOTS["as packaged"])
    before = {p: p.read_bytes() for p in tree.home.rglob("*") if p.is_file()}
    tree.apply(tree.plan(tree.policy()))
    policy = tree.policy(state="absent")
    facts = crio_detect.read_facts(policy, tree.look())
    answer = tree.apply(crio_detect.plan_absent(policy, facts, tree.instance()))
    assert (answer["error"], answer["changed"]) == (None, True)
    assert {p: p.read_bytes() for p in tree.home.rglob("*") if p.is_file()} == before
