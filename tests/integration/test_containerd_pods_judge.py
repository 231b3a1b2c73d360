# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd itself judges our handler: pods that it runs are as those of the node, whatever people
have made of runc's properties.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.containerd_trees import NATURAL, RELEASES, Tree, binary, cri_of, dump

# What people make of runc's properties; the handler that pods run with is the first one named. Node
# images: test_public_configurations.py.
NODE_IMAGES: dict[str, tuple[str, str]] = {
    "crun is the default": ("crun", """
[plugins.@CRI@.containerd]
default_runtime_name = "crun"
[plugins.@CRI@.containerd.runtimes.crun]
runtime_type = "io.containerd.runc.v2"
[plugins.@CRI@.containerd.runtimes.crun.options]
BinaryName = "/usr/bin/crun"
SystemdCgroup = true
Root = "/run/own"
[plugins.@CRI@.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""),
    # containerd's own documents of 2020, kept by many guides
    "runc of an older type": ("runc", """
[plugins.@CRI@.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v1"
privileged_without_host_devices = true
[plugins.@CRI@.containerd.runtimes.runc.options]
SystemdCgroup = true
"""),
}  # fmt: skip


@pytest.mark.parametrize("image", NODE_IMAGES)
@pytest.mark.parametrize("release", RELEASES)
def test_pods_of_our_handler_run_as_pods_of_the_node_run(
    tmp_path: Path, release: str, image: str
) -> None:
    """No effective property of the handler that pods run with is less in ours, and that handler
    stays as it was.
    """
    binary(release)
    name, text = NODE_IMAGES[image]
    schema = 3 if release.startswith("2.") else 2
    tree = Tree(tmp_path, release)
    tree.write({"config.toml": f"version = {schema}\n" + text.replace("@CRI@", NATURAL[schema])})
    was = cri_of(dump(release, tree.config))["containerd"]["runtimes"][name]
    tree.apply(tree.plan())
    after = cri_of(dump(release, tree.config))["containerd"]["runtimes"]
    now = after["nvidia"]
    theirs = {
        k: v
        for k, v in was.items()
        if v and k not in ("runtime_type", "options", "container_annotations")
    }
    # 2.x prints it for the handler that is built in, and means the same by ''
    now["sandboxer"] = now.get("sandboxer") or "podsandbox"
    assert {k: now.get(k) for k in theirs} == theirs
    assert {
        k: now["options"].get(k) for k, v in was["options"].items() if v and k != "BinaryName"
    } == {k: v for k, v in was["options"].items() if v and k != "BinaryName"}
    assert now["options"]["SystemdCgroup"] is True
    assert name == "nvidia" or after[name] == was
    default = after[cri_of(dump(release, tree.config))["containerd"]["default_runtime_name"]]
    assert default["options"]["SystemdCgroup"] is True
    assert tree.plan().empty
