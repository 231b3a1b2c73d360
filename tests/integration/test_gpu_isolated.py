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
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import build, device_rules
from tests.lab.fakegpu import driver_libraries, inventories, nvml_answers

pytestmark = pytest.mark.lab

INVENTORY = inventories.inventory("isolated", {"gpus": 2})
GROUP = f"gpufleet-gpu-test-{os.getpid()}"
OTHERS = [["/dev/fuse", 10, 229], ["/dev/tty0", 4, 0]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gpu") / "gpufleet-gpu.pyz"
    build.write(file)
    return file


@pytest.fixture
def request_(tmp_path: Path) -> Mapping[str, Any]:
    """A spec that gives /dev/zero by another name, and NVML."""
    (tmp_path / "fake-nvml.conf").write_text(nvml_answers.nvml_conf(INVENTORY))
    library = tmp_path / "libnvidia-ml.so.550"
    library.write_bytes(driver_libraries.nvml_bytes())
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
    return {
        "spec": {"devices": [{"name": "all", "containerEdits": edits}]},
        "device": "all",
        "hidden": ["/etc/hostname", "/usr/bin/env"],
        "others": OTHERS,
        "group": GROUP,
    }


def start(
    command: Sequence[object], request: Mapping[str, Any]
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command],
        input=json.dumps(request),
        # another test of this process may have named its own answers of NVML
        env={name: value for name, value in os.environ.items() if name != "FAKE_NVML"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert device_rules.remove(GROUP)
    return done


def run(command: Sequence[object], request: Mapping[str, Any]) -> Mapping[str, Any]:
    done = start(command, request)
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def inside(program: Path, request_: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is found in a container of the spec."""
    return run([sys.executable, "-B", program, "--step", "isolated"], request_)


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
    # each of its mounts has this source; a host of the lab beside this part has a longer one
    sources = [line.split()[0] for line in Path("/proc/self/mounts").read_text().splitlines()]
    assert "gpufleet" not in sources


# A kernel without overlay. A write to a user's link goes where the link leads.
WITHOUT_OVERLAY = """
import errno, json, sys
sys.path.insert(0, sys.argv[1])
from tests.gpu import isolated
mount = isolated.mount
def refuse(source, target, kind=None, flags=0, options=None):
    if kind == "overlay":
        raise OSError(errno.ENODEV, "No such device")
    mount(source, target, kind, flags, options)
isolated.mount = refuse
print(json.dumps(isolated.run(json.load(sys.stdin))))
"""


def test_a_root_that_is_shared_with_the_machine_changes_nothing_there(
    program: Path, request_: Mapping[str, Any], tmp_path: Path
) -> None:
    here = tmp_path / "libcuda.so.1"
    here.write_text("the host's")
    edits = request_["spec"]["devices"][0]["containerEdits"]
    edits["mounts"] = [{"hostPath": str(here), "containerPath": "/etc/hostname"}]
    edits["hooks"][0]["args"][3] = "libcuda.so.2::/etc/gpufleet-gpu.so"
    cache = Path("/etc/ld.so.cache").stat().st_mtime_ns
    found = run([sys.executable, "-B", "-c", WITHOUT_OVERLAY, program], request_)
    assert found["root"].startswith("shared: ")
    assert found["hooks"] == [
        ["create-symlinks", False],
        ["update-ldcache", False],
        ["update-application-profile", False],
    ]
    assert found["nodes"] == [["/dev/nvidia0", ""]]
    gone = ("/etc/gpufleet-gpu.so", "/etc/ld.so.conf.d/00-gpufleet-gpu.conf", "/.host")
    assert [path for path in gone if os.path.lexists(path)] == []
    assert Path("/etc/ld.so.cache").stat().st_mtime_ns == cache
    assert Path("/etc/hostname").read_text() != "the host's"


# What a machine does not let us do, by the capability that root lacks there.
LACKING = {"sys_admin": "refused", "sys_chroot": "refused", "mknod": "refused"}


@pytest.mark.parametrize("capability", LACKING)
def test_a_machine_that_lets_nobody_be_a_container_is_told(
    capability: str, program: Path, request_: Mapping[str, Any]
) -> None:
    without = ["setpriv", f"--bounding-set=-{capability}", "--"]
    found = run([*without, sys.executable, "-B", program, "--step", "isolated"], request_)
    assert list(found) == ["refused"]
    assert found["refused"]


# A kernel without control groups of version 2, and one whose bpf(2) is not for us.
WITHOUT_RULES = """
import errno, json, sys
sys.path.insert(0, sys.argv[1])
from tests.gpu import device_rules, isolated
def refuse(*_words):
    raise OSError(errno.EPERM, "Operation not permitted")
setattr(device_rules, sys.argv[2], refuse)
print(json.dumps(isolated.run(json.load(sys.stdin))))
"""


@pytest.mark.parametrize("function", ["find_hierarchy", "call"])
def test_a_container_without_device_rules_is_entered_all_the_same(
    function: str, program: Path, request_: Mapping[str, Any]
) -> None:
    found = run([sys.executable, "-B", "-c", WITHOUT_RULES, program, function], request_)
    assert found["rules"]
    assert found["nodes"] == [["/dev/nvidia0", ""]]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is not below /tmp: a container has an empty one of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # noqa: S108
        yield Path(name)


def test_no_link_leads_out_of_the_root(
    program: Path, request_: Mapping[str, Any], folder: Path
) -> None:
    """A user may own a folder in which the loader looks for the driver, and put links there."""
    theirs = folder / "libcuda.so.1"
    theirs.write_text("the host's")
    link = folder / "link"
    for root in ("/.host", "/proc/1/root", f"/proc/{os.getpid()}/root"):
        link.unlink(missing_ok=True)
        link.symlink_to(f"{root}{folder}")
        edits = request_["spec"]["devices"][0]["containerEdits"]
        edits["mounts"] = [{"hostPath": str(theirs), "containerPath": f"{link}/made"}]
        start(
            [sys.executable, "-B", program, "--step", "isolated"],
            {**request_, "hidden": [f"{link}/libcuda.so.1"]},
        )
        assert theirs.read_text() == "the host's"
        assert not (folder / "made").exists()
