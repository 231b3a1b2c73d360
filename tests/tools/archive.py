# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's archive so that the same files give the same bytes, and have
galaxy-importer judge it.

    archive.py [--judge]        prints where the archive is; --judge runs galaxy-importer on it

The archive has the files that git tracks, as they are now. `ansible-galaxy collection build` writes
the time of the build into its archive (into two entries and into gzip's header). It lists the files
in the order in which the file system names them. So the entries are packed once more, each with the
time of the last commit, and with a sorted list.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import clean_runs
import environments
from environments import CACHE, ROOT
from tracked import list_tracked

PLACE = CACHE / "archive"
MANIFEST, FILES = "MANIFEST.json", "FILES.json"
SETTINGS = "[galaxy-importer]\nlog_level_main = INFO\nrun_ansible_test = False\ncheck_required_tags = True\nrun_flake8 = False\n"


def copy(target: Path) -> None:
    """Put the tracked files somewhere else, with links as links, as in a fresh clone."""
    for path in list_tracked():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target / path, follow_symlinks=False)


class ArchiveFailed(Exception):
    """An archive cannot be built. Its text is the words of the program that failed."""


def committed() -> int:
    """Return the time of the last commit, or the value of SOURCE_DATE_EPOCH.

    Raise ArchiveFailed if that is not a number of seconds that gzip's header can have.
    """
    said = os.environ.get("SOURCE_DATE_EPOCH")
    if said:
        if not re.fullmatch(r"[0-9]{1,10}", said) or int(said) >= 1 << 32:
            raise ArchiveFailed(f"SOURCE_DATE_EPOCH is {said!r}, not the seconds since 1970")
        return int(said)
    command = ["git", "-c", "log.showSignature=false", "log", "-1", "--format=%ct"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True,
        env=clean_runs.build_git_environment(os.environ),
    )  # fmt: skip
    return int(done.stdout)


def build(source: Path, target: Path) -> Path:
    """Build with ansible-galaxy, and pack its entries once more, with one time.

    Raise ArchiveFailed if it cannot.
    """
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
        with clean_runs.cleaned():
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
            )
        if done.returncode:
            raise ArchiveFailed(f"{done.stdout}{done.stderr}")
        built = next(Path(folder).glob("*.tar.gz"))
        found = target / built.name
        found.write_bytes(packed(built, committed()))
    return found


def packed(built: Path, time: int) -> bytes:
    """Return the bytes of an archive with the same entries, one time, and its list of files sorted."""
    plain = io.BytesIO()
    with (
        tarfile.open(built) as old,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        lists = sort_lists(read_member(old, MANIFEST), read_member(old, FILES))
        for entry in sorted(old.getmembers(), key=lambda item: item.name):
            entry.mtime, entry.pax_headers = time, {}
            data = lists.get(entry.name) if entry.isfile() else None
            if data is not None:
                entry.size = len(data)
            elif entry.isfile():
                data = read_member(old, entry.name)
            new.addfile(entry, None if data is None else io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=time)


def read_member(opened: tarfile.TarFile, name: str) -> bytes:
    """Return the bytes of a file of an archive. Raise ArchiveFailed if there is none."""
    found = opened.extractfile(name)
    if found is None:
        raise ArchiveFailed(f"{name} is not a file")
    return found.read()


def sort_lists(manifest: bytes, files: bytes) -> dict[str, bytes]:
    """Return ansible-galaxy's two lists with the files sorted by their names, and with the digest
    that the first has of the second.
    """
    listed = json.loads(files)
    listed["files"].sort(key=lambda item: item["name"])
    text = json.dumps(listed, indent=1).encode()
    head = json.loads(manifest)
    head["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(text).hexdigest()
    return {MANIFEST: json.dumps(head, indent=1).encode(), FILES: text}


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
    try:
        with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
            copy(Path(folder))
            archive = build(Path(folder), PLACE)
    except ArchiveFailed as error:
        raise SystemExit(f"archive.py: {error}") from None
    print(archive.relative_to(ROOT))
    return judge(archive) if "--judge" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
