# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference library of CDI itself, in the releases that engines carry, as the judge of our own
reading of specs.

A program of a few lines (main.go) is built against each release, whose go.mod and go.sum lie in
modules/ and pin every source by hash.
"""

from __future__ import annotations

import base64
import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lab import artefacts, doctor

HERE = Path(__file__).resolve().parent
RELEASES = ("0.5.4", "0.6.2", "0.7.2", "0.8.1", "1.0.1", "1.1.0", "1.1.1")
OLDER = ("0.5.4",)  # by its former name
MEMORY = Path("/dev/shm")


def obstacle() -> str:
    """Why the library cannot be asked on this machine; empty when it can."""
    return (
        ""
        if doctor.has_go()
        else "the reference library is built from source, and there is no 'go' in PATH (Go 1.26 or newer)"
    )


def program(release: str) -> Path:
    """The program with this release in it, built on first use."""
    sources = [*sorted(HERE.glob("*.go")), *sorted((HERE / "modules" / release).iterdir())]
    key = artefacts.digest(*sources, artefacts.go_version())
    what = f"cdi-{release}: compiling the library of CDI with Go"
    return (
        artefacts.cached(
            "bin", f"cdi-{release}", key, functools.partial(_build, release, sources), what
        )
        / "reference"
    )


def _build(release: str, sources: Iterable[Path], out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            shutil.copy(source, folder)
        tags = ["-tags", "older"] if release in OLDER else []
        command = ["go", "build", *tags, "-ldflags", "-s -w", "-o", str(out / "reference"), "."]
        artefacts.run(command, cwd=folder, env=artefacts.go_environment())


class Judge:
    """One running program; it is asked case by case."""

    def __init__(self, release: str, prefix: Sequence[str] = ()) -> None:
        self.release = release
        self.scratch = Path(
            tempfile.mkdtemp(prefix="gpufleet-cdi-", dir=MEMORY if MEMORY.is_dir() else None)
        )
        self.scratch.chmod(0o755)
        command = [*prefix, str(program(release)), str(self.scratch)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        self.process.communicate()
        shutil.rmtree(self.scratch)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A request of main.go and its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the program with release {self.release} ended at {request}"
        found: dict[str, Any] = json.loads(line)
        return found

    def load(
        self, files: Sequence[Mapping[str, bytes]], inject: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """Specs as files of directories, lowest priority first. Paths in the answer are index/name."""
        coded = [
            {name: base64.b64encode(data).decode() for name, data in folder.items()}
            for folder in files
        ]
        told = self.ask({"files": coded, "inject": list(inject)})
        told["errors"] = {
            path.removeprefix(f"{self.scratch}/"): words
            for path, words in (told.get("errors") or {}).items()
        }
        return told
