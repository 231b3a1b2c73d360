# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of a lab: one namespace with one bridge, in which the controller has an address and
every host a port.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .artefacts import LabError, run

GATEWAY = "10.77.0.1"
BRIDGE = "br0"
HARDWARE = "02:00:0a:4d:00:01"  # administered locally
MACHINE_LENGTH = 12  # systemd-nspawn names a port vb-<machine>, and the kernel allows 15 characters


def namespace(lab: str) -> Path:
    return Path("/run/netns") / lab


def up(lab: str) -> None:
    """Make the namespace and the bridge, unless they are there."""
    if namespace(lab).exists():
        return
    run(["ip", "netns", "add", lab])
    try:
        for command in (
            ["link", "set", "lo", "up"],
            # With an address of its own: else it is the lowest one of its ports, and where that
            # port goes, the hosts that have resolved the gateway before send to nobody until their
            # entry has expired (linux, br_stp_recalculate_bridge_id).
            ["link", "add", BRIDGE, "address", HARDWARE, "type", "bridge"],
            ["address", "add", f"{GATEWAY}/16", "dev", BRIDGE],
            ["link", "set", BRIDGE, "up"],
        ):
            run(["ip", "-n", lab, *command])
    except BaseException:
        down(lab)
        raise


def down(lab: str) -> None:
    """Remove the namespace with all that is in it. Do nothing if there is none."""
    if namespace(lab).exists():
        run(["ip", "netns", "delete", lab])


def inside(lab: str, command: Iterable[str]) -> list[str]:
    """Return the command line that runs `command` in the lab's network (`ip netns exec` would mount
    another /sys).
    """
    return ["nsenter", f"--net={namespace(lab)}", "--", *command]


def machine(host: str) -> str:
    """Return a name for systemd-nspawn that is short enough for the port to carry it."""
    return (
        host
        if len(host) <= MACHINE_LENGTH
        else f"{host[:7]}-{hashlib.sha256(host.encode()).hexdigest()[:4]}"
    )


def set_link(lab: str, host_machine: str, state: str) -> None:
    """Plug or unplug the cable of one host, on the bridge's side."""
    run(["ip", "-n", lab, "link", "set", f"vb-{host_machine}", state])


def forget(lab: str, address: str) -> None:
    """Remove the controller's neighbour entry for an address, so that it asks again who has that
    address.

    Otherwise it tries the hardware address of a host that left for seconds.
    """
    subprocess.run(
        ["ip", "-n", lab, "neighbour", "delete", address, "dev", BRIDGE],
        capture_output=True,
        check=False,
    )


def ports(lab: str) -> dict[str, str]:
    """Return the state of each port by name."""
    done = subprocess.run(
        ["ip", "-n", lab, "-j", "link", "show", "master", BRIDGE],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"The network of the lab {lab} cannot be read: {done.stderr.strip()}")
    return {port["ifname"]: port["operstate"] for port in json.loads(done.stdout or "[]")}


def free_address(taken: Iterable[str]) -> str:
    """Return the first address that no host has. LabError if all are taken."""
    used = set(taken)
    for number in range(1, 250):
        address = f"10.77.1.{number}"
        if address not in used:
            return address
    raise LabError("All 249 addresses of the lab are taken: bring hosts down first.")
