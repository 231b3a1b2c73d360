# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each release of CRI-O says and has by itself, as its tags have it: what may be required of
it after a change, and what is copied.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Evidence,
    Instance,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    checks,
    plan,
    releases,
)

NVIDIA = "/usr/bin/nvidia-container-runtime"
SOCKET = "/var/run/crio/crio.sock"
LISTED = {"handler": "nvidia"}
IN_FORCE = {"path": ["config", "crio", "Runtimes", "nvidia", "RuntimePath"], "equals": NVIDIA}
DEFAULT = {"path": ["config", "crio", "DefaultRuntime"], "equals": "nvidia"}

# release -> what its CRI Status is asked for after a change that makes the handler the default
# (server/runtime_status.go of each tag)
REQUIRED: dict[tuple[int, int], list[dict[str, Any]]] = {
    (1, 24): [],
    (1, 27): [],
    (1, 29): [],
    (1, 30): [LISTED],
    (1, 32): [LISTED],
    (1, 33): [LISTED, IN_FORCE, DEFAULT],
    (1, 36): [LISTED, IN_FORCE, DEFAULT],
}


@pytest.mark.parametrize("version", REQUIRED)
def test_a_change_is_proven_by_what_the_release_says(version: tuple[int, int]) -> None:
    instance = Instance(
        "crio", f"{version[0]}.{version[1]}.0", "/usr/bin/crio", SOCKET, "/etc/crio/crio.conf", "crio.service", "package", True,
        Cdi(able=True, enabled=True, dirs=(), max_version="0.6.0", evidence=Evidence("cri-status", "")),
    )  # fmt: skip
    desired = plan.DesiredCrio(
        handlers={"nvidia": {"runtime_path": NVIDIA}},
        default="nvidia",
        unwanted_default=(),
        cdi_dirs=(),
    )
    (check,) = checks.build_crio_health_check(instance, version, desired)
    assert check["require"] == REQUIRED[version]


# release -> name, allowed annotations and the rest of the handler of a CRI-O whose files declare
# none (pkg/config/config.go of each tag)
TRACE, DEVICES = "io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"
MONITOR = {
    "monitor_cgroup": "system.slice",
    "monitor_env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
}
BUILT_IN: dict[tuple[int, int], tuple[str, list[str], dict[str, Any]]] = {
    (1, 23): ("runc", [TRACE], {}),
    (1, 24): ("runc", [TRACE], MONITOR),
    (1, 27): ("runc", [TRACE], MONITOR),
    (1, 29): ("runc", [TRACE, DEVICES], MONITOR),
    (1, 30): ("runc", [TRACE, DEVICES], MONITOR),
    (1, 31): ("crun", [TRACE, DEVICES], {**MONITOR, "container_min_memory": "500KiB"}),
}


@pytest.mark.parametrize("version", BUILT_IN)
def test_the_built_in_handler(version: tuple[int, int]) -> None:
    name, annotations, rest = BUILT_IN[version]
    assert releases.get_default_crio_runtime(version) == name
    assert releases.get_built_in_crio_handler(version) == {
        "runtime_root": f"/run/{name}",
        "allowed_annotations": annotations,
        **rest,
    }
