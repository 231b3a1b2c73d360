# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether there can be a release: of this version, of this checkout, and of its last commit."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import environments
import semantic_versions
import yaml
from release_refusals import ReleaseRefused

CHANGELOG = "changelogs/changelog.yaml"
FROZEN = "tests/fixtures/releases"
# The modes of a file, of one that is run, and of a link in git's index. A submodule has another one.
FILE_MODES, LINK_MODE = ("100644", "100755"), "120000"
TREES = "tests/lab/tree/"


def run_git(place: Path, *words: str, **environment: str) -> str:
    """Run git and return what it prints. Raise ReleaseRefused if it fails."""
    done = subprocess.run(
        ["git", *words], cwd=place, capture_output=True, check=False, stdin=subprocess.DEVNULL,
        encoding="utf-8", errors="surrogateescape",
        env={**os.environ, "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0", **environment},
    )  # fmt: skip
    if done.returncode:
        raise ReleaseRefused("release.git", command=words[0], cause=cut_words(done.stderr))
    return done.stdout


def cut_words(text: str) -> str:
    """Return the last line of a program's words, as the cause in a sentence."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200].rstrip(".") if lines else "it said nothing"


def read_mapping(path: Path) -> Mapping[str, Any]:
    """Return what a file of YAML has at its top; {} for an empty one.

    Raise ReleaseRefused if it has anything but a mapping.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ReleaseRefused("release.yaml", file=path.name, cause=cut_words(str(error))) from None
    if found is not None and not isinstance(found, dict):
        raise ReleaseRefused("release.yaml", file=path.name, cause="no mapping at its top")
    return found or {}


def read_changelog(root: Path) -> Mapping[str, Any]:
    """Return the releases of changelog.yaml by their versions; {} before the first."""
    path = root / CHANGELOG
    found = read_mapping(path).get("releases") or {} if path.exists() else {}
    if not isinstance(found, dict):
        raise ReleaseRefused("release.yaml", file=path.name, cause="releases are no mapping")
    return found


@contextlib.contextmanager
def work_alone(root: Path) -> Iterator[Path]:
    """Yield the folder of releases, which no other run has at the same time."""
    base = root / ".cache/release"
    base.mkdir(parents=True, exist_ok=True)
    with (base.parent / "release.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ReleaseRefused("release.running") from None
        yield base


# --- the version and the checkout
# --------------------------------------------------------------------------------------------------


def require_form(version: str) -> None:
    try:
        semantic_versions.read_version(version)
    except ValueError:
        raise ReleaseRefused("release.version-form", version=version) from None


def require_locked() -> None:
    """Refuse programs that no lock file names."""
    if environments.NEWEST:
        raise ReleaseRefused("release.newest")


NO_EXCLUDES = ("-c", "core.excludesFile=/dev/null")  # a person's own list could hide a file


def require_clean(root: Path) -> None:
    """Refuse a checkout with files that the release would not have."""
    every = ("--untracked-files=all", "--ignore-submodules=none")
    lines = run_git(
        root, "-c", "core.fsmonitor=false", *NO_EXCLUDES, "status", "--porcelain", *every
    )
    listed = lines.splitlines()
    if listed:
        some = ", ".join(line[3:] for line in listed[:3]) + (", ..." if len(listed) > 3 else "")
        raise ReleaseRefused("release.dirty", files=some)


def require_new(root: Path, version: str) -> None:
    """Refuse a version that exists, and one that is not newer than all that exist."""
    listed = run_git(root, "-c", "column.ui=never", "tag", "--list").split()
    tags = [tag.removeprefix("v") for tag in listed]
    noted = list(map(str, read_changelog(root)))
    for known, where in ((tags, "a tag"), (noted, CHANGELOG)):
        if version in known:
            raise ReleaseRefused("release.exists", version=version, where=where)
    known = [v for v in (*tags, *noted) if semantic_versions.VERSION.fullmatch(v)]
    last = max(known, key=semantic_versions.read_version, default="")
    order = semantic_versions.read_version
    if last and order(version) < order(last):
        raise ReleaseRefused("release.not-newer", version=version, last=last)


# --- its last commit
# --------------------------------------------------------------------------------------------------


def require_plain(clone: Path) -> None:
    """Refuse a commit that has anything but files with names that can be printed, and links in the
    trees of the lab's hosts.

    A release would read or write the file behind a link, which may be any file of this machine, and
    ansible-galaxy puts such a file into the archive. Of a submodule the archive would have an empty
    directory.
    """
    for line in run_git(clone, "ls-files", "--stage", "-z").split("\0")[:-1]:
        mode, path = line.partition(" ")[0], line.partition("\t")[2]
        if not path.isprintable():
            raise ReleaseRefused("release.name", path=ascii(path))
        if mode == LINK_MODE and not path.startswith(TREES):
            raise ReleaseRefused("release.link", path=path)
        if mode not in (*FILE_MODES, LINK_MODE):
            raise ReleaseRefused("release.submodule", path=path)


def require_same(root: Path, clone: Path) -> None:
    """Refuse a checkout whose files differ from its commit, whatever git was told about them.

    The programs and tables of a release are read from the checkout. Git calls a file unchanged that
    it was told to take for it (assume-unchanged, skip-worktree), and one that a filter or another
    end of lines has changed.
    """
    for path in run_git(clone, "ls-files", "-z").split("\0")[:-1]:
        if read_entry(root / path) != read_entry(clone / path):
            raise ReleaseRefused("release.dirty", files=path)


def read_entry(path: Path) -> tuple[str, bytes]:
    """Return the kind of a path with its content: the target of a link, the bytes of a file."""
    if path.is_symlink():
        return "link", os.fsencode(os.readlink(path))
    if not path.is_file():
        return "", b""
    return "program" if path.stat().st_mode & 0o100 else "file", path.read_bytes()


def require_frozen(clone: Path) -> None:
    """Refuse a commit in which a file that an earlier release has left is not the one of its tag.

    The contract and the upgrades are compared with these files, so a change of one hides what a
    release breaks.
    """
    listed = run_git(clone, "-c", "column.ui=never", "tag", "--merged", "HEAD").split()
    versions = [tag[1:] for tag in listed if tag.startswith("v")]
    kept = list_frozen(clone, "HEAD", FROZEN)
    for version in filter(semantic_versions.VERSION.fullmatch, versions):
        tagged = list_frozen(clone, f"refs/tags/v{version}", f"{FROZEN}/{version}")
        changed = sorted(path for path, entry in tagged.items() if kept.get(path) != entry)
        if changed:
            raise ReleaseRefused("release.frozen", path=changed[0], tag=f"v{version}")


def list_frozen(clone: Path, tree: str, folder: str) -> dict[str, str]:
    """Return the mode and the digest of each file of a folder in a commit, by its path."""
    lines = run_git(clone, "ls-tree", "-r", "-z", tree, "--", f"{folder}/").split("\0")[:-1]
    return {path: entry for entry, _, path in (line.partition("\t") for line in lines)}
