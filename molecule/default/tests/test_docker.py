# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook site leaves on a host with Docker alone: GPUs by CDI, and Docker's containerd
as it was.
"""

from __future__ import annotations

import json
from typing import Any

testinfra_hosts = ["ansible://mol-docker"]


def test_the_engine_runs(host: Any) -> None:
    assert host.service("docker").is_running


def test_docker_gives_out_the_gpu_by_cdi(host: Any) -> None:
    listed = host.run(
        "docker run --rm --pull=never --device nvidia.com/gpu=0 localhost/gpufleet/probe:lab ls /dev/nvidia0"
    )
    assert listed.stdout.strip() == "/dev/nvidia0", listed.stderr


def test_its_file_says_so(host: Any) -> None:
    said = json.loads(host.file("/etc/docker/daemon.json").content_string)
    assert said == {
        "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}},
        "features": {"cdi": True},
    }


def test_its_containerd_is_left_alone(host: Any) -> None:
    assert not host.file("/etc/containerd/conf.d").exists
