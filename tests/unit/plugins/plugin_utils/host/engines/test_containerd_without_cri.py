# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A containerd whose CRI is off or does not answer: the cause, and the log that tells more."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)

from tests.unit import rancher
from tests.unit.containerd_daemons import (
    CONFIG,
    SOCKET,
    UNIT,
    answer_cri,
    find_instances,
    run_daemon,
)

DEAD = {"error": {"kind": "failed", "message": "connection refused"}}
DOCKER_CONFIG = 'disabled_plugins = ["cri"]\n'


@pytest.mark.parametrize(
    ("units", "manager", "code"),
    [
        ({**UNIT, "docker.service": {}}, "docker", "manager.containerd-serves-docker-only"),
        (UNIT, "package", "containerd.cri-disabled"),
    ],
)
def test_cri_disabled(units: Any, manager: str, code: str) -> None:
    cri = {f"Status:{SOCKET}": DEAD, f"Version:{SOCKET}": DEAD}
    # its program is not asked: that would be a second look
    packages = {"containerd": "1.7.24~ds1-6"}
    (found,) = find_instances(
        files={CONFIG: DOCKER_CONFIG},
        units=units,
        processes=[run_daemon()],
        cri=cri,
        packages=packages,
    )
    assert (found.manager, found.cri, found.version) == (manager, False, "1.7.24~ds1-6")
    message = found.refusal.message
    assert (message.code, message.values["where"], message.values["entry"]) == (
        code,
        f"{CONFIG}:1",
        "cri",
    )


@pytest.mark.parametrize("method", ["Status", "Version"])
def test_a_running_containerd_whose_cri_does_not_answer_is_left_alone_and_says_why(
    method: str,
) -> None:
    cri = {**answer_cri("1.7.24"), f"{method}:{SOCKET}": DEAD}
    (found,) = find_instances(
        files={CONFIG: "version = 2\n"},
        processes=[run_daemon()],
        cri=cri,
        commands={"/usr/bin/containerd --version": "x 1.7.24"},
    )
    assert (found.refusal.kind, found.running) == ("silent", True)
    message = found.refusal.message
    assert (message.code, message.values["cause"]) == (
        "containerd.cri-silent",
        "connection refused",
    )
    assert message.values["log"].startswith("`journalctl -u")


def test_what_keeps_cri_from_loading_is_named_where_it_does_not_answer() -> None:
    """github.com/containerd/containerd/issues/4574: the log alone said why."""
    text = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nsystemd_cgroup = true\n'
    seen = {
        "files": {CONFIG: text},
        "processes": [run_daemon()],
        "cri": {f"Status:{SOCKET}": DEAD, f"Version:{SOCKET}": DEAD},
    }
    (found,) = find_instances(
        **seen,
        packages={"containerd": "1.6.20~ds1-1"},
        commands={"/usr/bin/containerd --version": "x 1.6.20"},
    )
    assert (found.refusal.kind, found.running) == ("silent", True)
    message = found.refusal.message
    assert (message.code, message.values["place"]) == ("containerd.cri-not-loaded", f"{CONFIG}:3")
    assert "systemd_cgroup = true" in message.values["cause"]


# What tells the version, and what is said of it.
VERSIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a package": ({"packages": {"containerd": "2.0.5-1"}}, {}, "cri-not-loaded", "2.0.5-1"),
    "the options": ({}, {"engine_version": "2.0.4"}, "cri-not-loaded", "2.0.4"),
    "nothing": ({}, {}, "cri-may-not-load", ""),
}


@pytest.mark.parametrize("case", VERSIONS)
def test_no_version_is_told_that_nothing_names(case: str) -> None:
    told, policy, code, version = VERSIONS[case]
    text = 'version = 3\nrequired_plugins = ["a"]\ndisabled_plugins = ["a"]\n'
    cri = {f"Status:{SOCKET}": DEAD, f"Version:{SOCKET}": DEAD}
    (found,) = find_instances(
        Policy(**policy), files={CONFIG: text}, processes=[run_daemon()], cri=cri, **told
    )
    message = found.refusal.message
    assert (message.code, message.values.get("version", "")) == (f"containerd.{code}", version)


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        ({"containerd": "2.0.5-1"}, "cri-silent"),
        ({"containerd": "2.1.9-1"}, "cri-not-loaded"),
        ({"containerd": "2.3.0-1"}, "cri-silent"),
        ({}, "cri-silent"),  # an unknown release is read as 2.0
    ],
)
def test_a_disabled_plugin_counts_where_the_cri_of_that_release_needs_it(
    packages: dict[str, str], code: str
) -> None:
    (found,) = find_instances(
        files={
            CONFIG: 'version = 3\ndisabled_plugins = ["io.containerd.image-verifier.v1.bindir"]\n'
        },
        processes=[run_daemon()],
        cri={f"Status:{SOCKET}": DEAD, f"Version:{SOCKET}": DEAD},
        packages=packages,
    )
    assert found.refusal.message.code == f"containerd.{code}"


@pytest.mark.parametrize(
    ("manager", "unit", "log"),
    [
        ("k3s", "k3s-agent.service", "/var/lib/rancher/k3s/agent/containerd/containerd.log"),
        ("rke2", "rke2-server.service", "/var/lib/rancher/rke2/agent/containerd/containerd.log"),
    ],
)
def test_a_manager_that_keeps_the_words_of_its_containerd_in_a_file_has_that_file_named(
    manager: str, unit: str, log: str
) -> None:
    seen = rancher.Node(manager=manager, unit=unit).seen()
    seen.answers[f"cri:Status:{rancher.SOCKET}"] = DEAD
    (found,) = containerd_detect.find_instances(
        Policy(), containerd_detect.read_facts(Policy(), seen)
    )
    assert found.refusal.message.values["log"] == log
