# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/gpu-health.md and docs/platform.md: steps, Xids, lines, and what machines need."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import driver_change
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    findings,
    log_lines,
    xids,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    machines,
    needs,
)
from page_table import code, table


def build_step_table() -> str:
    """Return each step with its words, and whether a GPU that needs it is sick."""
    rows = [
        [f"`{step}`", findings.STEP_SENTENCES[step].what, "yes" if xids.is_sick(step) else "no"]
        for step in xids.ORDER
    ]
    return table(["step", "in words", "the GPU is sick"], rows)


def build_xid_table() -> str:
    """Return the numbers of NVIDIA's catalogue by its immediate action."""
    rows = [
        [f"`{action}`", f"`{xids.STEPS[action]}`", ", ".join(map(str, numbers))]
        for action, numbers in xids.ACTIONS.items()
    ]
    recovery = [
        [f"`XID_154`, action {number}", f"`{step}`", "154"]
        for number, step in xids.RECOVERY.items()
    ]
    return table(["NVIDIA's immediate action", "step", "Xid"], [*rows, *recovery])


def build_line_table() -> str:
    """Return the other forms of lines, with their step."""
    rows = [
        [
            f"`{form.kind}`",
            form.row.what.partition(" ({time}")[0].format(pci="..."),
            f"`{form.step}`",
        ]
        for form in {**log_lines.BY_KIND_UNNAMED, **log_lines.BY_KIND}.values()
    ]
    switch = ["`switch`", "an NVSwitch has a fatal error (SXid)", "`reboot`"]
    return table(["kind", "meaning", "step"], [*rows, switch])


def build_machine_table() -> str:
    """Return the kinds of machines."""
    rows = [
        [
            f"`{kind}`",
            row.what.partition(" ({evidence}")[0],
            "no" if kind in machines.LEFT_ALONE else "yes",
        ]
        for kind, row in machines.ROWS.items()
    ]
    return table(["kind", "machine", "its units are judged"], rows)


def build_needs_table() -> str:
    """Return the table of kinds, units, states and versions, with verdict, cause and source."""
    head = ["kind", "unit or package", "state", "besides", "verdict", "cause", "source"]
    return table(head, [build_need_cells(row) for row in needs.ROWS])


def build_need_cells(row: needs.Row) -> list[str]:
    values = {name: f"`{name}`" for name in row.row.fields} | {"unit": f"`{row.unit}`"}
    besides = [
        *(["another version than the driver's"] if row.versions == ("other",) else []),
        *(["DRA driver serves ComputeDomains"] if row.imex == ("claims",) else []),
        *(["the same, and IMEX takes commands"] if row.imex == ("commands",) else []),
        *(["a kubelet"] if row.kubernetes else []),
        *(["no kubelet"] if row.kubernetes is False else []),
    ]
    cause = row.row.what if not row.row.why else f"{row.row.what} ({row.row.why})"
    return [
        code(row.kinds), f"`{row.unit}`", code(row.states), "; ".join(besides), f"`{row.verdict}`", cause.format(**values),
        f"[{row.source.rstrip('/').rpartition('/')[2]}]({row.source})",
    ]  # fmt: skip


def name_way(row: driver_change.FindingRow) -> str:
    """Return what becomes of a host with a finding after a change of its driver."""
    if row.blocks:
        return "stays out"
    return "returns, unless its own packages bring the driver" if row.packaged else "returns"


def build_driver_change_table() -> str:
    """Return the table of findings after a change of the driver, and whether each keeps a host out."""
    rows = [
        [f"`{row.row.code}`", name_way(row), row.why]
        for row in sorted(driver_change.ROWS, key=lambda row: not row.blocks)
    ]
    return table(["finding", "the host", "because"], rows)
