# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests make releases of a small collection in a repository of its own.

Git, antsibull-changelog and ansible-galaxy are real. The judge, the trial of the archive and the
SBOM need environments that a test does not make: tests/tools/release.py runs them at each release.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import tool_modules

with tool_modules.reachable():
    import release


ROOT = Path(__file__).resolve().parents[3]
GALAXY = {
    "namespace": "gpufleet",
    "name": "nvidia",
    "version": "0.1.0",
    "readme": "README.md",
    "authors": ["A"],
    "description": "Made for a test",
    "repository": "https://example.org/r",
    "issues": "https://example.org/r/issues",
}
ONE = "minor_changes:\n  - host - says more.\n"
SUMMARY = "release_summary: The first release.\nmajor_changes:\n  - plan - shows ``changes``.\n"


def run_git(place: Path, *words: str) -> str:
    own = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *own, *words], cwd=place, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the repository, with one commit."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
    root = tmp_path / "checkout"
    for name in ("changelogs/fragments", "docs", "meta", "plugins", "roles"):
        (root / name).mkdir(parents=True)
        (root / name / ".keep").write_text("")
    (root / "galaxy.yml").write_text(yaml.safe_dump(GALAXY, sort_keys=False))
    (root / "README.md").write_text("# Made for a test\n")
    (root / ".gitignore").write_text("/.cache/\n/changelogs/.plugin-cache.yaml\n")
    (root / "meta/runtime.yml").write_text('requires_ansible: ">=2.16.0"\n')
    (root / "docs/contract.json").write_text("{}\n")
    config = "changelogs/config.yaml"
    (root / config).write_text((ROOT / config).read_text())
    (root / "changelogs/fragments/0.1.0.yml").write_text(SUMMARY)
    (root / "changelogs/fragments/one.yml").write_text(ONE)
    run_git(root, "init", "--quiet", "--initial-branch=main")
    commit(root)
    return root


def commit(root: Path) -> None:
    run_git(root, "add", "--all")
    run_git(root, "commit", "--quiet", "--message", "Change")


def leave_out_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("require_contract", "judge_archive", "try_archive", "write_sbom"):
        monkeypatch.setattr(release, name, lambda *given: None)


def list_made(root: Path) -> list[str]:
    folder = root / ".cache/release"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def link_outside(name: str) -> Any:
    """Return what puts a link to a file outside of the checkout at a path in it."""

    def link(root: Path) -> None:
        outside = root.parent / "outside"
        outside.mkdir()
        (outside / "kept").write_text("version: of another file\n")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(outside / "kept")
        commit(root)

    return link
