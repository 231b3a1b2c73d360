# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the caller of `make release` has set decides nothing: the commit alone does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.unit import tool_modules

with tool_modules.reachable():
    import release

from .conftest import ROOT, commit, leave_out_environments, run_git

# Each of these changes files at a checkout, hides some, asks for a key, fetches from elsewhere, or
# prints more.
SETTINGS = """\
[core]
\tautocrlf = true
\tattributesFile = {home}/attributes
\texcludesFile = {home}/ignored
\thooksPath = {home}/hooks
[filter "spoil"]
\tsmudge = sed s/e/E/g
[commit]
\tgpgSign = true
[gpg]
\tprogram = false
[log]
\tshowSignature = true
[column]
\tui = always
[uploadpack]
\tpackObjectsHook = false
[url "{home}/elsewhere"]
\tinsteadOf = {place}
"""


def set_git(place: Path, home: Path) -> dict[str, str]:
    """Give a person settings of git, and return the variables by which git reads them."""
    (home / ".gitconfig").write_text(SETTINGS.format(home=home, place=place))
    (home / "attributes").write_text("*.md filter=spoil\n* text\n")
    (home / "ignored").write_text("*.json\n")
    (home / "hooks").mkdir()
    for name in ("post-checkout", "pre-commit", "commit-msg", "reference-transaction"):
        (home / "hooks" / name).write_text("#!/bin/sh\nexit 1\n")
        (home / "hooks" / name).chmod(0o755)
    return {"HOME": str(home)}


def set_another_repository(place: Path, home: Path) -> dict[str, str]:
    """Point git's variables to another repository, as git does for its hooks."""
    make_other(home)
    return {
        "GIT_DIR": str(home / "other/.git"),
        "GIT_WORK_TREE": str(home / "other"),
        "GIT_INDEX_FILE": str(home / "other/.git/index"),
    }


def set_programs(place: Path, home: Path) -> dict[str, str]:
    """Set what changes how Python, Ansible and others work."""
    for name in ("yaml.py", "packaging.py", "sitecustomize.py"):
        (home / name).write_text("import os\nos._exit(9)\n")
    (home / "ansible.cfg").write_text("[defaults]\nhome = /proc/none\n")
    return {
        "PYTHONPATH": str(home),
        "ANSIBLE_CONFIG": str(home / "ansible.cfg"),
        "ANSIBLE_HOME": "/proc/none",
        "SOURCE_DATE_EPOCH": "never",
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "C",
    }


def make_other(home: Path) -> None:
    (home / "other").mkdir()
    run_git(home / "other", "init", "--quiet")
    (home / "other/mine.txt").write_text("mine\n")
    commit(home / "other")


def read_other(home: Path) -> list[str]:
    """Return the commits and the files of the other repository; [] if there is none."""
    other = home / "other"
    if not other.exists():
        return []
    return [run_git(other, "log", "--format=%s"), run_git(other, "ls-files", "--stage")]


def read_archive(made: Path, name: str) -> bytes:
    with tarfile.open(next(made.glob("*.tar.gz"))) as opened:
        found = opened.extractfile(name)
        assert found
        return found.read()


@pytest.fixture
def as_it_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The list of files, with their digests, of an archive where nothing is set."""
    leave_out_environments(monkeypatch)
    return read_archive(release.make_release(place, "0.1.0-rc.1"), "FILES.json")


@pytest.mark.parametrize("prepare", [set_git, set_another_repository, set_programs])
def test_what_the_caller_has_set_changes_nothing(
    prepare: Any, as_it_is: bytes, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    given = prepare(place, home)
    before = read_other(home)
    with monkeypatch.context() as caller:
        for name, value in given.items():
            caller.setenv(name, value)
        mask = os.umask(0o177)
        try:
            made = release.make_release(place, "0.1.0-rc.1")
        finally:
            os.umask(mask)
    assert read_archive(made, "FILES.json") == as_it_is
    assert (place / "README.md").read_text() == "# Made for a test\n"
    assert read_other(home) == before
    run_git(place, "fetch", "--quiet", str(made / "release.bundle"), "release-0.1.0-rc.1")
    kept = "tests/fixtures/releases/0.1.0-rc.1/contract.json"
    assert run_git(place, "show", f"FETCH_HEAD:{kept}") == "{}\n"


def test_modules_beside_the_caller_are_not_the_programs_of_a_release(tmp_path: Path) -> None:
    for name in ("yaml", "json", "archive"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    recipe = (ROOT / "Makefile").read_text().partition("\nrelease:")[2].partition("\n\n")[0]
    command = re.search(r"python (-.*) tests/tools/release.py \"\$\$VERSION\"", recipe)
    assert command
    done = subprocess.run(
        [sys.executable, *command[1].split(), str(ROOT / "tests/tools/release.py"), "v1"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, "[release.version-form]" in done.stderr) == (1, True), done.stderr
