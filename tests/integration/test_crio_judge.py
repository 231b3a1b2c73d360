# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CRI-O itself judges the plans: the executor stages them, `crio config` reads them, and prints nothing new but our settings.

No daemon runs; the program is the lab's CRI-O 1.34, as far as this machine can build it.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import shutil
import subprocess
import tomllib
import uuid
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.transaction import entry as transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.crio import detect as crio
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Cdi, Evidence, Handler, Instance, Kubelet, Plan, Policy

from tests.lab import artefacts
from tests.unit.builders import obs

VERSION = "1.34.0"
LAB = Path(artefacts.__file__).parent / "tree/crio/etc/crio"
PACKAGED = (LAB / "crio.conf.d/10-crio.conf").read_text()
RUNC_DEFAULT = PACKAGED.replace('default_runtime = "crun"', 'default_runtime = "runc"')
OWN_DIRS = '[crio.runtime]\nhooks_dir = ["/etc/containers/oci/hooks.d"]\npids_limit = 1024\n'


@functools.cache
def binary() -> str:
    if shutil.which("go") is None:
        pytest.skip("CRI-O is built with Go, and there is no Go here")
    return str(artefacts.go_tool("crio-1.34") / "crio")


@dc.dataclass
class Tree:
    """A directory with a configuration in it, the planner and the executor at work on it."""

    home: Path

    @property
    def config(self) -> Path:
        return self.home / "crio.conf"

    @property
    def directory(self) -> Path:
        return self.home / "crio.conf.d"

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def look(self, **more: Any) -> Any:
        files = {str(p): p.read_bytes().decode() for p in self.home.rglob("*") if p.is_file() and p.is_relative_to(self.home)}
        known = {p: t for p, t in files.items() if "/journal" not in p} | {"/usr/bin/nvidia-container-runtime": ""}
        pods = {f"ListPodSandbox:{name}:/var/run/crio/crio.sock": {"items": []} for name in ("nvidia", "gpu")}
        return obs(files=known, cri=pods, **more)  # no daemon runs, so no pod does

    def policy(self, **options: Any) -> Policy:
        return Policy(config_path=str(self.config), **options)

    def instance(self) -> Instance:
        cdi = Cdi(True, True, ("/etc/cdi", "/var/run/cdi"), "1.0.0", Evidence("version", VERSION))
        return Instance("crio", VERSION, binary(), "/var/run/crio/crio.sock", str(self.config), "crio.service", "package", True, cdi)

    def plan(self, policy: Policy, default: bool = False) -> Plan:
        decision = decide.decide_one(policy, self.instance(), Kubelet())
        return crio.plan(policy, self.look(), self.instance(), dc.replace(decision, default=default))

    def apply(self, plan: Plan, *, check: bool = False) -> dict[str, Any]:
        """The executor's transaction, less the restart: there is no unit here."""
        request = {
            "schema": 1, "id": uuid.uuid4().hex, "root": "/", "check": check,
            "journal_dir": str(self.home.parent / "journal"), "reason": "test",
            "expect": {"files": dict(plan.expect_files)},
            "changes": [dict(c) for c in plan.changes],
            "stage": {"files": [dict(f) for f in plan.stage_files]},
            "validate": [dict(v) for v in plan.validate],
        }  # fmt: skip
        answer: dict[str, Any] = transaction.run(request)
        return answer

    def printed(self) -> dict[str, Any]:
        main = str(self.config) if self.config.exists() else ""
        argv = [binary(), "--config", main, "--config-dir", str(self.directory), "config"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        runtime: dict[str, Any] = tomllib.loads(done.stdout)["crio"]["runtime"]
        return runtime


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "etc").mkdir()
    return Tree(tmp_path / "etc")


ROOTS = {
    "as packaged": {"crio.conf": "", "crio.conf.d/10-crio.conf": PACKAGED},
    "runc as default": {"crio.conf": "", "crio.conf.d/10-crio.conf": RUNC_DEFAULT},
    "no file at all": {},
    "all in the main file": {"crio.conf": PACKAGED},
    "settings of a site": {
        "crio.conf": OWN_DIRS,
        "crio.conf.d/10-crio.conf": PACKAGED,
        "crio.conf.d/50-site/own": '[crio.runtime]\nlog_level = "warn"\n',
    },
}
SETTINGS: dict[str, tuple[dict[str, Any], bool]] = {
    "handler": ({}, False),
    "default handler": ({}, True),
    "spec directories": ({"cdi_spec_dirs": ("/etc/cdi", "/opt/cdi")}, False),
    "two handlers": ({"handlers": (Handler(), Handler("nvidia-legacy", options={"no_sync_log": True}))}, False),
}


@pytest.mark.parametrize("case", list(SETTINGS))
@pytest.mark.parametrize("root", list(ROOTS))
def test_crio_reads_what_is_planned_and_nothing_else_changes(tree: Tree, root: str, case: str) -> None:
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
    assert {k: runtime["runtimes"]["nvidia"].get(k) for k in copied} == {k: base.get(k) for k in copied}
    assert runtime.get("default_runtime", "crun") == ("nvidia" if default else "runc" if "runc" in root else "crun")
    assert tree.plan(policy, default).empty


def test_a_plan_that_would_lose_something_is_refused_by_the_comparison(tree: Tree) -> None:
    tree.write(ROOTS["as packaged"])
    plan = tree.plan(tree.policy())
    evil = plan.changes[0]["content"] + '\n[crio.runtime.runtimes.runc]\nruntime_path = "/opt/other"\n'
    answer = tree.apply(dc.replace(plan, changes=({**plan.changes[0], "content": evil},)), check=True)
    assert answer["error"]["phase"] == "validate"
    assert "the effective configuration would lose" in answer["error"]["message"]
    assert "/opt/other" not in str(answer)  # it stays on the host


@pytest.mark.parametrize(
    ("name", "text"),
    [("README", "Drop-ins go here.\n"), ("10-crio.conf.save", "[crio.runtime\n"), ("sub/notes.txt", "x\n"), ("90-mine", "a = 1\na = 2\n")],
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
    answer = tree.apply(crio.plan_absent(policy, tree.look(), tree.instance()))
    assert (answer["error"], answer["changed"]) == (None, True)
    assert {p: p.read_bytes() for p in tree.home.rglob("*") if p.is_file()} == before
