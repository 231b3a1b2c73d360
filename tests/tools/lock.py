# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the lock files of development's environments: exact versions with the hashes of every file
of each.

    lock.py [--upgrade] [GROUP...]    all groups of pyproject.toml, or the named ones

Versions that a lock file has are kept as long as pyproject.toml allows them; with --upgrade each
becomes the newest that it allows. A lock serves every platform and every Python that INTERPRETERS
lists for its group.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import environments
from environments import INTERPRETERS, LOCKS, ROOT, lock_file

HEADER = "# Written by `make lock` from the group {group} of pyproject.toml; `make lock UPGRADE=1` takes newer releases.\n"


def oldest_python(group: str) -> str:
    """Return the oldest Python that may carry a group, as `3.11`."""
    return min(INTERPRETERS[group], key=lambda version: [int(part) for part in version.split(".")])


def find_uv() -> Path:
    """Return the path of uv; the first lock file of all is written by the newest uv that
    pyproject.toml allows.
    """
    if lock_file("lock").exists():
        return environments.ensure("lock") / "uv"
    place = Path(tempfile.mkdtemp(prefix="gpufleet-lock-"))
    environments.make_environment(
        place, environments.interpreter("lock"), environments.requirements("lock"), []
    )
    return place / "bin" / "uv"


def write_lock(uv: Path, group: str, *, upgrade: bool) -> None:
    """Write one lock file. subprocess.CalledProcessError if no set of versions meets the
    requirements.
    """
    LOCKS.mkdir(exist_ok=True)
    target = lock_file(group)
    command: list[str | Path] = [
        uv, "pip", "compile", "--quiet", "--universal", "--python-version", oldest_python(group), "--generate-hashes",
        "--no-header", "--no-annotate", "--output-file", target.name, *(["--upgrade"] if upgrade else []), "-",
    ]  # fmt: skip
    settings = {**os.environ, "UV_NO_CONFIG": "1"}
    wanted = "\n".join(environments.requirements(group))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / target.name
        if target.exists():
            made.write_text(target.read_text())  # its versions are preferred
        subprocess.run(command, cwd=folder, input=wanted, text=True, check=True, env=settings)
        target.write_text(HEADER.format(group=group) + made.read_text())
    print(target.relative_to(ROOT), flush=True)


def main(arguments: Sequence[str]) -> int:
    """Write the named lock files, or all."""
    groups = [word for word in arguments if word != "--upgrade"] or list(INTERPRETERS)
    unknown = [group for group in groups if group not in INTERPRETERS]
    if unknown:
        print(
            f"lock.py: unknown group {', '.join(unknown)}; pyproject.toml has: {', '.join(INTERPRETERS)}",
            file=sys.stderr,
        )
        return 2
    uv = find_uv()
    for group in groups:
        write_lock(uv, group, upgrade="--upgrade" in arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
