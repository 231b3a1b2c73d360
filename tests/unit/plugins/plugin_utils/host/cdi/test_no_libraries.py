# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A loaded module without any of its libraries: containers would get GPUs that nothing in them can
use.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)

from tests.unit import cdi_plans, drivers, gpus

VERSION = "550.163.01"
# Everything that the host has of the driver's libraries.
LIBRARIES: dict[str, Any] = {**drivers.core(gpus.LIBRARIES, VERSION), **gpus.library(VERSION)}
NONE = dict.fromkeys(LIBRARIES)


def test_no_spec_is_written_and_the_message_names_the_option_for_libraries_that_lie_elsewhere() -> (
    None
):
    """NVIDIA/nvidia-container-toolkit/issues/930 and 473."""
    with pytest.raises(PlanError) as caught:
        cdi_plans.plan(cdi_plans.seen(NONE))
    assert (caught.value.code, caught.value.values["version"]) == ("cdi.no-libraries", VERSION)


def test_one_library_is_enough_for_hosts_that_are_only_watched() -> None:
    ml = f"{gpus.LIBRARIES}/libnvidia-ml.so.{VERSION}"
    made = cdi_plans.plan(cdi_plans.seen({**NONE, ml: LIBRARIES[ml]}))
    assert cdi_plans.paths(made) == [("write", cdi_plans.OURS)]
    (lacking,) = [
        text.values["missing"]
        for text in made.advice
        if isinstance(text, Message) and text.code == "cdi.libraries-missing"
    ]
    assert "libcuda" in lacking


def test_a_spec_that_is_there_stays_while_the_libraries_are_gone() -> None:
    (written,) = (str(c["content"]) for c in cdi_plans.plan(cdi_plans.seen()).changes)
    with pytest.raises(PlanError):
        cdi_plans.plan(cdi_plans.seen({**NONE, cdi_plans.OURS: written}))
