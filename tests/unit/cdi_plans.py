# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with GPUs and its CDI spec as it is planned, for the tests of both."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)

from tests.unit.builders import obs
from tests.unit.gpus import host, nvml

OURS = "/etc/cdi/nvidia.yaml"
THEIRS = "/var/run/cdi/nvidia.yaml"
UNUSED = ("GPU-????????-????-????-????-????????????",) * 2
SOURCE = "print('the probe')"
RECORD = resource.record_of_options("collection", "1.0.0")


def seen(files: dict[str, Any] | None = None, **more: Any) -> Observation:
    """Return an observation of a host with two GPUs and the toolkit, changed by `files` (None takes
    one away).
    """
    merged = {**host(), **(files or {})}
    answers = {**nvml(), **more.pop("answers", {})}
    there = {p: t for p, t in merged.items() if t is not None}
    return obs(files=there, **{"packages": {packages.BASE: "1.20.1-1"}, "answers": answers, **more})


def plan_specs(
    policy: Policy, facts: spec_facts.SpecFacts, host_decision: HostDecision, driver: Driver
) -> Plan:
    """Plan the specs, without what the run says of them."""
    return resource.plan_specs_and_outcome(policy, facts, host_decision, driver)[0]


def plan(there: Observation, record: HostDecision = RECORD, **policy: Any) -> Plan:
    wanted = Policy(**policy)
    return plan_specs(
        wanted,
        spec_facts.read_spec_facts(
            wanted, there, record, driver_state.read_driver(wanted, there), SOURCE
        ),
        record,
        driver_state.read_driver(wanted, there),
    )


def written(made: Plan) -> Spec:
    return reader.parse_spec(next(c["content"] for c in made.changes if c["op"] == "write"))


def paths(made: Plan) -> list[tuple[str, str]]:
    return [(c["op"], c["path"]) for c in made.changes]


def file_of(minors: int = 2, name: str = "0", kind: str = "nvidia.com/gpu") -> str:
    return f"cdiVersion: 0.5.0\nkind: {kind}\ndevices: [{{name: '{name}', containerEdits: {{deviceNodes: [{{path: /dev/nvidia0}}]}}}}]\n"


def two_names() -> str:
    return file_of().replace(
        "devices: [",
        "devices: [{name: gpu0, containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}}, ",
    )


def by_hand() -> str:
    """Return a spec with a variable that no tool writes."""
    return file_of() + "containerEdits: {env: [A=b]}\n"
