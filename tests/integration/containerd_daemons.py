# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemon's own judgement of a configuration: whether it starts with these files, and whether
its CRI answers then.

`config dump` checks less: what stops CRI shows only when the daemon loads its plugins. Each daemon
has namespaces of its own for mounts and processes, with nothing of this machine's in `/etc`,
`/run`, `/opt` and `/var/lib`, and it ends with its caller. No container is started.
"""

from __future__ import annotations

import dataclasses as dc
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc.grpc_wire import CriError

from tests.integration import containerd_trees as trees

Judgement = Literal["serves CRI", "no CRI", "does not start"]
# Files of handlers (base_runtime_spec) need only be there.
OWN = """for d in /etc /run /opt /var/lib; do mount -t tmpfs tmpfs $d; done
while [ "$1" != -- ]; do mkdir -p "$(dirname "$1")"; echo '{"ociVersion": "1.0.2"}' > "$1"; shift; done
shift; exec "$@" """
BOOTED = "containerd successfully booted"
UNKNOWN = 2  # gRPC's code
MOST_QUESTIONS = 20_000


@dc.dataclass(frozen=True)
class Verdict:
    """A verdict on a configuration: what became of the daemon, and what it printed."""

    outcome: Judgement
    said: str


def judged(release: str, config: Path) -> Verdict:
    """Run a daemon of this release with this configuration until it has booted or ended."""
    specs = re.findall(r"base_runtime_spec = [\"'](/[^\"']+)", config.read_text())
    with tempfile.TemporaryDirectory(prefix="ctrd-", dir="/tmp") as home:
        flags = [
            "--config",
            str(config),
            "--root",
            f"{home}/root",
            "--state",
            f"{home}/state",
            "--address",
            f"{home}/c.sock",
        ]
        apart = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            OWN,
            "sh",
            *specs,
            "--",
        ]
        command = [*apart, str(trees.binary(release)), *flags]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as daemon:
            said, booted = [], False
            for line in daemon.stderr or ():
                said.append(line)
                if BOOTED in line:
                    booted = True
                    break
            try:
                serves = booted and _serves(f"{home}/c.sock")
            finally:
                daemon.kill()
        return Verdict(
            "serves CRI" if serves else "no CRI" if booted else "does not start", "".join(said)
        )


def _serves(socket: str) -> bool:
    """Ask until CRI has begun, and tell whether it has.

    CRI is there once its plugin is loaded, and answers that it is not initialized until it serves.
    """
    for _question in range(MOST_QUESTIONS):
        try:
            cri.ask_cri(socket, "Version", [], 20)
        except CriError as exc:
            # it has no CRI, or does not even listen without a plugin
            if exc.code in (
                cri.UNIMPLEMENTED,
                cri.UNAVAILABLE,
            ):
                return False
            if exc.code != UNKNOWN:
                raise
        else:
            return True
    raise TimeoutError(f"{MOST_QUESTIONS} answers, and CRI is not initialized")
