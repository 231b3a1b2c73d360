# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of handlers in any spelling, as containerd's decoders read them: the values are what
go-toml 1.9.5 and 2.4.3 make of them.
"""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    options as containerd_options,
)

from tests.integration.containerd_trees import decision
from tests.unit.builders import obs

OLD, NEW = Version(1, 7, 24), Version(2, 1, 4)
NVIDIA, RUNC = "/usr/bin/nvidia-container-runtime", "/usr/local/bin/runc"
CASES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("as they are called", {"SystemdCgroup": True}, {"SystemdCgroup": True}, {"SystemdCgroup": True}),
    ("older releases of Kubespray", {"systemdCgroup": True, "binaryName": RUNC}, *2 * ({"SystemdCgroup": True, "BinaryName": RUNC},)),
    ("all small, all large", {"binaryname": RUNC, "SYSTEMDCGROUP": True}, *2 * ({"BinaryName": RUNC, "SystemdCgroup": True},)),
    ("both spellings", {"BinaryName": NVIDIA, "binaryName": RUNC}, {"BinaryName": NVIDIA}, {"BinaryName": RUNC}),
    ("the same in another order", {"binaryName": RUNC, "BinaryName": NVIDIA}, {"BinaryName": NVIDIA}, {"BinaryName": RUNC}),
    ("what is no option of runc", {"Custom": 1}, {"Custom": 1}, {"Custom": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "options", "old", "new"), CASES, ids=[case for case, *_rest in CASES]
)
def test_an_option_counts_in_any_spelling(
    case: str, options: dict[str, Any], old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert (
        containerd_options.read_handler_options(options, OLD),
        containerd_options.read_handler_options(options, NEW),
    ) == (old, new)


KUBESPRAY = """version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "/etc/containerd/cri-base.json"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      systemdCgroup = true
      binaryName = "/usr/local/bin/runc"
"""
WITH_NVIDIA = (
    KUBESPRAY
    + """  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    container_annotations = ["nvidia.cdi.k8s.io/*"]
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
      systemdCgroup = true
      binaryName = "@PROGRAM@"
"""
)
ROOT = "/etc/containerd/config.toml"


def planned(release: str, text: str) -> Any:
    policy = Policy(config_path=ROOT, root="/tree", engine_version=release, single=True)
    seen = obs(files={ROOT: text})
    (instance,) = containerd_detect.find_instances(
        policy, containerd_detect.read_facts(policy, seen)
    )
    return containerd_detect.plan_instance(
        policy, containerd_detect.read_facts(policy, seen), instance, decision(False, False)
    )


@pytest.mark.parametrize("release", ["1.6.20", "1.7.24", "2.1.4", "2.3.7"])
def test_a_cgroup_driver_in_kubesprays_spelling_is_not_lost(release: str) -> None:
    values = {
        d.key.rpartition("nvidia.")[2]: d.after for d in planned(release, KUBESPRAY).differences
    }
    assert values["options.SystemdCgroup"] is True
    assert values["base_runtime_spec"] == "/etc/containerd/cri-base.json"


def test_a_handler_in_that_spelling_that_says_the_same_is_right() -> None:
    policy = Policy(config_path=ROOT, root="/tree", engine_version="1.7.24", single=True)
    seen = obs(files={ROOT: WITH_NVIDIA.replace("@PROGRAM@", NVIDIA)})
    (instance,) = containerd_detect.find_instances(
        policy, containerd_detect.read_facts(policy, seen)
    )
    assert instance.handlers == {"runc": RUNC, "nvidia": NVIDIA}
    assert not planned("1.7.24", WITH_NVIDIA.replace("@PROGRAM@", NVIDIA)).changes


def test_on_1_x_the_usual_spelling_beside_it_wins() -> None:
    plan = planned(
        "1.7.24",
        WITH_NVIDIA.replace("@PROGRAM@", "/usr/local/nvidia/toolkit/nvidia-container-runtime"),
    )
    (change,) = plan.changes
    text = "".join(edit["text"] for edit in change["edits"])
    assert f'BinaryName = "{NVIDIA}"' in text
    assert tomllib.loads(plan.diffs[0][2])  # and the file can be read


def test_on_2_x_no_drop_in_can_win_against_it() -> None:
    with pytest.raises(PlanError, match=r"\[containerd\.option-in-other-spelling\]") as caught:
        planned(
            "2.1.4",
            WITH_NVIDIA.replace("@PROGRAM@", "/usr/local/nvidia/toolkit/nvidia-container-runtime"),
        )
    assert (caught.value.where, caught.value.line) == (ROOT, 15)
