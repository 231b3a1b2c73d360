# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the virtual environments of development, one per group of requirements in pyproject.toml.

    environments.py dev            prints the folder of its programs, after making it when it is missing or outdated

An environment is made again when its requirements or its interpreter change, so a stale one is never used silently.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
FIND_PYTHON = ROOT / "tests" / "tools" / "find-python"

# Which interpreters may carry a group, the preferred one first; the table of supported controllers is ansible-core's own.
INTERPRETERS = {
    "dev": ("3.13", "3.12", "3.14", "3.11"),
    "core-2-16": ("3.11", "3.12", "3.10"),
    "core-2-18": ("3.12", "3.11", "3.13"),
    "awx": ("3.13", "3.12"),
    "kubernetes": ("3.13", "3.12", "3.14", "3.11"),
    "docs": ("3.13", "3.12"),
    "importer": ("3.13", "3.12"),
    "node-3-6": ("3.6",),
    "node-3-8": ("3.8",),
    "node-3-13": ("3.13",),
    "sanity-2-19": ("3.11", "3.12", "3.13"),
    "sanity-2-20": ("3.13", "3.12"),
    "sanity-2-21": ("3.13", "3.12"),
}


class NoInterpreter(Exception):
    """No interpreter of a wanted version is at hand."""


def requirements(group: str) -> list[str]:
    """Give what pyproject.toml wants in a group."""
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
    """Give the place of an environment; the one that people work with has the short name."""
    return CACHE / "venv" if group == "dev" else CACHE / "venvs" / group


def ensure(group: str) -> Path:
    """Make the environment of a group if it is missing or outdated, and give the folder of its programs."""
    python = interpreter(group)
    wanted = requirements(group)
    place = folder(group)
    key = hashlib.sha256("\n".join([str(python), str(place), *wanted]).encode()).hexdigest()
    place.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{group}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        marker = place / "made-from"
        if not marker.exists() or marker.read_text() != key:
            make(place, python, wanted)
            marker.write_text(key)
    return place / "bin"


def make(place: Path, python: Path, wanted: list[str]) -> None:
    """Make an environment; a half-made one is never left behind as if it were whole."""
    print(f"making {place.relative_to(ROOT)} with {python}: {', '.join(wanted)}", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    commands: list[list[str | Path]] = [
        [python, "-m", "venv", place],
        [place / "bin" / "python", "-m", "pip", "install", "-q", *wanted],
    ]
    for command in commands:
        subprocess.run(command, stdout=sys.stderr, check=True, env=environment)


def main(arguments: list[str]) -> int:
    """Make the named environment and print where its programs are."""
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
