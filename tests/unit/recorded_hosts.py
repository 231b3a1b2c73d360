# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with the GPUs of an inventory, as the planner sees it.

The files are those of the lab's fake, and NVML's answer is what the probe gets from its library.
"""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

from tests.lab.fakegpu import (
    device_nodes,
    driver_libraries,
    host_tree,
    inventories,
    nvml_answers,
    packaged,
)
from tests.unit import builders, cdi_plans, drivers

KERNEL = "6.1.0"
SOURCE = "print('the probe')"
# The node side is not typed.
PROBE: Any = importlib.import_module(
    "ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes.nvml"
)
NEEDS_COMPILER = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="NVML's library is compiled for this test, and there is no gcc"
)  # fmt: skip


def files(inv: inventories.Inventory) -> dict[str, Any]:
    """Return what /proc, /sys and /dev show, and the driver's files, as the builders take them."""
    found: dict[str, Any] = {}
    for name, entry in host_tree.tree(inv, KERNEL).items():
        path = name.removeprefix(packaged.TOP)
        if path == name:
            continue
        if path.endswith("/driver"):
            found[path] = {"real": f"/sys/bus/pci/drivers/{entry.link.rpartition('/')[2]}"}
        elif not path.endswith("/bind"):
            found[path] = entry.text
        if "/drm/" in path:
            found[path.rpartition("/")[0]] = {"type": "dir"}
    for path, major, minor in device_nodes.nodes(inv):
        mode = device_nodes.get_node_mode(path)
        found[path] = {"type": "char", "rdev": [major, minor], "mode": mode}
    folder = f"/usr/lib/{inv.cpu}-linux-gnu"
    return {**found, **drivers.HOOK, **drivers.core(folder, inv.version)}


@functools.cache
def compiled() -> tempfile.TemporaryDirectory[str]:
    """Return a folder with NVML's library, compiled once for a run and gone after it."""
    folder = tempfile.TemporaryDirectory(prefix="gpufleet-nvml-")
    driver_libraries.compile_nvml(Path(folder.name))
    return folder


def ask_nvml(inv: inventories.Inventory) -> dict[str, Any]:
    """Return what the probe reports."""
    with tempfile.NamedTemporaryFile("w") as conf, pytest.MonkeyPatch.context() as patch:
        conf.write(nvml_answers.nvml_conf(inv))
        conf.flush()
        patch.setenv("FAKE_NVML", conf.name)
        answer: dict[str, Any] = PROBE.run(
            {"library": f"{compiled().name}/{driver_libraries.NVML}.so.1"}
        )
    return answer


def plan(
    inv: inventories.Inventory,
    cap: str = "1.0.0",
    more: Mapping[str, Any] | None = None,
    **policy: Any,
) -> Plan | PlanError:
    """Return the plan for the host's CDI spec, or the refusal. more: files that are added, None for
    one that is gone.
    """
    there = {p: t for p, t in {**files(inv), **(more or {})}.items() if t is not None}
    answers: dict[str, Any] = {"probe:nvml": {"value": ask_nvml(inv)}}
    wanted = Policy(single=True, **policy)
    for _look in range(4):
        seen = builders.obs(
            files=there,
            packages={packages.BASE: "1.20.2-1"},
            answers=answers,
            host={"os_release": {"ID": "debian"}, "epoch": 10.0, "machine": inv.cpu},
        )
        try:
            record = resource.record_of_options("collection", cap)
            driver = driver_state.read_driver(wanted, seen)
            facts = spec_facts.read_spec_facts(wanted, seen, record, driver, SOURCE)
            return cdi_plans.plan_specs(wanted, facts, record, driver)
        except NeedMore as need:
            missing = {"error": {"kind": "not-found", "message": "there is no such program"}}
            answers.update({q["id"]: missing for q in need.questions})
        except PlanError as refusal:
            return refusal
    raise AssertionError("it asks forever")


def run_with_nvml(inv: inventories.Inventory, scratch: Path, program: str) -> str:
    """Return what a Python program prints where NVML answers of these GPUs."""
    conf = scratch / "fake-nvml.conf"
    conf.write_text(nvml_answers.nvml_conf(inv))
    env = {**os.environ, "LD_LIBRARY_PATH": compiled().name, "FAKE_NVML": str(conf)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout
