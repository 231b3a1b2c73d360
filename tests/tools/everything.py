# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run everything, and end with a closing line like pytest's.

    everything.py [--fast|--matrix|--nightly] [PART...]   without a name: all parts of `make check`, `matrix`, `nightly` or `test`

What the parts need is built before they begin (build.py), so that no part's time limit counts it.
Parts run side by side as far as the processors go: a test on hosts waits for two thirds of its time. One
line tells when a part begins and when it has ended. What a part prints goes to .cache/test-logs; of
a part that fails it is shown, at once and whole. The others go on, so that one run shows all that
is wrong.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import queue
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from environments import ROOT
from parts import LOGS, Part, check, matrix, name_file, nightly, parts

TABLES = {"--fast": check, "--matrix": matrix, "--nightly": nightly}
# seconds; a part that hangs ends before a run that should take 20 minutes has taken an hour
LIMIT = 20 * 60.0
NIGHT = 3 * 3600.0  # the same of a nightly run
GRACE = 60.0  # seconds that a part has to take its hosts down
# pytest's closing line without its frame: "2 failed, 7912 passed in 2248.83s (0:37:28)"
CLOSING = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s\b", re.MULTILINE)
# A file system in memory. Transactions wait for their bytes to be on a disk: some hundred times in a test.
IN_MEMORY = Path("/dev/shm")
# characters of a failed part's log that are shown besides the summary; the file has all
LAST_WORDS = 12000


@dataclass(frozen=True)
class Ended:
    """A part that has run."""

    part: Part
    status: int
    seconds: float
    words: str
    # seconds of its processes; what daemons of the lab's hosts use is not in it
    processor: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status == 0


def count_outcomes(words: str) -> Counter[str]:
    """Read pytest's closing line: how many tests passed, failed, ..."""
    found = CLOSING.findall(words)
    pairs = re.findall(r"(\d+) ([a-z]+)", found[-1]) if found else []
    return Counter(
        {
            word if word != "error" else "errors": int(count)
            for count, word in pairs
            if not word.startswith("warning")
        }
    )


def format_minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def tie_to_this_process(command: Sequence[str]) -> list[str]:
    """Return a command that is interrupted when this process dies, however it dies. Tests then take
    their hosts down.
    """
    return [*(["setpriv", "--pdeathsig", "INT", "--"] if shutil.which("setpriv") else []), *command]


def build_environment() -> dict[str, str]:
    """Return the user's environment, with compiled modules kept.

    Otherwise each of some thousand runs of ansible-playbook compiles the collection again.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextlib.contextmanager
def make_folder_in_memory() -> Iterator[Path | None]:
    """Make a folder for the files of unit tests, and remove it afterwards. Give None where there is
    no file system in memory, or none that programs can be run from.
    """
    try:
        folder = tempfile.TemporaryDirectory(
            prefix="gpufleet-", dir=IN_MEMORY, ignore_cleanup_errors=True
        )
    except OSError:
        yield None
        return
    with folder as place:
        program = Path(place, "program")
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        try:
            subprocess.run([program], check=True)
        except (OSError, subprocess.CalledProcessError):
            yield None
        else:
            yield Path(place)


def build(*arguments: str) -> bool:
    """Build what the parts need and have them build nothing themselves, so that neither their time
    nor the run's counts it.

    arguments: those of build.py.
    """
    print(
        "=== build: what is missing, before the parts begin (`make build` does this alone)",
        flush=True,
    )
    begin = time.monotonic()
    built = subprocess.run(
        tie_to_this_process([sys.executable, str(ROOT / "tests/tools/build.py"), *arguments]),
        cwd=ROOT,
        env=build_environment(),
        check=False,
    )
    os.environ["GPUFLEET_LAB_BUILD"] = "never"
    verdict = "FAILED" if built.returncode else "passed"
    print(
        f"=== build: {verdict} in {format_minutes(time.monotonic() - begin)}; the times below begin now, without it",
        flush=True,
    )
    return built.returncode == 0


@contextlib.contextmanager
def take_interrupts() -> Iterator[None]:
    """Take interrupts meanwhile, and let the started parts take them.

    A shell has background processes ignore interrupts, and they hand that on to what they start.
    Parts are ended by an interrupt.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Run:
    """A run of parts, as many at once as the processors and the memory (gigabytes) allow.

    limit: seconds after which a part is ended.
    """

    def __init__(
        self,
        wanted: Sequence[Part],
        processors: float,
        memory: float = math.inf,
        logs: Path = LOGS,
        limit: float = LIMIT,
    ) -> None:
        self.waiting = list(wanted)
        self.processors, self.memory = processors, memory
        self.logs = logs
        self.limit = limit
        self.running: dict[str, tuple[Part, subprocess.Popen[bytes], float]] = {}
        self.ended: queue.Queue[str] = queue.Queue()
        self.spent: dict[str, float] = {}
        self.folder: Path | None = None  # in memory, for the files of unit tests
        self.begin = time.monotonic()

    def all(self) -> list[Ended]:
        """Run all parts, report how each begins and ends, and return what came of them. An
        interrupt ends the parts that run.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        for report in self.logs.glob("*.xml"):  # of durations, from an earlier run
            report.unlink()
        found = []
        with take_interrupts(), make_folder_in_memory() as self.folder:
            try:
                while self.waiting or self.running:
                    self._start_what_fits()
                    found.append(self._next())
                    self._tell(found[-1])
            except BaseException:
                self._stop()
                raise
        return found

    def _start_what_fits(self) -> None:
        for part in list(self.waiting):
            others = [running for running, _process, _begin in self.running.values()]
            load, memory = (
                part.load + sum(one.load for one in others),
                part.memory + sum(one.memory for one in others),
            )
            if not others or (load <= self.processors and memory <= self.memory):
                self.waiting.remove(part)
                self._start(part)

    def _start(self, part: Part) -> None:
        print(
            f"[{format_minutes(time.monotonic() - self.begin):>6}] begins  {part.name}", flush=True
        )
        with self._log(part).open("wb") as log:
            # The main thread starts it: that thread's end is what a tied process notices.
            process = subprocess.Popen(
                tie_to_this_process(part.command),
                cwd=ROOT,
                env={**build_environment(), **self._place_of_files(part)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running[part.name] = (part, process, time.monotonic())
        threading.Thread(target=self._wait, args=(part, process), daemon=True).start()

    def _place_of_files(self, part: Part) -> dict[str, str]:
        """Return the variable that tells pytest where a part with unit tests has its files."""
        has_such = any(word.startswith("tests/unit") for word in part.command)
        return {"PYTEST_DEBUG_TEMPROOT": str(self.folder)} if has_such and self.folder else {}

    def _wait(self, part: Part, process: subprocess.Popen[bytes]) -> None:
        if not await_end(process, self.limit):
            signal_group(process, signal.SIGINT)
            await_end(process, GRACE)
        self.spent[part.name] = read_processor_seconds(process.pid)
        finish(process)
        self.ended.put(part.name)

    def _next(self) -> Ended:
        part, process, begin = self.running.pop(self.ended.get())
        seconds = time.monotonic() - begin
        words = self._log(part).read_text(errors="replace")
        if seconds >= self.limit:
            words += f"\n{part.name} was ended: it did not come to an end within {format_minutes(self.limit)} minutes\n"
        return Ended(
            part,
            process.returncode or (1 if seconds >= self.limit else 0),
            seconds,
            words,
            self.spent[part.name],
        )

    def _tell(self, one: Ended) -> None:
        what = "".join(f", {count} {word}" for word, count in count_outcomes(one.words).items())
        verdict = "passed" if one.passed else "FAILED"
        print(
            f"[{format_minutes(time.monotonic() - self.begin):>6}] {verdict}  {one.part.name}: "
            f"{format_minutes(one.seconds)} ({format_minutes(one.processor)} of a processor){what}",
            flush=True,
        )
        if not one.passed:
            print(
                f"----- {one.part.name} ended with status {one.status}; all it said is in {self._log(one.part)}"
            )
            print(f"{one.words[-LAST_WORDS:].rstrip()}\n----- end of {one.part.name}", flush=True)

    def _stop(self) -> None:
        running = [process for _part, process, _begin in self.running.values()]
        for process in running:
            signal_group(process, signal.SIGINT)
        for process in running:
            finish(process)

    def _log(self, part: Part) -> Path:
        return self.logs / name_file(part.name, "log")


def await_end(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait until a process has ended, and leave it to be reaped. Return whether it has.

    seconds: how long to wait at most.
    """
    handle = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(handle)


def read_processor_seconds(pid: int) -> float:
    """Return the processor time of a child that is not reaped yet, with that of its reaped children.

    Return 0 if an interrupted run has reaped it. proc(5): utime, stime, cutime and cstime, in ticks
    of a clock.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for a part that was interrupted, and kill what is left after its time to tidy up.

    A second interrupt would disturb the tidying.
    """
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGKILL)
        process.wait()


def list_closing_lines(found: Sequence[Ended], seconds: float) -> list[str]:
    """Return the table of all parts, what failed, and the total of the tests that are counted once."""
    lines = ["", "=== parts"]
    lines += [
        f"{one.part.name:18} {'passed' if one.passed else 'FAILED'}  {format_minutes(one.seconds):>6}"
        f"  {format_minutes(one.processor):>6} of a processor"
        for one in found
    ]
    failed = [one for one in found if not one.passed]
    if failed:
        lines += ["", "=== failures"]
        for one in failed:
            lines += [
                line for line in one.words.splitlines() if line.startswith(("FAILED ", "ERROR "))
            ]
        lines.append(
            f"FAILED: {', '.join(one.part.name for one in failed)} (see above, and .cache/test-logs)"
        )
    total: Counter[str] = Counter()
    for one in found:
        if one.part.counted:
            total += count_outcomes(one.words)
    counts = ", ".join(f"{total[word]} {word}" for word in sorted(total) if total[word])
    return [
        *lines,
        f"{counts or 'no tests ran'} in {seconds:.2f}s ({datetime.timedelta(seconds=int(seconds))})",
    ]


def stop(number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt(number)


def main(arguments: Sequence[str]) -> int:
    """Run the named parts, or all, and sum up."""
    table = next((TABLES[word] for word in arguments if word in TABLES), parts)
    known = {part.name: part for part in table()}
    names = [word for word in arguments if word not in TABLES]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(
            f"everything.py: there is no part {', '.join(unknown)}; there are: {', '.join(known)}",
            file=sys.stderr,
        )
        return 2
    signal.signal(signal.SIGTERM, stop)
    processors = len(os.sched_getaffinity(0))
    wanted = [known[name] for name in names] or list(known.values())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    if table is nightly:
        os.environ.setdefault("GPUFLEET_DRAW", "full")
    built_for = {parts: (), nightly: ("--night",), check: ("--fast",)}
    if table in built_for and not names and not build(*built_for[table]):
        print(
            "everything.py: the build has failed, so no part was run; its own words are above",
            file=sys.stderr,
        )
        return 1
    run = Run(wanted, processors, memory, limit=NIGHT if table is nightly else LIMIT)
    print(
        f"{len(wanted)} parts on {processors} processors, {memory:.0f} GB; what each says goes to {LOGS.relative_to(ROOT)}",
        flush=True,
    )
    try:
        found = run.all()
    except KeyboardInterrupt:
        print(
            "stopped; the parts that ran have been ended, and their hosts are taken down",
            file=sys.stderr,
        )
        return 130
    print("\n".join(list_closing_lines(found, time.monotonic() - run.begin)), flush=True)
    return 0 if all(one.passed for one in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
