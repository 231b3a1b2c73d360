# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner knows which cgroup driver containerd tells the kubelet (CRI's RuntimeConfig), by
daemons that run. Our default handler does not change it.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri_queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    cgroup_choice as containerd_cgroup_choice,
)

from tests.integration import containerd_trees as trees

# The daemon has directories of its own, and no part that would look at the machine's disks.
HEAD = """version = {schema}
root = "{home}/root"
state = "{home}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]
[grpc]
address = "{home}/c.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{home}/opt"
"""
IMAGES = {2: '[plugins."io.containerd.grpc.v1.cri".containerd]\nsnapshotter = "native"\n',
          3: '[plugins."io.containerd.cri.v1.images"]\nsnapshotter = "native"\n'}  # fmt: skip
HANDLER = '[plugins.{cri}.containerd.runtimes.{name}]\nruntime_type = "{kind}"\n'
OPTIONS = "[plugins.{cri}.containerd.runtimes.{name}.options]\n"
RUNC, KATA = "io.containerd.runc.v2", "io.containerd.kata.v2"

# case: the default handler, the handlers with SystemdCgroup as the file says it (None: no options),
# and what the kubelet is told
CASES: dict[str, tuple[str, dict[str, tuple[str, str | None]], str]] = {
    "the default has systemd": ("runc", {"runc": (RUNC, "SystemdCgroup = true")}, "systemd"),
    "the default does not say, another one does": (
        "crun", {"crun": (RUNC, 'BinaryName = "/usr/bin/crun"'), "runc": (RUNC, "SystemdCgroup = true")}, "cgroupfs"),
    "the default has options with nothing in them": ("crun", {"crun": (RUNC, "\n"), "runc": (RUNC, "SystemdCgroup = true")}, "systemd"),
    "the default is of another kind": (
        "kata", {"kata": (KATA, None), "runc": (RUNC, "SystemdCgroup = false"), "zrun": (RUNC, "SystemdCgroup = true")}, "cgroupfs"),
}  # fmt: skip


def text(home: str, schema: int, default: str, handlers: dict[str, tuple[str, str | None]]) -> str:
    names = trees.NATURAL[schema]
    lines = [HEAD.format(schema=schema, home=home), IMAGES[schema]]
    # the images' table is the same one before
    lines += [f"[plugins.{names}.containerd]\n"] if schema == 3 else []
    lines.append(f'default_runtime_name = "{default}"\n')
    for name, (kind, options) in handlers.items():
        lines.append(HANDLER.format(cri=names, name=name, kind=kind))
        lines += [OPTIONS.format(cri=names, name=name) + options + "\n"] if options else []
    return "".join(lines)


@contextlib.contextmanager
def daemon(release: str, config: Path) -> Iterator[None]:
    """containerd with this configuration, for as long as it is asked; it says itself when it
    serves.
    """
    running = subprocess.Popen(
        [trees.binary(release), "-c", config], stderr=subprocess.PIPE, text=True
    )
    try:
        said = list(
            itertools.takewhile(
                lambda line: "containerd successfully booted" not in line, running.stderr or ()
            )
        )
        assert running.poll() is None, said[-3:]
        yield
    finally:
        running.terminate()
        running.communicate()


def answer(release: str, host: trees.Tree) -> str:
    with daemon(release, host.config):
        driver: str = cri_queries.read_runtime_config(str(host.home.parent / "c.sock"))["driver"]
        return driver


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path, as sockets need it, that nobody else may write to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        yield Path(place)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("release", ["2.1", "2.4"])
def test_the_kubelet_is_told_the_same_with_our_handler_as_default(
    home: Path, release: str, case: str
) -> None:
    trees.binary(release)
    default, handlers, driver = CASES[case]
    host = trees.Tree(home / "tree", release)
    host.write({"config.toml": text(str(home), 3, default, handlers)})
    table: dict[str, Any] = trees.cri_of(trees.dump(release, host.config))
    assert containerd_cgroup_choice.reports_systemd(table) is (driver == "systemd")
    assert answer(release, host) == driver
    plan = host.plan(default=True)
    host.apply(plan)
    assert (
        trees.cri_of(trees.dump(release, host.config))["containerd"]["default_runtime_name"]
        == "nvidia"
    )
    assert answer(release, host) == driver


def test_before_2_0_the_question_is_not_known(home: Path) -> None:
    trees.binary("1.7")
    host = trees.Tree(home / "tree", "1.7")
    host.write(
        {"config.toml": text(str(home), 2, "runc", {"runc": (RUNC, "SystemdCgroup = true")})}
    )
    assert answer("1.7", host) == ""
