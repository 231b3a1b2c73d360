# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A transaction that is struck at every system call by which it changes files or starts processes, one try for each.

A clean run under strace tells which calls there are. Then the hands are killed right before the k-th (or that call fails with an error),
and the host is looked at three times: at once, after the next run, and after everything was taken back. Files must be old or new, all of
them the same, and the engine must serve what they say.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.faults.victim import ABSENT, State, Victim

# With a leading "?", since not every processor's system has all of them.
CALLS = (
    "open", "openat", "creat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir",
    "write", "pwrite64", "ftruncate", "truncate", "fsync", "fdatasync",
    "chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat", "lchown",
    "utimensat", "setxattr", "fsetxattr", "lsetxattr", "link", "linkat", "symlink", "symlinkat", "mknod", "mknodat",
    "clone", "clone3", "vfork", "fork", "kill", "flock",
)  # fmt: skip
TRACE = "/run/faults.trace"
ERRORS = ("ENOSPC", "EIO", "EROFS", "EACCES", "EMFILE")
KILL = "SIGKILL"
OPENING = ("open", "openat", "creat")
WRITES = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC)")
LINE = re.compile(r"^(\w+)\((.*)$")
VOLATILE = re.compile(r"[0-9a-f]{32}|\d{8}T\d{6}Z|(?<=/tmp/)\w+|since [^\"]*|process \d+")


@dc.dataclass(frozen=True)
class Point:
    """One system call of the hands: its name, which one of that name it is, and what it is about."""

    call: str
    number: int
    text: str

    def fault(self, how: str) -> list[str]:
        kind = f"signal={how}" if how.startswith("SIG") else f"error={how}"
        return strace("-e", f"inject={self.call}:{kind}:when={self.number}")


def strace(*more: str) -> list[str]:
    return ["strace", "-y", "-o", TRACE, "-e", "trace=" + ",".join(f"?{name}" for name in CALLS), *more]


def points(trace: str) -> list[Point]:
    """The calls in a trace that change a file or start a process."""
    seen: Counter[str] = Counter()
    found = []
    for line in trace.splitlines():
        match = LINE.match(line)
        if not match or match[1] not in CALLS:
            continue
        seen[match[1]] += 1
        if match[1] not in OPENING or WRITES.search(match[2]):
            found.append(Point(match[1], seen[match[1]], VOLATILE.sub("~", match[2].partition(" = ")[0])[:160]))
    return found


@dc.dataclass(frozen=True)
class Try:
    """One struck transaction, and what came of it."""

    point: Point
    how: str
    by: str  # who takes back what the struck one leaves: systemd | timer | next
    at_once: str  # old | new | mixed | torn: the files, when the struck run is over
    found: str  # old | new | half: files and engine, after it was taken back
    after: str  # the same after the next run
    back: str  # old | half: once more, after state: absent
    hit: bool  # whether the blow was struck at all
    litter: tuple[str, ...]  # what lies about afterwards, and does not when nothing happens
    said: tuple[str, ...]  # by the struck run, the next one and the one that takes everything back

    @property
    def fine(self) -> bool:
        return self.at_once != "torn" and {self.found, self.after} <= {"old", "new"} and self.back == "old" and not self.litter

    def __str__(self) -> str:
        where = f"{self.how} at {self.point.call} #{self.point.number} ({self.point.text[:80]})"
        lies = f", left behind: {', '.join(self.litter[:3])}" if self.litter else ""
        way = f"{self.at_once}, by {self.by} {self.found}, next run {self.after}, absent {self.back}"
        return f"{where}: {way}{lies}; said: {' | '.join(self.said)}"


@dc.dataclass(frozen=True)
class Sides:
    """The host before a transaction, and after one that went well."""

    old: State
    new: State

    @property
    def paths(self) -> list[str]:
        names = {*self.old.files, *self.new.files}
        return sorted(p for p in names if self.old.files.get(p) != self.new.files.get(p) and not is_journal(p) and not self._folder(p))

    def _folder(self, path: str) -> bool:
        """A directory that came with a file; it may be there without it."""
        return any((state.files.get(path) or "").startswith("4") for state in (self.old, self.new))

    def files(self, now: State) -> str:
        found = now.of(self.paths)
        if found == self.old.of(self.paths):
            return "old"
        if found == self.new.of(self.paths):
            return "new"
        whole = all(entry in (self.old.files.get(path), self.new.files.get(path)) for path, entry in found.items())
        return "mixed" if whole else "torn"

    def verdict(self, now: State) -> str:
        """Old or new, with an engine that serves just that; else half."""
        files = self.files(now)
        if not now.serves:
            return f"half: {files} files, and the engine does not serve"
        if files in ("mixed", "torn"):
            return f"half: {files} files"
        if now.nvidia != (files == "new"):
            return f"half: {files} files, and the engine runs with the others"
        return files


def is_journal(path: str) -> bool:
    return path.startswith("/var/lib/gpufleet/") and not path.endswith("decision.json")


def sides(victim: Victim, traced: str = "hands") -> tuple[Sides, list[Point]]:
    """Both sides of the transaction, and the calls on the way; the host is on the old side again."""
    old = victim.look()
    assert old.serves, f"{victim.name}: the engine does not serve"
    done = victim.run(strace(), traced=traced)
    assert not done.failed, done
    found = points(victim.shell(f"cat {TRACE}"))
    new = victim.look()
    both = Sides(old, new)
    assert (both.verdict(old), both.verdict(new)) == ("old", "new")
    victim.put_back(old, new)
    return both, found


# Who is struck, and who takes back what they leave.
WAYS = {"systemd": "hands", "timer": "alone", "next": "alone", "caller": "caller"}


def strike(victim: Victim, both: Sides, point: Point, how: str, by: str = "systemd") -> Try:
    """One try; the host is on the old side again afterwards."""
    struck = victim.run(point.fault(how), traced=WAYS[by])
    hit = victim.shell(f"grep -c 'INJECTED\\|killed by SIGKILL' {TRACE}", fails=True).strip() != "0"
    at_once = victim.look()
    found = at_once
    if by == "timer":
        victim.timer()
        found = victim.look()
    again = victim.run()
    after = victim.look()
    undone = victim.run(policy=ABSENT)
    back = victim.look()
    victim.put_back(both.old, back)
    litter = {*after.litter([both.old.files, both.new.files]), *back.litter([both.old.files])}
    said = tuple(outcome.words[:300] for outcome in (struck, again, undone))
    judged = both.verdict(after if by in ("next", "caller") else found)
    return Try(point, how, by, both.files(at_once), judged, both.verdict(after), both.verdict(back), hit, tuple(sorted(litter)), said)


def sweep(victim: Victim, hows: Sequence[str], by: str = "systemd", step: int = 1, first: int = 0) -> Iterator[Try]:
    """Every step-th call, struck in every way."""
    both, found = sides(victim, "caller" if by == "caller" else "hands")
    for how in hows:
        for point in found[first::step]:
            yield strike(victim, both, point, how, by)


def totals(tries: Sequence[Try]) -> Mapping[str, int]:
    """What there is to print: tries, and what the host was like after what they left was taken back."""
    kinds = Counter(found.found if found.fine else "half" for found in tries)
    return {"tried": len(tries), "old": kinds["old"], "new": kinds["new"], "half": kinds["half"]}
