# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""EKS: a node is never written to; what its next boot brings is said, and what is wrong with the
files for it.
"""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    next_boot,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import eks

from tests.unit import bare_trees, builders
from tests.unit.seen_containerds import find_containerd

assert eks.EKS.boot
BOOT = eks.EKS.boot
DROP_IN = "/etc/eks/nodeadm.d/10-gpu.yaml"
# As in the images from October 2025 on, and before.
READS = "ExecStart=/usr/bin/nodeadm init --skip config --config-source imds://user-data --config-source file:///etc/eks/nodeadm.d/\n"
EARLIER = "ExecStart=/usr/bin/nodeadm init --skip config\n"
NODE = """---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    flags:
      - --node-labels=gpu=yes
  containerd:
    config: |
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
      container_annotations = ["nvidia.cdi.k8s.io/*"]
"""


def host(
    node: str = NODE, unit: str = READS, *, runtime: bool = True, path: str = DROP_IN
) -> Observation:
    files = {BOOT.unit: unit, **({BOOT.program: ""} if runtime else {})}
    daemon = {
        "pid": 9,
        "exe": "/usr/bin/containerd",
        "argv": ["/usr/bin/containerd"],
        "unit": "containerd.service",
    }
    units = {
        "containerd.service": {"ActiveState": "active"},
        "nodeadm-run.service": {"ActiveState": "inactive"},
    }
    seen = builders.obs(files=files, processes=[daemon], units=units)
    shown = builders.file_answer(file_places.show_own_text(node, next_boot.keep_boot_values(BOOT)))
    seen.answers[f"glob:{next_boot.build_boot_pattern(BOOT)}"] = {
        "files": [{"path": path, **shown}]
    }
    return seen


def test_the_next_boot_is_told_and_where_a_person_says_something_else() -> None:
    one = find_containerd(host())
    message = one.refusal.message
    assert message.code == "containerd.next-boot-nvidia-handler"
    assert (message.values["handler"], message.values["program"]) == (
        "nvidia",
        "/usr/bin/nvidia-container-runtime",
    )
    assert step_of(one) == "containerd.boot-settings-in-directory"
    assert (
        find_containerd(host(runtime=False)).refusal.message.code
        == "containerd.next-boot-runc-handler"
    )


def step_of(one: Instance) -> str:
    """Return the code of the refusal's next step."""
    return get_code(one.refusal.message.values["step"])


def test_a_release_that_reads_no_files_there_has_the_user_data_alone() -> None:
    one = find_containerd(host("kind: Nonsense\n", EARLIER))
    assert step_of(one) == "containerd.boot-settings-elsewhere"
    assert "Nonsense" not in str(one.refusal)


TYPO, FIELD = (
    NODE.replace("  containerd:", "  contianerd:"),
    NODE.replace("    config:", "    confg:"),
)
MOVED = NODE.replace("  containerd:", "containerd:").replace("    config:", "  config:")
KIND, VERSION = (
    NODE.replace("kind: NodeConfig", "kind: NodeConf"),
    NODE.replace("apiVersion: node.eks.aws/v1alpha1\n", ""),
)
FAULTS = {
    "a field with a typo": (
        TYPO,
        "misspelled-key",
        {"line": 8, "key": "contianerd", "like": "containerd"},
    ),
    "a field of a field": (FIELD, "misspelled-key", {"line": 9, "key": "confg", "like": "config"}),
    "a table in the wrong place": (
        MOVED,
        "misplaced-key",
        {"line": 8, "key": "containerd", "tables": "spec"},
    ),
    "another kind": (
        KIND,
        "other-head",
        {"line": 3, "key": "kind", "found": "NodeConf", "value": "NodeConfig"},
    ),
    "no version": (
        VERSION,
        "without-head",
        {"key": "apiVersion", "value": "node.eks.aws/v1alpha1"},
    ),
}


@pytest.mark.parametrize("node, code, values", FAULTS.values(), ids=FAULTS)
def test_a_file_with_a_fault_is_named_by_its_line(
    node: str, code: str, values: dict[str, object]
) -> None:
    one = find_containerd(host(node))
    assert step_of(one) == f"containerd.boot-file-{code}"
    assert dict(one.refusal.message.values["step"].values) == {"path": DROP_IN, **values}


def test_what_may_be_a_field_of_a_newer_release_is_no_fault() -> None:
    assert (
        step_of(find_containerd(host(NODE + "  bootstrapping:\n    speed: high\n")))
        == "containerd.boot-settings-in-directory"
    )


def test_files_that_it_does_not_read_are_no_fault() -> None:
    assert (
        step_of(find_containerd(host("hello\n", path="/etc/eks/nodeadm.d/README")))
        == "containerd.boot-settings-in-directory"
    )


def test_no_value_of_a_file_leaves_the_host_but_its_kind() -> None:
    shown = file_places.show_own_text(NODE, next_boot.keep_boot_values(BOOT))
    assert "gpu=yes" not in shown
    assert "annotations" not in shown
    assert "kind: NodeConfig" in shown


def test_an_image_that_is_built_gets_no_configuration_that_its_first_boot_would_replace() -> None:
    policy = Policy(root="/mnt/image", engine_version="2.1.5", no_gpu="prepare")
    one = find_containerd(builders.obs(files={BOOT.unit: READS, BOOT.program: ""}), policy)
    assert one.manager == "eks"
    assert one.refusal.message.code == "containerd.next-boot-nvidia-handler"


def test_a_tree_is_looked_at_and_not_changed(tmp_path: pathlib.Path) -> None:
    """By the real observer: nodeadm's unit, and a file for it with a typo."""
    home = bare_trees.Tree(tmp_path)
    for path, text in {
        BOOT.unit: READS,
        DROP_IN: NODE.replace("  containerd:", "  contianerd:"),
        BOOT.program: "",
    }.items():
        home.write(path, text)
    before = home.state()
    answer = home.run_host(engine_version="2.1.5", no_gpu="prepare")
    assert answer["changed"] is False
    assert f"{DROP_IN}:8 has contianerd" in str(answer)
    assert home.state() == before
