# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is being built, for the person who waits: a line when it begins, one when it is done, and what it says meanwhile.

All of it goes to standard error: what a command of the lab is asked for is on standard output.
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
    """One thing that a thread builds, and the last that its command has said."""

    what: str
    begin: float
    said: str = ""


_under_way: dict[int, Work] = {}  # by thread: each builds one thing at a time


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


@contextlib.contextmanager
def building(what: str) -> Iterator[None]:
    """Tell of one thing that is built."""
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
    """Keep what the command of this thread has said last."""
    work = _under_way.get(threading.get_ident())
    if work and line.strip():
        work.said = line.strip()


@contextlib.contextmanager
def shown(every: float = EVERY) -> Iterator[None]:
    """Say from time to time what is under way, and how far it is by its own words."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(every):
            for work in list(_under_way.values()):
                say(f"    {time.monotonic() - work.begin:4.0f} s  {work.what}{': ' if work.said else ''}{work.said[:WIDTH]}")

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
