# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What containers get, edit by edit. tests/integration/test_cdi_reference.py compares the same with
the reference library.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    lookup,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import run

from tests.unit import cdi_inject as inject

HOST = {"/dev/a": inject.HostNode("c", 195, 0, 0o666), "/dev/file": inject.HostNode("")}
ALL = ("aa/bb=0", "aa/bb=1")


def given(common: dict[str, Any], *edits: dict[str, Any]) -> dict[str, lookup.Loaded]:
    """A file with the devices 0, 1 and so on."""
    devices = [{"name": str(i), "containerEdits": e} for i, e in enumerate(edits)]
    text = json.dumps(
        {"cdiVersion": "1.1.0", "kind": "aa/bb", "containerEdits": common, "devices": devices}
    )
    document, problems = run.read_text_problems(text.encode())
    assert document, problems
    return dict(lookup.resolve_spec_devices([lookup.Loaded("a.json", 0, document)]).devices)


def injected(
    edits: dict[str, Any], container: dict[str, Any] | None = None, release: str = "1.1.0"
) -> dict[str, Any]:
    return inject.inject(
        container or {}, ["aa/bb=0"], given({}, edits), HOST, releases.LIBRARIES[release]
    )


def test_a_files_own_edits_come_once_and_first() -> None:
    devices = given({"env": ["ALL=1"]}, {"env": ["ONE=1"]}, {"env": ["TWO=1"]})
    assert inject.inject({}, ALL, devices, {})["process"]["env"] == ["ALL=1", "ONE=1", "TWO=1"]


@pytest.mark.parametrize(
    ("before", "added", "release", "after"),
    [
        (["PATH=/bin"], ["A=b"], "1.1.1", ["PATH=/bin", "A=b"]),
        ([], ["A=b", "A=c"], "1.1.1", ["A=c"]),
        (["A=image"], ["A=b"], "1.1.0", ["A=image", "A=b"]),  # the image's own stays in front
        (["A=image"], ["A=b"], "1.1.1", ["A=b"]),
        (["A"], ["A=b"], "1.1.0", ["A=b"]),
    ],
)
def test_env(before: list[str], added: list[str], release: str, after: list[str]) -> None:
    container: dict[str, Any] = {"process": {"env": list(before)}}
    assert injected({"env": added}, container, release)["process"]["env"] == after
    assert container["process"]["env"] == before


USERS = {"linux": {"namespaces": [{"type": "user"}]}}


@pytest.mark.parametrize(
    ("options", "container", "release", "after"),
    [
        (["ro", "bind"], USERS, "1.1.1", ["ro", "bind", "idmap"]),
        (["ro", "rbind"], USERS, "1.1.1", ["ro", "rbind", "ridmap"]),
        (["bind", "idmap"], USERS, "1.1.1", ["bind", "idmap"]),
        (["ro", "bind"], USERS, "1.1.0", ["ro", "bind"]),
        (["ro", "bind"], {}, "1.1.1", ["ro", "bind"]),
    ],
)
def test_ids_of_a_bind_mount(
    options: list[str], container: dict[str, Any], release: str, after: list[str]
) -> None:
    found = injected(
        {"mounts": [{"hostPath": "/x", "containerPath": "/y", "options": options}]},
        container,
        release,
    )
    assert found["mounts"][0]["options"] == after


def test_a_node_without_permissions() -> None:
    (rule,) = injected(
        {"deviceNodes": [{"path": "/dev/a", "permissions": "none"}]}, release="1.1.1"
    )["linux"]["resources"]["devices"]
    assert rule["access"] == ""


# the node in the spec: (the node in the container, or why there is no container)
NODES: dict[str, tuple[dict[str, Any], dict[str, Any] | str]] = {
    "all from the host": (
        {"path": "/dev/a"},
        {"type": "c", "major": 195, "minor": 0, "fileMode": 0o666},
    ),
    "recorded numbers win": (
        {"path": "/dev/a", "major": 9, "minor": 8},
        {"type": "c", "major": 9, "minor": 8, "fileMode": 0o666},
    ),
    "a minor alone is nothing": (
        {"path": "/dev/a", "minor": 8},
        {"type": "c", "major": 195, "minor": 0, "fileMode": 0o666},
    ),
    "under another path": (
        {"path": "/dev/b", "hostPath": "/dev/a"},
        {"type": "c", "major": 195, "minor": 0, "fileMode": 0o666},
    ),
    "gone, and described whole": (
        {"path": "/dev/gone", "type": "c", "major": 195, "minor": 7},
        {"type": "c", "major": 195, "minor": 7},
    ),
    "gone": (
        {"path": "/dev/gone", "major": 195},
        "failed to stat CDI host device /dev/gone: no such file or directory",
    ),
    "no node": ({"path": "/dev/file"}, "not a device node"),
    "of another type": ({"path": "/dev/a", "type": "b"}, "host type mismatch (b, c)"),
}


@pytest.mark.parametrize(("node", "expected"), NODES.values(), ids=NODES)
def test_nodes(node: dict[str, Any], expected: dict[str, Any] | str) -> None:
    if isinstance(expected, str):
        with pytest.raises(inject.CannotInject) as why:
            injected({"deviceNodes": [node]})
        assert expected in str(why.value)
        return
    linux = injected({"deviceNodes": [node]})["linux"]
    assert linux["devices"] == [{"path": node["path"], **expected}]
    numbers = {key: expected[key] for key in ("type", "major", "minor")}
    assert linux["resources"]["devices"] == [{"allow": True, "access": "rwm", **numbers}]


def test_older_releases_leave_the_mode_to_the_runtime() -> None:
    assert (
        "fileMode"
        not in injected({"deviceNodes": [{"path": "/dev/a"}]}, release="1.0.1")["linux"]["devices"][
            0
        ]
    )


def test_a_node_of_the_containers_user_replaces_the_one_that_was_there() -> None:
    container = {
        "process": {"user": {"uid": 1000, "gid": 0}},
        "linux": {"devices": [{"path": "/dev/a", "major": 1}]},
    }
    (device,) = injected({"deviceNodes": [{"path": "/dev/a"}]}, container)["linux"]["devices"]
    assert (device["major"], device["uid"], "gid" in device) == (195, 1000, False)


@pytest.mark.parametrize(
    ("release", "order"), [("0.8.1", ["/b", "/z", "/z/a"]), ("1.0.1", ["/z", "/b", "/z/a"])]
)
def test_mounts_go_by_depth_and_once_per_place(release: str, order: list[str]) -> None:
    container = {
        "mounts": [{"destination": "/z/a", "source": "old"}, {"destination": "/z", "source": "old"}]
    }
    edits = {
        "mounts": [
            {"hostPath": "/h", "containerPath": path, "options": ["bind"]}
            for path in ("/z/a", "/b")
        ]
    }
    found = injected(edits, container, release)["mounts"]
    assert [m["destination"] for m in found] == order
    assert found[-1] == {"destination": "/z/a", "source": "/h", "options": ["bind"]}


def test_the_rest() -> None:
    edits = {
        "hooks": [{"hookName": "createContainer", "path": "/h", "args": ["h", "x"]}], "additionalGids": [0, 44, 44],
        "intelRdt": {"closID": "a"}, "netDevices": [{"hostInterfaceName": "e1", "name": "e0"}],
    }  # fmt: skip
    assert injected(edits) == {
        "hooks": {"createContainer": [{"path": "/h", "args": ["h", "x"]}]}, "process": {"user": {"additionalGids": [44]}},
        "linux": {"intelRdt": {"closID": "a"}, "netDevices": {"e1": {"name": "e0"}}},
    }  # fmt: skip


def test_names_that_nobody_gives_are_told_together() -> None:
    with pytest.raises(inject.Unresolvable) as why:
        inject.inject({}, ["aa/bb=0", "aa/bb=7", "cc/dd=0"], given({}, {"env": ["A=b"]}), {})
    assert why.value.names == ("aa/bb=7", "cc/dd=0")
    assert str(why.value) == "unresolvable CDI devices aa/bb=7, cc/dd=0"
