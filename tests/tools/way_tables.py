# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/compatibility.md about other people's Ansible, from the ways that the tests
play.
"""

from __future__ import annotations

from evidence_tables import BY_DAY, BY_NIGHT
from page_table import code, name_link, table

from tests.integration.foreign import host_ways, ways
from tests.unit.playbooks import surroundings

DEFAULT = "as Ansible has it"


def build_way_table() -> str:
    """Return the runs of a user's own play, each with the reason for it."""
    return table(
        ["ansible-core", "strategy", "connection", "setting", "why", "reported", "run"],
        [
            [
                way.core,
                code([way.strategy]),
                name_connection(way.connection),
                way.setting or DEFAULT,
                way.why,
                link_reports(way.reported),
                BY_DAY if way in ways.BY_DAY else BY_NIGHT,
            ]
            for way in ways.WAYS
        ],
    )


def name_connection(name: str) -> str:
    plugin = ways.CONNECTIONS[name]
    return code([plugin]) if "." in plugin else name


def build_host_way_table() -> str:
    """Return the ways to one host of the lab."""
    return table(
        ["way", "become method", "reported"],
        [
            [name, code([way.method]) if way.method else "none", link_reports(way.reported)]
            for name, way in host_ways.HOST_WAYS.items()
        ],
    )


def build_surrounding_table() -> str:
    """Return what people have around the playbooks of this collection, and what these do there."""
    return table(
        ["you have", "then", "reported"],
        [
            [case.given, case.outcome, link_reports(case.reported)]
            for case in surroundings.SURROUNDINGS.values()
        ],
    )


def link_reports(addresses: tuple[str, ...]) -> str:
    return ", ".join(f"[{name_link(address)}]({address})" for address in addresses)
