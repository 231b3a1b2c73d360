# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change what is only changed on a machine of one's own, and put it back: modes of GPUs, and MPS.

The commands are those of the planner. The program that measures runs them, so that it can put back
whatever was begun, also if a command hangs or somebody ends the program. Each change is noted in a
file before it is made: of a program that was killed, the next one puts it back. A boot undoes all
of it, and takes the file with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    modes,
    resource,
    wanted,
)

from tests.gpu import steps

# What each mode becomes in turn; the first that it does not have already.
OTHERS = {resource.MODE: ("EXCLUSIVE_PROCESS", "DEFAULT"), resource.SLICE: ("long", "short")}
IN_USE = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
CONTROL = "nvidia-cuda-mps-control"
NOTES = Path("/run/gpufleet-gpu")  # root's; what was begun, and the lock of who changes something
FOLDER = "gpufleet-mps-"  # of MPS, how its name begins
SHORT = 3  # seconds for a command after one that hung
Run = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class Begun:
    """A change that was begun: a mode of a GPU with its values, or MPS in a folder."""

    gpu: str = ""
    what: str = ""
    before: str = ""
    after: str = ""
    folder: str = ""


@contextlib.contextmanager
def take_turn() -> Iterator[None]:
    """Hold the lock of who changes something, which the kernel frees when its holder dies.

    Raise steps.Failed if another program has it.
    """
    NOTES.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(NOTES / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise steps.Failed("failed", "Another measurement changes this machine") from None
    finally:
        os.close(lock)


def read_notes() -> list[Begun]:
    """Return what a program has begun and not put back. Raise steps.Failed if that is not known."""
    try:
        return [Begun(**one) for one in json.loads((NOTES / "begun").read_text())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as exc:
        raise steps.Failed("failed", f"{NOTES / 'begun'} cannot be read: {exc}") from None


def write_notes(begun: Sequence[Begun]) -> None:
    """Note what is to be put back, as a whole or not at all."""
    (NOTES / "new").write_text(json.dumps([asdict(one) for one in begun]))
    (NOTES / "new").rename(NOTES / "begun")


@dataclass
class Change:
    """The changes that were begun. left: by a program that was killed."""

    run: Run
    begun: list[Begun] = field(default_factory=list)
    left: bool = False
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    seconds: int = modes.SECONDS

    def note(self, begun: Begun) -> None:
        self.begun.append(begun)
        write_notes(self.begun)

    def ask(self, argv: Sequence[str], text: str = "") -> str:
        """Return what a command prints. Raise steps.Failed if it fails."""
        status, out, errors = self.run(list(argv), self.seconds, text.encode(), self.environment)
        if status not in modes.GOOD:
            last = ((out + errors).strip().splitlines() or ["it says nothing"])[-1]
            raise steps.Failed("failed", f"{' '.join(argv)} ended with {status}: {last}")
        return out

    def read(self, gpu: str, what: str) -> str:
        """Return the present mode of a GPU, as the planner spells it."""
        argv, pattern = resource.build_mode_reader(build_setting(gpu, what, ""))
        found = re.search(pattern, self.ask(argv), re.MULTILINE)
        if not found:
            raise steps.Failed("failed", f"{' '.join(argv)} tells no {what}")
        said = found.group(1)
        return said.lower() if what == resource.SLICE else modes.parse_compute_mode(said)

    def try_mode(self, gpu: str, what: str) -> str:
        """Give a GPU another mode, and return what is read back. Its undoing is noted before."""
        before = self.read(gpu, what)
        after = next(value for value in OTHERS[what] if value != before)
        if what == resource.SLICE and before not in wanted.INTERVALS:
            raise steps.Failed("failed", f"the time slice is {before}, which cannot be put back")
        self.note(Begun(gpu, what, before, after))
        self.ask(build_setter(gpu, what, after))
        told = self.read(gpu, what)
        if told != after:
            raise steps.Failed(
                "differs", f"{what}: {after} was set in place of {before}, and {told} is read back"
            )
        return f"{what}: {after} in place of {before}"

    def try_mps(self, folder: str) -> str:
        """Start the daemon of MPS, ask it, and leave its end to the undoing."""
        self.note(Begun(folder=folder))
        self.use_folder(folder)
        self.ask([CONTROL, "-d"])
        said = self.ask([CONTROL], "get_default_active_thread_percentage\n")
        return f"MPS: its daemon answers {said.strip()}"

    def use_folder(self, folder: str) -> None:
        for key in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
            self.environment[key] = folder

    def put_back(self) -> Iterator[str]:
        """Undo everything, the last change first. Yield a sentence about each that failed, which
        stays noted.
        """
        failed: list[Begun] = []
        while self.begun:
            one = self.begun.pop()
            try:
                self.undo(one)
            except steps.Failed as exc:
                # the others are tried all the same, in the time of the whole
                self.seconds = SHORT if exc.code == "timeout" else self.seconds
                failed.insert(0, one)
                yield exc.sentence
            write_notes([*self.begun, *failed])

    def undo(self, one: Begun) -> None:
        """Undo one change. A thing that a program has left may be another now, and stays then."""
        if one.folder:
            if not self.left or (os.path.isdir(one.folder) and os.listdir(one.folder)):
                self.use_folder(one.folder)
                self.ask([CONTROL], "quit\n")
            if FOLDER in one.folder:
                shutil.rmtree(one.folder, ignore_errors=True)
        elif not self.left or self.read(one.gpu, one.what) == one.after:
            self.ask(build_setter(one.gpu, one.what, one.before))


def build_setting(gpu: str, what: str, value: str) -> resource.GpuModeSetting:
    return resource.GpuModeSetting(gpu, what, "", value, "")


def build_setter(gpu: str, what: str, value: str) -> list[str]:
    return resource.build_mode_setter(build_setting(gpu, what, value), value)


def list_changes(
    change: Change, gpus: Sequence[str], folder: str
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield a name for each change, and the function that makes it."""
    for gpu in gpus:
        for what in OTHERS:
            yield f"{what} of {gpu}", lambda gpu=gpu, what=what: change.try_mode(gpu, what)  # type: ignore[misc]
    yield "MPS", lambda: change.try_mps(folder)
