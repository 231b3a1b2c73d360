# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drop-in of a GPU Operator's toolkit beside containerd's main file: recognised as nvidia-ctk's
is, with its three handlers.
"""

from __future__ import annotations

import dataclasses as dc
import re
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)

from tests.unit import builders, operators
from tests.unit.containerd_leftovers import COPY, OURS, ROOT, SITE, THEIRS, VERSIONS, rendered
from tests.unit.containerd_plans import DECISION, SOCKET, instance, loaded

TOOLKIT = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
TABLE = "        [plugins.@CRI@.containerd.runtimes.{}]"
NVIDIA = COPY[COPY.index(TABLE.format("nvidia")) : COPY.index(TABLE.format("runc"))]
PROGRAMS = {"nvidia": TOOLKIT, "nvidia-cdi": f"{TOOLKIT}.cdi", "nvidia-legacy": f"{TOOLKIT}.legacy"}


def handler(name: str) -> str:
    return NVIDIA.replace("runtimes.nvidia", f"runtimes.{name}").replace(
        "/usr/bin/nvidia-container-runtime", PROGRAMS[name]
    )


# CDI on, as the operator has it by default: nvidia is not the default handler.
THREE = COPY.replace(NVIDIA, "".join(map(handler, PROGRAMS))).replace(
    'default_runtime_name = "nvidia"', 'default_runtime_name = "runc"'
)


def plan(
    version: str,
    files: dict[str, str],
    pods: Any = None,
    policy: Policy | None = None,
    running: bool = False,
    **more: Any,
) -> Plan:
    serving = {"running": running, "cri": True, "handlers": PROGRAMS, "default_handler": "runc"}
    obs = builders.obs(
        files=rendered(version, files),
        answers=operators.answers(SOCKET, PROGRAMS, pods=pods),
        **more,
    )
    return containerd_detect.plan_instance(
        policy or Policy(),
        containerd_detect.read_facts(policy or Policy(), obs),
        instance(version, **serving),
        dc.replace(DECISION, default=False),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_it_goes_with_all_three_handlers_and_ours_is_the_packaged_program(version: str) -> None:
    found = plan(version, {ROOT: SITE, THEIRS: THREE})
    assert [(left.tool, left.path, left.fate, left.exact) for left in found.leftovers] == [
        ("gpu-operator", THEIRS, "adopted", True)
    ]
    assert found.retired == tuple(
        (f"containerd:{ROOT}", name, THEIRS) for name in ("nvidia-cdi", "nvidia-legacy")
    )
    assert [(c["op"], c["path"]) for c in found.changes] == [
        ("edit", ROOT) if version < "2" else ("write", OURS),
        ("remove", THEIRS),
    ]
    text = found.diffs[0][2]
    assert 'BinaryName = "/usr/bin/nvidia-container-runtime"' in text
    assert "toolkit" not in text
    assert "SystemdCgroup = true" in text


RUNC_V2 = '          runtime_type = "io.containerd.runc.v2"\n'
CDI = handler("nvidia-cdi")
IN_FORCE = loaded(
    runc={"SystemdCgroup": True},
    **{n: {"BinaryName": p, "SystemdCgroup": True} for n, p in PROGRAMS.items()},
)
USED = [
    ("a stopped pod", {"handlers": {"nvidia-legacy": 1, "": 4}}, {"nvidia-legacy"}),
    ("nobody", {"handlers": {"nvidia": 2}}, set()),
    (
        "it does not tell",
        {"error": {"kind": "timeout", "message": "no answer"}},
        {"nvidia-cdi", "nvidia-legacy"},
    ),
]


@pytest.mark.parametrize(("case", "pods", "carried"), USED, ids=[case for case, *_rest in USED])
def test_a_handler_that_a_pod_was_started_with_goes_on_in_our_drop_in(
    case: str, pods: dict[str, Any], carried: set[str]
) -> None:
    found = plan(
        "2.1.9",
        {ROOT: SITE, THEIRS: THREE},
        pods,
        running=True,
        cri=IN_FORCE,
        units={"containerd.service": {}},
    )
    assert [left.fate for left in found.leftovers] == ["adopted"]
    text = found.diffs[0][2]
    assert {name for name in PROGRAMS if f".runtimes.{name}.options]" in text} == {
        "nvidia",
        *carried,
    }
    assert [r.unit for r in found.restarts] == ["containerd.service"]
    line = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia-cdi.options]"
    assert any(re.fullmatch(pattern, line) for pattern in found.validate[0]["allow"])


CHANGED = THREE.replace(
    CDI, CDI.replace(RUNC_V2, f"          privileged_without_host_devices = true\n{RUNC_V2}")
)
ITS_PROCESS = {"pid": 90, "exe": "/usr/bin/nvidia-toolkit", "unverified": "namespace"}
STAYS: list[tuple[str, str, dict[str, Any], str]] = [
    ("it works", THREE, {"processes": [ITS_PROCESS]}, "containerd.tool-may-still-run"),
    ("a handler was changed since", CHANGED, {}, "containerd.keys-unexplained"),
    ("adopt: never", THREE, {"policy": Policy(adopt="never")}, "containerd.adopt-never"),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("case", "text", "more", "code"), STAYS, ids=[case for case, *_rest in STAYS]
)
def test_it_stays_with_one_sentence(
    case: str, text: str, more: dict[str, Any], code: str, version: str
) -> None:
    with pytest.raises(PlanError) as caught:
        plan(version, {ROOT: SITE, THEIRS: text}, **more)
    assert (caught.value.where, caught.value.code) == (THEIRS, "containerd.file-of-tool-read-later")
    assert get_code(caught.value.values["cause"]) == code
