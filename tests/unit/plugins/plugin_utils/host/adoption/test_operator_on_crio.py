# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drop-in that a GPU Operator's toolkit leaves on CRI-O, where its own cleanup keeps the
handlers: taken over once it is gone.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    nvidia_ctk_crio,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)

from tests.unit import operators
from tests.unit.crio_leftovers import COPY, shown
from tests.unit.crio_plans import CRUN, DIRECTORY, OURS, PROCESS, host, status

FILE = f"{DIRECTORY}/99-nvidia.conf"
TOOLKIT = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
HEAD, ONE = (
    COPY.partition("      [crio.runtime.runtimes.nvidia]")[0],
    COPY.partition("      [crio.runtime.runtimes.nvidia]")[2],
)
PROGRAMS = {"nvidia": TOOLKIT, "nvidia-cdi": f"{TOOLKIT}.cdi", "nvidia-legacy": f"{TOOLKIT}.legacy"}
TABLES = {
    name: ONE.replace("/usr/bin/nvidia-container-runtime", program)
    for name, program in PROGRAMS.items()
}
THREE = HEAD + "\n".join(
    f"      [crio.runtime.runtimes.{name}]{table}" for name, table in TABLES.items()
)
IN_FORCE = status(
    **{
        name: {**CRUN, "RuntimePath": program, "RuntimeType": "oci"}
        for name, program in PROGRAMS.items()
    }
)
ITS_PROCESS = {"pid": 90, "exe": "/usr/bin/nvidia-toolkit", "unverified": "namespace"}
CHANGED = THREE.replace("/run/crun", "/run/other", 1)
FOURTH = f'{THREE}\n      [crio.runtime.runtimes.site]\n        runtime_path = "/opt/site"\n'


def seen(
    text: str,
    pods: dict[str, Any],
    processes: list[dict[str, Any]],
    more: dict[str, Any] | None = None,
    file: str = FILE,
) -> Any:
    answers = operators.answers(
        "/var/run/crio/crio.sock",
        PROGRAMS,
        traits.get_traits(traits.CRIO).pod_note,
        pods,
        PROCESS["pid"],
    )
    files = {file: shown(text), "/usr/local/nvidia/toolkit": "", **(more or {})}
    return host(files, IN_FORCE, processes=[PROCESS, *processes], answers=answers)


NOBODY = {"handlers": {"": 3, "nvidia": 2}}


def test_all_three_handlers_go_with_it_and_ours_takes_its_place() -> None:
    look = seen(THREE, NOBODY, [])
    (instance,) = gpu_operator.refuse_operator_instances(
        Policy(),
        gpu_operator.read_operator_facts(Policy(), look),
        crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), look)),
    )
    assert instance.refusal == Refusal()
    record = decide.decide_one(Policy(), instance, Kubelet())
    facts = crio_detect.read_facts(Policy(), look)
    plan = crio_detect.plan_instance(Policy(), facts, instance, dc.replace(record, default=False))
    assert [(c["op"], c["path"]) for c in plan.changes] == [("write", OURS), ("remove", FILE)]
    assert [(left.tool, left.path, left.fate, left.exact) for left in plan.leftovers] == [
        ("gpu-operator", FILE, "adopted", True)
    ]
    assert plan.retired == tuple(
        (instance.key, name, FILE) for name in ("nvidia-cdi", "nvidia-legacy")
    )
    assert plan.restarts


SITE = "[crio.runtime.runtimes.nvidia-cdi]\nmonitor_cgroup = 'pod'\n"


def test_a_handler_that_another_file_still_has_does_not_go_with_this_one() -> None:
    look = seen(THREE, NOBODY, [], {f"{DIRECTORY}/20-site.conf": shown(SITE)})
    facts = crio_detect.read_facts(Policy(), look)
    (instance,) = crio_detect.find_instances(Policy(), facts)
    record = decide.decide_one(Policy(), instance, Kubelet())
    plan = crio_detect.plan_instance(Policy(), facts, instance, dc.replace(record, default=False))
    assert ("remove", FILE) in [(c["op"], c["path"]) for c in plan.changes]
    assert plan.retired == ((instance.key, "nvidia-legacy", FILE),)


def test_no_handler_goes_with_a_file_that_crio_does_not_read() -> None:
    """The one in force has the same name, and lies elsewhere."""
    look = seen(THREE, NOBODY, [], file=nvidia_ctk_crio.UNREAD)
    facts = crio_detect.read_facts(Policy(), look)
    (instance,) = crio_detect.find_instances(Policy(), facts)
    record = decide.decide_one(Policy(), instance, Kubelet())
    plan = crio_detect.plan_instance(Policy(), facts, instance, dc.replace(record, default=False))
    assert ("remove", nvidia_ctk_crio.UNREAD) in [(c["op"], c["path"]) for c in plan.changes]
    assert plan.retired == ()


STAYS: list[tuple[str, str, dict[str, Any], list[dict[str, Any]], str]] = [
    (
        "it works",
        THREE,
        NOBODY,
        [ITS_PROCESS],
        "toolkit.enabled=false in its ClusterPolicy, or label this node",
    ),
    (
        "pods use one of its handlers, stopped ones too",
        THREE,
        {"handlers": {"nvidia-cdi": 1}},
        [],
        "declares the handler nvidia-cdi",
    ),
    (
        "CRI-O does not list its pods",
        THREE,
        {"error": {"kind": "timeout", "message": "no answer"}},
        [],
        "declares the handler nvidia-cdi",
    ),
    (
        "a handler was changed since",
        CHANGED,
        NOBODY,
        [],
        "does not explain crio.runtime.runtimes.nvidia.runtime_root",
    ),
    (
        "a person's handler stands there, too",
        FOURTH,
        NOBODY,
        [],
        "does not explain crio.runtime.runtimes.site",
    ),
]


@pytest.mark.parametrize(
    ("case", "text", "pods", "processes", "why"), STAYS, ids=[case for case, *_rest in STAYS]
)
def test_it_stays_with_one_sentence(
    case: str, text: str, pods: dict[str, Any], processes: list[dict[str, Any]], why: str
) -> None:
    look = seen(text, pods, processes)
    (instance,) = gpu_operator.refuse_operator_instances(
        Policy(),
        gpu_operator.read_operator_facts(Policy(), look),
        crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), look)),
    )
    assert instance.manager == "gpu-operator"
    assert why in str(instance.refusal), instance.refusal
