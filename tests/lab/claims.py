# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owners of labs: the checkout that a lab belongs to, and whether the process that controls it
still lives.

The process holds a lock on the file `owner` in the lab's runtime directory. The kernel frees it the
instant the process is dead, however it died. A lab that is neither held nor to be kept is a
leftover: the next `up` of this checkout takes it away, and so does `down`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import artefacts

RUNTIME = Path("/run/gpufleet-lab")
OWNER = "owner"
CHECKOUT = artefacts.REPO


@dataclass(frozen=True)
class Owner:
    """The content of the file `owner`: the checkout, the directory of its labs, and the process
    that has brought this one up.
    """

    checkout: str
    home: str  # artefacts.lab_dir() of that time
    pid: int
    command: str
    kept: bool  # brought up to stay (`lab-up`), without a process


def read(place: Path) -> Owner | None:
    """Return the owner of the lab with this runtime directory, or None if the file is missing or
    incomplete.
    """
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Owner(**json.loads((place / OWNER).read_text()))
    return None


class Claim:
    """A held lock. The lab belongs to this process until `release`, or until the process is dead."""

    def __init__(self, place: Path, descriptor: int) -> None:
        self.place, self.descriptor = place, descriptor

    def write(self, kept: bool) -> None:
        owner = Owner(
            str(CHECKOUT), str(artefacts.lab_dir()), os.getpid(), " ".join(sys.argv), kept
        )
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps(vars(owner)).encode(), 0)

    def release(self) -> None:
        os.close(self.descriptor)


def take(place: Path) -> Claim | None:
    """Claim the lab with this runtime directory. Return None if a living process holds it, or if it
    is gone.
    """
    try:
        descriptor = os.open(place / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(place / OWNER).st_ino == os.fstat(descriptor).st_ino:
            return Claim(place, descriptor)
    except (BlockingIOError, FileNotFoundError):
        pass  # someone holds it, or has just taken the lab away
    os.close(descriptor)
    return None


def list_labs_of_checkout() -> Iterator[tuple[str, Owner]]:
    """Yield the name and the owner of each lab of this checkout that is on the machine."""
    for place in sorted(RUNTIME.glob("*")):
        owner = read(place)
        if owner and owner.checkout == str(CHECKOUT):
            yield place.name, owner


def is_lab_in_use(name: str) -> bool:
    """Tell whether a living process holds a lab that has an owner."""
    claim = take(RUNTIME / name)
    if claim:
        claim.release()
    return claim is None
