# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA's runtime and hook make of a container whose GPUs an engine has given by CDI, in three
releases, with and without the mount that says "no devices". It shows on which hosts a spec may have
that mount (host/cdi/void_mount.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab import artefacts

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not shutil.which("go"), reason="NVIDIA's runtime is built with Go, which is not here"
    ),
]

RELEASES = {
    "1.17.8": "nvidia-toolkit-1.17",
    "1.19.1": "nvidia-toolkit-1.19",
    "1.20.2": "nvidia-toolkit",
}
PLACE = "/var/run/nvidia-container-devices"
CONFIG = """\
accept-nvidia-visible-devices-as-volume-mounts = {accepted}
[nvidia-container-cli]
path = "{home}/nvidia-container-cli"
[nvidia-container-runtime]
mode = "{mode}"
runtimes = ["{home}/low-level"]
[nvidia-container-runtime.modes.cdi]
spec-dirs = ["{home}/cdi"]
[nvidia-container-runtime-hook]
path = "{programs}/nvidia-container-runtime-hook"
skip-mode-detection = true
"""
DEVICES = [{"name": name, "containerEdits": {"env": [f"GOT={name}"]}} for name in ("0", "1")]
SPEC = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": DEVICES}
# What the engine has put into the container by then: the variable of the spec, and the mounts of
# spec and pod.
VOID, FIRST, BY_NAME = "void", "0", "cdi/nvidia.com/gpu/1"
FAILS = "does not start"


def start(release: str, mode: str, accepted: bool, mounts: tuple[str, ...], home: Path) -> str:
    """What a container got besides: nothing, GOT=N of the spec above, or what nvidia-container-cli
    was asked for.
    """
    programs = artefacts.go_tool(RELEASES[release])
    config, bundle = home / "config/nvidia-container-runtime/config.toml", home / "bundle"
    for folder in (config.parent, bundle / "rootfs", home / "cdi"):
        folder.mkdir(parents=True)
    config.write_text(
        CONFIG.format(accepted=str(accepted).lower(), home=home, mode=mode, programs=programs)
    )
    (home / "cdi/nvidia.json").write_text(json.dumps(SPEC))
    for name, does in (
        ("low-level", "exit 0"),
        ("nvidia-container-cli", f'echo "$@" > {home}/asked'),
    ):
        (home / name).write_text(f"#!/bin/sh\n{does}\n")
        (home / name).chmod(0o755)
    process = {
        "args": ["x"],
        "cwd": "/",
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "capabilities": {"bounding": []},
        "user": {"uid": 0, "gid": 0},
    }
    bound = [
        {
            "destination": f"{PLACE}/{name}",
            "source": "/dev/null",
            "type": "bind",
            "options": ["bind"],
        }
        for name in mounts
    ]
    (bundle / "config.json").write_text(
        json.dumps(
            {"ociVersion": "1.0.2", "process": process, "root": {"path": "rootfs"}, "mounts": bound}
        )
    )
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "XDG_CONFIG_HOME": str(home / "config")}
    create = [programs / "nvidia-container-runtime", "create", "--bundle", bundle, "case"]
    if subprocess.run(create, env=environment, capture_output=True, check=False).returncode:
        return FAILS
    made = json.loads((bundle / "config.json").read_text())
    got = [word for word in made["process"]["env"] if word.startswith("GOT=")]
    if (made.get("hooks") or {}).get("prestart"):
        state = json.dumps(
            {"ociVersion": "1.0.2", "id": "case", "pid": os.getpid(), "bundle": str(bundle)}
        )
        hook = [programs / "nvidia-container-runtime-hook", "-config", config, "prestart"]
        subprocess.run(
            hook, env=environment, input=state, text=True, capture_output=True, check=True
        )
        asked = (home / "asked").read_text().split() if (home / "asked").exists() else []
        got += [word for word in asked if word.startswith("--device=")]
    return " ".join(got)


MODES = ("cdi", "legacy")


@pytest.mark.parametrize("mounts", [(VOID,), (FIRST,), (VOID, FIRST), (VOID, BY_NAME)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("release", RELEASES)
def test_where_mounts_are_not_accepted_the_mount_does_no_harm(
    release: str, mode: str, mounts: tuple[str, ...], tmp_path: Path
) -> None:
    assert start(release, mode, accepted=False, mounts=mounts, home=tmp_path) == ""


# Release, mode, mounts, what the container gets besides the engine's GPUs where mounts are
# accepted.
ACCEPTED = [
    # Without the mount of the spec one of the pod adds a GPU: what 1.20.2 has repaired, with specs
    # that have it.
    ("1.17.8", "cdi", (BY_NAME,), "GOT=1"),
    ("1.17.8", "legacy", (FIRST,), "--device=0"),
    ("1.19.1", "cdi", (BY_NAME,), "GOT=1"),
    ("1.19.1", "legacy", (FIRST,), "--device=0"),
    ("1.20.2", "cdi", (FIRST,), "GOT=0"),
    # With it 1.20.2 adds nothing.
    ("1.20.2", "cdi", (VOID,), ""),
    ("1.20.2", "cdi", (VOID, FIRST), ""),
    ("1.20.2", "cdi", (VOID, BY_NAME), ""),
    ("1.20.2", "legacy", (VOID, FIRST), ""),
    # An earlier one takes it for a device: NVIDIA's program is asked for a device of that name.
    ("1.17.8", "legacy", (VOID,), "--device=void"),
    ("1.17.8", "cdi", (VOID,), ""),
    ("1.17.8", "cdi", (VOID, BY_NAME), "GOT=1"),
    ("1.19.1", "legacy", (VOID,), "--device=void"),
    # 1.19.1 takes no name that no spec has in the mode cdi.
    ("1.19.1", "cdi", (VOID,), FAILS),
    ("1.19.1", "cdi", (VOID, BY_NAME), FAILS),
]


@pytest.mark.parametrize(("release", "mode", "mounts", "got"), ACCEPTED)
def test_where_they_are_accepted_the_release_decides(
    release: str, mode: str, mounts: tuple[str, ...], got: str, tmp_path: Path
) -> None:
    assert start(release, mode, accepted=True, mounts=mounts, home=tmp_path) == got
