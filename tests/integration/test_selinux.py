# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of the files that we write, judged by the rules that a distribution's policy for
SELinux brings.

No kernel here has SELinux. What is real: the policy of Debian trixie with its rules for container
engines, matchpathcon and setfiles, the program that changes files, and the labels, which a kernel
without SELinux stores as it stores every attribute. What is not: that anything is refused by them,
and that a new file gets its directory's label from the kernel.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    host_answers,
    transport,
)

from tests.lab import roots
from tests.lab.lab import Lab
from tests.tools import wire

SUITE = "trixie"  # bookworm's policy has no rules for container engines
RULES = "/etc/selinux/default/contexts/files/file_contexts"
LABELLED = ("/etc", "/usr/local", "/usr/share", "/var/lib", "/run")
# private to root; the kernel gives what is made there the label of /var/lib, as the policy has it
OWN = "/var/lib/gpufleet"
# A kernel with SELinux shows this directory. In the policy's own programs nothing depends on it.
INSIDE = (
    'mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/sys" && mkdir -p "$0/sys/fs/selinux" && '
    'mount --bind /dev "$0/dev" && exec chroot "$0" "$@"'
)
BY_HAND = "system_u:object_r:container_file_t:s0"
# Where this collection writes, and the type that this policy has for it. Fedora's has bin_t for
# programs below /usr/local/libexec.
WRITTEN = {
    "/etc/containerd/config.toml": "container_config_t",
    "/etc/containerd/conf.d/90-gpufleet.toml": "container_config_t",
    "/etc/docker/daemon.json": "container_config_t",
    "/etc/crio/crio.conf.d/90-gpufleet.conf": "etc_t",
    "/etc/cdi/gpufleet-gpu.json": "etc_t",
    "/etc/nvidia-container-runtime/config.toml": "etc_t",
    "/etc/gpufleet/modes.json": "etc_t",
    "/usr/local/libexec/gpufleet/modes.py": "usr_t",
    "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json": "usr_t",
    "/etc/systemd/system/gpufleet-modes.service": "systemd_unit_t",
    "/etc/systemd/system/multi-user.target.d/gpufleet-modes.conf": "systemd_unit_t",
    "/etc/udev/rules.d/90-gpufleet.rules": "udev_rules_t",
    "/etc/apt/sources.list.d/gpufleet-nvidia.sources": "etc_t",
    "/etc/apt/keyrings/gpufleet-nvidia.asc": "etc_t",
}


@contextlib.contextmanager
def labelled_host() -> Iterator[Path]:
    """A Debian with that policy, whose files have the labels that it gives them."""
    with Lab(
        f"tree-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    ) as lab:  # a lab without hosts, so a killed test's mount is found
        lab.hold()
        for name in ("upper", "work", "root"):
            (lab.runtime / name).mkdir()
        base = roots.base_root(SUITE)
        lower = f"{roots.package_layer(base, roots.SELINUX)}:{base}"
        options = f"lowerdir={lower},upperdir={lab.runtime}/upper,workdir={lab.runtime}/work"
        root = lab.runtime / "root"
        subprocess.run(
            ["mount", "-t", "overlay", "-o", options, "gpufleet-selinux", root], check=True
        )
        inside(root, "setfiles", "-F", RULES, *LABELLED)
        yield root


@pytest.fixture
def host() -> Iterator[Path]:
    with labelled_host() as root:
        yield root


def inside(root: Path, *command: str, data: bytes = b"") -> str:
    run = ["unshare", "--mount", "sh", "-c", INSIDE, str(root), *command]
    return subprocess.run(run, input=data, check=True, stdout=subprocess.PIPE).stdout.decode()


def change(root: Path, *changes: dict[str, Any]) -> None:
    request = {
        "schema": 1,
        "id": uuid.uuid4().hex,
        "root": "/",
        "journal_dir": "/var/lib/gpufleet",
        "reason": "test",
        "changes": changes,
    }
    said = inside(
        root,
        *wire.argv("python3"),
        data=transport.build_interpreter_input("transaction", request, "MARK:"),
    )
    answer = host_answers.unpack_answer(said.partition("MARK:")[2])
    assert not answer.get("error"), answer
    assert answer["changed"] is True


def write(path: str) -> dict[str, Any]:
    return {"op": "write", "path": path, "content": "new\n"}


def label(root: Path, path: str) -> str:
    return os.getxattr(f"{root}{path}", "security.selinux").rstrip(b"\0").decode()


def astray(root: Path) -> list[str]:
    """What the policy's own program would relabel."""
    said = inside(root, "setfiles", "-n", "-v", "-F", RULES, *LABELLED)
    return [line for line in said.splitlines() if line.strip() and OWN not in line]


def test_what_is_new_gets_the_label_that_the_policy_has_for_its_place(host: Path) -> None:
    """Directories as well. Most of them are not there before."""
    assert astray(host) == []
    change(host, *map(write, WRITTEN))
    assert {path: label(host, path).split(":")[2] for path in WRITTEN} == WRITTEN
    assert astray(host) == []


def test_a_label_that_somebody_gave_a_file_stays_with_it(host: Path) -> None:
    path = "/etc/docker/daemon.json"
    change(host, write(path))
    os.setxattr(f"{host}{path}", "security.selinux", BY_HAND.encode() + b"\0")
    change(host, {**write(path), "content": "newer\n"})
    assert label(host, path) == BY_HAND


def test_without_the_policys_program_what_is_new_gets_the_label_of_its_directory(
    host: Path,
) -> None:
    """A minimal installation may lack libselinux-utils."""
    (host / "usr/sbin/matchpathcon").unlink()
    change(
        host,
        write("/etc/systemd/system/gpufleet-modes.service"),
        write("/etc/containerd/conf.d/90-gpufleet.toml"),
    )
    assert (
        label(host, "/etc/systemd/system/gpufleet-modes.service").split(":")[2] == "systemd_unit_t"
    )
    assert label(host, "/etc/containerd").split(":")[2] == "etc_t"
    assert label(host, "/etc/containerd/conf.d/90-gpufleet.toml").split(":")[2] == "etc_t"


def test_a_place_that_the_policy_leaves_alone_is_as_its_directory(host: Path) -> None:
    """matchpathcon says <<none>> of it, which is not a label."""
    path = "/run/cdi/gpufleet-gpu.json"
    assert "<<none>>" in inside(host, "matchpathcon", "-n", path)
    change(host, write(path))
    assert label(host, path) == label(host, "/run/cdi") == label(host, "/run")
