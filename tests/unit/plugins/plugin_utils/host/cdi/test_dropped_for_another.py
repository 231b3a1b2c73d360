# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two files of one directory with the same device, where another program owns the spec: engines
give the device to no container, so the plan names both files.
"""

from __future__ import annotations

import time
import types
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
    get_values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import contested

ONE, TWO, RUN = "/etc/cdi/nvidia-gpu.json", "/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"


def spec(name: str, kind: str = "nvidia.com/gpu") -> str:
    node = "{deviceNodes: [{path: /dev/nvidia0}]}"
    return (
        f"cdiVersion: 0.5.0\nkind: {kind}\ndevices:\n- name: '{name}'\n  containerEdits: {node}\n"
    )


CASES: list[tuple[str, dict[str, str], list[tuple[str, str, str]]]] = [
    # files -> (file, the other one, device)
    ("one file", {TWO: spec("0")}, []),
    ("two of one directory", {ONE: spec("0"), TWO: spec("0")}, [(TWO, ONE, "nvidia.com/gpu=0")]),
    ("two directories: the later one wins", {TWO: spec("0"), RUN: spec("0")}, []),
    ("other devices", {ONE: spec("0"), TWO: spec("1")}, []),
    ("another kind", {ONE: spec("0", "example.com/gpu"), TWO: spec("0")}, []),
    ("one that is no spec", {ONE: "no: spec\n", TWO: spec("0")}, []),
    ("one that no engine reads", {f"{ONE}.bak": spec("0"), TWO: spec("0")}, []),
]


@pytest.mark.parametrize(("case", "files", "named"), CASES, ids=[row[0] for row in CASES])
def test_files_whose_devices_engines_drop_are_named(
    case: str, files: dict[str, str], named: list[tuple[str, str, str]]
) -> None:
    def list_directory(directory: str) -> tuple[ObservedFile, ...]:
        return tuple(
            ObservedFile(path, exists=True, content=text, type="file")
            for path, text in sorted(files.items())
            if path.rpartition("/")[0] == directory
        )

    facts: Any = types.SimpleNamespace(directories=types.SimpleNamespace(get=list_directory))
    told = contested.advise_on_dropped_devices(Policy(), facts)
    assert {get_code(said) for said in told} <= {"cdi.dropped-for-another"}
    assert [
        tuple(get_values(said)[key] for key in ("path", "other", "device")) for said in told
    ] == named


def test_the_time_grows_with_the_devices_and_not_with_their_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host names the files: its answer must not keep the controller."""
    files = [ObservedFile(f"/etc/cdi/{n}.yaml", exists=True, type="file") for n in range(2000)]
    facts: Any = types.SimpleNamespace(directories=types.SimpleNamespace(get=lambda _name: files))
    monkeypatch.setattr(
        contested.other_files,
        "parse_other_spec",
        lambda file: types.SimpleNamespace(names=[f"{file.path}={n}" for n in range(50)]),
    )
    before = time.process_time()
    assert contested.advise_on_dropped_devices(Policy(cdi_spec_dirs=("/etc/cdi",)), facts) == ()
    assert time.process_time() - before < 2
