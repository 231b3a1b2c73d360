# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that the fake libnvidia-ml.so.1 answers from (its format: nvml.c)."""

from __future__ import annotations

from collections.abc import Iterator

from .inventories import Gpu, Inventory


def nvml_conf(inv: Inventory) -> str:
    """Return the file that the fake libnvidia-ml.so.1 answers from (its format: nvml.c)."""
    lines = [f"driver {inv.version}", f"cuda {inv.cuda}"]
    for index, gpu in enumerate(inv.served):
        domain, rest = gpu.bus.split(":", 1)
        lines.append(
            f"gpu {gpu.name}|{gpu.uuid}|{gpu.minor}|{domain:0>8}:{rest.upper()}|{gpu.mib}|{gpu.mig}"
        )
        lines += _nvml_more(index, gpu)
    lines += [f"error {call} {code}" for call, code in sorted(inv.errors.items())]
    lines += [f"delay {call} {milliseconds}" for call, milliseconds in sorted(inv.delays.items())]
    return "\n".join(lines) + "\n"


def _nvml_more(index: int, gpu: Gpu) -> Iterator[str]:
    """Yield the lines about a GPU beside its own."""
    for instance, compute, identity in gpu.migs:
        of = gpu.profiles.get(instance)
        more = f"|{of.name}|{of.number}|{of.slices}|{of.mib}" if of else ""
        yield f"mig {index}|{identity}|{instance}|{compute}{more}"
    if gpu.pending:
        yield f"pending {index} {gpu.pending}"
    if gpu.addressing:
        yield f"addressing {index} {gpu.addressing}"
    if gpu.fabric:
        told = gpu.fabric
        numbers = f"{told.state} {told.status} {told.clique} {told.health}"
        yield f"fabric {index} {numbers} {told.cluster.replace('-', '')}"
