# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which handler of a containerd is the default after ours is not, or not any more."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.unit.containerd_plans import CRI, DROP_IN, OLD, ROOT, applied, plan


@pytest.mark.parametrize(
    ("originals", "back"),
    [
        ({}, "runc"),
        (
            {
                ROOT: {
                    "content": f'version = 2\n[plugins.{CRI}.containerd]\ndefault_runtime_name = "crun"\n'
                }
            },
            "crun",
        ),
    ],
)
def test_a_default_that_is_not_wanted_any_more_goes_back(originals: Any, back: str) -> None:
    root = (
        OLD + f'[plugins.{CRI}.containerd.runtimes.crun]\nruntime_type = "io.containerd.runc.v2"\n'
    )
    files = {ROOT: root}
    files = applied(files, plan("1.7.24", files, default=True))
    found = plan("1.7.24", files, originals=originals)
    assert [(d.key.rpartition(".")[2], d.before, d.after) for d in found.differences] == [
        ("default_runtime_name", "nvidia", back)
    ]


OPERATOR = "/usr/local/nvidia/toolkit/nvidia-container-runtime"


# From 2.0 on the built-in runc stays whatever handlers the files have.
@pytest.mark.parametrize("release", ["1.6.20", "1.7.24"])
@pytest.mark.parametrize(
    ("beside", "back"),
    [
        ({"nvidia-cdi": f"{OPERATOR}.cdi", "nvidia-legacy": f"{OPERATOR}.legacy"}, "runc"),
        ({"nvidia-cdi": f"{OPERATOR}.cdi", "crun": "/usr/bin/crun"}, "crun"),
        ({"gvisor": "/usr/local/bin/runsc"}, "runc"),
        ({"shimpei": "/usr/bin/shimpei"}, "shimpei"),
    ],
)
def test_no_other_handler_of_nvidias_runtime_becomes_the_default(
    release: str, beside: dict[str, str], back: str
) -> None:
    text = f'version = 2\n[plugins.{CRI}.containerd]\ndefault_runtime_name = "nvidia"\n'
    for name, program in {"nvidia": OPERATOR, **beside}.items():
        at = f"plugins.{CRI}.containerd.runtimes.{name}"
        text += f'[{at}]\nruntime_type = "io.containerd.runc.v2"\n'
        text += f'[{at}.options]\nBinaryName = "{program}"\n'
    files = {ROOT: text}
    data = tomllib.loads(applied(files, plan(release, files))[ROOT])
    made = data["plugins"][CRI.strip('"')]["containerd"]
    assert made["default_runtime_name"] == back
    assert back in made["runtimes"]


@pytest.mark.parametrize("version", ["2.1.9", "2.3.7"])
def test_a_default_that_our_own_drop_in_named_may_go_with_its_line(version: str) -> None:
    """containerd's own dump says then what the root file or its built-in value says; no other key
    may differ.
    """
    files = applied({ROOT: "version = 3\n"}, plan(version, {ROOT: "version = 3\n"}, default=True))
    assert "default_runtime_name" in files[DROP_IN]
    found = plan(version, files)
    assert "default_runtime_name" not in applied(files, found)[DROP_IN]
    allowed = [re.compile(pattern) for pattern in found.validate[0]["allow"]]
    assert any(pattern.fullmatch("default_runtime_name = 'runc'") for pattern in allowed)
    assert not any(pattern.fullmatch("snapshotter = 'overlayfs'") for pattern in allowed)
