# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's archive so that the same files give the same bytes, and have
galaxy-importer judge it.

    archive.py [--judge]        prints where the archive is; --judge runs galaxy-importer on it

The files are those that git tracks, as they are now. `ansible-galaxy collection build` writes the
time of the build into its archive (into two entries and into gzip's header), so the entries are
packed once more, each with the time of the last commit.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import environments
from environments import CACHE, ROOT
from tracked import list_tracked

PLACE = CACHE / "archive"
SETTINGS = "[galaxy-importer]\nlog_level_main = INFO\nrun_ansible_test = False\ncheck_required_tags = True\nrun_flake8 = False\n"


def copy(target: Path) -> None:
    """Put the tracked files somewhere else, with links as links, as in a fresh clone."""
    for path in list_tracked():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target / path, follow_symlinks=False)


def committed() -> int:
    """Return the time of the last commit, or the value of SOURCE_DATE_EPOCH."""
    said = os.environ.get("SOURCE_DATE_EPOCH")
    return int(
        said
        or subprocess.run(
            ["git", "log", "-1", "--format=%ct"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


def build(source: Path, target: Path) -> Path:
    """Build with ansible-galaxy, and pack its entries once more, with one time."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        command = [
            str(Path(sys.executable).with_name("ansible-galaxy")),
            "collection",
            "build",
            "--output-path",
            folder,
            str(source),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise SystemExit(f"archive.py: {done.stdout}{done.stderr}")
        built = next(Path(folder).glob("*.tar.gz"))
        found = target / built.name
        found.write_bytes(packed(built, committed()))
    return found


def packed(built: Path, time: int) -> bytes:
    """Return the bytes of an archive with the same entries and one time."""
    plain = io.BytesIO()
    with (
        tarfile.open(built) as old,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for entry in sorted(old.getmembers(), key=lambda item: item.name):
            entry.mtime, entry.pax_headers = time, {}
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    return gzip.compress(plain.getvalue(), mtime=time)


def judge(archive: Path) -> int:
    """Run galaxy-importer, as Galaxy and a private Automation Hub do on every upload. Return its
    exit status.
    """
    try:
        programs = environments.ensure("importer")
    except environments.NoInterpreter as error:
        print(f"galaxy-importer: not run here, {error}")
        return 0
    settings = archive.parent / "galaxy-importer.cfg"
    settings.write_text(SETTINGS)
    done = subprocess.run(
        [programs / "python", "-m", "galaxy_importer.main", archive.resolve()],
        capture_output=True, text=True, check=False, cwd=archive.parent, stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "GALAXY_IMPORTER_CONFIG": str(settings)},
    )  # fmt: skip
    said = done.stdout + done.stderr
    passed = done.returncode == 0 and "Importer processing completed successfully" in said
    lines = [line for line in said.splitlines() if "WARNING" in line or "ERROR" in line]
    print(
        "\n".join(
            ["galaxy-importer: passed" if passed else f"galaxy-importer: FAILED\n{said}", *lines]
        )
    )
    return 0 if passed else 1


def main(arguments: list[str]) -> int:
    """Build, print the path, and judge if asked."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        copy(Path(folder))
        archive = build(Path(folder), PLACE)
    print(archive.relative_to(ROOT))
    return judge(archive) if "--judge" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
