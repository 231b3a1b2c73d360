# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways of other people to a host: another account that becomes root by sudo, su or doas, with a
password or with a sudo that wants a terminal; a jump host; Paramiko.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.integration.foreign.host_ways import (
    ASKS,
    HOST_WAYS,
    JUMP,
    PARAMIKO,
    PASSWORD,
    HostWay,
    write_sudoers,
)
from tests.integration.foreign.programs import find_programs, list_collections
from tests.lab import inventory, network, roots
from tests.tools.onlab import RUNTIME, Fleet

pytestmark = pytest.mark.lab

HOST = "otherways"
PCRE = "/usr/lib/x86_64-linux-gnu/libpcre2-32.so.0"  # of fish


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    """A host with passwords, doas and fish, as Debian packages them."""
    up = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"}})
    base = roots.base_root("trixie")
    doas, fish = roots.package_layer(base, roots.DOAS), roots.package_layer(base, roots.FISH)
    for layer, path in (
        (doas, "/usr/bin/doas"),
        (doas, "/etc/pam.d/doas"),
        (fish, "/usr/bin/fish"),
        (fish, PCRE),
    ):
        up.bring(HOST, layer / path.lstrip("/"), path)
    words = f"printf '%s:{PASSWORD}\\n' ops root | chpasswd; chown root: /usr/bin/doas; chmod 4755 /usr/bin/doas"
    up.shell(HOST, f"{RUNTIME}; {words}")
    return up


OPTIONS = {"packages": "ignore"}
PLAY = {
    "hosts": HOST,
    "gather_facts": True,
    "tasks": [
        {"gpufleet.nvidia.host_info": OPTIONS},
        {"gpufleet.nvidia.host": OPTIONS},
        {"gpufleet.nvidia.host": OPTIONS},
        {"gpufleet.nvidia.host": {**OPTIONS, "state": "absent"}},
    ],
}


def list_jump_variables(fleet: Fleet) -> dict[str, Any]:
    """Return the variables for a connection that goes through the host itself."""
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    address = fleet.lab.host(HOST).address
    through = f"ssh -i {fleet.lab.key} {options} -W %h:%p root@{address}"
    return {"ansible_ssh_extra_args": f'-o ProxyCommand="{through}" -o ControlPath=none'}


@pytest.mark.parametrize("way", [way for way in HOST_WAYS if way != PARAMIKO])
def test_a_host_is_reached_and_changed(
    way: str, fleet: Fleet, request: pytest.FixtureRequest
) -> None:
    found = HOST_WAYS[way]
    # Before it is prepared: what is left of a way that fails there is in the way of the next ones.
    request.addfinalizer(lambda: fleet.shell(HOST, found.restore))
    fleet.shell(HOST, found.prepare)
    before = fleet.tree(HOST)
    variables = found.list_variables() | (list_jump_variables(fleet) if way == JUMP else {})
    run = fleet.play(
        [{**PLAY, "gather_facts": found.facts}],
        [HOST],
        variables=variables,
        environment={"ANSIBLE_COLLECTIONS_PATH": list_collections(), **found.environment},
    )
    ours = [entry for entry in run.entries if "gpufleet" in str(entry["task"])]
    assert [entry["result"].get("changed") for entry in ours] == [False, True, False, True], (
        run.words
    )
    assert run.failed == {}, run.words
    assert fleet.tree(HOST) == before


def test_a_host_is_reached_by_paramiko(fleet: Fleet, tmp_path: Path) -> None:
    """The last ansible-core that has this connection. It opens its sockets itself, so the whole
    program is in the lab's network.
    """
    programs = find_programs("core-2-20")
    way = HOST_WAYS[PARAMIKO]
    fleet.shell(HOST, way.prepare)
    before = fleet.tree(HOST)
    words = play_there(fleet, programs, tmp_path, way.list_variables())
    numbers = re.findall(rf"^{HOST} +: ok=(\d+) +changed=(\d+) .*failed=(\d+)", words, re.MULTILINE)
    assert numbers == [("5", "2", "0")], words
    assert fleet.tree(HOST) == before


def play_there(fleet: Fleet, programs: Path, place: Path, variables: Mapping[str, Any]) -> str:
    """Run the play with another ansible-core in the lab's network, and return the output."""
    (place / "play.json").write_text(json.dumps([PLAY]))
    key = str(fleet.lab.key)
    extra = {**variables, "ansible_private_key_file": key, "ansible_paramiko_private_key_file": key}
    (place / "variables.json").write_text(json.dumps(extra))
    environment = {
        **inventory.imitated(),
        "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(place),
        "LANG": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": list_collections(),
        "ANSIBLE_HOST_KEY_CHECKING": "0",
        "ANSIBLE_NOCOLOR": "1",
    }
    command = [
        *("nsenter", f"--net={network.namespace(fleet.lab.name)}", "--"),
        *(programs / "ansible-playbook", "-i", fleet.lab.inventory_path(), place / "play.json"),
        *("-e", f"@{place}/variables.json"),
    ]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=place, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_wrong_password_is_one_sentence(fleet: Fleet) -> None:
    fleet.shell(HOST, write_sudoers(ASKS))
    variables = {**HostWay("sudo").list_variables(), "ansible_become_password": "wrong"}
    run = fleet.task("host_info", [HOST], variables=variables)
    assert set(run.failed) == {HOST}
    assert "Traceback" not in run.words
    assert "password" in run.failed[HOST]
