# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change what is only changed on a machine of one's own, and put it back: modes of GPUs, and MPS.

The commands are those of the planner. The program that measures runs them, so that it can put back
whatever was begun, also if a command hangs or somebody ends the program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

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
SHORT = 3  # seconds for a command after one that hung
Run = Callable[..., tuple[int, str, str]]


@dataclass
class Change:
    """The changes that were begun, each with the command that undoes it."""

    run: Run
    undo: list[tuple[list[str], str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    seconds: int = modes.SECONDS

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
        self.undo.append((build_setter(gpu, what, before), ""))
        self.ask(build_setter(gpu, what, after))
        told = self.read(gpu, what)
        if told != after:
            raise steps.Failed(
                "differs", f"{what}: {after} was set in place of {before}, and {told} is read back"
            )
        return f"{what}: {after} in place of {before}"

    def try_mps(self, folder: str) -> str:
        """Start the daemon of MPS, ask it, and leave its end to the undoing."""
        for key in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
            self.environment[key] = folder
        self.undo.append(([CONTROL], "quit\n"))
        self.ask([CONTROL, "-d"])
        said = self.ask([CONTROL], "get_default_active_thread_percentage\n")
        return f"MPS: its daemon answers {said.strip()}"

    def put_back(self) -> Iterator[str]:
        """Undo everything, the last change first. Yield a sentence about each that failed."""
        while self.undo:
            argv, text = self.undo.pop()
            try:
                self.ask(argv, text)
            except steps.Failed as exc:
                # the others are tried all the same, in the time of the whole
                self.seconds = SHORT if exc.code == "timeout" else self.seconds
                yield exc.sentence


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
