# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Order the hosts of a rollout: the same in each run, for any order of the inventory, and spread
over failure domains.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping


def rank(host: str, seed: str) -> str:
    """Return a text that places a host in the order of a rollout. It depends on the host's name and
    the seed alone.
    """
    return hashlib.sha256(f"{seed}\0{host}".encode()).hexdigest()


def order_by_domain(hosts: Iterable[str], domains: Mapping[str, str], seed: str) -> list[str]:
    """Spread the hosts of each domain evenly over the list. Any first part of it has about its
    share of each domain.
    """
    members: dict[str, list[str]] = {}
    for host in sorted(set(hosts), key=lambda h: rank(h, seed)):
        members.setdefault(domains.get(host, ""), []).append(host)
    places = [
        ((n + 0.5) / len(of_one), rank(host, seed), host)
        for of_one in members.values()
        for n, host in enumerate(of_one)
    ]
    return [host for _place, _rank, host in sorted(places)]
