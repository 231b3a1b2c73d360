# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mount that says "no devices" to the NVIDIA runtime: in every spec, but where a release that
is installed would not start with it.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    VOID_MOUNT,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
    toolkit_config,
)

from tests.unit import cdi_plans
from tests.unit.builders import obs
from tests.unit.gpus import host, nvml
from tests.unit.records import record

# of cdi_spec, which writes no config.toml
ALONE = resource.record_of_options("collection", "1.0.0")
BY_CDI, BY_MOUNTS = ("cdi-cri",), ("volume-mounts",)
TRUE, FALSE = (
    f"accept-nvidia-visible-devices-as-volume-mounts = {value}\n" for value in ("true", "false")
)
# The plugin's strategies (None: the single module), the runtime's file, the installed toolkit,
# whether the specs have the mount.
CASES: list[tuple[str, tuple[str, ...] | None, str | None, str | None, bool]] = [
    ("mounts are switched off by this run", BY_CDI, TRUE, "1.17.8-1", True),
    ("mounts are off, an old toolkit", BY_CDI, FALSE, "1.20.1-1", True),
    ("mounts are declared, an old toolkit", BY_MOUNTS, FALSE, "1.20.1-1", False),
    ("mounts are declared, and the release knows the mount", BY_MOUNTS, FALSE, "1.20.2-1", True),
    ("mounts are declared, a later release", BY_MOUNTS, TRUE, "1.21.0-1", True),
    ("mounts are declared, and the toolkit is no package", BY_MOUNTS, TRUE, None, False),
    ("the single module, a file without the key", None, "", "1.17.8-1", True),
    ("the single module, no file", None, None, None, True),
    ("the single module, mounts are on, an old toolkit", None, TRUE, "1.20.1-1", False),
    ("the single module, mounts are on, a candidate", None, TRUE, "1.20.2~rc.1-1", False),
    ("the single module, mounts are on, the release", None, TRUE, "1.20.2-1", True),
]


@pytest.mark.parametrize(
    ("plugin", "config", "toolkit", "there"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_which_hosts_have_the_mount(
    plugin: Any, config: str | None, toolkit: str | None, there: bool
) -> None:
    files = {**host(1), **({} if config is None else {toolkit_config.PATH: config})}
    installed = {packages.BASE: toolkit} if toolkit else {}
    policy = Policy(
        cdi_profile="devices",
        single=plugin is None,
        packages="ignore",
        cdi_nvswitch=True,
        cdi_imex_channels=("all",),
    )
    seen = obs(files=files, packages=installed, answers=nvml(1))
    decided = (
        ALONE
        if plugin is None
        else dc.replace(record(policy), plugin_strategies=plugin, cdi_owner="collection")
    )
    plan = cdi_plans.plan_specs(
        policy,
        spec_facts.read_spec_facts(
            policy, seen, decided, driver_state.read_driver(policy, seen), ""
        ),
        decided,
        driver_state.read_driver(policy, seen),
    )
    specs = [reader.parse_spec(c["content"]) for c in plan.changes if c["op"] == "write"]
    assert specs
    assert {VOID_MOUNT in spec.edits.mounts for spec in specs} == {there}


def test_a_mount_of_another_kind_is_a_person_s_work() -> None:
    text = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ncontainerEdits:\n  mounts:\n"
    text += "  - {hostPath: HOST, containerPath: PLACE, options: [ro, nosuid, nodev, bind]}\n"
    text += "devices:\n- name: '0'\n  containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}\n"
    rows = [
        ("/dev/null", VOID_MOUNT.container_path, ()),
        ("/dev/null", "/var/run/nvidia-container-devices/0", ("the mount of /dev/null",)),
        ("/dev/zero", VOID_MOUNT.container_path, ("the mount of /dev/zero",)),
        ("/usr/lib/libibumad.so.3", "/usr/lib/libibumad.so.3", ()),
        ("/usr/lib/libibmad.so.5", "/usr/lib/libibmad.so.5", ()),
        (
            "/usr/lib/libibverbs.so.1",
            "/usr/lib/libibverbs.so.1",
            ("the mount of /usr/lib/libibverbs.so.1",),
        ),
        ("/usr/lib/libnvsdm.so.1", "/usr/lib/libnvsdm.so.1", ()),
    ]
    found = [
        cdi_files.list_unexplained_spec_parts(
            reader.parse_spec(text.replace("HOST", of).replace("PLACE", at))
        )
        for of, at, _said in rows
    ]
    assert found == [said for _of, _at, said in rows]
