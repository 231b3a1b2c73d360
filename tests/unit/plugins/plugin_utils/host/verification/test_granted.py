# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs the specs of a host give to a container that asks for all."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    granted,
)


def write_spec(*minors: int, kind: str = "nvidia.com/gpu", name: str = "all") -> str:
    """Write a spec with one device, which has these GPUs and the control node."""
    nodes = "".join(f"    - path: /dev/nvidia{minor}\n" for minor in minors)
    return (
        f"cdiVersion: 0.5.0\nkind: {kind}\ndevices:\n- name: {name}\n  containerEdits:\n"
        f"    deviceNodes:\n{nodes}    - path: /dev/nvidiactl\n"
    )


def file(name: str, content: str) -> ObservedFile:
    return ObservedFile(f"/etc/cdi/{name}", exists=True, content=content)


OURS = file("nvidia.yaml", write_spec(0, 1))
ROWS: dict[str, tuple[list[tuple[ObservedFile, ...]], set[str] | None]] = {
    # the files of each directory, lowest priority first; the GPUs, None for not known
    "our spec": ([(OURS,), ()], {"0", "1"}),
    "the last directory counts": ([(OURS,), (file("x.json", write_spec(0)),)], {"0"}),
    "another kind": ([(OURS, file("net.yaml", write_spec(7, kind="a.com/nic")))], {"0", "1"}),
    "another device": ([(file("a.yaml", write_spec(0, name="0")),)], None),
    "a name that no engine reads": ([(OURS, file("old.yaml.bak", write_spec(0)))], {"0", "1"}),
    "two files of one directory": ([(OURS, file("other.yaml", write_spec(0)))], None),
    "a file that is no spec": ([(OURS, file("broken.yaml", "kind: ["))], None),
    "no file": ([(), ()], None),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_nodes_of_all_gpus(name: str) -> None:
    directories, gpus = ROWS[name]
    found = granted.find_granted_nodes(directories)
    assert found == (None if gpus is None else {f"/dev/nvidia{gpu}" for gpu in gpus})
