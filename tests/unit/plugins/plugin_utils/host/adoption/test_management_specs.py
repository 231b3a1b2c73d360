# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDI specs for management containers that others made: named with their fate and the reason, and
never removed.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import documents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import other_files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    projection as lint_projection,
)

from tests.unit.bare_trees import Tree

PLACE = "/var/run/cdi/management.nvidia.com-gpu.yaml"
# As nvidia-ctk cdi generate --mode=management --vendor=management.nvidia.com writes it, and as the
# toolkit's container does, shortened.
BY_CTK = """---
cdiVersion: 0.5.0
containerEdits:
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib/x86_64-linux-gnu]
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.15
    hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.15
    options: [ro, nosuid, nodev, bind]
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/nvidiactl
  name: all
kind: management.nvidia.com/gpu
"""
BY_OPERATOR = BY_CTK.replace("path: /usr/bin/", "path: /usr/local/nvidia/toolkit/")
BY_HAND = BY_CTK.replace("  hooks:", "  - MINE=1\n  hooks:")
ASKED = "containers that watch GPUs may ask for management.nvidia.com/gpu=all, which no spec of this run defines; "
LIVE = gpu_operator.State("live", "its process nvidia-toolkit runs", (PLACE,))
UNKNOWN = gpu_operator.State("unknown", "the kubelet of this host does not run", (PLACE,))
DEAD = gpu_operator.State("dead", "no kubelet is on this host", (PLACE,))
# the spec, what is known of a GPU Operator -> its tool, exact, fate, why it has it
CASES: dict[str, tuple[str, gpu_operator.State, tuple[str, bool, str, str]]] = {
    "nvidia-ctk": (
        BY_CTK,
        DEAD,
        ("nvidia-ctk", True, "kept", f"{ASKED}for another driver only its author"),
    ),
    "nvidia-ctk, beside an operator": (
        BY_CTK,
        LIVE,
        ("nvidia-ctk", True, "kept", f"{ASKED}for another driver only its author"),
    ),
    "nvidia-ctk and a person": (
        BY_HAND,
        DEAD,
        ("nvidia-ctk", False, "kept", f"{ASKED}for another driver only its author"),
    ),
    "an operator that works": (BY_OPERATOR, LIVE, ("gpu-operator", True, "live", LIVE.why)),
    "an operator of which nothing proves that it is gone": (
        BY_OPERATOR,
        UNKNOWN,
        ("gpu-operator", True, "live", UNKNOWN.why),
    ),
    "an operator that is gone": (
        BY_OPERATOR,
        DEAD,
        ("gpu-operator", True, "kept", f"{ASKED}its toolkit is gone, so"),
    ),
}


def shown(text: str, path: str = PLACE) -> ObservedFile:
    return ObservedFile(
        path,
        True,
        "file",
        documents.project_document(text.encode(), lint_projection.KEEP, str)[0].decode(),
    )


@pytest.mark.parametrize("case", CASES)
def test_it_is_named_with_its_fate_and_the_reason(case: str) -> None:
    text, state, (tool, exact, fate, why) = CASES[case]
    (left,) = other_files.list_management_leftover(shown(text), lambda path: state)
    assert (left.tool, left.path, left.exact, left.fate, left.why.startswith(why)) == (
        tool,
        PLACE,
        exact,
        fate,
        True,
    ), left
    assert (
        left.next == gpu_operator.HAND_OVER
        if fate == "live"
        else "cdi_layout: management" in left.next
    )


NOT_THOSE = {
    "another kind": (BY_CTK.replace("management.nvidia.com", "nvidia.com"), PLACE),
    "no spec": ("management.nvidia.com/gpu: [", PLACE),
    "a name that no engine reads": (BY_CTK, f"{PLACE}.bak"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_THOSE)
def test_no_other_file_is_named(case: str) -> None:
    text, path = NOT_THOSE[case]
    assert (
        other_files.list_management_leftover(
            ObservedFile(path, True, "file", text), lambda path: DEAD
        )
        == ()
    )


@pytest.mark.parametrize("text", [BY_CTK, BY_OPERATOR])
def test_a_whole_run_names_it_each_time_and_leaves_it(tmp_path: pathlib.Path, text: str) -> None:
    home = Tree(tmp_path / "host")
    home.write(PLACE, text)

    def run() -> Any:
        return home.run_host(engines=("containerd",), engine_version="2.1.9")["leftovers"]

    named = [[(left["path"], left["fate"]) for left in run()] for _time in range(2)]
    assert named == [[(PLACE, "kept")]] * 2
    assert home.read(PLACE) == text
