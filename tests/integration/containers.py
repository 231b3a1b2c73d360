# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers with CDI devices, started on a lab host as that engine's users start them: through
CRI, with docker, with podman.
"""

from __future__ import annotations

import dataclasses as dc
import json
import re
import shlex
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test import (
    entry as container_test_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    runtime_words,
)

from tests.lab import images, seed
from tests.lab.lab import Lab

ROOTLESS = seed.OPERATOR
# the machine may be busy, and crictl waits for two seconds unless told
CRICTL = "/opt/lab/bin/crictl --timeout 60s"
POD = {
    "metadata": {"name": "pod", "uid": "pod", "namespace": "cdi", "attempt": 0},
    "linux": {"security_context": {"namespace_options": {"network": 2}}},
}
CRI_CONTAINER = {
    "metadata": {"name": "c"},
    "image": {"image": images.PROBE},
    "command": ["/bin/sleep", "600"],
    "linux": {"security_context": {"capabilities": {"add_capabilities": ["MKNOD"]}}},
}
# One pod for all containers of a host: CRI-O lets a pod's first process live on until the client's
# patience ends.
CRI = """
cd /run
printf %s "$1" > cdi-container.json
printf %s "$2" > cdi-pod.json
[ -s cdi-pod ] || {crictl} runp cdi-pod.json > cdi-pod || exit
container=$({crictl} create --no-pull "$(cat cdi-pod)" cdi-container.json cdi-pod.json) || exit
trap '{crictl} rm --force "$container" >/dev/null' EXIT
{crictl} start "$container" >/dev/null || exit
shift 2
{crictl} exec "$container" "$@"
"""
PARTS = ("env", "cat /proc/self/mountinfo")
ENDED_EARLY = re.compile("|".join(runtime_words.EARLY))


@dc.dataclass(frozen=True)
class Inside:
    """The content of one container. `refused` is the engine's sentence if the container did not
    start.
    """

    # Path -> ENXIO (allowed, no driver behind it), EPERM and so on; a node that is not there was
    # made by the container itself.
    nodes: Mapping[str, str] = dc.field(default_factory=dict)
    listed: tuple[str, ...] = ()
    environment: Mapping[str, str] = dc.field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    output: str = ""
    refused: str = ""


Node = tuple[str, int, int]


def start(
    lab: Lab,
    host: str,
    devices: Sequence[str],
    nodes: Sequence[Node] = (),
    more: str = "",
    *,
    account: str = "root",
) -> Inside:
    """Start a container with these CDI devices and try all these nodes in it.

    more: a script whose output is kept. As in a verification, a container whose runtime ended
    before it had read the configuration is started again.
    """
    argv = command(lab.host(host).spec.kind, devices, trial(nodes, more), account)
    for _try in range(container_test_entry.TRIES):
        done = lab.exec(host, argv)
        if not done.returncode or not ENDED_EARLY.search(done.stdout + done.stderr):
            break
    if done.returncode:
        return Inside(refused=(done.stderr or done.stdout).strip() or f"status {done.returncode}")
    return read(done.stdout)


def trial(nodes: Sequence[Node], more: str = "") -> list[str]:
    """Return the command in the container, whose output `read` understands."""
    numbers = [str(word) for node in nodes for word in node]
    script = "\necho ==\n".join((container_test_entry.SCRIPT, *PARTS, more))
    return ["sh", "-c", script, "probe", "/dev/nvidia* /dev/nvidia-caps/* /dev/dri/*", *numbers]


def command(
    kind: str, devices: Sequence[str], inside: Sequence[str], account: str = "root"
) -> list[str]:
    """Return the command that starts a container on a host of this kind."""
    client = kind.partition("-")[0]
    if client not in ("docker", "podman"):
        wanted = {**CRI_CONTAINER, "CDI_devices": [{"name": name} for name in devices]}
        return [
            "sh",
            "-c",
            CRI.format(crictl=CRICTL),
            "cri",
            json.dumps(wanted),
            json.dumps(POD),
            *inside,
        ]
    given = [word for name in devices for word in ("--device", name)]
    plain = [
        client,
        "run",
        "--rm",
        "--pull=never",
        "--network=host",
        "--cap-add=MKNOD",
        *given,
        images.PROBE,
        *inside,
    ]
    return plain if account == "root" else ["runuser", "-l", account, "-c", shlex.join(plain)]


def read(text: str) -> Inside:
    tried, environment, mounts, output = text.split("==\n", 3)
    lines = [line.split("|", 2) for line in tried.splitlines()]
    return Inside(
        nodes={path: errno(message) for kind, path, message in lines if kind != "listed"},
        listed=tuple(sorted(path for kind, path, _message in lines if kind == "listed")),
        environment=dict(line.split("=", 1) for line in environment.splitlines() if "=" in line),
        mounts=tuple(line.split()[4] for line in mounts.splitlines()),
        output=output,
    )


def errno(message: str) -> str:
    """Return an error's message as a name. A node that the container may not even make has EPERM."""
    return next(
        (name for words, name in container_test_entry.ERRNOS if words in message.lower()), message
    )
