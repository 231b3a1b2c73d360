# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node images and installers whose hosts the real nvidia-ctk configured before us: they end as the
same hosts without it do.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import public_configurations as public
from tests.fixtures.public_configurations import CONTAINERD, Public
from tests.lab import artefacts
from tests.unit import bare_trees
from tests.unit.public_trees import in_force, run, tree

DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"
FLAGS = {"no flag": (), "default and CDI": ("--set-as-default", "--cdi.enabled")}
# Hosts that we configure, each with its newest engine; one of the oldest; and one whose default
# handler has a name of its own.
OPEN = {row.file: row for row in public.CONTAINERDS if not row.home.manager}
FOREIGN = next(row for row in public.CONTAINERDS if row.default == "shimpei")
CASES = [
    *((row, row.releases[-1]) for row in OPEN.values()),
    (OPEN["kubespray-v2"], "1.6"),
    (FOREIGN, "1.7"),
]
ROWS = [pytest.param(row, release, id=f"{row.file} {release}") for row, release in CASES]


def configured(home: bare_trees.Tree, tool: str, *flags: str) -> None:
    """What `nvidia-ctk runtime configure` makes of the host's files, by its own code."""
    before, root = home.state(), str(home.root)
    program = artefacts.go_tool(tool) / "nvidia-ctk"
    where = [f"--config={root}{CONTAINERD}", "--config-source=file"]
    argv = [program, "--quiet", "runtime", "configure", "--runtime=containerd", *where, *flags]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for path, (data, *_mode) in home.state().items():
        if data and data != (before.get(path) or (None,))[0]:
            home.write(path, data.decode().replace(root, ""))  # it has no option for another root


def settled(home: bare_trees.Tree, row: Public, release: str) -> dict[str, Any]:
    """What is in force once the host was changed."""
    result = run(home, "host", row, release)
    assert not result["failed"], result["msg"]
    assert not run(home, "host", row, release)["changed"]
    return in_force(home, release)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(("row", "release"), ROWS)
def test_after_the_drop_in_of_1_20_a_host_is_like_one_that_was_never_touched(
    tmp_path: Path, row: Public, release: str, flags: str
) -> None:
    untouched = settled(tree(tmp_path / "untouched", CONTAINERD, row.text), row, release)
    home = tree(tmp_path / "touched", CONTAINERD, row.text)
    original = home.state()
    configured(home, "nvidia-toolkit", f"--drop-in-config={home.root}{DROP_IN}", *FLAGS[flags])
    touched = home.state()
    assert touched != original
    now = settled(home, row, release)
    assert not home.path(DROP_IN).exists()
    defaults = [found["containerd"].pop("default_runtime_name") for found in (now, untouched)]
    assert now == untouched
    # The image of a node keeps a default that pods may count on; containerd 1.6 has ours as default
    # in any case.
    assert defaults[0] == ("nvidia" if FLAGS[flags] else defaults[1])
    assert not run(home, "host", row, release, state="absent")["failed"]
    assert home.state() == touched


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(("row", "release"), ROWS)
def test_after_the_edit_in_place_of_1_17_nothing_of_the_tool_is_lost(
    tmp_path: Path, row: Public, release: str, flags: str
) -> None:
    home = tree(tmp_path, CONTAINERD, row.text)
    configured(home, "nvidia-toolkit-1.17", *FLAGS[flags])
    touched, was = home.state(), in_force(home, release)
    now = settled(home, row, release)
    theirs, ours = (
        was["containerd"]["runtimes"].pop("nvidia"),
        now["containerd"]["runtimes"].pop("nvidia"),
    )
    assert now["containerd"]["runtimes"] == was["containerd"]["runtimes"]
    assert {k: ours["options"].get(k) for k, v in theirs["options"].items() if v} == {
        k: v for k, v in theirs["options"].items() if v
    }
    default = was["containerd"]["default_runtime_name"]
    # On AKS the tool takes the default from the one handler that says the driver; on an image there
    # is no kubelet that would show it.
    known = row.base != "nvidia-container-runtime" or default == row.base
    assert ours["options"]["SystemdCgroup"] is (row.systemd and known)
    assert now["containerd"]["default_runtime_name"] == ("nvidia" if release == "1.6" else default)
    assert not run(home, "host", row, release, state="absent")["failed"]
    assert home.state() == touched
