# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verification, as the task that found its host converged hands it on, so the task that carries
it out need not look at the host again.

It holds for the look that it was planned from, so a plan that changes something hands nothing on.
It holds for the options that it was planned with, which it names by a digest.
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    HostDecision,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import refusals
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    projection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
    granted,
    mps_case,
    verified_health,
)

# The options of the module host_verify that make the policy which it verifies.
OPTIONS = (
    "accepted_findings", "cdi", "cdi_dev_root", "cdi_driver_root", "cdi_owner", "cdi_spec_dirs", "config_path", "device_plugin_prefix",
    "device_plugin_strategy", "dra", "engines", "gpus", "handlers", "injection", "isolation", "no_gpu", "service", "set_as_default",
    "socket",
)  # fmt: skip

FEW = 4  # of 2 048 channels, in each case of a verification


@dc.dataclass(frozen=True)
class Verification:
    """The cases that have to be shown on a host, with any image, and the reason if there are none.

    not_verified: beside engines with cases, the engines that nothing is known about now, as
    instance and reason. health: what is known of the GPUs' health, as results show it.
    """

    cases: list[dict[str, Any]]
    skipped_why: str
    decision: Mapping[str, Any]
    not_verified: tuple[tuple[str, str], ...] = ()
    health: Mapping[str, Any] = dc.field(default_factory=dict)


@dc.dataclass(frozen=True)
class VerificationFacts:
    """The facts that a verification is planned from: statements that running engines make of
    themselves over CRI, by socket and process, the driver's device nodes, and from the specs in
    these directories the nodes that they give with all GPUs and the devices shared by MPS.
    """

    statuses: Lookup[tuple[str, int], Mapping[str, Any]]
    nodes: Fact[Mapping[str, gpus.DeviceFile]]
    nodes_of_all: Lookup[tuple[str, ...], frozenset[str] | None]
    mps_devices: Lookup[tuple[str, ...], frozenset[str]]


def read_verification_facts(policy: Policy, obs: Observation) -> VerificationFacts:
    """Return the facts from which a verification is planned."""
    specs, known = files.read_spec_file_facts(obs), roots.list_named_roots(policy)

    def list_files(directories: tuple[str, ...]) -> list[tuple[ObservedFile, ...]]:
        # Only an engine's own setting may name them. Of a spec no more travels than for its plan.
        specs.asked.require(projection.ask_for_specs(d, directories, known) for d in directories)
        return [specs.directories.get(d) for d in directories]

    return VerificationFacts(
        Lookup(lambda engine: obs.try_cri(engine[0], pid=engine[1])),
        Fact(lambda: gpus.map_device_files(obs, gpus.get_dev_root(policy))),
        Lookup(lambda directories: granted.find_granted_nodes(list_files(directories))),
        Lookup(lambda directories: mps_case.find_mps_devices(list_files(directories))),
    )


def plan_verification(
    policy: Policy,
    facts: VerificationFacts,
    record: HostDecision,
    instances: tuple[Instance, ...],
    driver: Driver,
    *,
    evidence_file: str,
    health: Mapping[str, Any],
) -> Verification:
    """Plan the verification from a look. Raise NeedMore if an engine's status was not asked for.

    health: what the look shows of the GPUs' health.
    """
    statuses = {
        i.socket: facts.statuses.get((i.socket, i.pid))
        for i in instances
        if i.running and i.cri and i.socket
    }
    nodes = facts.nodes.value
    fabric = (*gpus.list_switch_nodes(nodes), *gpus.list_channel_nodes(nodes)[:FEW])
    directories = record.cdi_dirs or files.list_cdi_directories(policy)
    shared = (
        mps_case.ask_for_mps_gpu(record, driver, facts.mps_devices.get(directories))
        if driver.gpus and any(d.injection == "native-cdi" for d in record.decisions)
        else ()
    )
    own_cases = cases.list_cases(
        record,
        instances,
        driver,
        image="",
        evidence_file=evidence_file,
        statuses=statuses,
        fabric=fabric,
        more=shared,
        nodes_of_all=facts.nodes_of_all.get(directories)
        if any(gpu.migs for gpu in driver.gpus)
        else None,
    )
    open_ones = refusals.open_ones(policy, instances)
    return Verification(
        own_cases,
        cases.explain_no_cases(record, own_cases),
        dc.asdict(record),
        tuple((i.key, i.refusal.message) for i in open_ones if own_cases),
        health,
    )


def offer_verification(policy: Policy, plan: Callable[[], Verification]) -> dict[str, Any] | None:
    """Return what a result hands on; None if it takes one more look, or if a name would not be
    shown as it is.
    """
    if policy.root != "/" or policy.state == "absent":
        return None
    try:
        verification = plan()
    except NeedMore:
        return None
    plain = json.loads(json.dumps(verification.cases))
    if escape.escape_every_string(plain, escape.escape_line) != plain:
        return None
    return {
        "options": digest_policy(policy),
        "cases": plain,
        "skipped_why": verification.skipped_why,
        "not_verified": [list(engine) for engine in verification.not_verified],
        "health": dict(verification.health),
    }


def accept_verification(policy: Policy, result: Mapping[str, Any]) -> Verification | None:
    """Return the verification that a result of the module host hands on for this policy; None if
    the host has to be looked at, as after a look that did not ask all about the GPUs' health.
    """
    handed_on, decision = result.get("verification"), result.get("decision")
    if (
        not isinstance(handed_on, Mapping)
        or not isinstance(decision, Mapping)
        or handed_on.get("options") != digest_policy(policy)
        or not verified_health.was_health_asked(handed_on.get("health") or {})
    ):
        return None
    return Verification(
        [dict(case) for case in handed_on["cases"]],
        str(handed_on["skipped_why"]),
        decision,
        tuple((str(key), str(why)) for key, why in handed_on.get("not_verified") or ()),
        dict(handed_on.get("health") or {}),
    )


def digest_policy(policy: Policy) -> str:
    values = {name: getattr(policy, name) for name in OPTIONS}
    return hashlib.sha256(
        json.dumps(values, sort_keys=True, default=dc.asdict).encode()
    ).hexdigest()
