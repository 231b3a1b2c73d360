# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the playbook rollout on twelve bare trees, and read what it printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.tools import tables
from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import written

HOSTS = [f"gpu{number}" for number in range(1, 13)]
SECOND_CLASS = HOSTS[8:]  # with another release of the engine
DEAD = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
# Open for a minute of a few days; a rollout outside of it ends with its plan, a third of the time
# of one in check mode.
CLOSED = "Mo-Su 00:00-00:01 Pacific/Kiritimati; Mo-Su 00:00-00:01 Pacific/Niue"
# Reached until the rollout is planned, and never again.
VANISHES = {
    **DEAD,
    "ansible_connection": "{{ 'local' if gpufleet_rollout_plan is not defined else 'ssh' }}",
}


def fleet(place: Path, **hosts: Mapping[str, Any]) -> Path:
    """An inventory of twelve hosts in two classes; hosts: variables of single ones."""
    entries: dict[str, dict[str, Any]] = {
        host: {**bare.variables(place, host), **hosts.get(host, {})} for host in HOSTS
    }
    for host in SECOND_CLASS:
        entries[host]["gpufleet_engine_version"] = "1.6.33"
    return written(
        place / "hosts.yml",
        yaml.safe_dump({"all": {"children": {"gpu_hosts": {"hosts": entries}}}}),
    )


def broken(place: Path, host: str) -> None:
    """A host whose change is planned, and then refused by the host itself: no transaction can have
    its lock, which a look does without.
    """
    (place / "trees" / host / "var/lib/gpufleet/lock").mkdir(parents=True)


def unbroken(place: Path, host: str) -> None:
    """Make the host of `broken` one that can be changed."""
    (place / "trees" / host / "var/lib/gpufleet/lock").rmdir()


def batches(words: str) -> list[list[str]]:
    """The hosts that each batch changed, or would have."""
    task = r"TASK \[gpufleet\.nvidia\.host : Converge the host\] \**\n(.*?)\n(?:TASK|PLAY) "
    found = [re.search(task, part, re.DOTALL) for part in words.split("PLAY [Roll out]")[1:]]
    done = (
        set(re.findall(r"^(?:ok|changed|fatal): \[(gpu\d+)\]", part[1], re.MULTILINE))
        if part
        else set()
        for part in found
    )
    return [sorted(hosts, key=HOSTS.index) for hosts in done if hosts]


def told(words: str) -> dict[str, str]:
    """Return what became of each host, by the table."""
    return tables.read_column(words, "CHANGED")


def changed(place: Path) -> list[str]:
    return [
        host for host in HOSTS if (place / "trees" / host / "etc/nvidia-container-runtime").exists()
    ]
