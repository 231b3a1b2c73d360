# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person changes in a spec of nvidia-ctk's, small as it is, and what the tool itself writes
in other releases.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_files,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    projection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
    read_spec_of_document,
)

from tests.unit.cdi_plans import OURS, THEIRS, file_of, paths, plan, seen

LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"
READ_ONLY = ["ro", "nosuid", "nodev", "rbind", "rprivate"]


def spec(
    node: dict[str, Any] | None = None,
    mount: dict[str, Any] | None = None,
    name: str = "0",
    **edits: Any,
) -> Spec:
    found = {"deviceNodes": [{"path": "/dev/nvidia0", **(node or {})}], **edits}
    library = {"hostPath": LIBRARY, "containerPath": LIBRARY, "options": READ_ONLY, **(mount or {})}
    return read_spec_of_document({
        "cdiVersion": "0.7.0", "kind": "nvidia.com/gpu", "containerEdits": {"mounts": [library]},
        "devices": [{"name": name, "containerEdits": found}],
    })  # fmt: skip


WRITTEN = [
    (spec(), "up to 1.18"),
    (
        spec({"major": 195, "fileMode": 438, "permissions": "rwm", "gid": 44}, additionalGids=[44]),
        "since 1.19",
    ),
    (
        spec(
            {"hostPath": "/run/nvidia/driver/dev/nvidia0"},
            {"hostPath": f"/run/nvidia/driver{LIBRARY}"},
        ),
        "a driver container",
    ),
    (spec({"hostPath": "/dev/nvidia0"}), "a host path that is the path"),
]
FOLDER = "/usr/lib/x86_64-linux-gnu"


def hooked(*args: str, path: str = "/usr/bin/nvidia-cdi-hook") -> Spec:
    return spec(
        hooks=[
            {"hookName": "createContainer", "path": path, "args": [path.rpartition("/")[2], *args]}
        ]
    )


# As nvidia-ctk writes them (cmd/nvidia-cdi-hook and internal/discover in nvidia-container-toolkit
# 1.13 to 1.20)
WRITTEN += [
    (hooked("update-ldcache", "--folder", FOLDER), "the folder of a library"),
    (
        hooked(
            "hook",
            "update-ldcache",
            "--ldconfig-path",
            "/sbin/ldconfig",
            "--folder",
            FOLDER,
            path="/usr/bin/nvidia-ctk",
        ),
        "ldconfig",
    ),
    (
        hooked("create-symlinks", "--link", f"libcuda.so.1::{FOLDER}/libcuda.so"),
        "a link to a library",
    ),
    (
        hooked(
            "create-symlinks",
            "--link",
            f"../libnvidia-allocator.so.1::{FOLDER}/gbm/nvidia-drm_gbm.so",
        ),
        "gbm",
    ),
    (
        hooked("create-symlinks", "--link", "../card1::/dev/dri/by-path/pci-0000:01:00.0-card"),
        "a link by path",
    ),
    (hooked("chmod", "--mode", "755", "--path", "/dev"), "the folder of a device node"),
    (
        hooked("enable-cuda-compat", "--host-driver-version=550.163.01"),
        "CUDA's forward compatibility",
    ),
    (hooked("disable-device-node-modification"), "no arguments"),
    (
        spec({"path": "/dev/dri/controlD65"}),
        "NVIDIA/nvidia-container-toolkit#46, a node of older kernels",
    ),
    (hooked("a-command-of-tomorrow", "--flag", "x"), "a command that nobody knows yet"),
]
CHANGED = [
    (
        hooked("update-ldcache", "--folder", FOLDER, "--folder", "/opt/own"),
        "--folder /opt/own of the hook update-ldcache",
    ),
    (hooked("update-ldcache", "--folder=/opt/own"), "--folder /opt/own of the hook update-ldcache"),
    (hooked("update-ldcache", "/opt/own"), "/opt/own of the hook update-ldcache"),
    (
        hooked("update-ldcache", "--container-spec", "-"),
        "--container-spec - of the hook update-ldcache",
    ),
    (
        hooked("create-symlinks", "--link", "/opt/own/x::/usr/bin/x"),
        "--link /opt/own/x::/usr/bin/x of the hook create-symlinks",
    ),
    (hooked("chmod", "--mode", "777", "--path", "/dev"), "--mode 777 of the hook chmod"),
    (hooked("chmod", "--mode", "755", "--path", "/srv"), "--path /srv of the hook chmod"),
    (
        hooked("disable-device-node-modification", "--x"),
        "--x of the hook disable-device-node-modification",
    ),
    (spec({"hostPath": "/dev/nvidia1"}), "the hostPath of the device node /dev/nvidia0"),
    (spec({"permissions": "r"}), "the permissions of the device node /dev/nvidia0"),
    (spec({"uid": 1000}), "the uid of the device node /dev/nvidia0"),
    (spec({"type": "b"}), "the type of the device node /dev/nvidia0"),
    (spec(additionalGids=[2000]), "the group 2000"),
    (spec({"gid": 44}, additionalGids=[44, 2000]), "the group 2000"),
    (
        spec(mount={"hostPath": "/opt/patched/libcuda.so.550.163.01"}),
        "the mount of /opt/patched/libcuda.so.550.163.01",
    ),
    (spec(mount={"options": ["rbind"]}), f"the mount of {LIBRARY}"),
]


@pytest.mark.parametrize(
    "found", [found for found, _release in WRITTEN], ids=[release for _found, release in WRITTEN]
)
def test_what_the_tool_writes_is_explained(found: Spec) -> None:
    assert cdi_files.list_unexplained_spec_parts(found) == ()


@pytest.mark.parametrize(("found", "said"), CHANGED, ids=[said for _found, said in CHANGED])
def test_what_a_person_changed_is_named(found: Spec, said: str) -> None:
    assert cdi_files.list_unexplained_spec_parts(found) == (said,)


@pytest.mark.parametrize(
    ("theirs", "lost"),
    [
        (spec(), ()),
        (spec(name="gpu0"), ("gpu0",)),
        (spec({"path": "/dev/nvidia9"}, name="9"), ()),  # of a GPU that is gone
        # of no GPU, so no GPU can be gone
        (
            spec({"path": "/dev/nvidia-uvm"}, name="uvm"),
            ("uvm",),
        ),
    ],
)
def test_names_that_containers_could_not_ask_for_any_more(
    theirs: Spec, lost: tuple[str, ...]
) -> None:
    assert cdi_files.list_lost_device_names(theirs, spec()) == lost


@pytest.mark.parametrize("path", [OURS, THEIRS])
@pytest.mark.parametrize(
    ("name", "node", "says"),
    [
        (
            "gpu0",
            "/dev/nvidia0",
            "only it has the devices gpu0 .*containers may ask for them.*Add type-index to gpufleet_cdi_",
        ),
        (
            "uvm",
            "/dev/nvidia-uvm",
            "only it has the devices uvm .*Remove the file once no container asks for uvm",
        ),
        ("gpu9", "/dev/nvidia9", ""),  # of a GPU that is gone
        ("0:1", "/dev/nvidia0", ""),  # of a MIG device that is gone
    ],
)
def test_names_that_somebody_chose_are_not_lost_where_ours_takes_the_place(
    path: str, name: str, node: str, says: str
) -> None:
    files = {path: file_of(name=name).replace("/dev/nvidia0", node)}
    if says:
        with pytest.raises(PlanError, match=f"{path}: {says}"):
            plan(seen(files))
    else:
        assert [x.fate for x in plan(seen(files)).leftovers] == ["adopted"]
    if says and name.startswith("gpu"):
        assert ("write", OURS) in paths(
            plan(seen(files), cdi_device_names=("index", "uuid", "type-index"))
        )


def test_every_flag_that_the_tool_writes_leaves_a_host() -> None:
    """A flag that stays there counts as a person's, and the tool's own spec would be refused for
    it.
    """
    assert {flag for flags in cdi_files.FLAGS.values() for flag in flags} <= set(projection.FLAGS)
