# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan on trees with configurations that others have published."""

from __future__ import annotations

import pathlib
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config as containerd_config,
)

from tests.fixtures import containerd_releases
from tests.fixtures.public_configurations import CONTAINERD, Public
from tests.unit import bare_trees, builders

NVIDIA = "/usr/bin/nvidia-container-runtime"
PATCH = {**containerd_releases.PATCH, "1.34": "1.34.0"}  # and of CRI-O


def version(release: str) -> Version:
    found = versions.parse_engine_version(PATCH[release])
    assert found
    return found


def tree(path: pathlib.Path, config: str, text: str) -> bare_trees.Tree:
    """The image of a node: the kubelet is installed."""
    found = bare_trees.Tree(path)
    found.write(config, text)
    for program in ("/usr/bin/kubelet", NVIDIA):
        found.write(program, "", 0o755)
    return found


def run(home: bare_trees.Tree, way: str, row: Public, release: str, **more: Any) -> dict[str, Any]:
    options = {"engine_version": PATCH[release], **more}
    if row.engine == "containerd":
        options["config_path"] = CONTAINERD
    return (
        home.single(row.engine, **options)
        if way == "single"
        else home.run_host(engines=(row.engine,), **options)
    )


def in_force(home: bare_trees.Tree, release: str) -> dict[str, Any]:
    """The CRI table that containerd's files add up to."""
    files = {path: data.decode() for path, (data, *_mode) in home.state().items() if data}
    found = containerd_config.load_containerd_files(
        containerd_config.read_config_facts(builders.obs(files=files)), CONTAINERD, version(release)
    )
    return containerd_config.build_effective_cri_table(found, version(release))
