# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the virtual environments of development, one per group of requirements in pyproject.toml.

    environments.py dev            prints the folder of its programs, after making it when it is missing or outdated

An environment gets the versions of its lock file, tests/locks/GROUP.txt, which tests/tools/lock.py
writes: pip installs wheels with the hashes in that file and nothing else, so an environment is the
same today and in a year. With GPUFLEET_NEWEST=1 it gets the newest releases instead, in a folder of
its own.

An environment is made again when its lock or its interpreter change, so a stale one is never used
silently.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
LOCKS = ROOT / "tests" / "locks"
NEWEST = os.environ.get("GPUFLEET_NEWEST", "") not in ("", "0")
# A group whose purpose is an old release keeps its upper bounds also where the newest releases are
# wanted.
OLD = re.compile(r"core-|host-|sanity-|yaml-")
# Package -> the tool that builds it, for packages without a wheel; both are in the group, so the
# tool is locked, too.
BUILT = {"docs": {"reuse": "poetry-core"}}
UPPER_BOUND = re.compile(r",<[\d.]+$")
FIND_PYTHON = ROOT / "tests" / "tools" / "find-python"

# Which interpreters may carry a group, the preferred one first; the table of supported controllers
# is ansible-core's own.
INTERPRETERS = {
    "dev": ("3.13", "3.12", "3.14", "3.11"),
    "core-2-16": ("3.11", "3.12", "3.10"),
    "core-2-17": ("3.12", "3.11", "3.10"),
    "core-2-18": ("3.12", "3.11", "3.13"),
    "core-2-19": ("3.12", "3.13", "3.11"),
    "core-2-20": ("3.13", "3.12"),
    "mitogen": ("3.13", "3.12"),
    "awx": ("3.13", "3.12"),
    "image": ("3.13",),
    "kubernetes": ("3.13", "3.12", "3.14", "3.11"),
    "docs": ("3.13", "3.12"),
    "importer": ("3.13", "3.12"),
    "sbom": ("3.13", "3.12"),
    "host-3-6": ("3.6",),
    "host-3-8": ("3.8",),
    "host-3-13": ("3.13",),
    "yaml-6-0": ("3.11",),
    "yaml-6-0-1": ("3.11", "3.12"),
    "yaml-6": ("3.13", "3.12", "3.11"),
    "lock": ("3.13", "3.12", "3.14", "3.11"),
    "sanity-2-16": ("3.11", "3.12", "3.10"),
    "sanity-2-17": ("3.12", "3.11", "3.10"),
    "sanity-2-18": ("3.12", "3.11", "3.13"),
    "sanity-2-19": ("3.11", "3.12", "3.13"),
    "sanity-2-20": ("3.13", "3.12"),
    "sanity-2-21": ("3.13", "3.12"),
}


class NoInterpreter(Exception):
    """No interpreter of a wanted version is at hand."""


def requirements(group: str) -> list[str]:
    """Return what pyproject.toml wants in a group."""
    with (ROOT / "pyproject.toml").open("rb") as handle:
        return list(tomllib.load(handle)["dependency-groups"][group])


def interpreter(group: str) -> Path:
    """Find the interpreter that carries a group."""
    versions = INTERPRETERS[group]
    found = subprocess.run([FIND_PYTHON, *versions], capture_output=True, text=True, check=False)
    if found.returncode:
        raise NoInterpreter(f"no Python {' or '.join(versions)} with venv at hand")
    return Path(found.stdout.strip())


def folder(group: str) -> Path:
    """Return the place of an environment. The one that people work with has the short name."""
    if NEWEST:
        return CACHE / "newest" / group
    return CACHE / "venv" if group == "dev" else CACHE / "venvs" / group


def lock_file(group: str) -> Path:
    """Return the path of a group's lock file."""
    return LOCKS / f"{group}.txt"


def without_upper_bounds(group: str) -> list[str]:
    """Return a group's requirements that allow each newer release.

    A bound stays if an old release is the group's purpose.
    """
    if OLD.match(group):
        return requirements(group)
    return [UPPER_BOUND.sub("", requirement) for requirement in requirements(group)]


def pip_arguments(group: str) -> list[str]:
    """Return the arguments of `pip install` for a group."""
    if NEWEST:
        return without_upper_bounds(group)
    # Wheels only: a source distribution would be built with tools that no lock names.
    built = (
        [f"--no-binary={','.join(BUILT[group])}", "--no-build-isolation"] if group in BUILT else []
    )
    return [
        "--require-hashes",
        "--only-binary=:all:",
        *built,
        "--requirement",
        str(lock_file(group)),
    ]


def lock_entry(group: str, package: str) -> str:
    """Return the lines of one package in a lock file: its version and its hashes."""
    found = re.search(
        rf"^{re.escape(package)}==.*(?:\n .*)+\n", lock_file(group).read_text(), re.MULTILINE
    )
    if found is None:
        raise SystemExit(f"environments.py: {lock_file(group)} lacks {package}: run `make lock`")
    return found[0]


def fingerprint(group: str) -> str:
    """Hash the interpreter, the place and the versions that an environment is made from."""
    versions = [lock_file(group).read_text()] if not NEWEST else without_upper_bounds(group)
    return hashlib.sha256(
        "\n".join([str(interpreter(group)), str(folder(group)), *versions]).encode()
    ).hexdigest()


def ensure(group: str) -> Path:
    """Make the environment of a group if it is missing or outdated, and return the folder of its
    programs.
    """
    python = interpreter(group)
    place = folder(group)
    key = fingerprint(group)
    place.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{group}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        marker = place / "made-from"
        if not marker.exists() or marker.read_text() != key:
            make_environment(
                place, python, pip_arguments(group), [] if NEWEST else list_build_tools(group)
            )
            marker.write_text(key)
    return place / "bin"


def list_build_tools(group: str) -> list[str]:
    """Return the lock entries of the tools that build a group's packages without wheels."""
    return [lock_entry(group, tool) for tool in sorted(set(BUILT.get(group, {}).values()))]


def make_environment(place: Path, python: Path, arguments: list[str], tools: list[str]) -> None:
    """Make an environment. If that fails, leave no half-made one behind.

    tools: lock entries to install first.
    """
    print(f"making {place} with {python}: {' '.join(arguments)}", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    run = functools.partial(subprocess.run, stdout=sys.stderr, check=True, env=environment)
    run([python, "-m", "venv", place])
    install = [place / "bin" / "python", "-m", "pip", "install", "-q"]
    if tools:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as entries:
            entries.write("".join(tools))
            entries.flush()
            run(
                [*install, "--require-hashes", "--only-binary=:all:", "--requirement", entries.name]
            )
    run([*install, *arguments])


def main(arguments: list[str]) -> int:
    """Make the named environment and print the folder of its programs."""
    if len(arguments) != 1 or arguments[0] not in INTERPRETERS:
        print(f"usage: environments.py {'|'.join(INTERPRETERS)}", file=sys.stderr)
        return 2
    try:
        print(ensure(arguments[0]))
    except NoInterpreter as error:
        print(f"environments.py: {error}", file=sys.stderr)
        return 3
    except subprocess.CalledProcessError as error:
        print(f"environments.py: {error}; its own words are above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
