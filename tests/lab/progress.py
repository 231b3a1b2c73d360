# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of builds, for the person who waits: a line at the beginning, one at the end, and
the command's words meanwhile.

All of it goes to standard error. Standard output carries what a command of the lab is asked for.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

EVERY = 10.0  # seconds between two looks at what is under way
WIDTH = 70


@dataclass
class Work:
    """A thing that a thread builds, and the last line that its command has printed."""

    what: str
    begin: float
    said: str = ""


_under_way: dict[int, Work] = {}  # by thread: each builds one thing at a time


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


@contextlib.contextmanager
def building(what: str) -> Iterator[None]:
    """Announce the beginning and the end of one build, and keep it listed as under way meanwhile."""
    outer, work = _under_way.get(threading.get_ident()), Work(what, time.monotonic())
    _under_way[threading.get_ident()] = work
    say(f"  {what} ...")
    try:
        yield
        say(f"  {what}: done after {time.monotonic() - work.begin:.0f} s")
    finally:
        del _under_way[threading.get_ident()]
        if outer:
            _under_way[threading.get_ident()] = outer


def note(line: str) -> None:
    """Keep the last line that the command of this thread has printed."""
    work = _under_way.get(threading.get_ident())
    if work and line.strip():
        work.said = line.strip()


@contextlib.contextmanager
def shown(every: float = EVERY) -> Iterator[None]:
    """Print from time to time what is under way, and the last line that its command has printed."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(every):
            for work in list(_under_way.values()):
                say(
                    f"    {time.monotonic() - work.begin:4.0f} s  {work.what}{': ' if work.said else ''}{work.said[:WIDTH]}"
                )

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
