# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control group of a lab: the handle by which all its processes are found and ended at once."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from .artefacts import LabError

PATIENCE = 15.0


def hierarchies() -> list[Path]:
    """Return the mount point of cgroup v2, then that of systemd's v1 hierarchy if there is one.

    systemd-nspawn mirrors its groups in the v1 hierarchy. LabError if no cgroup2 is mounted.
    """
    unified, mirrors = [], []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        where, kind, options = line.split(" ")[1:4]
        if kind == "cgroup2":
            unified.append(Path(where))
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            mirrors.append(Path(where))
    if not unified:
        raise LabError(
            "No cgroup2 file system is mounted, and the hosts' systemd needs one: mount -t cgroup2 none /sys/fs/cgroup/unified"
        )
    return [unified[0], *mirrors]


def make(name: str) -> Path:
    """Return the directory of a group, after making it and its parents."""
    path = hierarchies()[0] / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def kill(group: Path) -> None:
    """End every process of the group and of those below it, and wait until they are gone."""
    with contextlib.suppress(FileNotFoundError):
        (group / "cgroup.kill").write_text("1")
        for _turn in until(f"the processes in {group} to end"):
            if "populated 0" in (group / "cgroup.events").read_text():
                return


def remove(name: str) -> None:
    """End and remove a group with all below it, in every hierarchy."""
    unified, *mirrors = hierarchies()
    kill(unified / name)
    for home in (unified, *mirrors):
        for visit in os.walk(home / name, topdown=False):
            _remove_group(Path(visit[0]))


def _remove_group(path: Path) -> None:
    # The kernel keeps a group busy for a moment after its last process was reaped.
    for _turn in until(f"{path} to become free"):
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            continue
        return


def until(what: str, patience: float = PATIENCE, pause: float = 0.02) -> Iterator[int]:
    """Yield the turns of a loop that waits for a condition. LabError if the loop has not ended in
    time.

    pause: seconds between two looks; a look that starts a program is dearer than one at a file.
    """
    end = time.monotonic() + patience
    turn = 0
    while time.monotonic() < end:
        yield turn
        turn += 1
        time.sleep(pause)
    raise LabError(f"Waited {patience:.0f} seconds for {what}, in vain.")
