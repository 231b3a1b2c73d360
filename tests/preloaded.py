# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run Ansible's programs as forks of one process that has imported the planner and the libraries
that Ansible imports.

A run of ansible-playbook spends a third of its processor time on these imports. The planner is pure
and reads no setting, so a fork behaves as a process of its own does. Each run imports Ansible
itself, since Ansible reads its settings when it is imported.

Started as a program, this file is the process that is forked: for each line of its input it runs
one command in a fork, and prints the exit status.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
COLLECTIONS = ROOT / ".cache/collections"
PLANNER = "ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner"
# Libraries that Ansible imports, as far as they are installed.
OTHERS = (
    "concurrent.futures", "cryptography.hazmat.primitives.ciphers", "http.client", "jinja2.nativetypes", "jinja2.sandbox",
    "multiprocessing.queues", "urllib.request", "xml.dom.minidom", "yaml",
)  # fmt: skip
# Names of variables that Python itself reads when it starts.
AT_START = ("PYTHON", "LC_", "LANG", "TZ")
# The process starts with it, whatever a test sets meanwhile.
ENVIRONMENT = dict(os.environ)


def run(
    command: Sequence[str], place: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run one of Ansible's programs, and return the exit status and the output.

    place: the working directory.
    """
    if not can_be_forked(environment):
        return run_alone(command, place, environment)
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        told = [Path(folder, name) for name in ("stdout", "stderr")]
        asked = {
            "command": list(command),
            "place": str(place),
            "environment": dict(environment),
            "told": [str(path) for path in told],
        }
        server = start(threading.get_ident())
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(command, status, *(path.read_text() for path in told))


def run_alone(
    command: Sequence[str], place: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run it as a process of its own, as a user does."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=place,
        env=environment,
    )


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Tell whether a fork does the same: the collection is this checkout's, and Python would start
    with the same settings.
    """
    paths = [Path(path) for path in environment.get("ANSIBLE_COLLECTIONS_PATH", "").split(":")]
    own = next((path for path in paths if (path / "ansible_collections/gpufleet").exists()), None)
    read = [
        {name: text for name, text in those.items() if name.startswith(AT_START)}
        for those in (environment, ENVIRONMENT)
    ]
    return own == COLLECTIONS and read[0] == read[1]


@functools.cache
def start(_thread: int) -> subprocess.Popen[str]:
    """Start the process that is forked, one for each thread. It ends with its input, when this
    process ends.
    """
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    atexit.register(server.wait)
    assert server.stdin is not None
    atexit.register(server.stdin.close)
    return server


def preload() -> None:
    """Import the planner and the libraries.

    Forget the packages above the planner afterwards: Ansible makes packages of these names itself.
    """
    sys.path.insert(0, str(COLLECTIONS))
    planner = importlib.import_module(PLANNER)
    for module in pkgutil.walk_packages(planner.__path__, f"{PLANNER}."):
        importlib.import_module(module.name)
    for name in OTHERS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    sys.path.remove(str(COLLECTIONS))
    above = PLANNER.count(".")
    for name in [name for name in sys.modules if name.startswith("ansible_collections")]:
        if name.count(".") < above:
            del sys.modules[name]
    sys.path_importer_cache.clear()
    assert "ansible" not in sys.modules, "its settings are read when it is imported"
    gc.freeze()


def serve() -> list[str]:
    """Fork for each command, and return it in the fork. End with the input."""
    while line := sys.stdin.readline():
        asked = json.loads(line)
        child = os.fork()
        if not child:
            become(asked)
            return list(asked["command"])
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, flush=True)
    sys.exit(0)


def become(asked: Mapping[str, Any]) -> None:
    """Make this process what the command would begin with."""
    os.chdir(asked["place"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    files = [os.open(os.devnull, os.O_RDONLY)]
    files += [
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for path in asked["told"]
    ]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)


def main() -> NoReturn:
    preload()
    command = serve()
    sys.argv = command
    sys.path[0] = str(Path(command[0]).parent)
    runpy.run_path(command[0], run_name="__main__")
    sys.exit(0)


if __name__ == "__main__":
    main()
