# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows whose aim is missed, each with the value that it may have.

A bound is the median of a run plus 10 %, and the bench fails above it. A feature may raise one in a
commit that names it. A row that reaches its aim leaves this table.
"""

from __future__ import annotations

from collections.abc import Mapping

# Row of docs/bench.md -> the largest value, in the unit of the row.
BOUNDS: Mapping[str, float] = {
    "`host`, converged, to `ansible.builtin.ping`, 10 tasks in a play": 0.74,
    "`host`, converged, to `ansible.builtin.ping`, 10 tasks in a play: "
    "controller's processor time for a host and task": 2.08,
    "`host`, converged, to `ansible.builtin.ping`, 40 hosts, one task: "
    "controller's processor time for a host and task": 1.87,
    "`plan`, each host is to be changed, 40 hosts": 3.83,
    "`plan`, each host is to be changed, 1000 hosts": 5.0,
    "`rollout`, each host is to be changed, 40 hosts": 10.0,
    "`rollout`, each host is to be changed, 1000 hosts": 14.7,
    "`plan`, each host is as desired, 40 hosts": 2.73,
    "`plan`, each host is as desired, 1000 hosts": 2.93,
    "planner, a converged host": 6.07,
    "planner, a host where everything is to be done": 9.15,
    "a look, containerd-1.7": 10.25,
    "a look, containerd-2.3": 11.13,
    "a look, crio-1.34": 10.39,
    "bytes of a look, containerd-1.7": 69100,
    "bytes of a look, containerd-2.3": 69100,
    "bytes of a look, crio-1.34": 69100,
    "bytes of a change, containerd-1.7": 75270,
    "bytes of a change, containerd-2.3": 73740,
    "bytes of a change, crio-1.34": 73780,
}


def list_exceeded(rows: Mapping[str, float]) -> list[str]:
    """Return a sentence for each row whose value is above its bound."""
    return [
        f"{name}: {value:.4g}, with a bound of {BOUNDS[name]:g}"
        for name, value in rows.items()
        if value > BOUNDS.get(name, float("inf"))
    ]


def show_bound(name: str) -> str:
    """Return the bound of a row as the tables have it, '' for none."""
    return f"{BOUNDS[name]:g}" if name in BOUNDS else ""
