# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other ways to the playbooks than ansible-playbook: ansible-navigator, the image that
ansible-builder makes, ansible-pull on the host.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import yaml

from tests.awx import programs
from tests.unit.playbooks import bare

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def test_ansible_navigator_runs_a_playbook_of_the_collection_without_a_terminal(
    tmp_path: Path,
) -> None:
    hosts = {"gpu1": bare.variables(tmp_path, "gpu1")}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    options = ("-m", "stdout", "--ee", "false", "--pae", "false", "-i", "hosts.yml")
    status, words = programs.run(
        tmp_path, "ansible-navigator", "run", "gpufleet.nvidia.plan", *options
    )
    assert status == 0, words
    assert "1 host: 1 would change" in words


def test_ansible_builder_writes_the_image_of_the_execution_environment(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "awx", tmp_path / "project")
    options = ("--context", tmp_path / "context", "--output-filename", "Containerfile")
    status, words = programs.run(tmp_path / "project", "ansible-builder", "create", *options)
    assert status == 0, words
    build = tmp_path / "context"
    wanted = yaml.safe_load((build / "_build/requirements.yml").read_text())
    assert [entry["name"] for entry in wanted["collections"]] == [
        "gpufleet.nvidia",
        "kubernetes.core",
    ]
    text = (build / "Containerfile").read_text()
    assert "ansible-galaxy collection install" in text
    assert "ansible-core>=2.19" in text
    assert "openssh-clients" in (build / "_build/bindep.txt").read_text()


def test_the_image_gets_what_the_collection_says_that_it_needs(tmp_path: Path) -> None:
    """meta/execution-environment.yml is read by ansible-builder in the image, so that users need
    not know it.
    """
    collections = tmp_path / "ansible_collections/gpufleet/nvidia"
    shutil.copytree(ROOT / "meta", collections / "meta")
    shutil.copy(ROOT / "galaxy.yml", collections)
    status, words = programs.run(tmp_path, "ansible-builder", "introspect", tmp_path)
    assert status == 0, words
    assert "tomlkit>=0.12,<0.16" in words


def git(folder: Path, *words: str) -> None:
    identity = (
        "-c",
        "user.name=tests",
        "-c",
        "user.email=tests@example.org",
        "-c",
        "init.defaultBranch=main",
    )
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_ansible_pull_converges_the_host_it_runs_on_after_a_splay(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(EXAMPLES / "pull", repository)
    own = bare.variables(tmp_path, "localhost")
    (repository / "inventory/host_vars").mkdir()
    (repository / "inventory/host_vars/localhost.yml").write_text(yaml.safe_dump(own))
    git(repository, "init")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "the fleet")
    options = (
        "-U",
        f"file://{repository}",
        "-d",
        tmp_path / "checkout",
        "-i",
        "inventory",
        "--sleep",
        "1",
    )
    status, words = programs.run(tmp_path, "ansible-pull", *options)
    assert status == 0, words
    assert (tmp_path / "trees/localhost/etc/nvidia-container-runtime").exists()
    assert "1 host: 1 changed" in words
    status, words = programs.run(tmp_path, "ansible-pull", *options)
    assert status == 0, words
    assert "1 host: 1 unchanged" in words
