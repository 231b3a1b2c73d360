# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-test's sanity tests, without any ignore file, on every ansible-core that an
interpreter is at hand for.

    sanity.py [2.19 2.20 2.21]

ansible-test wants the collection at .../ansible_collections/<namespace>/<name> and takes its list
of files from git, so each release gets a copy that is a repository of its own: the newest release
of all tracked files, the others of those that users get, since what the older ones know of tests
the newest knows as well. A result is kept by the hash of those files: a re-run costs nothing.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import environments
import yaml
from environments import CACHE, ROOT

CORES = ("2.19", "2.20", "2.21")
PLACE = CACHE / "sanity"

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


def tracked() -> list[Path]:
    """Return the tracked files that are there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [Path(item) for item in listed.split("\0") if item and (ROOT / item).is_file()]


def shipped(files: Iterable[Path]) -> list[Path]:
    """Leave out what galaxy.yml keeps out of the archive; that file itself stays, since
    ansible-test reads it.

    So does .gitignore: 2.19 judges its own environment below tests/output as well, unless git
    ignores that.
    """
    kept = {Path(".gitignore")}
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


def copy(files: Iterable[Path], core: str) -> Path:
    """Make a repository of the tracked files at the place that ansible-test demands."""
    target = PLACE / core / "ansible_collections" / "gpufleet" / "nvidia"
    shutil.rmtree(target, ignore_errors=True)
    for path in files:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target / path)
    subprocess.run(["git", "init", "-q"], cwd=target, check=True)
    subprocess.run(["git", "add", "-A"], cwd=target, check=True)
    return target


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


def run(core: str, files: list[Path]) -> bool:
    """Run one release's tests, or take the result that is there, and print one line."""
    try:
        python = environments.interpreter(group(core))
        programs = environments.ensure(group(core))
    except environments.NoInterpreter as error:
        print(f"sanity on ansible-core {core}: not run here, {error}", flush=True)
        return True
    version = ".".join(re.findall(r"\d+", python.name)[:2])
    kept = PLACE / core / "passed"
    key = fingerprint(files, core, python)
    if kept.exists() and kept.read_text() == key:
        print(
            f"sanity on ansible-core {core}, Python {version}: passed (nothing changed since)",
            flush=True,
        )
        return True
    home = PLACE / core / "home"
    prepare_home(programs, home)
    target = copy(files, core)
    start = time.monotonic()
    finished = subprocess.run(
        [programs / "ansible-test", "sanity", "--venv", "--python", version, "--color", "no"],
        cwd=target,
        env={**os.environ, "HOME": str(home), "PATH": search_path(programs, python)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    (PLACE / core / "log").write_text(finished.stdout)
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
        print(f"(all of its words: {(PLACE / core / 'log').relative_to(ROOT)})")
    verdict = "passed" if passed else "FAILED"
    print(
        f"sanity on ansible-core {core}, Python {version}: {verdict}, {count} tests, {time.monotonic() - start:.0f} s",
        flush=True,
    )
    return passed


def main(cores: list[str]) -> int:
    """Run the named releases, or all, one after another; all of them, also after a failure."""
    files = tracked()
    if any(path.match("tests/sanity/ignore*") for path in files):
        print("sanity.py: tests/sanity/ignore* is not welcome here: mend what it would hide")
        return 1
    results = [
        alone(core, files if core == CORES[-1] else shipped(files)) for core in cores or CORES
    ]
    return 0 if all(results) else 1


def alone(core: str, files: list[Path]) -> bool:
    """Run the tests of one release, and let no second run of that release begin meanwhile.

    Two runs would take the copy from under each other.
    """
    (PLACE / core).mkdir(parents=True, exist_ok=True)
    with (PLACE / core / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return run(core, files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
