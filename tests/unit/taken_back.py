# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees that this collection has converged, for tests of how its changes are taken back."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    oci_hook,
)

from tests.unit.bare_trees import Tree

V1 = 'version = 2\n# ours since 2019\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "pause:3.9"\n'
V2 = "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n\n[plugins.'io.containerd.cri.v1.runtime']\n  enable_selinux = false\n"
BARE = "version = 3\n"
DAEMON = '{\n  "debug": true,\n  "log-opts": {"splunk-token": "x"}\n}\n'
ROOT, DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/90-gpufleet.toml"
CRIO, JSON = "/etc/crio/crio.conf.d/90-gpufleet.conf", "/etc/docker/daemon.json"
HOOK = "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json"
SPEC = "/etc/nvidia-container-runtime/config.toml"
FOREIGN_HOOK = json.dumps({**oci_hook.build_hook_content(), "hook": {"path": "/opt/site/hook"}})
RUNTIME = '[nvidia-container-cli]\nload-kmods = true\n\n[nvidia-container-runtime]\nmode = "auto"\n'
CTK = V1 + (
    '  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]\n    BinaryName = "/usr/bin/nvidia-container-runtime"\n'
)

# name -> (engine, its version, the files before us, the file with our part in it)
ENGINES: dict[str, tuple[str, str, dict[str, str], str]] = {
    "containerd 1.6": ("containerd", "1.6.20", {ROOT: V1}, ROOT),
    "containerd 1.7": ("containerd", "1.7.24", {ROOT: V1, SPEC: RUNTIME}, ROOT),
    "containerd 1.7, no file": ("containerd", "1.7.24", {}, ROOT),
    "containerd 2.1": ("containerd", "2.1.9", {ROOT: V2, SPEC: RUNTIME}, DROP_IN),
    "containerd 2.3, no imports": ("containerd", "2.3.1", {ROOT: BARE}, DROP_IN),
    "containerd 2.4, no file": ("containerd", "2.4.2", {}, DROP_IN),
    "CRI-O": ("crio", "1.34.0", {"/etc/crio/crio.conf": "[crio.runtime]\n"}, CRIO),
    "CRI-O, no file": ("crio", "1.34.0", {}, CRIO),
    "Docker": ("docker", "26.1.5", {JSON: DAEMON}, JSON),
    "Docker, no file": ("docker", "28.5.2", {}, JSON),
}  # fmt: skip


def tree(tmp_path: pathlib.Path, files: dict[str, str]) -> Tree:
    made = Tree(tmp_path / "host")
    for number, (name, text) in enumerate(files.items()):
        made.write(name, text, (0o600, 0o640, 0o644)[number % 3])
    return made


def converged(tmp_path: pathlib.Path, name: str) -> tuple[Tree, dict[str, Any]]:
    engine, version, files, _place = ENGINES[name]
    made = tree(tmp_path, files)
    before = made.state()
    done = made.run_host(engines=(engine,), engine_version=version)
    assert done["failed"] is False
    assert made.state() != before
    return made, before
