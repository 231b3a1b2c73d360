# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions import is compiled once, and not in every run: a copy of the collection, read
through Ansible's loader.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]

# What Python was asked to compile while Ansible loaded an action; which parts came from a compiled
# form says `compile`, an audit event.
LOAD = """
import json, sys
compiled = []
sys.addaudithook(lambda event, what: compiled.append(str(what[1])) if event == "compile" else None)
from ansible.plugins.loader import action_loader, init_plugin_loader
init_plugin_loader([])
found = action_loader.get("gpufleet.nvidia.host", class_only=True)
model = sys.modules["ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model"]
print(json.dumps([found.__module__, model.VALUE if hasattr(model, "VALUE") else 0, [name for name in compiled if "/_planner/" in name]]))
"""


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    place = tmp_path / "ansible_collections" / "gpufleet" / "nvidia"
    for name in ("plugins", "meta"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def load(collection: Path, **more: str) -> tuple[str, int, list[str]]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment = {
        **inherited,
        "ANSIBLE_COLLECTIONS_PATH": str(collection.parents[2]),
        "HOME": str(collection.parents[2]),
        **more,
    }
    run = subprocess.run(
        [sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    module, value, compiled = json.loads(run.stdout.splitlines()[-1])
    return module, value, compiled


def test_the_second_run_compiles_nothing_of_the_planner(collection: Path) -> None:
    module, _value, first = load(collection)
    assert module == "ansible_collections.gpufleet.nvidia.plugins.action.host"
    assert len(first) > 50, "the test sees what is compiled"
    assert load(collection)[2] == []


def test_a_part_that_changed_is_compiled_again(collection: Path) -> None:
    load(collection)
    model = collection / "plugins" / "plugin_utils" / "_planner" / "core" / "model.py"
    model.write_text(model.read_text() + "\nVALUE = 7\n")
    _module, value, compiled = load(collection)
    assert (value, [Path(name).name for name in compiled]) == (7, ["model.py"])


def test_where_nothing_can_be_kept_every_run_compiles(collection: Path) -> None:
    load(collection, PYTHONDONTWRITEBYTECODE="1")
    assert len(load(collection, PYTHONDONTWRITEBYTECODE="1")[2]) > 50
    assert not list((collection / "plugins" / "plugin_utils").rglob("__pycache__"))
