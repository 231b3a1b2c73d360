# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the real nvidia-ctk on trees, and read what it left."""

from __future__ import annotations

import shutil
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    originals,
)

from tests.integration import containerd_trees as trees
from tests.integration.containerd_trees import NATURAL, Tree, binary, cri_of
from tests.lab import artefacts

DROP_IN = "conf.d/99-nvidia.toml"
PROGRAMS = {"1.17": "nvidia-toolkit-1.17", "1.20": "nvidia-toolkit"}
DEFAULT, CDI = "--set-as-default", "--cdi.enabled"
SECRETS = """
[plugins.@CRI@.registry.configs."r.example".auth]
username = "u"
password = "hunter2"
[plugins.@CRI@.registry.mirrors."docker.io"]
endpoint = ["https://u:p@mirror.example"]
"""


class TreeHost(trees.TreeHost):
    """On a machine where other tests run their engines meanwhile."""

    def see(self, questions: list[dict[str, Any]]) -> dict[str, Any]:
        answer = super().see(questions)
        answer["answers"].update(
            {
                qid: {"processes": [], "others": {}}
                for qid in answer["answers"]
                if qid.startswith("processes:")
            }
        )
        return answer

    def plan(self, state: str) -> Plan:
        """Absent completed from the journal, as on hosts."""
        plan = super().plan(state)
        return (
            originals.complete_whole_removal(earlier_runs.read_earlier_runs(self.seen), plan)
            if state == "absent"
            else plan
        )


def ctk(tree: Tree, release: str, *flags: str) -> None:
    """Run NVIDIA's tool on a tree. It takes the containerd of the tree for the host's."""
    if shutil.which("go") is None:
        pytest.skip("NVIDIA's tool is built with Go, and there is no Go here")
    engine = tree.home / "containerd"
    engine.write_text(f'#!/bin/sh\nexec {binary(tree.release)} -c {tree.config} "$@"\n')
    engine.chmod(0o755)
    places = [f"--config={tree.config}", f"--executable-path={engine}"]
    if release == "1.20" and not any(flag.startswith("--drop-in-config") for flag in flags):
        places.append(f"--drop-in-config={tree.config.parent / DROP_IN}")
    program = artefacts.go_tool(PROGRAMS[release]) / "nvidia-ctk"
    command = [
        str(program),
        "--quiet",
        "runtime",
        "configure",
        "--runtime=containerd",
        *places,
        *flags,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    engine.unlink()


def shapes(release: str) -> dict[str, dict[str, str]]:
    found = {
        name: files
        for name, files in trees.shapes(release).items()
        if name.split()[0] not in ("bare", "comments", "crlf", "dotted", "empty")
    }
    if release.startswith("1."):
        found["secrets"] = {
            "config.toml": found["kubeadm v2"]["config.toml"] + SECRETS.replace("@CRI@", NATURAL[2])
        }
    return found


def files(tree: Tree) -> dict[str, tuple[str, int]]:
    """Every file but the journal's, with its mode."""
    return {
        p: (text, stat.S_IMODE(Path(p).stat().st_mode))
        for p, text in tree.files().items()
        if "/journal/" not in p
    }


def effective(tree: Tree, *without: str) -> dict[str, Any]:
    """What containerd makes of it; without handlers of these names."""
    # it warns of keys of the tool that it does not know
    command = [
        binary(tree.release),
        "-c",
        tree.config,
        "config",
        "dump",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    whole = tomllib.loads(done.stdout.replace(str(tree.home), ""))
    whole.pop("imports", None)  # the list of what it has loaded
    for name in without:
        cri_of(whole)["containerd"]["runtimes"].pop(name, None)
    for entry in cri_of(whole)["containerd"]["runtimes"].values():
        entry["options"] = {k: v for k, v in (entry.get("options") or {}).items() if v}
    return whole


def said(handler: dict[str, Any]) -> dict[str, Any]:
    """What is not as containerd takes it anyway: with --config-source=command the tool writes all
    of that down.
    """
    return {key: value for key, value in handler.items() if value and value != "podsandbox"}


def prepared(tmp_path: Path, release: str, shape: str, name: str = "tree") -> Tree:
    tree = Tree(tmp_path / name, release)
    binary(release)
    tree.write(shapes(release)[shape])
    return tree
