# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the planner in one place at a time, and name each change that no test notices.

    mutants.py [--count 200] [--seed 5] [--under engines/] [--key TEXT]

A first run of the planner's tests notes which function is executed by which test. Each mutant is
then judged by the tests that execute its function, those of its own package first, until one fails.
A mutant that no test notices is a survivor: it gets a test, or a row in equivalent_mutants.py that
says why nobody could notice. A survivor without a row fails the run.

The same seed takes the same mutants as long as their functions stay as they are. Files are never
changed: an import hook compiles the mutant. Where this runs as root, tests run as another account,
so that a mutant can write nothing but temporary files.

Two tools were tried first. mutmut 3.8 copies the project and cannot follow the link that makes a
checkout importable as a collection, and its wrappers break dataclasses with `total_ordering`.
cosmic-ray 8.7 finds the import path, but it changes files in place, changes annotations that
nothing evaluates, and judges every mutant by one command, which would take 200 mutants six hours.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from environments import CACHE, ROOT
from equivalent_mutants import EQUIVALENT
from mutations import PLANNER, Site, find_sites, sample

TESTS = ROOT / "tests/unit/plugins/plugin_utils"
JUDGE = ROOT / "tests/tools/mutant_judge.py"
PLACE = CACHE / "mutants"
# An account that may read whatever this one may, a Python in its home too, and write temporary
# files alone.
CAPABILITIES = "-all,+dac_read_search"
UNPRIVILEGED = (
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--pdeathsig=KILL", f"--bounding-set={CAPABILITIES}",
    f"--inh-caps={CAPABILITIES}", "--ambient-caps=+dac_read_search", "--",
)  # fmt: skip
GRACE = 30.0  # seconds that a judge gets on top of thrice the time its tests took before
OUT_OF_TIME = 124
NOTED = "\nNOTED "
FEW = 0.02  # part of the tests that may fail or be skipped without privileges
NOTHING_RUN = 5  # pytest's exit status
# tests that judge a constant of a module: whatever executes a function of that module may read it
ENOUGH = 300


@dataclass(frozen=True)
class Executed:
    """What a run without a mutant has noted: the tests of each function, and the seconds of each
    test.
    """

    tests: dict[str, list[str]]
    seconds: dict[str, float]

    def find_tests(self, site: Site) -> list[str]:
        """Return the tests that execute the function of a site, those of its own package first and
        quick ones before slow ones.
        """
        found = set(self.tests.get(f"{site.path}:{site.function}", ()))
        known = bool(found)
        if not known:  # it is executed while tests are collected, if at all
            found = {
                test
                for name, tests in self.tests.items()
                if name.startswith(f"{site.path}:")
                for test in tests
            }
        package = f"{TESTS.relative_to(ROOT)}/{site.path.rpartition('/')[0]}"
        ordered = sorted(
            found,
            key=lambda test: (not test.startswith(package), self.seconds.get(test, 0.0), test),
        )
        return ordered if known else ordered[:ENOUGH]


def build_command(*arguments: str) -> list[str]:
    """Return the command of a judge, which runs as an account that may write temporary files alone."""
    return [
        *(UNPRIVILEGED if os.geteuid() == 0 and shutil.which("setpriv") else []),
        sys.executable,
        str(JUDGE),
        *arguments,
    ]


def run_judge(order: dict[str, object], limit: float | None) -> tuple[int, str]:
    """Run a judge and return its exit status and its output. One that takes too long is ended with
    all that it has started.
    """
    with tempfile.TemporaryDirectory(prefix="gpufleet-mutant-") as folder:
        os.chmod(folder, 0o777)  # noqa: S103  the judge runs as another account
        path = Path(folder, "order.json")
        path.write_text(json.dumps({**order, "folder": folder}))
        path.chmod(0o644)
        environment = {
            **os.environ,
            "HOME": folder,
            "TMPDIR": folder,
            "PYTHONDONTWRITEBYTECODE": "1",
            "GPUFLEET_DRAW": "few",
        }
        process = subprocess.Popen(
            build_command(str(path)), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _none = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return OUT_OF_TIME, ""
        finally:  # also if this run is interrupted
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def fingerprint() -> str:
    """Hash the files that decide which test executes what."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in ("plugins/plugin_utils", "plugins/module_utils", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(f"\0{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def read_executed() -> Executed:
    """Return what each test executes, as it was noted before if no file has changed since."""
    kept, key = PLACE / "executed.json", fingerprint()
    noted = json.loads(kept.read_text()) if kept.exists() else {}
    if noted.get("key") != key:
        found = note_executed()
        kept.write_text(json.dumps({"key": key, "tests": found.tests, "seconds": found.seconds}))
        return found
    return Executed(noted["tests"], noted["seconds"])


def note_executed() -> Executed:
    """Run the planner's tests without a mutant and return what each executes. SystemExit if many of
    them fail.
    """
    _status, output = run_judge({"note": True, "files": [str(TESTS.relative_to(ROOT))]}, None)
    words, mark, notes = output.partition(NOTED)
    noted = json.loads(notes.splitlines()[0]) if mark else {"failed": [], "seconds": {}}
    if len(noted["failed"]) > FEW * len(noted["seconds"]) or not noted["seconds"]:
        raise SystemExit(f"mutants.py: the planner's tests fail without a mutant:\n{words[-3000:]}")
    print(
        f"{len(noted['seconds'])} tests, of which {len(noted['failed'])} judge nothing: {', '.join(noted['failed'][:5])}",
        flush=True,
    )
    return Executed(noted["tests"], noted["seconds"])


def judge(site: Site, executed: Executed) -> str:
    """Return the test that notices a mutant; '' if none does."""
    tests = executed.find_tests(site)
    if not tests:
        return ""
    limit = GRACE + 3 * sum(executed.seconds.get(test, 0.0) for test in tests)
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    order = {"path": site.path, "index": site.index, "tests": tests, "files": files}
    status, output = run_judge(order, limit)
    if status == 0:
        return ""
    if status == NOTHING_RUN:
        raise SystemExit(f"mutants.py: none of the tests of {site.key} were found: {tests[:3]}")
    failed = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return (
        failed[0] if failed else ("a time limit" if status == OUT_OF_TIME else f"status {status}")
    )


def judge_all(sites: Sequence[Site], executed: Executed) -> Iterator[tuple[Site, str]]:
    """Yield each mutant with the test that notices it, and print one line for each."""
    for number, site in enumerate(sites, 1):
        begin = time.monotonic()
        noticed = judge(site, executed)
        verdict = "noticed " if noticed else ("known   " if site.key in EQUIVALENT else "SURVIVED")
        print(
            f"[{number:>3}/{len(sites)}] {verdict} {time.monotonic() - begin:4.0f} s  {site.path}:{site.line} {site.key}",
            flush=True,
        )
        yield site, noticed


def main(arguments: Sequence[str]) -> int:
    """Judge a sample of mutants and name the ones that no test notices."""
    parser = argparse.ArgumentParser(
        prog="mutants.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200, help="how many mutants")
    parser.add_argument("--seed", type=int, default=5, help="which mutants")
    parser.add_argument(
        "--under", default="", help="only those of files whose path below the planner begins so"
    )
    parser.add_argument("--key", default="", help="only those whose key has this text, all of them")
    options = parser.parse_args(arguments)
    if not hasattr(sys, "monitoring"):
        print(
            f"mutants: not run here, this Python is {sys.version.split()[0]} and it takes 3.12 to note what a test executes"
        )
        return 0
    every = [site for site in find_sites(PLANNER) if site.path.startswith(options.under)]
    chosen = (
        [site for site in every if options.key in site.key]
        if options.key
        else sample(every, options.count, options.seed)
    )
    print(f"{len(chosen)} of {len(every)} mutants, seed {options.seed}", flush=True)
    PLACE.mkdir(parents=True, exist_ok=True)
    results = list(judge_all(chosen, read_executed()))
    survivors = [site for site, noticed in results if not noticed and site.key not in EQUIVALENT]
    stale = sorted(set(EQUIVALENT) - {site.key for site in find_sites(PLANNER)})
    known = sum(not noticed for _site, noticed in results) - len(survivors)
    print(
        f"{len(results)} mutants: {len(results) - known - len(survivors)} noticed, {known} equivalent, {len(survivors)} survived"
    )
    print(
        "".join(
            f"equivalent_mutants.py names a mutant that is not there any more: {key}\n"
            for key in stale
        ),
        end="",
    )
    (PLACE / "survivors.txt").write_text(
        "".join(f"{site.path}:{site.line}\t{site.key}\n" for site in survivors)
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
