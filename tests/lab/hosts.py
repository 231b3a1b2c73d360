# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running host: boot, commands inside, loss of power, a disk that fills, and removal without a
trace.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import cgroup, network
from .artefacts import LabError, run
from .fleet import Spec, spec
from .kinds import KINDS, Kind

DISK_SIZE = "3g"
SUPERVISOR = Path(__file__).with_name("supervise.sh")
PATH_INSIDE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BOOT_PATIENCE = 90.0
UP = ("running", "degraded")
GROUPS = ("box", "exec")  # what the host runs, and the commands run in it from outside


@dataclass(frozen=True)
class Host:
    """A host that has been brought up. Everything that is known of it lies in its directory."""

    spec: Spec
    lab: str
    home: Path
    address: str
    machine_id: str

    @property
    def kind(self) -> Kind:
        return KINDS[self.spec.kind]

    @property
    def group(self) -> str:
        return f"{self.lab}/{self.spec.name}"

    @property
    def machine(self) -> str:
        return network.machine(self.spec.name)

    @property
    def seed(self) -> Path:
        return self.home / "seed"


def create(lab: str, home: Path, wanted: Spec, address: str) -> Host:
    """Reserve the directory and the address of a host."""
    host = Host(wanted, lab, home, address, uuid.uuid4().hex)
    (home / "disk").mkdir(parents=True)
    host.seed.mkdir()
    os.mkfifo(home / "control", 0o600)
    record = {
        "name": wanted.name,
        "spec": dict(wanted.entry),
        "address": address,
        "machine_id": host.machine_id,
    }
    (home / "host.json").write_text(json.dumps(record, indent=1))
    return host


def load(lab: str, home: Path) -> Host:
    """Return the host that lives in a directory."""
    record: dict[str, Any] = json.loads((home / "host.json").read_text())
    return Host(
        spec(record["name"], record["spec"]), lab, home, record["address"], record["machine_id"]
    )


def start(host: Host, lower: Sequence[Path]) -> None:
    """Let the supervisor mount the host's disk and boot it. Return at once."""
    group = cgroup.make(host.group)
    for name in GROUPS:
        cgroup.make(f"{host.group}/{name}")
    stack = ":".join(str(path) for path in (host.seed, *lower))
    arguments = [
        str(host.home),
        str(group),
        stack,
        DISK_SIZE,
        " ".join(host.kind.state),
        *_build_nspawn_command(host),
    ]
    environment = {
        "PATH": PATH_INSIDE,
        "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "1",  # engines write sysctls of their containers
        "SYSTEMD_SECCOMP": "0",
    }
    with (host.home / "console.log").open("ab") as console:
        subprocess.Popen(
            ["unshare", "--mount", "--propagation", "slave", "sh", str(SUPERVISOR), *arguments],
            stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True, env=environment, cwd="/",
        )  # fmt: skip


def _build_nspawn_command(host: Host) -> list[str]:
    binds = [f"--bind={host.home}/disk/state{path}:{path}" for path in host.kind.state]
    identity = [
        f"--machine={host.machine}",
        f"--hostname={host.spec.name}",
        f"--uuid={host.machine_id}",
    ]
    place = [f"--directory={host.home}/disk/root", f"--network-bridge={network.BRIDGE}", *binds]
    manners = [
        "--quiet",
        "--register=no",
        "--keep-unit",
        "--link-journal=no",
        "--console=passive",
        "--resolv-conf=off",
        "--timezone=off",
    ]
    return network.inside(
        host.lab, ["systemd-nspawn", "--boot", "--capability=all", *manners, *identity, *place]
    )


def first_process(host: Host) -> int | None:
    """Return the process ID of the host's init, as the machine sees it, or None while there is
    none.
    """
    try:
        pids = (
            (cgroup.hierarchies()[0] / host.group / "box/payload/init.scope/cgroup.procs")
            .read_text()
            .split()
        )
    except OSError:
        return None
    return int(pids[0]) if pids else None


def power(host: Host) -> str:
    """Return `on`, or `off` with the exit status of systemd-nspawn, or '' before the first boot."""
    try:
        return (host.home / "power").read_text().strip()
    except OSError:
        return ""


def wait(host: Host) -> None:
    """Return when the host has finished booting. LabError contains its console if it does not boot."""
    for _turn in cgroup.until(
        f"{host.spec.name} to boot; its console is {host.home}/console.log", BOOT_PATIENCE
    ):
        if not host.home.exists():
            raise LabError(f"The host {host.spec.name} was taken down while it booted.")
        if power(host).startswith("off"):
            raise LabError(
                f"The host {host.spec.name} did not boot ({power(host)}). The end of its console:\n{console(host)}"
            )
        with contextlib.suppress(LabError):  # its init may not have begun, or may just have ended
            if (
                execute(
                    host, ["systemctl", "is-system-running", "--wait"], patience=BOOT_PATIENCE
                ).stdout.strip()
                in UP
            ):
                return


def require_images(host: Host) -> None:
    """Raise LabError with the journal's lines if a host that was just made could not load its images.

    Otherwise each of its tests would fail, and none of them would name the cause.
    """
    unit = "lab-images.service"
    if execute(host, ["systemctl", "is-failed", "--quiet", unit]).returncode:
        return
    lines = execute(host, ["journalctl", "--boot", "--no-pager", "--output=cat", f"--unit={unit}"])
    raise LabError(f"The engine of {host.spec.name} took no images of the lab: {lines.stdout}")


def console(host: Host) -> str:
    """Return the end of the host's console, or '' if there is none."""
    try:
        return (host.home / "console.log").read_text(errors="replace")[-2000:]
    except OSError:
        return ""


def execute(
    host: Host, argv: Sequence[str], stdin: str | bytes | None = None, patience: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in the host as root and return its exit status and output.

    patience: seconds, after which LabError is raised.
    """
    given = stdin.encode() if isinstance(stdin, str) else stdin
    source: dict[str, Any] = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
    try:
        done = subprocess.run(
            entry(host, argv), capture_output=True, check=False, timeout=patience, **source
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )
    except subprocess.TimeoutExpired as why:
        raise LabError(
            f"The command {' '.join(argv)} on {host.spec.name} did not end within {patience} seconds."
        ) from why


def entry(host: Host, argv: Sequence[str]) -> list[str]:
    """Return the command line that enters all namespaces of the host. Its process ends with the
    host.
    """
    pid = first_process(host)
    if pid is None:
        raise LabError(
            f"The host {host.spec.name} is not running ({power(host) or 'never booted'}); 'boot' starts it again."
        )
    group = cgroup.hierarchies()[0] / host.group / "exec"
    clean = ["env", "-i", f"PATH={PATH_INSIDE}", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb"]
    join = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', f"{group}/cgroup.procs"]
    return [
        *join,
        "nsenter",
        "-t",
        str(pid),
        "-m",
        "-u",
        "-i",
        "-p",
        "-n",
        "-C",
        "-r",
        "-w",
        "--",
        *clean,
        *argv,
    ]


def kill(host: Host) -> None:
    """Take the power from the host: everything in it ends at once, and its disk stays."""
    # New groups for the next boot: the kernel also kills what systemd later spawns from a group
    # that was killed into one that was not. Commands from outside end first: one that sees the
    # host's own processes die must not go on for a moment in a host without power.
    for name in reversed(GROUPS):
        cgroup.remove(f"{host.group}/{name}")
    for _turn in cgroup.until(f"{host.spec.name} to be off"):
        if power(host).startswith("off"):
            break
    # The kernel removes a network a moment after its last process, and the next boot wants the
    # port's name for itself.
    for _turn in cgroup.until(f"the port of {host.spec.name} to be gone"):
        if f"vb-{host.machine}" not in network.ports(host.lab):
            break
    for name in GROUPS:
        cgroup.make(f"{host.group}/{name}")


def boot(host: Host) -> None:
    """Start a host that is off, and wait until it has booted."""
    if not power(host).startswith("off"):
        raise LabError(
            f"The host {host.spec.name} is not off (it is {power(host) or 'not up'}), so it cannot be booted."
        )
    (host.home / "power").write_text("starting\n")
    # Not blocking: without a supervisor there is no reader, and an error must report that instead
    # of a hang.
    try:
        control = os.open(host.home / "control", os.O_WRONLY | os.O_NONBLOCK)
    except OSError as why:
        raise LabError(
            f"The host {host.spec.name} has lost its supervisor: bring it down and up again."
        ) from why
    with os.fdopen(control, "w") as handle:
        handle.write("boot\n")
    wait(host)


def fill(host: Host, size: str) -> None:
    """Shrink the host's disk until only `size` bytes are free.

    size: with a suffix as in 64k. `off` gives the disk its size back.
    """
    disk = host.home / "disk"
    size_option = DISK_SIZE
    if size != "off":
        state = _statvfs(host, disk)
        size_option = str((state[0] - state[1]) * state[2] + _bytes(size))
    _in_mounts(host, ["mount", "-o", f"remount,size={size_option}", str(disk)])


def _bytes(text: str) -> int:
    factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(text[-1:].lower())
    digits = text[:-1] if factor else text
    if not digits.isdigit():
        raise LabError(f"{text!r} is not a size: give bytes, or a number with k, m or g, or 'off'.")
    return int(digits) * (factor or 1)


def _statvfs(host: Host, path: Path) -> tuple[int, int, int]:
    blocks, free, size = _in_mounts(
        host, ["stat", "--file-system", "--format", "%b %f %S", str(path)]
    ).split()
    return int(blocks), int(free), int(size)


def _in_mounts(host: Host, command: list[str]) -> str:
    pids = (cgroup.hierarchies()[0] / host.group / "cgroup.procs").read_text().split()
    if not pids:
        raise LabError(f"The host {host.spec.name} is not up, so it has no disk.")
    return run(["nsenter", "-t", pids[0], "-m", "--", *command])


def destroy(lab: str, home: Path) -> None:
    """Remove a host in any state, also one that is only there in pieces."""
    cgroup.remove(f"{lab}/{home.name}")
    shutil.rmtree(home, ignore_errors=True)
