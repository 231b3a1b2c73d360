# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller with Python 3.11 or newer and ansible-core, and nothing else: tomlkit and jmespath
cannot be imported.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written

ROOT = Path(__file__).resolve().parents[3]
OPTIONAL = ("tomlkit", "jmespath")
CONFIG = "etc/containerd/config.toml"


@pytest.fixture(autouse=True)
def without_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if they were not installed, for every Python that is started from here."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in OPTIONAL:
        written(
            blocked / f"{name}.py",
            f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n",
        )
    monkeypatch.setenv("PYTHONPATH", str(blocked))
    for name in OPTIONAL:
        done = subprocess.run(
            [sys.executable, "-c", f"import {name}"], capture_output=True, text=True, check=False
        )
        assert f"No module named '{name}'" in done.stderr


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    hosts = {name: bare.variables(tmp_path, name) for name in ("gpu1",)}
    return written(tmp_path / "hosts.yml", yaml.safe_dump({"gpu_hosts": {"hosts": hosts}}))


def test_a_host_is_planned_changed_and_given_back(tmp_path: Path, inventory: Path) -> None:
    config = tmp_path / "trees/gpu1" / CONFIG
    before = config.read_text()
    for arguments in (("plan",), ("site", "--check", "--diff")):
        status, words = play(tmp_path, inventory, *arguments)
        assert status == 0, words
        assert config.read_text() == before
        assert "nvidia" in words
    status, words = play(tmp_path, inventory, "site")
    assert status == 0, words
    changed = tomllib.loads(config.read_text())
    assert "nvidia" in changed["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
    status, words = play(tmp_path, inventory, "rollback")
    assert status == 0, words
    assert config.read_text() == before


def test_columns_of_ones_own_that_are_names_with_dots_need_no_package(
    tmp_path: Path, inventory: Path
) -> None:
    status, words = play(
        tmp_path,
        inventory,
        "plan",
        gpufleet_table_columns=[{"title": "MINE", "path": "row.injection"}],
    )
    assert status == 0, words
    assert "MINE" in words


def test_columns_that_need_jmespath_say_so(tmp_path: Path, inventory: Path) -> None:
    columns = [{"title": "MINE", "path": "differences[].path"}]
    status, words = play(tmp_path, inventory, "plan", gpufleet_table_columns=columns)
    assert status != 0
    assert "the Python library jmespath is not installed on the controller" in words
    assert "pip install jmespath" in words


def test_what_is_installed_by_itself_is_asked_for_python_3_10_alone() -> None:
    """The list that an execution environment is built from."""
    lines = (ROOT / "meta/ee-requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert [line.partition(";")[2].strip() for line in wanted] == ['python_version < "3.11"'] * len(
        wanted
    )
