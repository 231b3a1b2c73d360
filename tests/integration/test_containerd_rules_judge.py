# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Daemons judge the table of containerd's rules: each row loads, or does not, on one release of
each minor as the table says.
"""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    engine_rules,
    releases,
)

from tests.fixtures import containerd_rules as rules
from tests.fixtures.containerd_releases import list_distinct
from tests.integration import containerd_trees as trees
from tests.integration.containerd_daemons import judged


@pytest.mark.parametrize(("name", "release"), rules.CASES)
def test_the_daemon_agrees(tmp_path: Path, name: str, release: str) -> None:
    row, tree = rules.ROWS[name], trees.Tree(tmp_path / "tree", release)
    tree.write(dict(row.files))
    verdict = judged(release, tree.config)
    expected = (
        "serves CRI" if release not in row.refused else "no CRI" if row.starts else "does not start"
    )
    assert verdict.outcome == expected, verdict.said


@pytest.mark.parametrize("release", rules.ALL)
@pytest.mark.parametrize("name", releases.CRI_NEEDS)
def test_cri_needs_what_the_releases_say(tmp_path: Path, name: str, release: str) -> None:
    tree, version = (
        trees.Tree(tmp_path / "tree", release),
        versions.parse_engine_version(rules.PATCH[release]),
    )
    tree.write({"config.toml": f'version = 2\ndisabled_plugins = ["{name}"]\n'})
    verdict = judged(release, tree.config)
    assert version
    assert verdict.outcome == (
        "no CRI" if engine_rules.is_needed_by_cri(name, version) else "serves CRI"
    ), verdict.said


@pytest.mark.parametrize("release", rules.ALL)
def test_files_that_import_each_other_are_loaded(tmp_path: Path, release: str) -> None:
    tree = trees.Tree(tmp_path / "tree", release)
    tree.write({
        "config.toml": 'version = 2\nimports = ["@DIR@/a.toml"]\n', "a.toml": 'version = 2\nimports = ["@DIR@/b.toml"]\n',
        "b.toml": 'version = 2\nimports = ["@DIR@/a.toml", "@DIR@/config.toml"]\n',
    })  # fmt: skip
    assert judged(release, tree.config).outcome == "serves CRI"
    tree.apply(tree.plan(default=True))
    assert judged(release, tree.config).outcome == "serves CRI"
    assert tree.plan(default=True).empty


CRI, IMAGES = "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"
OTLP, OPENTELEMETRY = "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"
OF_OLDER_RELEASES = f"""version = 3
[plugins.'{CRI}']
enable_cdi = false
[plugins.'{CRI}'.cni]
bin_dir = "/usr/lib/cni"
[plugins.'{IMAGES}'.registry.mirrors."docker.io"]
endpoint = ["https://mirror.example.org"]
[plugins.'{OTLP}']
endpoint = "http://collector.example.org:4318"
[plugins.'{OPENTELEMETRY}']
service_name = "host"
"""
# Of a plugin without settings containerd prints what the file has, and reads none of it.
WITHOUT_SETTINGS = (OTLP, OPENTELEMETRY)


def load(release: str, text: str, place: Path) -> tuple[dict[str, Any], str]:
    """Return the plugins' settings as a release reads them, and what it says meanwhile."""
    config = place / "config.toml"
    config.write_text(text)
    command = [str(trees.binary(release)), "-c", str(config), "config", "dump"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    plugins: dict[str, Any] = tomllib.loads(done.stdout)["plugins"]
    return plugins, done.stderr


@pytest.mark.parametrize(("release", "ignores"), [("2.3", False), ("2.4", True)])
def test_what_an_upgrade_to_2_4_loses(tmp_path: Path, release: str, ignores: bool) -> None:
    """Those keys have rows in the table of known-bad combinations, and mirrors have none."""
    plugins, said = load(release, OF_OLDER_RELEASES, tmp_path)
    assert ("enable_cdi" not in plugins[CRI]) is ignores
    assert ("bin_dir" not in plugins[CRI]["cni"]) is ignores
    assert plugins[CRI]["cni"]["bin_dirs"] == ["/opt/cni/bin"]
    assert ('key="cni bin_dir"' in said) is ignores
    assert all(plugins[name] for name in WITHOUT_SETTINGS)
    assert plugins[IMAGES]["registry"]["mirrors"]["docker.io"]["endpoint"]


@pytest.mark.parametrize("release", list_distinct("2.1"))
def test_a_directory_of_version_2_is_moved(tmp_path: Path, release: str) -> None:
    text = """version = 2
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
"""
    plugins, _said = load(release, text, tmp_path)
    assert plugins[CRI]["cni"]["bin_dirs"] == ["/usr/lib/cni"]
