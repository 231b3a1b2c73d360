# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Over generated configurations: nothing that a handler has is less afterwards. The engines judge
the same in tests/integration.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config as containerd_config,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import builders, lowered
from tests.unit.containerd_plans import ROOT, applied, plan

NAMES = {"1.6.20": 'plugins."io.containerd.grpc.v1.cri"', "1.7.35": 'plugins."io.containerd.grpc.v1.cri"',
         "2.1.9": "plugins.'io.containerd.cri.v1.runtime'", "2.4.2": "plugins.'io.containerd.cri.v1.runtime'"}  # fmt: skip


def written(release: str, cri: dict[str, Any]) -> str:
    lines = [f"version = {2 if release.startswith('1.') else 3}"]

    def table(path: str, tree: dict[str, Any]) -> None:
        lines.append(f"[{path}]")
        lines.extend(
            f"{key} = {toml.dump_toml_value(value)}"
            for key, value in tree.items()
            if not isinstance(value, dict)
        )
        for key, value in tree.items():
            if isinstance(value, dict):
                table(f"{path}.{key}", value)

    table(NAMES[release], cri)
    return "\n".join(lines) + "\n"


def effective(release: str, files: dict[str, str]) -> dict[str, Any]:
    version = versions.parse_engine_version(release)
    assert version
    return containerd_config.build_effective_cri_table(
        containerd_config.load_containerd_files(
            containerd_config.read_config_facts(builders.obs(files=files), Policy().handlers),
            ROOT,
            version,
        ),
        version,
    )


@pytest.mark.parametrize("release", NAMES)
def test_nothing_is_less_afterwards(release: str) -> None:
    planned = []

    @settings(database=None)
    @given(
        cri=lowered.configurations(release),
        default=st.booleans(),
        wanted=st.sampled_from(["auto", "disabled"]),
    )
    def holds(cri: dict[str, Any], default: bool, wanted: Any) -> None:
        files = {ROOT: written(release, cri)}
        try:
            found = plan(
                release, files, Policy(set_as_default=wanted), default=default and wanted == "auto"
            )
        except PlanError as refused:
            planned.append(refused.what[:30])
            return
        planned.append("")
        after = applied(files, found)
        assert (
            lowered.losses(
                effective(release, files), effective(release, after), told=release.startswith("2.")
            )
            == []
        )
        assert lowered.worse(found.differences) == []
        assert plan(
            release, after, Policy(set_as_default=wanted), default=default and wanted == "auto"
        ).empty

    holds()
    assert planned.count("") > len(planned) * 2 // 3, planned


BEFORE: dict[str, Any] = {
    "containerd": {
        "default_runtime_name": "nvidia",
        "runtimes": {
            "nvidia": {
                "runtime_type": lowered.RUNC,
                "base_runtime_spec": "/b",
                "options": {"SystemdCgroup": True, "BinaryName": lowered.NVIDIA},
            },
            "runc": {"runtime_type": lowered.RUNC, "options": {"SystemdCgroup": True}},
        },
    }
}


@pytest.mark.parametrize(
    ("path", "value", "told", "says"),
    [
        (
            ("runtimes", "nvidia", "options", "SystemdCgroup"),
            False,
            False,
            "nvidia: options.SystemdCgroup was True and is None",
        ),
        (
            ("runtimes", "nvidia", "base_runtime_spec"),
            "",
            False,
            "nvidia: base_runtime_spec was '/b' and is None",
        ),
        (
            ("runtimes", "nvidia", "options", "SystemdCgroup"),
            False,
            True,
            "the kubelet is told False instead of True",
        ),
        (
            ("runtimes", "runc", "options", "SystemdCgroup"),
            False,
            False,
            "runc: options.SystemdCgroup was True and is None",
        ),
        (("runtimes", "runc", "runtime_type"), "io.containerd.kata.v2", False, "runc: was"),
        (("runtimes",), {}, False, "nvidia: is gone"),
        (("default_runtime_name",), "runc", False, ""),
        (
            ("runtimes", "nvidia", "options", "BinaryName"),
            "/usr/bin/nvidia-container-runtime.cdi",
            False,
            "",
        ),
        (("runtimes", "nvidia", "container_annotations"), ["x"], False, ""),
    ],
)
def test_the_rule_sees_what_is_less(
    path: tuple[str, ...], value: Any, told: bool, says: str
) -> None:
    after = copy.deepcopy(BEFORE)
    at = after["containerd"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    found = lowered.losses(BEFORE, after, told=told)
    assert any(says in loss for loss in found) if says else found == []


@pytest.mark.parametrize(
    ("before", "after", "bad"),
    [(True, False, 1), (False, True, 0), ("/b", "", 1), (["a"], ["a", "b"], 0), (["a"], [], 1)],
)
def test_the_rule_sees_a_change_for_the_worse(before: Any, after: Any, bad: int) -> None:
    assert (
        len(lowered.worse([Difference("file", "/f", "plugins.x.SystemdCgroup", before, after, "")]))
        == bad
    )
