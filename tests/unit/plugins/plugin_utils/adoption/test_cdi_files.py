# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person changes in a spec of nvidia-ctk's, small as it is, and what the tool itself writes in other releases."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import cdi_files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec.model import Spec, from_document
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError

from tests.unit.plugins.plugin_utils.cdi.test_spec_plan import OURS, THEIRS, file_of, paths, plan, seen

LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"
READ_ONLY = ["ro", "nosuid", "nodev", "rbind", "rprivate"]


def spec(node: dict[str, Any] | None = None, mount: dict[str, Any] | None = None, name: str = "0", **edits: Any) -> Spec:
    found = {"deviceNodes": [{"path": "/dev/nvidia0", **(node or {})}], **edits}
    library = {"hostPath": LIBRARY, "containerPath": LIBRARY, "options": READ_ONLY, **(mount or {})}
    return from_document({
        "cdiVersion": "0.7.0", "kind": "nvidia.com/gpu", "containerEdits": {"mounts": [library]},
        "devices": [{"name": name, "containerEdits": found}],
    })  # fmt: skip


WRITTEN = [
    (spec(), "up to 1.18"),
    (spec({"major": 195, "fileMode": 438, "permissions": "rwm", "gid": 44}, additionalGids=[44]), "since 1.19"),
    (spec({"hostPath": "/run/nvidia/driver/dev/nvidia0"}, {"hostPath": f"/run/nvidia/driver{LIBRARY}"}), "a driver container"),
    (spec({"hostPath": "/dev/nvidia0"}), "a host path that is the path"),
]
CHANGED = [
    (spec({"hostPath": "/dev/nvidia1"}), "the hostPath of the device node /dev/nvidia0"),
    (spec({"permissions": "r"}), "the permissions of the device node /dev/nvidia0"),
    (spec({"uid": 1000}), "the uid of the device node /dev/nvidia0"),
    (spec({"type": "b"}), "the type of the device node /dev/nvidia0"),
    (spec(additionalGids=[2000]), "the group 2000"),
    (spec({"gid": 44}, additionalGids=[44, 2000]), "the group 2000"),
    (spec(mount={"hostPath": "/opt/patched/libcuda.so.550.163.01"}), "the mount of /opt/patched/libcuda.so.550.163.01"),
    (spec(mount={"options": ["rbind"]}), f"the mount of {LIBRARY}"),
]


@pytest.mark.parametrize("found", [found for found, _release in WRITTEN], ids=[release for _found, release in WRITTEN])
def test_what_the_tool_writes_is_explained(found: Spec) -> None:
    assert cdi_files.unexplained(found) == ()


@pytest.mark.parametrize(("found", "said"), CHANGED, ids=[said for _found, said in CHANGED])
def test_what_a_person_changed_is_named(found: Spec, said: str) -> None:
    assert cdi_files.unexplained(found) == (said,)


@pytest.mark.parametrize(
    ("theirs", "lost"),
    [
        (spec(), ()),
        (spec(name="gpu0"), ("gpu0",)),
        (spec({"path": "/dev/nvidia9"}, name="9"), ()),  # of a GPU that is gone
        (spec({"path": "/dev/nvidia-uvm"}, name="uvm"), ("uvm",)),  # of no GPU, so that no GPU can be gone
    ],
)
def test_names_that_containers_could_not_ask_for_any_more(theirs: Spec, lost: tuple[str, ...]) -> None:
    assert cdi_files.lost(theirs, spec()) == lost


@pytest.mark.parametrize("path", [OURS, THEIRS])
@pytest.mark.parametrize(
    ("name", "node", "says"),
    [
        ("gpu0", "/dev/nvidia0", "only it has the devices gpu0 .*containers may ask for them.*Add type-index to the option cdi_"),
        ("uvm", "/dev/nvidia-uvm", "only it has the devices uvm .*Remove the file once no container asks for uvm"),
        ("gpu9", "/dev/nvidia9", ""),  # of a GPU that is gone
        ("0:1", "/dev/nvidia0", ""),  # of a MIG device that is gone
    ],
)
def test_names_that_somebody_chose_are_not_lost_where_ours_takes_the_place(path: str, name: str, node: str, says: str) -> None:
    files = {path: file_of(name=name).replace("/dev/nvidia0", node)}
    if says:
        with pytest.raises(PlanError, match=f"{path}: {says}"):
            plan(seen(files))
    else:
        assert [x.fate for x in plan(seen(files)).leftovers] == ["adopted"]
    if says and name.startswith("gpu"):
        assert ("write", OURS) in paths(plan(seen(files), cdi_device_names=("index", "uuid", "type-index")))
