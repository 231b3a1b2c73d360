# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release that cannot be made is refused with a code, and leaves nothing."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import tool_modules

with tool_modules.reachable():
    import release
    import release_checks
    import release_refusals

from .conftest import (
    GALAXY,
    ONE,
    SUMMARY,
    commit,
    leave_out_environments,
    link_outside,
    list_made,
    run_git,
)


def write_entry(root: Path, version: str) -> None:
    entry = {"releases": {version: {"changes": {}, "release_date": "2026-01-01"}}}
    (root / "changelogs/changelog.yaml").write_text(yaml.safe_dump({"ancestor": None, **entry}))
    commit(root)


def break_galaxy(root: Path) -> None:
    (root / "galaxy.yml").write_text("namespace: gpufleet\nname: nvidia\n")
    commit(root)


def break_fragment(root: Path) -> None:
    (root / "changelogs/fragments/0.1.0.yml").write_text(SUMMARY + "no_such_section:\n  - x\n")
    commit(root)


def remove_summary(root: Path) -> None:
    (root / "changelogs/fragments/0.1.0.yml").unlink()
    commit(root)


def hide_change(bit: str) -> Any:
    """Return what changes a file that git was told to take for unchanged."""

    def hide(root: Path) -> None:
        run_git(root, "update-index", bit, "meta/runtime.yml")
        (root / "meta/runtime.yml").write_text('requires_ansible: ">=2.99.0"\n')

    return hide


def hide_untracked(root: Path) -> None:
    run_git(root, "config", "status.showUntrackedFiles", "no")
    (root / "changelogs/fragments/two.yml").write_text(ONE)


def add_submodule(root: Path) -> None:
    head = run_git(root, "rev-parse", "HEAD").strip()
    run_git(root, "update-index", "--add", "--cacheinfo", f"160000,{head},plugins/other")
    (root / "plugins/other").mkdir()
    run_git(root, "commit", "--quiet", "--message", "Change")


def add_file(name: str, text: str) -> Any:
    """Return what commits a file."""

    def add(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        commit(root)

    return add


def change_frozen(name: str, after: str | None) -> Any:
    """Return what changes a file that a release was tagged with, or removes it."""

    def change(root: Path) -> None:
        path = root / "tests/fixtures/releases/0.1.0-rc.1" / name
        add_file(str(path.relative_to(root)), '{"module host": {}}\n')(root)
        run_git(root, "tag", "v0.1.0-rc.1")
        path.unlink() if after is None else path.write_text(after)
        commit(root)

    return change


def break_build(root: Path) -> None:
    both = {**GALAXY, "build_ignore": ["tests"], "manifest": {}}
    (root / "galaxy.yml").write_text(yaml.safe_dump(both, sort_keys=False))
    commit(root)


def read_outside(root: Path) -> dict[str, str]:
    """Return the files that links of the checkout lead to."""
    outside = root.parent / "outside"
    return {str(path): path.read_text() for path in outside.rglob("*") if path.is_file()}


FRAGMENT = "changelogs/fragments/0.1.0.yml"
# what is wrong, the version, the code
REFUSED: list[tuple[Any, str, str]] = [
    (lambda root: None, "", "release.version-form"),
    (lambda root: None, "v0.1.0", "release.version-form"),
    (lambda root: None, "0.1", "release.version-form"),
    (lambda root: None, "0.1.0+build", "release.version-form"),
    (lambda root: (root / "README.md").write_text("x"), "0.1.0-rc.1", "release.dirty"),
    (lambda root: (root / "new.md").write_text("x"), "0.1.0-rc.1", "release.dirty"),
    (lambda root: run_git(root, "tag", "v0.1.0-rc.1"), "0.1.0-rc.1", "release.exists"),
    (lambda root: run_git(root, "tag", "0.1.0-rc.1"), "0.1.0-rc.1", "release.exists"),
    (lambda root: write_entry(root, "0.1.0-rc.1"), "0.1.0-rc.1", "release.exists"),
    (lambda root: run_git(root, "tag", "v0.1.0-rc.2"), "0.1.0-rc.1", "release.not-newer"),
    (lambda root: write_entry(root, "0.1.0"), "0.1.0-rc.1", "release.not-newer"),
    (remove_summary, "0.1.0-rc.1", "release.no-fragment"),
    (lambda root: None, "0.2.0", "release.no-fragment"),
    (break_galaxy, "0.1.0-rc.1", "release.galaxy"),
    (break_fragment, "0.1.0-rc.1", "release.changelog"),
    (link_outside("galaxy.yml"), "0.1.0-rc.1", "release.link"),
    (link_outside("changelogs/fragments/0.1.0.yml"), "0.1.0-rc.1", "release.link"),
    (link_outside("docs/contract.json"), "0.1.0-rc.1", "release.link"),
    (link_outside("plugins/modules/host.py"), "0.1.0-rc.1", "release.link"),
    (link_outside("tests/fixtures/releases"), "0.1.0-rc.1", "release.link"),
    (hide_change("--assume-unchanged"), "0.1.0-rc.1", "release.dirty"),
    (hide_change("--skip-worktree"), "0.1.0-rc.1", "release.dirty"),
    (hide_untracked, "0.1.0-rc.1", "release.dirty"),
    (add_submodule, "0.1.0-rc.1", "release.submodule"),
    (add_file("plugins/modules/a\nb.py", ""), "0.1.0-rc.1", "release.name"),
    (add_file("plugins/modules/a\u202eb.py", ""), "0.1.0-rc.1", "release.name"),
    (add_file(os.fsdecode(b"docs/\xff.md"), ""), "0.1.0-rc.1", "release.name"),
    (change_frozen("contract.json", "{}\n"), "0.1.0", "release.frozen"),
    (change_frozen("contract.json", None), "0.1.0", "release.frozen"),
    (change_frozen("host-docker.json", "{}\n"), "0.1.0", "release.frozen"),
    (add_file(FRAGMENT, "release_summary: 'a\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(FRAGMENT, "- release_summary\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(FRAGMENT, "17\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(FRAGMENT, "release_summary: 2026-99-99\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(FRAGMENT, "[" * 20000), "0.1.0-rc.1", "release.yaml"),
    (
        add_file(FRAGMENT, "release_summary: !!python/name:os.system\n"),
        "0.1.0-rc.1",
        "release.yaml",
    ),
    (add_file(release_checks.CHANGELOG, "[]\n"), "0.1.0-rc.1", "release.yaml"),
    (add_file(release_checks.CHANGELOG, "releases: [1]\n"), "0.1.0-rc.1", "release.yaml"),
    (break_build, "0.1.0-rc.1", "release.build"),
]


@pytest.mark.parametrize(("spoil", "version", "code"), REFUSED)
def test_a_release_that_cannot_be_made_is_refused_and_leaves_nothing(
    spoil: Any, version: str, code: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out_environments(monkeypatch)
    spoil(place)
    before = run_git(place, "status", "--porcelain", "--branch")
    linked = read_outside(place)
    with pytest.raises(release.ReleaseRefused) as refused:
        release.make_release(place, version)
    assert refused.value.code == code
    assert list_made(place) == []
    assert run_git(place, "status", "--porcelain", "--branch") == before
    assert read_outside(place) == linked


def test_programs_that_no_lock_names_make_no_release(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_checks.environments, "NEWEST", True)
    with pytest.raises(release.ReleaseRefused) as refused:
        release.make_release(place, "0.1.0-rc.1")
    assert refused.value.code == "release.newest"


def test_a_second_release_at_the_same_time_is_refused(place: Path) -> None:
    (place / ".cache").mkdir()
    with (place / ".cache/release.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(release.ReleaseRefused) as refused:
            release.make_release(place, "0.1.0-rc.1")
    assert refused.value.code == "release.running"


def test_a_machine_that_fails_is_a_refusal(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    leave_out_environments(monkeypatch)
    monkeypatch.setattr(release, "write_changelog", fail)
    with pytest.raises(release.ReleaseRefused) as refused:
        release.make_release(place, "0.1.0-rc.1")
    assert refused.value.code == "release.system"
    assert list_made(place) == []


ENDS = [OSError(28, "No space left on device"), release.ReleaseRefused("release.stopped")]


@pytest.mark.parametrize("end", ENDS, ids=["fails", "stopped"])
def test_results_that_cannot_be_put_in_their_place_replace_no_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Exception
) -> None:
    place, made, earlier = (tmp_path / name for name in ("0.1.0-rc.1", "made", "earlier"))
    for folder in (place, made):
        folder.mkdir()
        (folder / "tag.txt").write_text(folder.name)
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path == made:
            raise end
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(type(end)):
            release.replace_results(place, made, earlier)
    assert (place / "tag.txt").read_text() == place.name
    release.replace_results(place, made, earlier)
    assert (place / "tag.txt").read_text() == "made"


# Stops in the middle, and says so: its first argument is the repository.
STOPPED = """
import signal, sys
from pathlib import Path
sys.path.insert(0, {tools!r})
import release
def wait(*given):
    print("in the middle", flush=True)
    while True:  # signal.pause() would sleep through one that comes just before it
        signal.sigtimedwait((), 1)
release.require_contract = wait
place = Path(sys.argv[1])
sys.exit(release.main(["0.1.0-rc.1"], lambda root, version: release.make_release(place, version)))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_release_that_is_stopped_leaves_nothing_for_the_next_one(
    number: signal.Signals, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = STOPPED.format(tools=str(tool_modules.TOOLS))
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(place)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "in the middle\n"
    process.send_signal(number)
    _told, words = process.communicate()
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert (process.returncode, list_made(place)) == (1, []), words
        assert "[release.stopped]" in words
    leave_out_environments(monkeypatch)
    release.make_release(place, "0.1.0-rc.1")
    assert list_made(place) == ["0.1.0-rc.1"]


def make_program(place: Path, text: str) -> Path:
    place.mkdir()
    (place / "python").write_text(text)
    (place / "python").chmod(0o755)
    return place


# what the environment of the SBOM's tool has as its Python
BROKEN = [
    "#!/bin/sh\necho 'ModuleNotFoundError: cyclonedx' >&2\nexit 1\n",
    "#!/bin/sh\nexit 0\n",
    "#!/no/such/interpreter\n",
]


@pytest.mark.parametrize("program", BROKEN)
def test_a_broken_tool_for_the_sbom_leaves_nothing(
    program: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbom = release.write_sbom
    leave_out_environments(monkeypatch)
    monkeypatch.setattr(release, "write_sbom", sbom)
    programs = make_program(tmp_path / "bin", program)
    monkeypatch.setattr(release, "find_environment", lambda group: programs)
    with pytest.raises(release.ReleaseRefused) as refused:
        release.make_release(place, "0.1.0-rc.1")
    assert refused.value.code == "release.sbom"
    assert list_made(place) == []


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (0, "galaxy-importer: passed\nWARNING: a word\n", ""),
        (0, "galaxy-importer: passed\nWARNING: ERROR    Failed to find a.b.c playbook.\n", ""),
        (1, "galaxy-importer: FAILED\nERROR: no readme\n", "release.importer"),
        (0, "galaxy-importer: passed\nERROR: no licence\n", "release.importer"),
        (
            1,
            "galaxy-importer: FAILED\nERROR: Timeout on call to ansible-lint\nERROR: no readme\n",
            "release.importer",
        ),
        (
            0,
            "galaxy-importer: passed\nERROR: Timeout on call to ansible-lint\n",
            "release.importer-time",
        ),
    ],
)
def test_a_judgement_with_an_error_is_a_refusal(
    status: int, words: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "find_environment", lambda group: tmp_path)
    monkeypatch.setattr(release.archive, "judge", lambda built: print(words, end="") or status)
    (tmp_path / "built.tar.gz").write_text("")
    told = tmp_path / "told.txt"
    found = ""
    try:
        release.judge_archive(tmp_path / "built.tar.gz", told)
    except release.ReleaseRefused as refused:
        found = refused.code
    assert (found, told.exists()) == (code, not code)


def test_each_refusal_is_used_and_has_a_next_step() -> None:
    text = "\n".join(path.read_text() for path in tool_modules.TOOLS.glob("release*.py"))
    assert set(re.findall(r'ReleaseRefused\(\s*"([a-z.-]+)"', text)) == set(
        release_refusals.REFUSALS
    )
    assert [code for code, says in release_refusals.REFUSALS.items() if ". " not in says] == []
