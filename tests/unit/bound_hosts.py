# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose plans an approval binds."""

from __future__ import annotations

import contextlib
import dataclasses as dc
import json
import types
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.unit import gpus, running_hosts
from tests.unit.running_host import Host, HostProcess
from tests.unit.running_hosts import ENGINES, build

Options = Mapping[str, Any]


@dc.dataclass(frozen=True)
class Hardware:
    """What names the two GPUs of one host, and the major of nvidia-uvm. driver: its release."""

    uuids: tuple[str, str] = (gpus.UUIDS[0], gpus.UUIDS[1])
    buses: tuple[str, str] = (gpus.BUSES[0], gpus.BUSES[1])
    uvm: int = 511
    driver: str = "550.163.01"

    def of(self, value: Any) -> Any:
        """The same files or answers, of this hardware."""
        text = json.dumps(value)
        for before, after in ((gpus.UUIDS, self.uuids), (gpus.BUSES, self.buses)):
            for name, other in zip(before, after, strict=False):
                text = text.replace(name, f"\0{other[::-1]}\0")
        parts = text.split("\0")
        text = "".join(part[::-1] if at % 2 else part for at, part in enumerate(parts))
        text = text.replace("511 nvidia-uvm", f"{self.uvm} nvidia-uvm").replace(
            "[511, ", f"[{self.uvm}, "
        )
        return json.loads(text.replace("550.163.01", self.driver))


USUAL = Hardware()


@contextlib.contextmanager
def running(
    process: HostProcess, engine: str = "containerd, GPU", there: Hardware = USUAL
) -> Iterator[Host]:
    """A host whose two GPUs processes may share by MPS: with NVIDIA's programs, and no kubelet."""
    with pytest.MonkeyPatch.context() as patch:
        two = types.SimpleNamespace(
            host=lambda _count: there.of(gpus.host(2)), nvml=lambda _count: there.of(gpus.nvml(2))
        )
        patch.setattr(running_hosts, "gpus", two)
        host = build(process, ENGINES[engine], 0o644)
    rows = [f"{at}, {there.uuids[at]}, 0000{there.buses[at]}, Default, Disabled\n" for at in (0, 1)]
    host.program("nvidia-smi --query-gpu=index,uuid,pci.bus_id", "".join(rows))
    host.program(
        "nvidia-smi --query-gpu=uuid,memory.total",
        "".join(f"{uuid}, 81559\n" for uuid in there.uuids),
    )
    programs = [f"/usr/bin/{name}" for name in ("nvidia-smi", "nvidia-cuda-mps-control")]
    for path in (
        *programs,
        *(f"/opt/{digit * length}/nvidia" for digit in "ab" for length in (32, 40, 64)),
    ):
        host.write(path, "x", 0o755)
    try:
        yield host
    finally:
        host.close()


def mps(gpu: str = gpus.UUIDS[0], **limits: Any) -> Options:
    return {"sharing": {gpu: {"mps": limits}}}
