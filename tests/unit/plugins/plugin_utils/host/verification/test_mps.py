# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where GPUs are shared by MPS, one more container has to be shown: one that asks for such a GPU by
its kind. The specs on the host tell of such GPUs, since a verification has no option `sharing`.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    projection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import writer
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    handed_on,
)

from tests.unit.builders import obs
from tests.unit.records import instance, record

UUIDS = [f"GPU-{n}1111111-0000-5000-8000-000000000001" for n in range(3)]
DRIVER = Driver(
    "ok",
    "580.95.05",
    tuple(SeenGpu(n, n + 4, f"0000:{n}7:00.0", uuid) for n, uuid in enumerate(UUIDS)),
    "procfs",
)
CONTAINERD = instance("containerd", "2.1.0")


def write_spec(*names: str, kind: str = "nvidia.com/mps", header: str = writer.HEADER) -> str:
    """Write a spec with devices of these names."""
    devices = "".join(
        f'- name: "{name}"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia5\n'
        for name in names
    )
    return f"{header}---\ncdiVersion: 0.5.0\nkind: {kind}\ndevices:\n{devices}"


OURS = write_spec("1", "2", *UUIDS[1:])
NAME = "nvidia.com-mps.yaml"


DECISION = dc.replace(record(Policy(), CONTAINERD, driver=DRIVER), cdi_owner="collection")


def plan(
    files: dict[str, str], policy: Policy | None = None, **decided: Any
) -> list[dict[str, Any]]:
    """Plan the cases of this name from the specs of a host."""
    wanted = policy or Policy()
    decision = dc.replace(record(wanted, CONTAINERD, driver=DRIVER), cdi_owner="collection")
    return list_cases(wanted, files, dc.replace(decision, **decided))


def list_cases(
    policy: Policy, files: dict[str, str], decision: HostDecision | None = None
) -> list[dict[str, Any]]:
    seen = obs(
        files={f"/etc/cdi/{name}": text for name, text in files.items()},
        cri={f"Status:{CONTAINERD.socket}": {}},
    )
    verification = handed_on.plan_verification(
        policy,
        handed_on.read_verification_facts(policy, seen),
        decision or DECISION,
        (CONTAINERD,),
        DRIVER,
        evidence_file="",
        health={},
    )
    return [case for case in verification.cases if case["name"].endswith(": mps")]


# The specs of a host, and the device that is asked for, '' for none.
SPECS: dict[str, tuple[dict[str, str], str]] = {
    "the first of them": ({NAME: OURS}, "nvidia.com/mps=1"),
    "devices have no index": ({NAME: write_spec(UUIDS[2])}, f"nvidia.com/mps={UUIDS[2]}"),
    "no spec": ({}, ""),
    "a GPU that is gone": ({NAME: write_spec("7")}, ""),
    "another kind": ({NAME: write_spec("1", kind="nvidia.com/gpu-shared")}, ""),
    "of somebody else": ({NAME: write_spec("1", header="")}, ""),
    "a name that no engine reads": ({f"{NAME}.bak": OURS}, ""),
    "a file that is no spec": ({NAME: f"{writer.HEADER}kind: ["}, ""),
}


@pytest.mark.parametrize("name", SPECS)
def test_which_gpu_is_asked_for(name: str) -> None:
    files, device = SPECS[name]
    assert [case["devices"] for case in plan(files)] == ([[device]] if device else [])


def test_another_owner_of_the_specs_has_no_such_kind() -> None:
    assert plan({NAME: OURS}, cdi_owner="toolkit") == []


def test_of_the_specs_in_a_directory_of_the_engine_only_judged_parts_are_asked_for() -> None:
    earlier = {queries.ask_for_originals("")["id"]: {"originals": {}, "unfinished": []}}
    facts = handed_on.read_verification_facts(Policy(), Observation({}, earlier))
    with pytest.raises(NeedMore) as more:
        facts.mps_devices.get(("/etc/site",))
    assert more.value.questions == [projection.ask_for_specs("/etc/site", ("/etc/site",))]


@pytest.mark.parametrize(
    ("cdi", "number"), [("auto", 1), ("disabled", 0)], ids=["native", "by the NVIDIA runtime"]
)
def test_what_is_shown(cdi: Any, number: int) -> None:
    """Only an engine that resolves devices itself knows the kind."""
    cases = plan({NAME: OURS}, Policy(cdi=cdi))
    assert len(cases) == number
    for case in cases:
        assert [node["path"] for node in case["nodes"] if node["expect"] == "allowed"] == [
            "/dev/nvidia5",
            "/dev/nvidiactl",
        ]
        assert {"/dev/nvidia4", "/dev/nvidia6"} <= {
            node["path"] for node in case["nodes"] if node["expect"] == "refused"
        }


# Options of the module host that a verification does not have.
WITHOUT_OPTION: list[dict[str, Any]] = [
    {"sharing": {UUIDS[0]: "mps"}},
    {"cdi_device_names": ("uuid",)},
    {"cdi_vendor": "example.org"},
    {"cdi_layout": "management"},
    {"packages": "ignore"},
]


@pytest.mark.parametrize("options", WITHOUT_OPTION, ids=[next(iter(o)) for o in WITHOUT_OPTION])
def test_an_option_that_no_verification_has_changes_no_case(options: dict[str, Any]) -> None:
    """So a task hands on the cases that a look by the module host_verify has as well."""
    assert not set(options) & set(handed_on.OPTIONS)
    cases = plan({NAME: OURS}, Policy(**options))
    assert cases == plan({NAME: OURS}) != []


class ReadPolicy:
    """A policy that tells which of its fields were read."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self.policy, name)


def test_a_verification_is_planned_from_its_own_options_alone() -> None:
    policy: Any = ReadPolicy(Policy())
    assert list_cases(policy, {NAME: OURS}) != []
    assert policy.read
    assert policy.read <= set(handed_on.OPTIONS)
