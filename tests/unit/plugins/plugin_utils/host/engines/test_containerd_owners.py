# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a containerd is, on a host and in a tree of files."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

from tests.fixtures.managers import LEFT_ALONE
from tests.unit.containerd_daemons import CONFIG, UNIT, answer_cri, find_instances, run_daemon

ALONE = LEFT_ALONE.config


@pytest.fixture
def left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one more manager, which is recognised and left alone."""
    monkeypatch.setattr(known, "MANAGERS", (LEFT_ALONE, *known.MANAGERS))


@pytest.mark.usefixtures("left_alone")
def test_a_daemon_of_another_system_is_recognised_and_left_alone() -> None:
    (found,) = find_instances(files={}, units={}, processes=[run_daemon("-c", ALONE, unit=None)])
    assert (found.manager, found.running) == ("nodeware", True)
    assert found.refusal.message.code == "manager.nodeware"


@pytest.mark.usefixtures("left_alone")
def test_another_system_that_is_stopped() -> None:
    (found,) = find_instances(files={}, units={"nodeware.service": {}})
    assert (found.manager, found.running, bool(found.refusal)) == ("nodeware", False, True)


@pytest.mark.parametrize(
    ("manager", "seen"),
    [
        ("eks", {"units": {**UNIT, "nodeadm-config.service": {}}}),
        ("bottlerocket", {"host": {"os_release": {"ID": "bottlerocket"}}}),
        ("talos", {"host": {"os_release": {"ID": "talos"}}}),
    ],
)
def test_a_system_that_owns_the_plain_daemon(manager: str, seen: Any) -> None:
    (found,) = find_instances(processes=[run_daemon()], **seen)
    assert (found.manager, bool(found.refusal)) == (manager, True)


@pytest.mark.usefixtures("left_alone")
def test_a_plain_daemon_beside_another() -> None:
    found = find_instances(
        processes=[run_daemon(), run_daemon("-c", ALONE, pid=8, unit="nodeware.service")],
        cri=answer_cri("1.7.24"),
    )
    assert [(i.manager, bool(i.refusal)) for i in found] == [("package", False), ("nodeware", True)]


def test_dockers_own_daemon() -> None:
    (found,) = find_instances(
        files={},
        units={},
        processes=[
            run_daemon(
                "--config", "/var/run/docker/containerd/containerd.toml", unit="docker.service"
            )
        ],
    )
    assert (found.manager, found.cri, bool(found.refusal)) == ("docker", False, True)


TREES: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    # options, a program beneath the root, a file there, whether a containerd of that version is
    # assumed
    "the version alone": ({}, "", "", True),
    "Docker's program": ({}, "dockerd", "", False),
    "CRI-O's program": ({}, "crio", "", False),
    "Docker's program, and containerd is named": (
        {"engines": ("containerd", "docker")},
        "dockerd",
        "",
        True,
    ),
    "Docker's program, and the file is named": (
        {"config_path": "/etc/containerd/config.toml"},
        "dockerd",
        "",
        True,
    ),
    "Docker's program, and containerd's file": ({}, "dockerd", "version = 2\n", True),
    "another engine is named": ({"engines": ("crio",)}, "", "", False),
}


@pytest.mark.parametrize("case", TREES)
def test_a_version_stands_for_a_containerd_where_no_other_engine_has_it(case: str) -> None:
    options, program, text, assumed = TREES[case]
    files = {
        path: content
        for path, content in ((CONFIG, text), (f"/usr/bin/{program}", program))
        if content
    }
    seen = find_instances(Policy(root="/image", engine_version="1.7.24", **options), files=files)
    assert bool(seen) == assumed


def test_another_root_directory() -> None:
    (found,) = find_instances(Policy(root="/image", engine_version="1.7.24"))
    assert (found.version, found.running, found.cdi.able, found.cdi.enabled) == (
        "1.7.24",
        False,
        True,
        False,
    )
    (found,) = find_instances(
        Policy(root="/image"), packages={"containerd": "1.6.20~ds1-1+deb12u3"}
    )
    assert (found.version, found.cdi.able) == ("1.6.20~ds1-1+deb12u3", False)
    with pytest.raises(PlanError, match=r"\[containerd\.version-unknown-in-root\]"):
        find_instances(Policy(root="/image"))


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize(
    ("case", "policy", "files", "found"),
    [
        ("theirs alone", {}, (), [("nodeware", True)]),
        ("theirs, named by config_path", {"config_path": ALONE}, (), [("nodeware", True)]),
        (
            "another version of it, named by config_path",
            {"config_path": "/opt/nodeware/x/config.toml"},
            (),
            [("nodeware", True)],
        ),
        (
            "a plain one beside it",
            {},
            (CONFIG, "/usr/bin/containerd"),
            [("nodeware", True), ("package", False)],
        ),
        ("a plain one's configuration without a program", {}, (CONFIG,), [("nodeware", True)]),
        (
            "a plain one that is asked for",
            {"config_path": CONFIG},
            (),
            [("nodeware", True), ("package", False)],
        ),
    ],
)
def test_a_tree_of_another_system(
    case: str, policy: dict[str, str], files: tuple[str, ...], found: list[tuple[str, bool]]
) -> None:
    """What it is and whose, and no configuration is made up beside it."""
    texts = {ALONE: "version = 2\n", **dict.fromkeys(files, "version = 2\n")}
    seen = find_instances(Policy(root="/image", engine_version="1.7.24", **policy), files=texts)  # type: ignore[arg-type]
    assert [(i.manager, bool(i.refusal)) for i in seen] == found, case
    assert all(
        i.refusal.message.code == "manager.nodeware" for i in seen if i.manager == "nodeware"
    )


TEMPLATES = [
    # a file of a tree, the systems that are found there
    ("/var/lib/rancher/k3s/agent/etc/containerd/config.toml.tmpl", "k3s"),
    ("/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.tmpl", "k3s"),
    ("/var/lib/rancher/rke2/agent/etc/containerd/config.toml.tmpl", "rke2"),
]


@pytest.mark.parametrize(("path", "manager"), TEMPLATES)
def test_a_template_tells_whose_a_tree_is_before_it_was_rendered(path: str, manager: str) -> None:
    (found,) = find_instances(
        Policy(root="/image", engine_version="1.7.24"), files={path: '{{ template "base" . }}\n'}
    )
    assert (found.manager, bool(found.refusal)) == (manager, True)
