# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transactions that are struck at every system call by which they change files or start processes,
one try for each.

A clean run under strace tells which calls there are. Then the executor is killed right before the
k-th (or that call fails with an error), and the host is looked at three times: at once, after the
next run, and after everything was taken back. Files must be old or new, all of them the same, and
the engine must serve what they say.
"""

from __future__ import annotations

import dataclasses as dc
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.faults.victim import ABSENT, TRACE, State, Victim

# With a leading "?", since not every processor's system has all of them.
CALLS = (
    "open", "openat", "creat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir",
    "write", "pwrite64", "ftruncate", "truncate", "fsync", "fdatasync",
    "chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat", "lchown",
    "utimensat", "setxattr", "fsetxattr", "lsetxattr", "link", "linkat", "symlink", "symlinkat", "mknod", "mknodat",
    "clone", "clone3", "vfork", "fork", "kill", "flock",
)  # fmt: skip
ERRORS = ("ENOSPC", "EIO", "EROFS", "EACCES", "EMFILE")
KILL = "SIGKILL"
# so many tries at most without a run after them; ten parts take turns, and none of them may always
# be the one
EVERY = 19
OPENING = ("open", "openat", "creat")
WRITES = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC)")
LINE = re.compile(r"^(\w+)\((.*)$")
VOLATILE = re.compile(r"[0-9a-f]{32}|\d{8}T\d{6}Z|(?<=/tmp/)\w+|since [^\"]*|process \d+")


@dc.dataclass(frozen=True)
class Point:
    """A system call of the executor: its name, its number among the calls of that name, and what it
    is about.
    """

    call: str
    number: int
    text: str

    def fault(self, how: str) -> list[str]:
        kind = f"signal={how}" if how.startswith("SIG") else f"error={how}"
        return strace("-e", f"inject={self.call}:{kind}:when={self.number}")


def strace(*more: str) -> list[str]:
    return [
        "strace",
        "-y",
        "-o",
        TRACE,
        "-e",
        "trace=" + ",".join(f"?{name}" for name in CALLS),
        *more,
    ]


def points(trace: str) -> list[Point]:
    """List the calls in a trace that change a file or start a process."""
    seen: Counter[str] = Counter()
    found = []
    for line in trace.splitlines():
        match = LINE.match(line)
        if not match or match[1] not in CALLS:
            continue
        seen[match[1]] += 1
        if match[1] not in OPENING or WRITES.search(match[2]):
            found.append(
                Point(
                    match[1], seen[match[1]], VOLATILE.sub("~", match[2].partition(" = ")[0])[:160]
                )
            )
    return found


@dc.dataclass(frozen=True)
class Try:
    """A struck transaction, and what came of it."""

    point: Point
    how: str
    by: str  # who takes back what the struck one leaves: systemd | timer | next | boot
    at_once: str  # old | new | mixed | torn: the files, when the struck run is over
    found: str  # old | new | half: files and engine, after it was taken back
    after: str  # new | half: once more, after the next run; "" where that one was not run
    back: str  # old | half: once more, after state: absent; "" as before
    hit: bool  # whether the blow was struck at all
    litter: tuple[str, ...]  # what lies about afterwards, and does not when nothing happens
    said: tuple[str, ...]  # by the struck run, the next one and the one that takes everything back

    @property
    def fine(self) -> bool:
        sides_ = (
            self.found in ("old", "new") and self.after in ("new", "") and self.back in ("old", "")
        )
        return self.at_once != "torn" and sides_ and not self.litter

    @property
    def followed(self) -> bool:
        return bool(self.back)

    def __str__(self) -> str:
        where = f"{self.how} at {self.point.call} #{self.point.number} ({self.point.text[:80]})"
        lies = f", left behind: {', '.join(self.litter[:3])}" if self.litter else ""
        way = f"{self.at_once}, by {self.by} {self.found}"
        way += f", next run {self.after or '-'}, absent {self.back or '-'}"
        return f"{where}: {way}{lies}; said: {' | '.join(self.said)}"


@dc.dataclass(frozen=True)
class Sides:
    """A host before a transaction, and after one that went well."""

    old: State
    new: State
    request: Mapping[str, Any]  # by which the one becomes the other

    @property
    def paths(self) -> list[str]:
        names = {*self.old.files, *self.new.files}
        return sorted(
            p
            for p in names
            if self.old.files.get(p) != self.new.files.get(p)
            and not is_journal(p)
            and not self._folder(p)
        )

    def _folder(self, path: str) -> bool:
        """Tell whether a path is a directory. One that came with a file may be there without it."""
        return any((state.files.get(path) or "").startswith("4") for state in (self.old, self.new))

    def files(self, now: State) -> str:
        found = now.of(self.paths)
        if found == self.old.of(self.paths):
            return "old"
        if found == self.new.of(self.paths):
            return "new"
        whole = all(
            entry in (self.old.files.get(path), self.new.files.get(path))
            for path, entry in found.items()
        )
        return "mixed" if whole else "torn"

    def verdict(self, now: State) -> str:
        """Return old or new, if the engine serves just that. Otherwise return half and the reason."""
        files = self.files(now)
        if not now.serves:
            return f"half: {files} files, and the engine does not serve"
        if files in ("mixed", "torn"):
            return f"half: {files} files"
        if now.handler != (self.new if files == "new" else self.old).handler:
            return f"half: {files} files, and the engine runs with the others"
        return files


def is_journal(path: str) -> bool:
    return path.startswith("/var/lib/gpufleet/") and not path.endswith("decision.json")


def sides(victim: Victim, traced: str = "executor") -> tuple[Sides, list[Point]]:
    """Return both sides of the transaction, and the calls on the way. The host is on the old side
    again.
    """
    victim.started = victim.invocation()
    old = victim.look()
    assert old.serves, f"{victim.name}: the engine does not serve"
    done = victim.run(strace(), traced=traced)
    assert not done.failed, done
    new = victim.look()  # when the executor is done, and its watch as well
    found = points(victim.read(TRACE))
    both = Sides(old, new, victim.requests[-1])
    assert (both.verdict(old), both.verdict(new)) == ("old", "new")
    assert old.handler != new.handler, f"{victim.name}: the engine says the same of both sides"
    victim.put_back(old, new)
    return both, found


# Who is struck, and who takes back what they leave.
WAYS = {"systemd": "executor", "timer": "alone", "next": "alone", "caller": "caller"}


@dc.dataclass
class Seen:
    """States of a host from which the next run is known to reach the new state, and the one after
    it the old one.

    These two runs decide by what they find. So they are run if something new is found, and after
    every n-th try all the same.
    """

    every: int = EVERY
    keys: set[object] = dc.field(default_factory=set)
    tries: int = 0

    def new(self, state: State) -> bool:
        self.tries += 1
        return state.key not in self.keys or self.tries % self.every == 0


def strike(
    victim: Victim,
    both: Sides,
    point: Point,
    how: str,
    by: str = "systemd",
    seen: Seen | None = None,
) -> Try:
    """Strike one transaction and return what came of it. The host is on the old side again
    afterwards.
    """
    struck = victim.again(both.request, point.fault(how), WAYS[by])
    at_once = victim.look()
    hit = bool(re.search(r"INJECTED|killed by SIGKILL", victim.read(TRACE)))
    return judged(
        victim,
        both,
        Try(point, how, by, both.files(at_once), "", "", "", hit, (), (struck.words[:300],)),
        at_once,
        seen,
    )


def judged(victim: Victim, both: Sides, one: Try, at_once: State, seen: Seen | None = None) -> Try:
    """Have what was left taken back, and look what came of it.

    If what the next runs make of that is unknown, run them as well.
    """
    found = at_once
    if one.by == "timer":
        victim.timer()
        found = victim.look()
    said, litter, after, back = list(one.said), set[str](), None, None
    if one.by == "next":
        said.append(victim.run().words[:300])
        found = after = victim.look()
    known = found
    if seen is None or seen.new(found):
        if after is None:
            said.append(victim.run().words[:300])
            after = victim.look()
        said.append(victim.run(policy=ABSENT).words[:300])
        back = victim.look()
        litter |= set(back.litter([both.old.files]))
    if after is not None:
        litter |= set(after.litter([both.old.files, both.new.files]))
    # The call that failed may be the one that stops the timer, which then finds nothing to do.
    if one.how in ERRORS:
        litter = {name for name in litter if not name.startswith("gpufleet-undo-")}
    victim.put_back(both.old, back or found)
    done = dc.replace(
        one,
        found=both.verdict(found),
        after=both.verdict(after) if after else "",
        back=both.verdict(back) if back else "",
        litter=tuple(sorted(litter)),
        said=tuple(said),
    )
    if seen is not None and done.fine and done.followed:
        seen.keys.add(known.key)
    return done


def outage(victim: Victim, both: Sides, point: Point, seen: Seen | None = None) -> Try:
    """Take the power at this call: the executor stops there, and then everything on the host ends
    at once.
    """
    worker = threading.Thread(
        target=victim.again, args=(both.request, point.fault("SIGSTOP")), daemon=True
    )
    worker.start()
    hit = False
    while not hit and (worker.is_alive() or victim.at_work()):
        worker.join(0.01)
        hit = "stopped by SIGSTOP" in victim.read(TRACE)
    victim.lab.kill(victim.name)
    worker.join()
    victim.lab.boot(victim.name)
    victim.shell(f"mkdir -p /run/cdi; {victim.until_it_serves()}", fails=True)
    at_once = victim.look()
    victim.started = at_once.invocation
    return judged(
        victim,
        both,
        Try(point, "power", "boot", both.files(at_once), "", "", "", hit, (), ()),
        at_once,
        seen,
    )


def evenly(points_: Sequence[Point]) -> list[tuple[int, Point]]:
    """Return all points with their numbers, from coarse to fine.

    However early a sweep stops, its points are spread over the whole.
    """
    bits = max(len(points_) - 1, 1).bit_length()
    order = sorted(range(1 << bits), key=lambda number: int(f"{number:0{bits}b}"[::-1], 2))
    return [(number, points_[number]) for number in order if number < len(points_)]


def totals(tries: Sequence[Try]) -> Mapping[str, int]:
    """Count the tries, and what the host was like after what they left was taken back."""
    kinds = Counter(found.found if found.fine else "half" for found in tries)
    return {"tried": len(tries), "old": kinds["old"], "new": kinds["new"], "half": kinds["half"]}
