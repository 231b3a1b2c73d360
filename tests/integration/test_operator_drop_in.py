# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drop-in of a GPU Operator's toolkit beside containerd's main file goes once the toolkit is
gone. containerd judges what is in force then.

The toolkit container makes its handlers by the rules of nvidia-ctk, three of them with programs of
its own directory; so the file is that of the real nvidia-ctk 1.20, with its handler three times. No
daemon runs, and no kubelet is on this machine, so the toolkit is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
)

from tests.fixtures.containerd_releases import PATCH
from tests.integration import nvidia_ctk_trees
from tests.integration.containerd_trees import Tree, cri_of
from tests.integration.nvidia_ctk_trees import (
    CDI,
    DEFAULT,
    DROP_IN,
    ctk,
    effective,
    files,
    prepared,
)

TOOLKIT = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
PACKAGED = "/usr/bin/nvidia-container-runtime"
MODES = {"nvidia": "", "nvidia-cdi": ".cdi", "nvidia-legacy": ".legacy"}
CASES = [
    ("1.6", "kubeadm v2"),
    ("1.7", "secrets"),
    ("2.1", "kubeadm v3"),
    ("2.2", "kubeadm v2"),
    ("2.3", "kubeadm v2"),
    ("2.4", "kubeadm v3"),
]


def test_each_release_has_a_case() -> None:
    assert [release for release, _shape in CASES] == list(PATCH)


class TreeHost(nvidia_ctk_trees.TreeHost):
    """With what the module of one engine asks first, beside the engine's own."""

    def see(self, questions: list[dict[str, Any]]) -> dict[str, Any]:
        return super().see(
            [*questions, *gpu_operator.list_questions(self.policy), *gpu_operator.KUBELET_QUESTIONS]
        )


def operator(tree: Tree, *flags: str) -> Path:
    """The drop-in of the toolkit container."""
    ctk(tree, "1.20", *flags)
    path = tree.config.parent / DROP_IN
    lines = path.read_text().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if line.rstrip().endswith(".runtimes.nvidia]"))
    indent = lines[first].index("[")
    last = next(
        (n for n in range(first + 1, len(lines)) if lines[n].find("[") == indent), len(lines)
    )
    one = "".join(lines[first:last]).rstrip("\n") + "\n\n"
    three = (
        one.replace("runtimes.nvidia", f"runtimes.{name}").replace(PACKAGED, f"{TOOLKIT}{mode}")
        for name, mode in MODES.items()
    )
    path.write_text("".join(lines[:first]) + "".join(three) + "".join(lines[last:]))
    return path


@pytest.mark.parametrize("flags", [(CDI,), (DEFAULT,)], ids=["CDI on", "CDI off"])
@pytest.mark.parametrize(("release", "shape"), CASES)
def test_once_it_is_gone_all_is_as_on_a_host_that_it_never_was_on(
    tmp_path: Path, release: str, shape: str, flags: tuple[str, ...]
) -> None:
    tree, untouched = (
        prepared(tmp_path, release, shape),
        prepared(tmp_path, release, shape, "untouched"),
    )
    theirs = operator(tree, *flags)
    assert set(MODES) <= set(cri_of(effective(tree))["containerd"]["runtimes"])
    was = files(tree)
    tree_host, plain = TreeHost(tree), TreeHost(untouched)
    plan = tree_host.plan("present")
    assert [(left.tool, left.path, left.exact, left.fate) for left in plan.leftovers] == [
        ("gpu-operator", str(theirs), True, "adopted")
    ]
    tree_host.apply(plan)
    plain.apply(plain.plan("present"))
    assert not theirs.exists()
    assert effective(tree) == effective(untouched)
    again = tree_host.plan("present")
    assert (again.differences, again.leftovers) == ((), ())
    tree_host.apply(tree_host.plan("absent"))
    assert files(tree) == was
