# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook site leaves on a host whose engine serves CRI, seen through pytest-testinfra."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

RUNTIME = "/usr/bin/nvidia-container-runtime"
# kind of host -> the engine's unit, the file that carries our part, its CRI socket, how GPUs get in
KINDS = {
    "containerd-1.6": (
        "containerd",
        "/etc/containerd/config.toml",
        "/run/containerd/containerd.sock",
        "nvidia-runtime",
    ),
    "containerd-1.7": (
        "containerd",
        "/etc/containerd/config.toml",
        "/run/containerd/containerd.sock",
        "native-cdi",
    ),
    "containerd-2.3": (
        "containerd",
        "/etc/containerd/conf.d/90-gpufleet.toml",
        "/run/containerd/containerd.sock",
        "native-cdi",
    ),
    "crio-1.34": (
        "crio",
        "/etc/crio/crio.conf.d/90-gpufleet.conf",
        "/run/crio/crio.sock",
        "native-cdi",
    ),
}
testinfra_hosts = [
    "ansible://mol-c16",
    "ansible://mol-c17",
    "ansible://mol-c23",
    "ansible://mol-crio",
]


@pytest.fixture
def served(host: Any) -> tuple[str, str, str, str]:
    """The row of the host's kind."""
    return KINDS[str(host.ansible.get_variables()["lab_kind"])]


def test_the_engine_runs(host: Any, served: tuple[str, str, str, str]) -> None:
    assert host.service(served[0]).is_running


def test_the_handler_is_in_the_engines_file(host: Any, served: tuple[str, str, str, str]) -> None:
    found = tomllib.loads(host.file(served[1]).content_string)
    assert RUNTIME in handler_paths(found), found


def test_the_engines_file_is_for_everybody_to_read_and_for_root_to_write(
    host: Any, served: tuple[str, str, str, str]
) -> None:
    file = host.file(served[1])
    assert (file.user, file.group, file.mode) == ("root", "root", 0o644)


def test_the_spec_lists_this_hosts_gpus(host: Any, served: tuple[str, str, str, str]) -> None:
    spec = host.file("/etc/cdi/nvidia.yaml")
    assert (spec.user, spec.mode) == ("root", 0o644)
    for index in range(host.ansible.get_variables()["lab_gpus"]):
        assert f"/dev/nvidia{index}" in spec.content_string
    assert "nvidia.com/gpu" in spec.content_string


def test_the_spec_has_one_writer(host: Any, served: tuple[str, str, str, str]) -> None:
    assert not host.file("/run/cdi/nvidia.yaml").exists
    assert not host.file("/var/run/cdi/nvidia.yaml").exists


def test_the_decision_is_a_local_fact(host: Any, served: tuple[str, str, str, str]) -> None:
    fact = json.loads(host.file("/etc/ansible/facts.d/gpufleet.fact").content_string)
    assert [d["injection"] for d in fact["engines"]] == [served[3]]


def test_cri_answers_and_knows_the_handler(host: Any, served: tuple[str, str, str, str]) -> None:
    status = json.loads(host.check_output("/opt/lab/bin/crictl info"))
    ready = {c["type"]: c["status"] for c in status["status"]["conditions"]}
    assert ready["RuntimeReady"]
    assert "nvidia" in host.check_output("/opt/lab/bin/crictl info")


def test_no_stray_file_in_the_engines_drop_in_directory(
    host: Any, served: tuple[str, str, str, str]
) -> None:
    """CRI-O reads every file there, whatever its name ends in, so a backup or an editor's leftover
    would become configuration.
    """
    directory = {"crio": "/etc/crio/crio.conf.d", "containerd": "/etc/containerd/conf.d"}[served[0]]
    names = sorted(host.file(directory).listdir()) if host.file(directory).exists else []
    ours = [served[1].rpartition("/")[2]] if served[1].startswith(f"{directory}/") else []
    assert [name for name in names if name not in (*ours, "10-crio.conf")] == []


def test_the_toolkit_is_installed_in_one_version(
    host: Any, served: tuple[str, str, str, str]
) -> None:
    listed = host.check_output(
        "dpkg-query -W -f '${db:Status-Abbrev}${Version}\\n' '*nvidia-container*' | grep ^ii"
    )
    assert set(listed.split("\n")) == {"ii 1.20.2-1"}


def test_nothing_of_the_work_is_left(host: Any) -> None:
    assert (
        host.check_output("find /etc /tmp /root -name '*gpufleet*stage*' -o -name '.ansible-tmp*'")
        == ""
    )


def handler_paths(value: Any) -> list[str]:
    """Every path of a runtime's binary in a configuration, at whatever depth the engine's schema
    has it.
    """
    if isinstance(value, dict):
        here = [
            str(value[key])
            for key in ("BinaryName", "runtime_path", "privileged_without_host_devices_path")
            if key in value
        ]
        return here + [path for inner in value.values() for path in handler_paths(inner)]
    return []
