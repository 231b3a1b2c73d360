# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of a driver that have to be equal: what is loaded, the libraries, what the next boot
loads. One row per state of a host.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)

from tests.unit.builders import obs
from tests.unit.coded import read_all_coded, read_coded
from tests.unit.gpus import BUSES, LIBRARIES, host

OLD, NEW = "550.90.07", "550.163.01"
KERNEL, OTHER = "6.1.0-40-amd64", "6.1.0-37-amd64"


def dkms(version: str, kernel: str = KERNEL, name: str = "nvidia-current.ko") -> dict[str, str]:
    return {f"/var/lib/dkms/nvidia/{version}/{kernel}/x86_64/module/{name}": ""}


def installed(kernel: str, folder: str = "updates/dkms") -> dict[str, str]:
    return {f"/lib/modules/{kernel}/{folder}/nvidia.ko": ""}


def driver(
    files: dict[str, Any], loaded: str = OLD, user: str = OLD, kernel: str = KERNEL
) -> Driver:
    return driver_state.read_driver(
        Policy(),
        obs(
            files={**host(version=loaded, user=user), **files},
            host={"kernel": kernel, "os_release": {}},
        ),
    )


LIBRARY = f"{LIBRARIES}/libnvidia-ml.so.{NEW}"
APART = {"loaded": OLD, "where": "/sys/module/nvidia/version", "version": NEW, "library": LIBRARY}
IN_KERNEL = f"/var/lib/dkms/nvidia/{{}}/{KERNEL}/x86_64/module/nvidia-current.ko"
ELSEWHERE = {"kernel": KERNEL, "kernels": OTHER}
Case = tuple[str, dict[str, Any], str, str, str, str, dict[str, Any]]
CASES: list[Case] = [
    # what the host is like, its files, the version that is loaded, that of the libraries, the
    # state, code and values of the finding
    ("all equal", dkms(OLD), OLD, OLD, "ok", "", {}),
    ("nothing known of the disk", {}, OLD, OLD, "ok", "", {}),
    (
        "upgraded, not rebooted",
        dkms(NEW),
        OLD,
        NEW,
        "broken",
        "reboot-due",
        {**APART, "module": IN_KERNEL.format(NEW)},
    ),
    (
        "upgraded, nothing known of the disk",
        {},
        OLD,
        NEW,
        "broken",
        "versions-differ",
        {**APART, "kernel": f"kernel {KERNEL}"},
    ),
    (
        "the module was not built",
        dkms(OLD),
        OLD,
        NEW,
        "broken",
        "module-on-disk-differs",
        {**APART, "found": OLD, "module": IN_KERNEL.format(OLD), "kernel": KERNEL},
    ),
    (
        "a third version on disk",
        dkms("570.86.15"),
        OLD,
        NEW,
        "broken",
        "module-on-disk-differs",
        {**APART, "found": "570.86.15", "module": IN_KERNEL.format("570.86.15"), "kernel": KERNEL},
    ),
    (
        "built for another kernel only",
        dkms(NEW, OTHER),
        OLD,
        NEW,
        "broken",
        "no-module-for-kernel",
        {**APART, **ELSEWHERE},
    ),
    (
        "two builds, one fits",
        {**dkms(OLD), **dkms(NEW)},
        OLD,
        NEW,
        "broken",
        "reboot-due",
        {**APART, "module": IN_KERNEL.format(NEW)},
    ),
    (
        "two builds, none fits, and the newest has fewer digits",
        {**dkms("1000.10"), **dkms("999.90")},
        OLD,
        NEW,
        "broken",
        "module-on-disk-differs",
        {**APART, "found": "1000.10", "module": IN_KERNEL.format("1000.10"), "kernel": KERNEL},
    ),
    (
        "the next boot brings another module",
        dkms(NEW),
        OLD,
        OLD,
        "ok",
        "other-module-after-reboot",
        {"loaded": OLD, "version": NEW, "path": IN_KERNEL.format(NEW)},
    ),
    (
        "the next boot brings none",
        installed(OTHER),
        OLD,
        OLD,
        "ok",
        "no-module-after-reboot",
        {"version": OLD, **ELSEWHERE},
    ),
    ("a folder of DKMS that is no version", dkms("580..95"), OLD, OLD, "ok", "", {}),
    ("one that ends in a dot", dkms("580.95."), OLD, OLD, "ok", "", {}),
    (
        "one of another alphabet",
        dkms("58\u0660.95"),
        OLD,
        NEW,
        "broken",
        "versions-differ",
        {**APART, "kernel": f"kernel {KERNEL}"},
    ),
    ("Ubuntu's signed module", installed(KERNEL, "kernel/nvidia-550"), OLD, OLD, "ok", "", {}),
    ("RHEL's kmod", installed(KERNEL, "extra/nvidia"), OLD, OLD, "ok", "", {}),
    (
        "libraries of two versions",
        {f"{LIBRARIES}/libnvidia-ml.so.1": None, LIBRARY: {"real": LIBRARY}},
        OLD,
        OLD,
        "ok",
        "other-libraries",
        {"loaded": OLD, "paths": LIBRARY},
    ),
]
IDS = [case[0] for case in CASES]


@pytest.mark.parametrize(
    ("files", "loaded", "user", "state", "code", "values"), [c[1:] for c in CASES], ids=IDS
)
def test_the_decision_table(
    files: dict[str, Any], loaded: str, user: str, state: str, code: str, values: dict[str, Any]
) -> None:
    found = driver(files, loaded, user)
    told = [found.evidence] if state == "broken" else found.notes
    assert (found.state, read_all_coded(told)) == (
        state,
        [(f"driver.{code}", values)] if code else [],
    )
    assert bool(found.remedy) == (state == "broken")


@pytest.mark.parametrize(("files", "loaded", "user", "state"), [c[1:5] for c in CASES], ids=IDS)
def test_a_tree_is_told_of_no_kernel_that_runs(
    files: dict[str, Any], loaded: str, user: str, state: str
) -> None:
    found = driver(files, loaded, user, kernel="")
    told = " ".join((found.evidence, found.remedy, *found.notes))
    assert (
        found.state,
        [word for word in (KERNEL, "for kernel ", "running kernel", "next reboot") if word in told],
    ) == (state, [])


def test_a_module_that_is_not_loaded_and_not_there() -> None:
    loaded = dict.fromkeys(("/proc/driver/nvidia/version", "/sys/module/nvidia/version"))
    found = driver({**loaded, **installed(OTHER)})
    values = {"bus": BUSES[0], **ELSEWHERE}
    assert (found.state, read_coded(found.evidence)) == (
        "not-loaded",
        ("driver.not-loaded-no-module", values),
    )
    assert found.remedy
