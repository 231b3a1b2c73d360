# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-test's sanity tests run on each release of ansible-core that is promised, on what users
get.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import tool_modules

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sanity() -> Iterator[Any]:
    with tool_modules.reachable():
        import sanity

        yield sanity


def test_each_promised_release_has_its_environment(sanity: Any) -> None:
    promised = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"]
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    oldest, newest = (int(core.partition(".")[2]) for core in (sanity.CORES[0], sanity.CORES[-1]))
    assert promised == f">=2.{oldest}.0"
    wanted = [f"2.{minor}" for minor in range(oldest, newest + 1)]
    assert list(sanity.CORES) == wanted
    assert [sanity.group(core) for core in sanity.CORES] == [
        name for name in groups if name.startswith("sanity-")
    ]


@pytest.mark.parametrize(
    ("path", "judged"),
    [
        ("plugins/modules/host.py", True),
        ("galaxy.yml", True),
        ("tests/config.yml", True),
        (".gitignore", True),
        ("tests/tools/sanity.py", False),
        ("Makefile", False),
    ],
)
def test_what_users_get_is_judged_with_what_ansible_test_reads(
    path: str, judged: bool, sanity: Any
) -> None:
    assert (ROOT / path).is_file()
    assert sanity.shipped([Path(path)]) == ([Path(path)] if judged else [])


def test_the_pythons_of_hosts_are_those_of_the_page() -> None:
    told = yaml.safe_load((ROOT / "tests/config.yml").read_text())["modules"]["python_requires"]
    page = (ROOT / "docs/compatibility.md").read_text()
    row = re.search(r"\| Python on hosts \| (\d+\.\d+) and newer", page)
    assert row
    assert told == f">={row[1]}"


def run_git(place: Path, *words: str) -> str:
    own = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *own, *words], cwd=place, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_hook_of_git_may_run_it(
    sanity: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git's variables name the repository whose hook runs, and its index stays as it is."""
    mine, copied = tmp_path / "mine", tmp_path / "copied"
    for place in (mine, copied):
        place.mkdir()
        (place / f"{place.name}.json").write_text("{}\n")
    run_git(mine, "init", "--quiet")
    run_git(mine, "add", "--all")
    run_git(mine, "commit", "--quiet", "--message", "Begin")
    before = run_git(mine, "ls-files", "--stage")
    tracked = sanity.list_tracked_files()
    with monkeypatch.context() as set_by_git:
        set_by_git.setenv("GIT_DIR", str(mine / ".git"))
        set_by_git.setenv("GIT_INDEX_FILE", str(mine / ".git/index"))
        sanity.make_repository(copied)
        assert sanity.list_tracked_files() == tracked
    assert run_git(mine, "ls-files", "--stage") == before
    assert run_git(copied, "ls-files").split() == ["copied.json"]
