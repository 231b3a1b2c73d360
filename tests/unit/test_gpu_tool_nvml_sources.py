# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the sources of NVML are compared where a machine is measured."""

from __future__ import annotations

import pytest

from tests.gpu import (
    nvml_sources,
)
from tests.unit import gpu_tool

TABLE = "0, GPU-1, 00000000:00:06.0, H, 580.159.04, Enabled\n"
LISTED = "GPU 0: H (UUID: GPU-1)\n  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n"
SOURCES = {
    "the same": (TABLE, LISTED, []),
    "another driver": (TABLE.replace("580", "570"), LISTED, ["driver"]),
    "another bus": (TABLE.replace(":06.", ":07."), LISTED, ["gpu0.bus"]),
    "MIG off": (TABLE.replace("Enabled", "Disabled"), LISTED, ["gpu0.mig"]),
    "MIG devices": (TABLE, LISTED.replace("MIG-1", "MIG-2"), ["gpu0.migs"]),
    "no GPU": ("", "", ["driver", "count"]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources_are_compared(name: str) -> None:
    table, listed, differs = SOURCES[name]
    found = nvml_sources.compare(gpu_tool.OWN, nvml_sources.read_smi(table, listed))
    assert [field for field, _one, _other in found] == differs
