# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a release, and publish nothing.

    release.py VERSION        such as 0.1.0-rc.1; leaves .cache/release/VERSION/

The work is done in a clone of the last commit. Its results appear by one rename, so they are there
whole or not at all. The checkout stays as it is. CONTRIBUTING.md says what a maintainer does next.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parent))

import archive
import clean_runs
import environments
import release_checks as checks
import release_trial
import release_words
from environments import ROOT
from release_checks import CHANGELOG, FROZEN, cut_words, read_changelog, read_mapping, run_git
from release_needs import list_needs
from release_refusals import ReleaseRefused

# The environment with ansible-core and nothing else, as a new user has it.
EMPTY = "sanity-2-21"
FRAGMENTS = "changelogs/fragments"
TOO_SLOW = "Timeout on call to ansible-lint"  # galaxy_importer/loaders/collection.py
UNFINISHED = ".making-"
NEEDED_FOR_CHANGELOG = ("galaxy.yml", "changelogs", "meta", "plugins", "roles")


def make_release(root: Path, version: str) -> Path:
    """Make a release of the last commit and return the directory of its results.

    Raise ReleaseRefused, and leave nothing behind, if anything is wrong.
    """
    checks.require_form(version)
    checks.require_locked()
    try:
        with clean_runs.cleaned(), checks.work_alone(root) as base:
            checks.require_clean(root)
            checks.require_new(root, version)
            maker = read_maker(root)
            with clean_runs.own_git_settings() as settings, clean_runs.cleaned(**settings):
                return make_in(base, root, version, maker)
    except OSError as error:
        raise ReleaseRefused("release.system", cause=cut_words(str(error))) from None


def make_in(base: Path, root: Path, version: str, maker: Mapping[str, str]) -> Path:
    """Make a release in a folder beside the earlier ones, and put it among them in the end.

    maker: git's variables for who commits.
    """
    for left in base.glob(f"{UNFINISHED}*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=base) as folder:
        made = Path(folder) / "results"
        made.mkdir()
        clone = clone_commit(root, Path(folder) / "clone")
        checks.require_plain(clone)
        checks.require_same(root, clone)
        checks.require_frozen(clone)
        fill_release(clone, made, version)
        commit_release(clone, version, maker)
        write_results(clone, made, version)
        replace_results(base / version, made, Path(folder) / "earlier")
    return base / version


def replace_results(place: Path, made: Path, earlier: Path) -> None:
    """Put results in their place. Those of an earlier run go to `earlier`, and return if that fails
    or is stopped.
    """
    try:
        if os.path.lexists(place):
            place.rename(earlier)
        made.rename(place)
    except BaseException:
        if os.path.lexists(earlier) and not os.path.lexists(place):
            earlier.rename(place)
        raise


# --- what a release changes in the files
# --------------------------------------------------------------------------------------------------


def clone_commit(root: Path, place: Path) -> Path:
    run_git(root, "clone", "--quiet", "--no-hardlinks", str(root), str(place))
    return place


def fill_release(clone: Path, made: Path, version: str) -> None:
    """Write the changelog, the version and the frozen contract into the clone."""
    choose_fragments(clone, version)
    require_contract(clone)
    set_version(clone / "galaxy.yml", version)
    write_changelog(clone, version)
    kept = clone / FROZEN / version / "contract.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(clone / "docs/contract.json", kept)
    for name in ("CHANGELOG.rst", CHANGELOG):
        shutil.copy2(clone / name, made / Path(name).name)


def choose_fragments(clone: Path, version: str) -> None:
    """Refuse a release without a summary, and keep of the fragments before the first release the
    summary alone.

    They describe changes that no user has seen.
    """
    folder = clone / FRAGMENTS
    names = dict.fromkeys((f"{version}.yml", f"{version.partition('-')[0]}.yml"))
    summaries = [folder / name for name in names if (folder / name).is_file()]
    said = [path for path in summaries if "release_summary" in read_mapping(path)]
    if not said:
        wanted = " or ".join(f"{FRAGMENTS}/{name}" for name in names)
        raise ReleaseRefused("release.no-fragment", version=version, wanted=wanted)
    if not read_changelog(clone):
        for path in (*folder.glob("*.yml"), *folder.glob("*.yaml")):
            if path not in summaries:
                path.unlink()


def require_contract(clone: Path) -> None:
    """Refuse a contract that is not that of the code, or that changes without a fragment."""
    run_here(clone, sys.executable, "conftest.py")
    done = run_here(clone, sys.executable, "tests/tools/contract.py")
    if done.returncode:
        raise ReleaseRefused("release.contract", cause=cut_words(done.stdout + done.stderr))


def set_version(galaxy: Path, version: str) -> None:
    """Write the version into galaxy.yml, and leave every other byte."""
    known = galaxy.read_text(encoding="utf-8")
    text, count = re.subn(r"(?m)^version: .*$", f"version: {version}", known)
    if count != 1:
        raise ReleaseRefused("release.galaxy")
    galaxy.write_text(text, encoding="utf-8")


def write_changelog(clone: Path, version: str) -> None:
    """Have antsibull-changelog write both changelogs, and remove the fragments that they have.

    It copies the files that git tracks, and fails on links of tests/lab that lead outside. So it
    works on a copy of what it reads.
    """
    program = Path(sys.executable).with_name("antsibull-changelog")
    with tempfile.TemporaryDirectory(prefix="gpufleet-release-") as folder:
        copied = Path(folder)
        for name in NEEDED_FOR_CHANGELOG:
            if (clone / name).is_dir():
                shutil.copytree(clone / name, copied / name)
            else:
                shutil.copy2(clone / name, copied / name)
        run_git(copied, "init", "--quiet")
        run_git(copied, "add", "--all")
        for words in (("lint",), ("release", "--version", version)):
            done = run_here(copied, str(program), *words)
            if done.returncode:
                cause = cut_words(done.stdout + done.stderr)
                raise ReleaseRefused("release.changelog", command=words[0], cause=cause)
        shutil.rmtree(clone / "changelogs")
        shutil.copytree(copied / "changelogs", clone / "changelogs")
        shutil.copy2(copied / "CHANGELOG.rst", clone / "CHANGELOG.rst")
    (clone / FRAGMENTS).mkdir(exist_ok=True)


def run_here(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=place, capture_output=True, check=False, stdin=subprocess.DEVNULL,
        encoding="utf-8", errors="replace",
    )  # fmt: skip


def read_maker(root: Path) -> dict[str, str]:
    """Return git's variables for who makes the release, as the checkout names them."""
    who = re.match(r"(.*) <(.*)> ", run_git(root, "var", "GIT_COMMITTER_IDENT"))
    own = {"NAME": who[1] if who else "", "EMAIL": who[2] if who else ""}
    return {
        f"GIT_{role}_{name}": value
        for role in ("AUTHOR", "COMMITTER")
        for name, value in own.items()
    }


def commit_release(clone: Path, version: str, maker: Mapping[str, str]) -> None:
    """Commit the files of a release in the clone, in the name of who makes it."""
    run_git(clone, "add", "--all")
    message = ("--message", f"Release {version}")
    run_git(clone, "commit", "--quiet", "--no-verify", *message, **maker)


# --- what a release consists of
# --------------------------------------------------------------------------------------------------


def write_results(clone: Path, made: Path, version: str) -> None:
    """Write all results beside the changelog: the archive first, since all else speaks of it."""
    time = int(run_git(clone, "log", "-1", "--format=%ct"))
    built = build_twice(clone, made, time)
    described = describe_release(clone, built, time)
    write_sbom(described, made / "sbom.cdx.json")
    judge_archive(built, made / "galaxy-importer.txt")
    try_archive(clone, built, made / "tried.txt")
    noted = read_changelog(clone)[version]
    write_text(made / "tag.txt", release_words.build_tag_text(described, noted))
    write_text(made / "announcement.md", release_words.build_announcement(described, noted))
    run_git(clone, "update-ref", f"refs/heads/release-{version}", "HEAD")
    branch, file = f"release-{version}", str(made / "release.bundle")
    run_git(clone, "bundle", "create", "--quiet", file, branch, "^HEAD~1")
    sums = [f"{hash_file(path)}  {path.name}\n" for path in sorted(made.iterdir())]
    (made / "SHA256SUMS").write_text("".join(sums))


def write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def build_twice(clone: Path, made: Path, time: int) -> Path:
    """Build the archive from two clones, and refuse it if their bytes differ."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-release-") as folder:
        clones = [clone_commit(clone, Path(folder) / word / "clone") for word in ("one", "other")]
        os.environ["SOURCE_DATE_EPOCH"] = str(time)
        try:
            built = archive.build(clones[0], made)
            again = archive.build(clones[1], Path(folder) / "built")
        except archive.ArchiveFailed as error:
            raise ReleaseRefused("release.build", cause=cut_words(str(error))) from None
        finally:  # environments that the trial makes are kept, and pip compiles by this date
            del os.environ["SOURCE_DATE_EPOCH"]
        if built.name != again.name or built.read_bytes() != again.read_bytes():
            raise ReleaseRefused("release.other-bytes", archive=built.name)
    return built


def describe_release(clone: Path, built: Path, time: int) -> dict[str, Any]:
    """Return what an SBOM and the texts say of a release."""
    galaxy = read_mapping(clone / "galaxy.yml")
    names = ("namespace", "name", "version", "description", "repository", "issues")
    return {
        **{name: galaxy[name] for name in names},
        "archive": built.name,
        "licence": "GPL-3.0-or-later",
        "needs": list_needs(),
        "sha256": hash_file(built),
        "time": time,
    }


def hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_sbom(described: Mapping[str, Any], target: Path) -> None:
    """Write the SBOM by CycloneDX's library, which has an environment of its own."""
    python = find_environment("sbom") / "python"
    command = [str(python), str(Path(__file__).with_name("sbom.py"))]
    try:
        done = subprocess.run(
            command, input=json.dumps(described), capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ReleaseRefused("release.sbom", cause=str(error)) from None
    if done.returncode or not done.stdout:
        raise ReleaseRefused("release.sbom", cause=cut_words(done.stderr))
    write_text(target, done.stdout)


def find_environment(group: str) -> Path:
    """Return the programs of an environment, which is made if it is missing."""
    try:
        return environments.ensure(group)
    except (environments.NoInterpreter, subprocess.CalledProcessError) as error:
        cause = cut_words(str(error))
        raise ReleaseRefused("release.environment", group=group, cause=cause) from None


def judge_archive(built: Path, target: Path) -> None:
    """Have galaxy-importer judge a copy, and keep its words.

    It passes an archive without a judgement of ansible-lint that took more than three minutes, and
    prints that as an error: so an error of its own counts as well. Words of ansible-lint that it
    hands on begin with WARNING. There ansible-lint has no collection to find, so it misses each
    playbook that another one imports by its full name.
    """
    find_environment("importer")
    said = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="gpufleet-release-") as folder:
        copied = shutil.copy2(built, folder)
        with contextlib.redirect_stdout(said):
            status = archive.judge(Path(copied))
    words = said.getvalue()
    errors = [line for line in words.splitlines() if line.startswith("ERROR")]
    if not status and any(TOO_SLOW in line for line in errors):
        raise ReleaseRefused("release.importer-time")
    if status or errors:
        raise ReleaseRefused("release.importer", cause=cut_words(errors[0] if errors else words))
    write_text(target, words)


def try_archive(clone: Path, built: Path, target: Path) -> None:
    """Install the archive where nothing else is, and run README's commands from it."""
    programs = find_environment(EMPTY)
    with tempfile.TemporaryDirectory(prefix="gpufleet-release-") as folder:
        commands = release_trial.list_commands((clone / "README.md").read_text(encoding="utf-8"))
        if not commands:
            raise ReleaseRefused("release.no-commands")
        release_trial.make_project(Path(folder), programs / "python")
        told = []
        for command in commands:
            status, words = release_trial.run_command(Path(folder), programs, built, command)
            told.append(f"$ {command}\n{words}")
            if status:
                cause = cut_words(words)
                raise ReleaseRefused("release.trial", command=command, cause=cause)
    write_text(target, "\n".join(told))


def stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise ReleaseRefused("release.stopped")


def main(given: Sequence[str], make: Callable[[Path, str], Path] = make_release) -> int:
    """Make the release that is named, or say in one sentence why not."""
    version = given[0] if len(given) == 1 else ""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        place = make(ROOT, version)
    except ReleaseRefused as refused:
        print(f"release.py: {refused}", file=sys.stderr)
        return 1
    for path in sorted(place.iterdir()):
        print(path.relative_to(ROOT))
    print("Nothing is published. What to do next: CONTRIBUTING.md, A release.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
