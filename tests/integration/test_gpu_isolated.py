# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Being a container of a spec, as `make gpu` does it: in real namespaces, on this machine's kernel,
with the lab's NVML.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import build, device_rules
from tests.lab import fakegpu

pytestmark = pytest.mark.lab

INVENTORY = fakegpu.inventory("isolated", {"gpus": 2})
GROUP = f"gpufleet-gpu-test-{os.getpid()}"
OTHERS = [["/dev/fuse", 10, 229], ["/dev/tty0", 4, 0]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gpu") / "gpufleet-gpu.pyz"
    build.write(file)
    return file


@pytest.fixture
def inside(program: Path, tmp_path: Path) -> Mapping[str, Any]:
    """What is found in a container of a spec that gives /dev/zero by another name, and NVML."""
    (tmp_path / "fake-nvml.conf").write_text(fakegpu.nvml_conf(INVENTORY))
    library = tmp_path / "libnvidia-ml.so.550"
    library.write_bytes(fakegpu.nvml_bytes())
    mounts = [
        (str(library), "/opt/driver/libnvidia-ml.so.550"),
        (str(tmp_path / "fake-nvml.conf"), "/etc/fake-nvml.conf"),
    ]
    hooks = [
        ["create-symlinks", "--link", "libnvidia-ml.so.550::/opt/driver/libnvidia-ml.so.1"],
        ["update-ldcache", "--folder", "/opt/driver"],
        ["update-application-profile"],
    ]
    edits = {
        "deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/zero"}],
        "mounts": [{"hostPath": host, "containerPath": path} for host, path in mounts],
        "hooks": [{"args": ["nvidia-cdi-hook", *words]} for words in hooks],
    }
    request = {
        "spec": {"devices": [{"name": "all", "containerEdits": edits}]},
        "device": "all",
        "hidden": ["/etc/hostname", "/usr/bin/env"],
        "others": OTHERS,
        "group": GROUP,
    }
    done = subprocess.run(
        [sys.executable, "-B", str(program), "--step", "isolated"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    assert device_rules.remove(GROUP)
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def test_only_what_the_spec_gives_is_there(inside: Mapping[str, Any]) -> None:
    assert inside["before"] == inside["after"] == ["/dev/nvidia0"]
    assert inside["nodes"] == [["/dev/nvidia0", ""]]
    assert inside["rules"] == ""
    assert [error for _path, error in inside["others"]] == ["EPERM", "EPERM"]


def test_nvml_answers_by_the_library_of_the_spec(inside: Mapping[str, Any]) -> None:
    assert [gpu["uuid"] for gpu in inside["nvml"]["gpus"]] == [g.uuid for g in INVENTORY.gpus]
    assert inside["libraries"] == ["/opt/driver/libnvidia-ml.so.550"]
    assert "error" in inside["cuda"]
    assert inside["hooks"] == [
        ["create-symlinks", True],
        ["update-ldcache", True],
        ["update-application-profile", False],
    ]


def test_nothing_is_left_on_the_machine(inside: Mapping[str, Any]) -> None:
    assert inside["root"] == "overlay"
    gone = ("/opt/driver", "/.host", "/dev/nvidia0", "/etc/ld.so.conf.d/00-gpufleet-gpu.conf")
    assert [path for path in gone if os.path.lexists(path)] == []
    assert os.path.exists("/etc/hostname")
    assert os.path.exists("/usr/bin/env")
    assert "gpufleet" not in Path("/proc/self/mounts").read_text()
