# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of a driver that have to be equal: what is loaded, the libraries, what the next boot loads. One row per state of a host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Driver, Policy

from tests.unit.builders import obs
from tests.unit.gpus import LIBRARIES, host

OLD, NEW = "550.90.07", "550.163.01"
KERNEL, OTHER = "6.1.0-40-amd64", "6.1.0-37-amd64"


def dkms(version: str, kernel: str = KERNEL, name: str = "nvidia-current.ko") -> dict[str, str]:
    return {f"/var/lib/dkms/nvidia/{version}/{kernel}/x86_64/module/{name}": ""}


def installed(kernel: str, folder: str = "updates/dkms") -> dict[str, str]:
    return {f"/lib/modules/{kernel}/{folder}/nvidia.ko": ""}


def driver(files: dict[str, Any], loaded: str = OLD, user: str = OLD, kernel: str = KERNEL) -> Driver:
    return gpus.parse(Policy(), obs(files={**host(version=loaded, user=user), **files}, host={"kernel": kernel, "os_release": {}}))


Case = tuple[str, dict[str, Any], str, str, str, list[str]]
CASES: list[Case] = [
    ("all equal", dkms(OLD), OLD, OLD, "ok", []),
    ("nothing known of the disk", {}, OLD, OLD, "ok", []),
    ("upgraded, not rebooted", dkms(NEW), OLD, NEW, "broken", [f"the module on disk is {NEW} already", "Reboot; or", "modprobe -r"]),
    ("upgraded, nothing known of the disk", {}, OLD, NEW, "broken", ["Reboot, or reload", f"no module {NEW} for kernel {KERNEL}"]),
    ("the module was not built", dkms(OLD), OLD, NEW, "broken", ["a reboot alone does not help", "dkms status", f"on disk is {OLD}"]),
    ("a third version on disk", dkms("570.86.15"), OLD, NEW, "broken", ["the module on disk is 570.86.15", "or bring the libraries back"]),
    ("built for another kernel only", dkms(NEW, OTHER), OLD, NEW, "broken", [f"no NVIDIA module on disk for the running kernel {KERNEL}"]),
    ("two builds, one fits", {**dkms(OLD), **dkms(NEW)}, OLD, NEW, "broken", [f"the module on disk is {NEW} already"]),
    ("the next boot brings another module", dkms(NEW), OLD, OLD, "ok", ["works until the next reboot", NEW, "before that reboot"]),
    ("the next boot brings none", installed(OTHER), OLD, OLD, "ok", ["works until the next reboot", f"only for {OTHER}"]),
    ("Ubuntu's signed module", installed(KERNEL, "kernel/nvidia-550"), OLD, OLD, "ok", []),
    ("RHEL's kmod", installed(KERNEL, "extra/nvidia"), OLD, OLD, "ok", []),
    (
        "libraries of two versions",
        {f"{LIBRARIES}/libnvidia-ml.so.1": None, f"{LIBRARIES}/libnvidia-ml.so.{NEW}": {"real": f"{LIBRARIES}/libnvidia-ml.so.{NEW}"}},
        OLD,
        OLD,
        "ok",
        [f"libraries of another driver version exist in addition to those of {OLD}: {LIBRARIES}/libnvidia-ml.so.{NEW}"],
    ),
]


@pytest.mark.parametrize(("files", "loaded", "user", "state", "says"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_decision_table(files: dict[str, Any], loaded: str, user: str, state: str, says: list[str]) -> None:
    found = driver(files, loaded, user)
    assert found.state == state
    told = " ".join((found.evidence, found.remedy) if state == "broken" else found.notes)
    assert [text for text in says if text not in told] == []
    assert bool(told) == bool(says)


@pytest.mark.parametrize(("files", "loaded", "user", "state", "says"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_tree_is_told_of_no_kernel_that_runs(files: dict[str, Any], loaded: str, user: str, state: str, says: list[str]) -> None:
    found = driver(files, loaded, user, kernel="")
    told = " ".join((found.evidence, found.remedy, *found.notes))
    assert (found.state, [word for word in (KERNEL, "for kernel ", "running kernel", "next reboot") if word in told]) == (state, [])


def test_a_module_that_is_not_loaded_and_not_there() -> None:
    loaded = dict.fromkeys(("/proc/driver/nvidia/version", "/sys/module/nvidia/version"))
    found = driver({**loaded, **installed(OTHER)})
    assert found.state == "not-loaded"
    assert f"no NVIDIA module on disk for the running kernel {KERNEL}, only for {OTHER}" in found.evidence
    assert "dkms status" in found.remedy
