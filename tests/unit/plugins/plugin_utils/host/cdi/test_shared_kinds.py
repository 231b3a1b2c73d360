# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds nvidia.com/gpu-shared and nvidia.com/mps: GPUs that are shared in this way, and no
others; they come and go with the policy.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
    staleness_guard,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

from tests.unit import cdi_plans
from tests.unit.builders import obs
from tests.unit.coded import Coded, read_coded
from tests.unit.gpus import BUSES, UUIDS, host, nvml
from tests.unit.written_files import map_written_files

SHARED, MPS = "/etc/cdi/nvidia.com-gpu-shared.yaml", "/etc/cdi/nvidia.com-mps.yaml"
MODEL = "NVIDIA H100 80GB HBM3"


def plan(sharing: dict[str, Any] | None, there: dict[str, Any] | None = None, **more: Any) -> Plan:
    policy = Policy(cdi_profile="devices", sharing=sharing, **more)
    seen = obs(
        files={**host(3), **(there or {})}, packages={packages.BASE: "1.20.1-1"}, answers=nvml(3)
    )
    return cdi_plans.plan_specs(
        policy,
        spec_facts.read_spec_facts(
            policy,
            seen,
            resource.record_of_options("collection", "1.0.0"),
            driver_state.read_driver(policy, seen),
            "",
        ),
        resource.record_of_options("collection", "1.0.0"),
        driver_state.read_driver(policy, seen),
    )


def shared(made: Plan) -> dict[str, list[str]]:
    text = map_written_files(made).get(SHARED)
    found = reader.parse_spec(text).devices if text else ()
    return {d.name: [n.path for n in d.edits.device_nodes] for d in found}


CASES: list[tuple[str, dict[str, Any] | None, list[int]]] = [
    ("without the option", None, []),
    ("nothing is shared", {UUIDS[0]: "dedicated"}, []),
    ("by MPS alone", {UUIDS[0]: "mps"}, []),
    (
        "by UUID and by PCI address",
        {
            UUIDS[0]: "time_slicing",
            BUSES[2]: {"time_slicing": {"interval": "long"}},
            UUIDS[1]: "dedicated",
        },
        [0, 2],
    ),
    ("by index", {"1": "time_slicing"}, [1]),
    ("by product", {MODEL: "time_slicing"}, [0, 1, 2]),
]


@pytest.mark.parametrize(("sharing", "minors"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_which_gpus_it_has(sharing: dict[str, Any] | None, minors: list[int]) -> None:
    made = plan(sharing)
    paths = [f"/dev/nvidia{minor}" for minor in minors]
    named = {
        name: [f"/dev/nvidia{minor}"] for minor in minors for name in (str(minor), UUIDS[minor])
    }
    assert shared(made) == ({**named, "all": paths} if minors else {})
    assert "/etc/cdi/nvidia.yaml" in map_written_files(made)
    assert made.advice == ()
    assert plan(sharing, map_written_files(made)).empty


@pytest.mark.parametrize("name", ["uuid", "index"])
def test_a_client_of_mps_gets_the_way_to_the_daemon_of_its_gpu(name: str) -> None:
    """One daemon for a container, so there is no name for all of them."""
    sharing = {UUIDS[0]: {"mps": {"clients": 4}}, UUIDS[1]: "mps", UUIDS[2]: "time_slicing"}
    made = plan(sharing)
    spec = reader.parse_spec(map_written_files(made)[MPS])
    assert spec.kind == "nvidia.com/mps"
    assert [d.name for d in spec.devices] == ["0", "1", *UUIDS[:2]]
    (device,) = (d for d in spec.devices if d.name == {"uuid": UUIDS[1], "index": "1"}[name])
    here = f"/run/gpufleet-mps/{UUIDS[1]}"
    assert [n.path for n in device.edits.device_nodes] == ["/dev/nvidia1"]
    assert device.edits.env == (
        f"CUDA_MPS_PIPE_DIRECTORY={here}/pipe",
        f"CUDA_MPS_LOG_DIRECTORY=/var/lib/gpufleet-mps/{UUIDS[1]}",
    )
    assert [(m.host_path, m.container_path) for m in device.edits.mounts] == [
        (f"{here}/shm", "/dev/shm"),
        (f"{here}/pipe", f"{here}/pipe"),
    ]
    assert shared(made).keys() == {"2", UUIDS[2], "all"}
    assert plan(
        sharing, map_written_files(made)
    ).empty  # the look shows as much of it as is needed to compare it


@pytest.mark.parametrize(
    ("adopt", "reason"),
    [
        (
            "auto",
            (
                "cdi.kept-kind",
                {"kinds": "nvidia.com/gpu, nvidia.com/imex-channel, nvidia.com/nvswitch"},
            ),
        ),
        ("never", ("cdi.kept-by-option", {})),
    ],
)
def test_why_a_file_of_somebody_with_the_same_devices_is_not_taken_over(
    adopt: str, reason: Coded
) -> None:
    """The cause names only settings that were made."""
    theirs = '{"cdiVersion": "0.5.0", "kind": "nvidia.com/mps", "devices": [{"name": "0", "containerEdits": NODE}]}'.replace(
        "NODE", '{"deviceNodes": [{"path": "/dev/nvidia0"}]}'
    )
    with pytest.raises(PlanError) as refused:
        plan({UUIDS[0]: "mps"}, {"/etc/cdi/team.json": theirs}, adopt=adopt)
    values = {
        "devices": "nvidia.com/mps=0",
        "mine": "/etc/cdi/nvidia.com-mps.yaml",
        "reason": reason,
    }
    assert read_coded(refused.value.message) == ("cdi.device-dropped", values)
    assert refused.value.where == "/etc/cdi/team.json"


def test_what_somebody_wrote_in_the_place_of_a_kind_is_theirs_and_its_losses_are_named() -> None:
    node = '{"path": "/dev/nvidia%d"}'
    one = '{"name": "%s", "containerEdits": {"deviceNodes": [%s]}}'
    devices = ", ".join([one % ("0", node % 0), one % ("all", f"{node % 0}, {node % 1}")])
    common = ', "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia2"}]}'
    theirs = f'{{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu-shared", "devices": [{devices}]{common}}}'
    (left,) = plan({UUIDS[0]: "time_slicing"}, {SHARED: theirs}).leftovers
    assert (left.tool, left.path, left.fate) == ("another person or program", SHARED, "adopted")
    losses = "0 loses /dev/nvidia2; all loses /dev/nvidia1, /dev/nvidia2"
    assert read_coded(left.why) == (
        "cdi.other-kind-less",
        {"kind": "nvidia.com/gpu-shared", "losses": losses},
    )


def test_the_watch_over_specs_does_not_wait_for_daemons() -> None:
    """They make their directories later in a boot; a container that needs them fails by itself
    until then.
    """
    policy = Policy(cdi_profile="devices", sharing={UUIDS[0]: "mps"})
    spec = reader.parse_spec(map_written_files(plan({UUIDS[0]: "mps"}))[MPS])
    (paths,) = (
        fact["paths"]
        for fact in staleness_guard.list_watch_facts(
            policy, staleness_guard.read_watch_facts(obs(files=host(3))), spec
        )
        if fact["what"] == "files"
    )
    assert paths
    assert not [path for path in paths if "mps" in path]


def test_it_goes_when_nothing_is_shared_any_more() -> None:
    there = map_written_files(plan({UUIDS[0]: "time_slicing", UUIDS[1]: "mps"}))
    for sharing in ({UUIDS[0]: "dedicated"}, {}):
        gone = plan(sharing, there)
        assert [(c["op"], c["path"]) for c in gone.changes] == [("remove", SHARED), ("remove", MPS)]
    policy = Policy(state="absent")
    seen = obs(files={**host(3), **there}, packages={packages.BASE: "1.20.1-1"})
    assert SHARED in {
        c["path"]
        for c in resource.plan_absent(policy, spec_facts.read_spec_removal_facts(seen)).changes
    }
    assert SHARED not in {
        c["path"]
        for c in resource.plan_absent(
            dc.replace(policy, single=True), spec_facts.read_spec_removal_facts(seen)
        ).changes
    }
