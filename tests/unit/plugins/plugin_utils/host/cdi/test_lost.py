# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that a spec has no longer: a GPU that is gone takes its names along, and one that is off
the bus does not.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cause,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)

from tests.unit.cdi_plans import OURS, RECORD, plan, seen
from tests.unit.gpus import BUSES, UUIDS, information, nvml
from tests.unit.gpus import host as gpu_host

SECOND = BUSES[1]
PCI = {f"/sys/bus/pci/devices/{SECOND}/{name}": None for name in ("vendor", "class")}
INFORMATION = {f"/proc/driver/nvidia/gpus/{SECOND}/information": None}
NODE: dict[str, Any] = {"/dev/nvidia1": None}
EXCLUDED = {
    f"/proc/driver/nvidia/gpus/{SECOND}/information": information(SECOND, 1, "GPU-2", **{"GPU Excluded": "Yes"}), **NODE,
}  # fmt: skip
VFIO = {f"/sys/bus/pci/drivers/vfio-pci/{SECOND}": ""}
ONE = nvml(1)
NVML_FAILS = {"probe:nvml": {"error": {"kind": "timeout", "message": "no answer"}}}

GONE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], Cause]] = {
    # what has become of the second of two GPUs: files, answers, options, and the cause of what the
    # spec loses
    "taken out": ({**PCI, **INFORMATION, **NODE}, ONE, {}, "hardware_gone"),
    "excluded by the driver's options": (EXCLUDED, ONE, {}, "hardware_gone"),
    "given to a virtual machine": ({**INFORMATION, **NODE, **VFIO}, ONE, {}, "hardware_gone"),
    "names by index alone are asked for": ({}, nvml(), {"cdi_device_names": ("index",)}, "policy"),
}


@pytest.mark.parametrize("name", GONE)
def test_devices_go_by_a_positive_cause(name: str) -> None:
    files, answers, options, cause = GONE[name]
    text = plan(seen()).changes[0]["content"]
    made = plan(seen({OURS: text, **files}, answers=answers), **options)
    assert [(d.path, d.cause) for d in made.differences] == [(OURS, cause)]


OFF: dict[str, tuple[dict[str, Any], str]] = {
    # what is seen of the second of two GPUs, and the code of the refusal
    "the driver has lost it (Xid 79)": ({**INFORMATION}, "driver.gpu-not-served"),
    "and its node is gone": ({**INFORMATION, **NODE}, "driver.gpu-not-served"),
    "PCI has lost it, and its node is there": ({**PCI, **INFORMATION}, "driver.node-without-gpu"),
}


@pytest.mark.parametrize("name", OFF)
def test_a_gpu_off_the_bus_keeps_its_devices(name: str) -> None:
    files, code = OFF[name]
    text = plan(seen()).changes[0]["content"]
    with pytest.raises(PlanError) as caught:
        plan(seen({OURS: text, **files}, answers=ONE))
    assert caught.value.code == code
    assert OURS in caught.value.values["lost"]
    assert caught.value.next


def test_a_first_spec_is_of_the_gpus_that_are_served() -> None:
    assert [d.cause for d in plan(seen(INFORMATION, answers=ONE)).differences] == [None]


def test_names_do_not_go_since_nobody_says_the_uuids() -> None:
    """The driver shows question marks, the spec is of another driver, and neither NVML nor
    nvidia-smi answers.
    """
    hidden = {
        f"/proc/driver/nvidia/gpus/{bus}/information": information(bus, n, "GPU-????????")
        for n, bus in enumerate(BUSES[:2])
    }
    text = plan(seen()).changes[0]["content"].replace("/dev/nvidia1\n", "/dev/nvidia7\n")
    silent = {**NVML_FAILS, "command:nvidia-smi": NVML_FAILS["probe:nvml"]}
    there = seen({OURS: text, **hidden}, answers=silent)
    with pytest.raises(PlanError) as refused:
        plan(there)
    assert (refused.value.code, refused.value.values) == ("cdi.uuids-unknown", {"names": UUIDS[1]})


def silent() -> Cause:
    raise PlanError("an engine is stopped")


def test_a_newer_version_of_the_spec_waits_for_engines_that_say_nothing() -> None:
    text = plan(seen()).changes[0]["content"]
    there = seen({OURS: re.sub(r"(?m)^cdiVersion: .*$", 'cdiVersion: "0.3.0"', text)})
    driver = driver_state.read_driver(Policy(), there)
    with pytest.raises(PlanError, match="an engine is stopped"):
        resource.plan_specs_and_outcome(
            Policy(),
            spec_facts.read_spec_facts(Policy(), there, RECORD, driver, ""),
            RECORD,
            driver,
            silent,
        )
    assert resource.plan_specs_and_outcome(
        Policy(), spec_facts.read_spec_facts(Policy(), there, RECORD, driver, ""), RECORD, driver
    )[0].changes


OWNERS = [
    ("toolkit", {}, "adoption"),
    ("toolkit", {"cdi_owner": "toolkit"}, "policy"),
    ("none", {}, "policy"),
]


@pytest.mark.parametrize(("owner", "options", "cause"), OWNERS)
def test_a_spec_goes_to_another_owner_by_a_cause(
    owner: Any, options: dict[str, Any], cause: Cause
) -> None:
    text = plan(seen()).changes[0]["content"]
    made = plan(seen({OURS: text}), resource.record_of_options(owner, "1.0.0"), **options)
    assert [(d.path, d.cause) for d in made.differences] == [(OURS, cause)]


def test_a_host_that_shows_no_pci_bus_loses_no_device() -> None:
    """As in a container, or a rescue system, without sysfs and without the driver."""
    text = plan(seen()).changes[0]["content"]
    none: dict[str, Any] = dict.fromkeys(
        path for path in gpu_host() if path.startswith(("/sys/", "/proc/driver/", "/dev/"))
    )
    with pytest.raises(PlanError) as caught:
        plan(seen({OURS: text, **none}))
    assert (caught.value.code, caught.value.where) == ("driver.no-pci-bus", "/sys/bus/pci/devices")
    empty = {"stat:/sys/bus/pci/devices": {"exists": True, "type": "dir"}}
    assert [d.cause for d in plan(seen({OURS: text, **none}, answers=empty)).differences] == [
        "hardware_gone"
    ]
