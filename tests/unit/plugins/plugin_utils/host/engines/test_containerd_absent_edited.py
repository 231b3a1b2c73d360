# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""state: absent on a containerd 1.x whose file others have edited since: their edits stay, and of
our lines not even a header is left.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.unit.bare_trees import Tree

ROOT = "/etc/containerd/config.toml"
CRI = 'plugins."io.containerd.grpc.v1.cri"'
RUNC = f'[{CRI}.containerd.runtimes.runc]\n  runtime_type = "io.containerd.runc.v2"\n'
# The files before this collection: which tables of CRI's have a header there, and which are there
# by the tables below them only.
BEFORE = {
    "no plugin": "version = 2\n",
    "another plugin": 'version = 2\n[plugins."io.containerd.gc.v1.scheduler"]\n  pause_threshold = 0.02\n',
    "CRI": f'version = 2\n[{CRI}]\n  sandbox_image = "pause:3.9"\n',
    "CRI and containerd": f'version = 2\n[{CRI}]\n  enable_selinux = true\n[{CRI}.containerd]\n  snapshotter = "overlayfs"\n',
    "containerd, empty, and runc": f"version = 2\n[{CRI}.containerd]\n{RUNC}",
    "runc alone": f"version = 2\n{RUNC}",
    "runc with options": f"version = 2\n{RUNC}[{CRI}.containerd.runtimes.runc.options]\n  SystemdCgroup = true\n",
    "our handler, without options": f"version = 2\n{RUNC}{RUNC.replace('runc]', 'nvidia]')}",
    "CRI, empty": f"version = 2\n[{CRI}] # ask Anna\n{RUNC}",
    "version 1": '[plugins.cri]\n  sandbox_image = "pause:3.9"\n',
    "plugins, empty": "version = 2\n[plugins]\n",
    "no version, a comment": "# our site\n",
    "no version, an empty list": "disabled_plugins = []\n",
    "no version, a socket": '[grpc]\n  address = "/run/containerd/containerd.sock"\n',
}  # fmt: skip
HEAD, TAIL = "# by hand\n", '\n[metrics]\n  address = "127.0.0.1:1338"\n'


@pytest.mark.parametrize("how", ["host", "single"])
@pytest.mark.parametrize("name", BEFORE)
def test_what_others_wrote_stays_and_nothing_else(
    tmp_path: pathlib.Path, name: str, how: str
) -> None:
    home = Tree(tmp_path / "host")
    home.write(ROOT, BEFORE[name])

    def run(**options: Any) -> dict[str, Any]:
        if how == "host":
            return home.run_host(engines=("containerd",), engine_version="1.7.24", **options)
        return home.single(
            "containerd", engine_version="1.7.24", set_as_default="enabled", **options
        )

    assert run()["changed"] is True
    home.write(ROOT, HEAD + home.read(ROOT) + TAIL)
    assert run(state="absent")["changed"] is True
    assert home.read(ROOT) == HEAD + BEFORE[name] + TAIL


@pytest.mark.parametrize("mark", [" # ask Anna", ""])
def test_a_header_with_a_persons_comment_stays(tmp_path: pathlib.Path, mark: str) -> None:
    home = Tree(tmp_path / "host")
    home.write(ROOT, BEFORE["runc alone"])
    home.single("containerd", engine_version="1.7.24", set_as_default="enabled")
    ours = f"[{CRI}.containerd]\n"
    there = home.read(ROOT)
    assert ours in there
    home.write(ROOT, there.replace(ours, f"[{CRI}.containerd]{mark}\n") + TAIL)
    home.single("containerd", engine_version="1.7.24", state="absent")
    assert (f"[{CRI}.containerd]{mark}" in home.read(ROOT)) is bool(mark)
