# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Platforms and hosts that get no spec here, each with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)

from tests.unit import cdi_plans
from tests.unit.coded import read_coded
from tests.unit.gpus import NVRM, host, node, nvml
from tests.unit.mig_hosts import plan_devices, see_host

TEGRA, THOR = "/etc/nv_tegra_release", "/proc/driver/nvidia/gpus/0000:17:00.0/information"
PLATFORMS = [
    ("WSL", {"/dev/dxg": node(10, 125)}, "driver.wsl"),
    ("Jetson", {TEGRA: "# R35"}, "driver.tegra"),
    ("Jetson by its chip", {"/sys/devices/soc0/family": "Tegra\n"}, "driver.tegra"),
    ("Jetson with the module loaded", {"/proc/driver/nvidia/version": NVRM.format("540.4"), TEGRA: ""}, "driver.tegra"),
    ("vGPU", {**{p: t for p, t in host(1).items() if "libcuda" not in p}, "/dev/nvidia-vgpuctl": node(235, 0)}, "driver.vgpu-manager"),
    ("Thor", {**host(1), THOR: host(1)[THOR].replace("NVIDIA H100 80GB HBM3", "NVIDIA Thor")}, "driver.tegra"),
    (
        "all GPUs given away",
        {p: t for p, t in host(1).items() if p.startswith("/sys/bus")} | {"/sys/bus/pci/drivers/vfio-pci/0000:17:00.0": ""},
        "driver.gpu-held",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "evidence"), [case[1:] for case in PLATFORMS], ids=[case[0] for case in PLATFORMS]
)
def test_platforms_are_refused_with_the_reason(files: dict[str, Any], evidence: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan_devices(see_host(files, {}))
    assert (refused.value.code, get_code(refused.value.values["evidence"])) == (
        "cdi.no-spec-here",
        evidence,
    )
    calm = Policy()
    seen, record = see_host(files, {}), resource.record_of_options("collection", "1.0.0")
    code, values = read_coded(
        cdi_plans.plan_specs(
            calm,
            spec_facts.read_spec_facts(
                calm, seen, record, driver_state.read_driver(calm, seen), ""
            ),
            record,
            driver_state.read_driver(calm, seen),
        ).advice[0]
    )
    assert (code, values["evidence"][0]) == ("cdi.no-spec-yet", evidence)


def test_a_spec_stays_where_the_vgpu_manager_has_taken_the_gpus() -> None:
    (first,) = plan_devices(see_host(host(1), nvml(1))).changes
    taken = {
        **{p: t for p, t in host(1).items() if "libcuda" not in p},
        "/dev/nvidia-vgpuctl": node(235, 0),
    }
    seen, record = (
        see_host({**taken, first["path"]: first["content"]}, {}),
        resource.record_of_options("collection", "1.0.0"),
    )
    assert not cdi_plans.plan_specs(
        Policy(),
        spec_facts.read_spec_facts(
            Policy(), seen, record, driver_state.read_driver(Policy(), seen), ""
        ),
        record,
        driver_state.read_driver(Policy(), seen),
    ).changes
