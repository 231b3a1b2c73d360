# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's own list of its files. The list here is made up in the form that is documented: no
real one could be had.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    discover,
    manifest,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files.discover import (
    DriverFiles,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import drivers
from tests.unit.builders import obs
from tests.unit.drivers import UBUNTU

V = "580.95.05"


def entry(name: str, category: str, kind: str = "LIB", *, optional: bool = False) -> dict[str, Any]:
    return {"name": name, "type": kind, "category": category, "optional": optional}


LIST = [
    entry(f"libcuda.so.{V}", "cuda"),
    entry(f"libnvidia-ml.so.{V}", "nvml"),
    entry(f"libnvidia-ptxjitcompiler.so.{V}", "cuda"),
    entry(f"libnvidia-ptxjitcompiler.so.{V}", "opencl", optional=True),
    entry(f"libnvidia-hologram.so.{V}", "vulkan"),
    entry(f"libnvidia-dream.so.{V}", "cuda", optional=True),
    entry("libGL.so.1.7.0", "glvnd"),
    entry("libOpenCL.so.1.0.0", "opencl"),
    entry("nvidia-smi", "utils", "BINARY"),
    entry("nvidia-modprobe", "modprobe", "BINARY"),
    entry(f"firmware/{V}/gsp_ga10x.bin", "firmware", "FIRMWARE"),
]


def found(
    features: tuple[str, ...] = catalogue.FEATURES, listed: Any = None, **more: Any
) -> DriverFiles:
    text = json.dumps(LIST if listed is None else listed)
    there = {
        **drivers.core(UBUNTU, V),
        **drivers.library(UBUNTU, "libnvidia-hologram", V),
        manifest.PATH: text,
        **more,
    }
    return discover.find_driver_files(
        discover.read_driver_file_facts(Policy(), obs(files=there)), features
    )


def test_it_tells_what_a_new_library_is_for() -> None:
    assert "libnvidia-hologram" not in {lib.stem for lib in found(("compute",)).libraries}
    assert "libnvidia-hologram" in {lib.stem for lib in found(("graphics",)).libraries}
    # nobody knows: it may be needed
    assert "libnvidia-hologram" in {lib.stem for lib in found(("compute",), listed=[]).libraries}


def test_what_is_necessary_and_not_there_is_missing() -> None:
    more = [entry(f"libnvidia-needed.so.{V}", "cuda")]
    assert found(("compute",), [*LIST, *more]).missing == (f"libnvidia-needed.so.{V}",)
    assert found(("utility",), [*LIST, *more]).missing == ()
    assert found().missing == ()  # libnvidia-dream is optional


def test_loaders_of_any_vendor_stay_with_the_image() -> None:
    assert "libOpenCL.so.1.0.0" in found(("compute",)).left_out
    assert found(("compute",)).missing == ()


def test_what_is_for_the_host_is_not_spoken_of() -> None:
    assert not {"nvidia-modprobe", "libGL.so.1.7.0"} & {*found().missing, *found().left_out}


@pytest.mark.parametrize("listed", ["rubbish", {}, [1, None, {"name": 7}, {"name": ""}], [[]]])
def test_a_list_that_cannot_be_read_is_as_none(listed: Any) -> None:
    assert found(listed=listed).missing == ()
    assert len(found(listed=listed).libraries) == 7


def test_a_list_cut_short_is_as_none() -> None:
    assert found(**{manifest.PATH: json.dumps(LIST)[:-20]}).missing == ()


values = st.recursive(
    st.none() | st.booleans() | st.text(max_size=8),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(), v),
)
entries = st.fixed_dictionaries(
    {}, optional={key: values for key in ("name", "type", "category", "optional")}
)


@given(st.lists(entries | values, max_size=6))
def test_whatever_the_entries_are_each_file_is_told_once(listed: list[Any]) -> None:
    names = [one.name for one in manifest.parse_driver_manifest(json.dumps(listed))]
    assert len(names) == len(set(names))
