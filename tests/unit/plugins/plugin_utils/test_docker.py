# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker Engine: how it is found, what is planned for it, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.engines import docker, docker_config
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Policy

from tests.unit.builders import obs

PROCESS = {"pid": 3, "exe": "/usr/sbin/dockerd", "argv": ["dockerd"]}
INFO = f"http:{docker_config.SOCKET}/info"


def running(version: str, features: Any = None, **info: Any) -> Any:
    body = json.dumps(
        {"ServerVersion": version, "DefaultRuntime": "runc", "Runtimes": {"runc": {"path": "runc"}}, "ContainersRunning": 2, **info}
    )
    files = {} if features is None else {docker_config.CONFIG: json.dumps({"features": features})}
    return obs(files=files, processes=[PROCESS], answers={INFO: {"status": 200, "body": body}})


@pytest.mark.parametrize(
    ("case", "version", "features", "info", "able", "enabled", "highest"),
    [
        ("Debian 12", "20.10.24+dfsg1", None, {}, False, False, ""),
        ("Debian 13, as installed", "26.1.5+dfsg1", None, {"CDISpecDirs": []}, True, False, "0.7.0"),
        ("Debian 13, switched on", "26.1.5+dfsg1", {"cdi": True}, {"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}, True, True, "0.7.0"),
        ("28.2 and newer: on", "28.5.2", None, {"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}, True, True, "1.0.0"),
        ("switched off", "29.7.2", {"cdi": False}, {}, True, False, "1.1.0"),
        ("no list, by version", "28.2.0", None, {}, True, True, "1.0.0"),
        ("no list, switch on", "25.0.3", {"cdi": True}, {}, True, True, "0.6.0"),
    ],
)
def test_running(case: str, version: str, features: Any, info: dict[str, Any], able: bool, enabled: bool, highest: str) -> None:
    (found,) = docker.find(Policy(), running(version, features, **info))
    assert (found.cdi.able, found.cdi.enabled, found.cdi.max_version) == (able, enabled, highest), case
    assert (found.engine, found.cri, found.running, found.running_containers) == ("docker", False, True, 2)
    assert found.version == version.partition("+")[0]
    assert found.refusal == ""


def test_stopped_by_its_banner() -> None:
    seen = obs(files={"/usr/bin/dockerd": ""}, commands={"/usr/bin/dockerd --version": "Docker version 28.5.2, build abc\n"})
    (found,) = docker.find(Policy(), seen)
    assert (found.version, found.running) == ("28.5.2", False)


def test_a_tree_by_its_package() -> None:
    (found,) = docker.find(Policy(root="/srv/tree"), obs(packages={"docker-ce": "5:28.5.2-1~debian.12~bookworm"}))
    assert found.version == "28.5.2"


def test_no_docker() -> None:
    assert docker.find(Policy(), obs()) == ()
