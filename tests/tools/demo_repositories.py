# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The repositories from which the demo's hosts get NVIDIA's packages: variables of groups in an
inventory, as a user has them.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab import aptrepo, rpmrepo
from tests.lab.lab import Lab

SYSTEM = "/root/system.rpm"


def write(lab: Lab, place: Path) -> Path:
    """Write the inventory, and make hosts of rpm know what a distribution's own packages provide.
    Return its path.
    """
    rpm = [name for name, host in lab.hosts().items() if host.spec.kind in rpmrepo.KINDS_OF_RPM]
    for name in rpm:
        provided = (rpmrepo.nvidia_rpms() / f"{rpmrepo.SYSTEM}.rpm").read_bytes()
        done = lab.exec(
            name, ["sh", "-ec", f"cat >{SYSTEM}; {rpmrepo.PROVIDE.format(SYSTEM)}"], provided
        )
        assert done.returncode == 0, done.stdout
    path = place / "repositories.yml"
    path.write_text(json.dumps(groups(rpm), indent=2))
    return path


def groups(rpm: list[str]) -> dict[str, Any]:
    """Return the inventory of all hosts, with a group for the hosts that use rpm."""
    site = f"http://{aptrepo.ADDRESS}:{aptrepo.PORT}"
    of_rpm = {
        "rpm_nodes": {
            "vars": repository(f"{site}/rpm/{rpmrepo.SIGNED}", rpmrepo.nvidia_rpms()),
            "hosts": dict.fromkeys(rpm),
        }
    }
    every = repository(f"{site}/{aptrepo.FLAT}", aptrepo.nvidia_debs())
    return {"gpu_hosts": {"vars": every, "children": of_rpm if rpm else {}}}


def repository(address: str, home: Path) -> Mapping[str, str]:
    """Return the variables of a repository that is signed with a key of its own."""
    key = home / "key.asc"
    listed = subprocess.run(
        ["gpg", "--with-colons", "--show-keys", key], capture_output=True, text=True, check=True
    ).stdout
    fingerprint = re.search(r"^fpr:+([0-9A-F]{40}):", listed, re.MULTILINE)
    return {
        "gpufleet_toolkit_repository": address,
        "gpufleet_toolkit_key": key.read_text(),
        "gpufleet_toolkit_key_fingerprint": fingerprint[1] if fingerprint else "",
    }
