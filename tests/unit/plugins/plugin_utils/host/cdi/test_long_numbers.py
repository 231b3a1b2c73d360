# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers of a host that Python would refuse to read: no text of a host ends a plan that way."""

from __future__ import annotations

import re

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_refresh,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    modes,
    mps_facts,
)

LONG, TAG = "9" * 5000, "0123456789abcdef"
SIZES = [
    # the text, its bytes in the file
    (f"(hidden {TAG} 12)", 12),
    (f"hidden-{TAG}-12", 12),
    (f"(hidden {TAG} {LONG})", 5000 + len(f"(hidden {TAG} )")),
    (f"hidden-{TAG}-{LONG}", 5000 + len(f"hidden-{TAG}-")),
]


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_a_stand_in_has_a_size_that_a_file_may_have(text: str, size: int) -> None:
    assert stand_ins.get_sent_size(text) == size


SHOWN = {
    # what nvidia-smi may show, and a line of it before its number
    "memory": (str(mps_facts.MEMORY["shows"][0]), "GPU-0123, ", ""),
    "time slices": (modes.SLICE, "GPU ", " time slice default"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_number_of_nvidia_smi_is_short(name: str) -> None:
    pattern, before, after = SHOWN[name]
    assert re.search(pattern, f"{before}81920{after}")
    assert not re.search(pattern, f"{before}{LONG}{after}")


def test_the_version_of_a_spec_is_short() -> None:
    version = cdi_refresh.parse_toolkit_version(f"cdiVersion: {LONG}")
    assert len(str(cdi_refresh.parse_refresh_release(version)[0])) == 64
    assert cdi_refresh.parse_toolkit_version('cdiVersion: "0.5.0"') == "0.5.0"
