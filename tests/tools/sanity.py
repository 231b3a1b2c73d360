# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-test's sanity tests, without any ignore file, on every ansible-core that an
interpreter is at hand for.

    sanity.py [2.16 ... 2.21 2.21-whole]     judges the files that users get; `-whole` judges all tracked files
    sanity.py --prepare                      makes what 2.21 needs for it, and judges nothing

ansible-test wants the collection at .../ansible_collections/<namespace>/<name> and takes its list
of files from git, so each run gets a copy that is a repository of its own. Users run the older
releases on what they get, and what else is here runs with the newest: so that one alone judges all
files. A result is kept by the hash of the files: a re-run costs nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import clean_runs
import environments
import yaml
from environments import CACHE, ROOT
from tracked import list_tracked_files

CORES = ("2.16", "2.17", "2.18", "2.19", "2.20", "2.21")
WHOLE = "-whole"
# The newest release judges the files that users get in `make check`, and all files in `make matrix`.
SETS = (*CORES, f"{CORES[-1]}{WHOLE}")
# It takes more than half of the time, and finds style where ruff and mypy find none. `make matrix`, which
# a pull request runs, has it judge all files.
BY_DAY = ("--skip-test", "pylint")
PLACE = CACHE / "sanity"
CONFIG = Path("tests/config.yml")

# ansible-test makes virtual environments without pip, then runs a script that it downloads from a
# host of its own. Where only package indexes can be reached that fails, but a file that lies ready
# in its cache is taken instead: this one asks the pip that came with Python. As processes of their
# own, since ensurepip blanks pip's configuration in the process that it runs in.
GET_PIP = """\
import subprocess
import sys

wanted = [item for item in sys.argv[1:] if item not in ("--no-setuptools", "--no-wheel")]
subprocess.check_call([sys.executable, "-m", "ensurepip", "--upgrade"])
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install"] + wanted))
"""

# ansible-test clears the environment, so what the user told pip by variables has to be told by a
# file.
PIP_SETTINGS = (
    "cert",
    "extra-index-url",
    "find-links",
    "index-url",
    "proxy",
    "timeout",
    "trusted-host",
)


def shipped(files: Iterable[Path]) -> list[Path]:
    """Leave out what galaxy.yml keeps out of the archive; that file itself stays, since
    ansible-test reads it.

    So does tests/config.yml, which tells it the Pythons of hosts: 2.16 demands the marks of code
    for Python 2 without it. And so does .gitignore: 2.19 judges its own environment below
    tests/output as well, unless git ignores that.
    """
    kept = {Path(".gitignore"), CONFIG}
    ignored = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
    return [
        path
        for path in files
        if path in kept
        or not any(
            fnmatch.fnmatch(part, rule) for part in (str(path), path.parts[0]) for rule in ignored
        )
    ]


def fingerprint(files: Iterable[Path], core: str, python: Path) -> str:
    """Hash what a result depends on."""
    digest = hashlib.sha256(f"{core} {python} {environments.fingerprint(group(core))}".encode())
    for path in files:
        digest.update(f"\0{path}\0{(ROOT / path).stat().st_mode & 0o111:o}\0".encode())
        digest.update((ROOT / path).read_bytes())
    return digest.hexdigest()


def group(core: str) -> str:
    """Name the group of requirements of a release."""
    return f"sanity-{core.replace('.', '-')}"


def copy(files: Iterable[Path], name: str) -> Path:
    """Make a repository of the files of one set at the place that ansible-test demands."""
    target = PLACE / name / "ansible_collections" / "gpufleet" / "nvidia"
    shutil.rmtree(target, ignore_errors=True)
    for path in files:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target / path)
    make_repository(target)
    return target


def make_repository(target: Path) -> None:
    """Make a folder a repository with all of its files, whatever repository the caller works on."""
    with clean_runs.own_git_settings() as settings:
        environment = {**clean_runs.build_git_environment(os.environ), **settings}
        for words in (("init", "-q"), ("add", "-A")):
            subprocess.run(["git", *words], cwd=target, check=True, env=environment)


def prepare_home(programs: Path, home: Path) -> None:
    """Fill the home folder that ansible-test gets, one for each release, as they run side by side:
    pip's stand-in and pip's settings.
    """
    requirements = next(
        programs.parent.glob(
            "lib/python*/site-packages/ansible_test/_internal/python_requirements.py"
        )
    )
    version = re.search(r"\bpip='([0-9.]+)'", requirements.read_text())
    if version is None:
        raise SystemExit(
            f"sanity.py: {requirements} does not name pip's version any more; look there how it gets pip now"
        )
    stand_in = home / ".ansible" / "test" / "cache" / f"get_pip_{version[1].replace('.', '_')}.py"
    stand_in.parent.mkdir(parents=True, exist_ok=True)
    stand_in.write_text(GET_PIP)
    told = subprocess.run(
        [programs / "python", "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    settings = dict(re.findall(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$", told, re.MULTILINE))
    lines = [f"{key} = {value}" for key, value in settings.items() if key in PIP_SETTINGS]
    config = home / ".config" / "pip" / "pip.conf"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.touch(mode=0o600)
    config.write_text("\n".join(["[global]", "quiet = 1", *lines, ""]))


def search_path(programs: Path, python: Path) -> str:
    """Return a PATH on which every interpreter is a real one.

    A version manager's shims answer for versions that are not there.
    """
    rest = [item for item in os.environ["PATH"].split(os.pathsep) if "/shims" not in item]
    return os.pathsep.join([str(programs), str(python.parent), *rest])


@dataclass(frozen=True)
class Tester:
    """An ansible-test that is installed, the Python that it tests with, and its home folder."""

    programs: Path
    python: Path
    home: Path

    @property
    def version(self) -> str:
        return ".".join(re.findall(r"\d+", self.python.name)[:2])

    def run(self, target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the sanity tests in a copy, with further arguments, and return what came of it."""
        command = [str(self.programs / "ansible-test"), "sanity", "--venv", "--color", "no"]
        return subprocess.run(
            [*command, "--python", self.version, *arguments],
            cwd=target,
            env={
                **clean_runs.build_git_environment(os.environ),
                "HOME": str(self.home),
                "PATH": search_path(self.programs, self.python),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def find_tester(core: str) -> Tester:
    """Return the ansible-test of a release, after making its environment if that is missing.

    Raise NoInterpreter if no Python for it is at hand.
    """
    python = environments.interpreter(group(core))
    return Tester(environments.ensure(group(core)), python, PLACE / core / "home")


def prepare() -> None:
    """Make the environments that the newest ansible-test has for its tests.

    It makes them in its first run otherwise, which takes half a minute of a processor. If it cannot,
    that run tells why. Raise NoInterpreter if no Python for it is at hand.
    """
    core = CORES[-1]
    tester = find_tester(core)
    with lock(core):
        prepare_home(tester.programs, tester.home)
        tester.run(copy(shipped(list_tracked_files()), core), "--prime-venvs")


def run(name: str, files: list[Path]) -> bool:
    """Run one set's tests, or take the result that is there, and print one line."""
    core = name.removesuffix(WHOLE)
    what = f"sanity on ansible-core {core}{', all files' if name != core else ''}"
    try:
        tester = find_tester(core)
    except environments.NoInterpreter as error:
        print(f"{what}: not run here, {error}", flush=True)
        return True
    place = PLACE / name
    place.mkdir(parents=True, exist_ok=True)
    kept = place / "passed"
    arguments = BY_DAY if name == CORES[-1] else ()
    key = " ".join((fingerprint(files, core, tester.python), *arguments))
    if kept.exists() and kept.read_text() == key:
        print(f"{what}, Python {tester.version}: passed (nothing changed since)", flush=True)
        return True
    prepare_home(tester.programs, tester.home)
    start = time.monotonic()
    finished = tester.run(copy(files, name), *arguments)
    (place / "log").write_text(finished.stdout)
    count = len(re.findall(r"^Running sanity test", finished.stdout, re.MULTILINE))
    passed = finished.returncode == 0
    if passed:
        kept.write_text(key)
    else:
        print(
            "\n".join(
                line
                for line in finished.stdout.splitlines()
                if line.startswith(("ERROR", "FATAL", "WARNING"))
            )
        )
        print(f"(all of its words: {(place / 'log').relative_to(ROOT)})")
    verdict = "passed" if passed else "FAILED"
    print(
        f"{what}, Python {tester.version}: {verdict}, {count} tests, {time.monotonic() - start:.0f} s",
        flush=True,
    )
    return passed


def main(arguments: list[str]) -> int:
    """Run the named sets, or all, one after another; all of them, also after a failure."""
    if arguments == ["--prepare"]:
        prepare()
        return 0
    files = list_tracked_files()
    if any(path.match("tests/sanity/ignore*") for path in files):
        print("sanity.py: tests/sanity/ignore* is not welcome here: mend what it would hide")
        return 1
    # users get fewer files than there are
    names = arguments or [*CORES[:-1], SETS[-1]]
    results = [alone(name, files if name.endswith(WHOLE) else shipped(files)) for name in names]
    return 0 if all(results) else 1


@contextlib.contextmanager
def lock(core: str) -> Iterator[None]:
    """Let no second run of a release begin meanwhile.

    Two runs would take the copy and the home folder from under each other.
    """
    (PLACE / core).mkdir(parents=True, exist_ok=True)
    with (PLACE / core / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def alone(name: str, files: list[Path]) -> bool:
    """Run the tests of one set while no other run has its release."""
    with lock(name.removesuffix(WHOLE)):
        return run(name, files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
