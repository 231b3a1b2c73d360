# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook site leaves on a host whose engine serves no CRI: everything as it was."""

from __future__ import annotations

from typing import Any

testinfra_hosts = ["ansible://mol-docker"]


def test_the_engine_runs(host: Any) -> None:
    assert host.service("docker").is_running


def test_its_configuration_is_left_alone(host: Any) -> None:
    for path in ("/etc/docker/daemon.json", "/etc/containerd/conf.d", "/etc/cdi"):
        assert not host.file(path).exists, path
