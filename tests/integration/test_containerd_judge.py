# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd itself judges the plans: its dump before and after differs by our keys and nothing else, and a second plan is empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import releases

from tests.integration.containerd_trees import CASES, NATURAL, RELEASES, Tree, before, binary, cri_of, dump, prepared, rest_of


@pytest.mark.parametrize(("release", "shape"), CASES)
def test_the_engine_sees_our_keys_and_no_other_difference(tmp_path: Path, release: str, shape: str) -> None:
    tree = prepared(tmp_path, release, shape)
    was = before(tree)
    tree.apply(tree.plan(default=True))
    now = dump(release, tree.config)
    containers = cri_of(now)["containerd"]
    handler = containers["runtimes"]["nvidia"]
    assert handler["options"]["BinaryName"] == "/usr/bin/nvidia-container-runtime"
    assert handler["runtime_type"] == releases.RUNC_TYPE
    assert handler["container_annotations"] == ["nvidia.cdi.k8s.io/*"]
    runc = containers["runtimes"]["runc"]
    by_systemd = shape.split()[0] in ("kubeadm", "dotted", "crlf", "imports") or shape.startswith("version 2")
    assert bool(handler["options"].get("SystemdCgroup")) == bool(runc["options"].get("SystemdCgroup")) == by_systemd
    assert containers["default_runtime_name"] == "nvidia"
    assert rest_of(now, keys=("default_runtime_name",)) == rest_of(was, keys=("default_runtime_name",))


@pytest.mark.parametrize(("release", "shape"), CASES)
def test_a_second_plan_is_empty_and_the_default_can_go_back(tmp_path: Path, release: str, shape: str) -> None:
    tree = prepared(tmp_path, release, shape)
    tree.apply(tree.plan(default=True))
    again = tree.plan(default=True)
    assert again.empty, again.differences
    tree.apply(tree.plan(default=False))
    assert cri_of(dump(release, tree.config))["containerd"]["default_runtime_name"] == "runc"
    assert tree.plan(default=False).empty


@pytest.mark.parametrize(("release", "shape"), [c for c in CASES if c[1] != "no file"])
def test_absent_without_the_journal_takes_out_just_our_keys(tmp_path: Path, release: str, shape: str) -> None:
    tree = prepared(tmp_path, release, shape)
    was = tree.files()
    tree.apply(tree.plan())
    tree.apply(tree.plan(absent=True))
    kept = {p: t for p, t in tree.files().items() if not p.endswith("90-gpufleet.toml")}
    if release.startswith("1."):
        runc_named = "runc" in was[str(tree.config)]
        assert not runc_named or kept == was
    else:
        assert set(kept) == set(was)
    dump(release, tree.config)


@pytest.mark.parametrize(
    ("release", "writes"), [("1.6", False), ("1.7", True), ("2.1", False), ("2.2", False), ("2.3", False), ("2.4", False)]
)
def test_the_cdi_switch_is_written_only_where_it_is_off_by_default(tmp_path: Path, release: str, writes: bool) -> None:
    tree = prepared(tmp_path, release, "debian v2")
    tree.apply(tree.plan(enable_cdi=True))
    assert ("enable_cdi = true" in "".join(tree.files().values())) is writes
    now = cri_of(dump(release, tree.config))
    assert now.get("enable_cdi") is {"1.6": None, "2.4": None}.get(release, True)


@pytest.mark.parametrize("release", ["2.1", "2.3"])
def test_an_explicit_false_of_the_cdi_switch_is_undone(tmp_path: Path, release: str) -> None:
    tree = Tree(tmp_path, release)
    tree.write({"config.toml": 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = false\n'})
    assert cri_of(dump(release, tree.config))["enable_cdi"] is False
    tree.apply(tree.plan(enable_cdi=True))
    assert cri_of(dump(release, tree.config))["enable_cdi"] is True


# What people make of runc's properties; the handler that pods run with is the first one named. Node images: test_public_configurations.py.
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
def test_pods_of_our_handler_run_as_pods_of_the_node_run(tmp_path: Path, release: str, image: str) -> None:
    """No effective property of the handler that pods run with is less in ours, and that handler stays as it was."""
    binary(release)
    name, text = NODE_IMAGES[image]
    schema = 3 if release.startswith("2.") else 2
    tree = Tree(tmp_path, release)
    tree.write({"config.toml": f"version = {schema}\n" + text.replace("@CRI@", NATURAL[schema])})
    was = cri_of(dump(release, tree.config))["containerd"]["runtimes"][name]
    tree.apply(tree.plan())
    after = cri_of(dump(release, tree.config))["containerd"]["runtimes"]
    now = after["nvidia"]
    theirs = {k: v for k, v in was.items() if v and k not in ("runtime_type", "options", "container_annotations")}
    now["sandboxer"] = now.get("sandboxer") or "podsandbox"  # 2.x prints it for the handler that is built in, and means the same by ''
    assert {k: now.get(k) for k in theirs} == theirs
    assert {k: now["options"].get(k) for k, v in was["options"].items() if v and k != "BinaryName"} == {
        k: v for k, v in was["options"].items() if v and k != "BinaryName"
    }
    assert now["options"]["SystemdCgroup"] is True
    assert name == "nvidia" or after[name] == was
    default = after[cri_of(dump(release, tree.config))["containerd"]["default_runtime_name"]]
    assert default["options"]["SystemdCgroup"] is True
    assert tree.plan().empty
