# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each library of each driver package whose list is public: our spec mounts it, or there is a reason
not to; and nvidia-ctk finds nothing there that we do not.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
)

from tests import night
from tests.gpu import spec_facts
from tests.lab import trees
from tests.lab.fakegpu import inventories
from tests.tools import oracle

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="nvidia-ctk is built with Go, which is not here"
    ),
]

BY_NIGHT = pytest.mark.nightly("lists of one packager grow by a library or two a branch")
FILE = Path(__file__).resolve().parent.parent / "fixtures" / "driver_packages.yml"
PACKAGES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())
ROWS = night.leave_unless(
    BY_NIGHT, [(name,) for name in PACKAGES], lambda row: bool(PACKAGES[row[0]].get("by_day"))
)
# Libraries that no container gets, by name, and why. nvidia-ctk passes each of them over as well.
REASONS = {
    "libnvidia-api.so.1": "Wine and Proton load it, and bring what they need of it; it has no version of the driver",
    "libnvidia-nvvm.so.4.0.0": "of branches 470 and 510, for optimisation at link time alone; it has no version of the driver",
    "libnvidia-nvvm.so.4": "a link of branch 515 whose file the list lacks",
    "tls/libnvidia-tls": "of branch 390, for C libraries without thread-local storage; its twin is beside the others",
    "nvidia/xorg/libglx": "of branch 390, for X servers before glvnd",
    "xorg/modules/extensions/libglxserver_nvidia.so": "an X server's own module, by a name without a version",
}
# Links of containers that nvidia-ctk leaves out, where libGLX_nvidia.so.0 is the file and the name
# with the version a link to it on the host, as Negativo17 has it. GLX asks for libGLX_indirect.so.0,
# which nvidia-ctk makes for a file whose name has the version alone.
INDIRECT = "libGLX_indirect.so.0"


def build(root: Path, package: dict[str, Any]) -> None:
    for name in ("lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    folder = root / package["folder"]
    for stem in package["libraries"]:
        trees.library(folder / f"{stem}.so.{package['version']}", stem)
    for name in package["others"]:
        trees.library(folder / name, name.partition(".so")[0])
    for name, target in package.get("links", {}).items():
        (folder / name).symlink_to(target)
    inv = inventories.inventory("tree", {"gpus": 1})
    version = package["version"]
    trees.hardware(root, inventories.Inventory(inv.gpus, version=version, loaded=version))


@pytest.mark.parametrize(("name",), ROWS)
def test_every_library_is_mounted_or_there_is_a_reason(name: str, tmp_path: Path) -> None:
    package = PACKAGES[name]
    build(tmp_path, package)
    ours = spec_facts.list_facts(oracle.ours(tmp_path), tmp_path)
    theirs = spec_facts.list_facts(oracle.theirs(tmp_path), tmp_path)
    found = spec_facts.compare_facts(theirs, ours)
    mounted = {fact.value[0] for fact in ours if fact.kind == "mount"}
    listed = [f"{stem}.so.{package['version']}" for stem in package["libraries"]]
    absent = {
        short
        for short in (*listed, *package["others"])
        if f"/{package['folder']}/{short}" not in mounted
    }
    unexplained = absent - set(REASONS) - {f"{stem}.so.{package['version']}" for stem in REASONS}
    links = package.get("links", {})
    more = {INDIRECT, *links} if links else set()
    rest = [
        (side, fact)
        for side, fact in found.get("", [])
        if (side, fact.kind) != ("ours", "link") or Path(fact.value[1]).name not in more
    ]
    assert (unexplained, rest) == (set(), [])


def test_the_catalogue_knows_each_library() -> None:
    """One that it does not know goes to containers whatever capability they ask for."""
    listed = {
        Path(name).name.partition(".so")[0]
        for package in PACKAGES.values()
        for name in (*package["libraries"], *package["others"])
    }
    without = {Path(name).name.partition(".so")[0] for name in REASONS}
    assert listed - set(catalogue.LIBRARIES) <= without


def test_no_reason_is_for_nothing() -> None:
    listed = {
        name
        for package in PACKAGES.values()
        for name in (*package["libraries"], *package["others"])
    }
    assert set(REASONS) <= listed
