# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What engines on the lab's hosts wrote to their journals, for the report of a test that failed.

A result shows only known words of an engine. The rest stays on the host, which is gone when
the tests are done.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.lab import claims, hosts
from tests.lab.artefacts import LabError
from tests.lab.lab import Lab

UNITS = ("containerd.service", "crio.service", "docker.service")
READ_LINES = 4000  # of a journal: its end
TOLD_LINES = 25
TOLD_HOSTS = 3
LINE = 1200  # characters of a line that are told
PATIENCE = 30.0  # seconds
# engines write a line for each step that went well
_WENT_WELL = re.compile(r"\blevel=(?:debug|info|warning)\b")


def tell_about_hosts(test: str, failure: str) -> list[tuple[str, str]]:
    """Return (title, lines) for each host that a failed test names, and for the kernel.

    test: the test's name with its parameters. If no host is in it, those in the failure count.
    """
    known = {host.spec.name: host for host in _list_hosts()}
    named = find_names(test, known) or find_names(failure, known)
    told = [
        (f"journal of the engines of {name}", _read_journal(known[name]))
        for name in named[:TOLD_HOSTS]
    ]
    return [*told, ("processes that the kernel ended", _read_kernel_log())] if told else []


def find_names(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that stand in a text as whole words, in the order of the text."""
    places = {
        name: found.start()
        for name in names
        if (found := re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))
    }
    return sorted(places, key=lambda name: places[name])


def choose_lines(journal: str) -> str:
    """Return the end of a journal without the lines of steps that went well."""
    kept = [line[:LINE] for line in journal.splitlines() if not _WENT_WELL.search(line)]
    return "\n".join(kept[-TOLD_LINES:])


def _list_hosts() -> Iterator[hosts.Host]:
    """Yield the hosts of the labs that this process has brought up."""
    for name, owner in claims.list_labs_of_checkout():
        if owner.pid == os.getpid():
            yield from Lab(name, Path(owner.home)).hosts().values()


def _read_journal(host: hosts.Host) -> str:
    units = [f"--unit={unit}" for unit in dict.fromkeys((host.kind.service, *UNITS))]
    command = ["journalctl", "--no-pager", "--output=short-precise", f"--lines={READ_LINES}"]
    try:
        return choose_lines(hosts.execute(host, [*command, *units], patience=PATIENCE).stdout)
    except LabError as why:
        return str(why)


def _read_kernel_log() -> str:
    said = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
    ended = [line for line in said.splitlines() if re.search(r"Killed process|oom-kill:", line)]
    return "\n".join(line[:LINE] for line in ended[-TOLD_LINES:])
