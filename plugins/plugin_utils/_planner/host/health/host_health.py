# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the health of a host's GPUs by what a look has seen: files, and the kernel log if it was
read. No GPU is asked.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    missing,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    findings,
    kernel_log,
    messages,
    xids,
)

# A GPU that the driver serves was probed and started since such a line.
BEFORE_SERVICE = ("off_bus", "not_probed")
NOT_ASKED: Mapping[str, Any] = kernel_log.describe_unknown_log(messages.LOG_NOT_READ.fill())


@dc.dataclass(frozen=True)
class HealthFacts:
    """A host's facts about the health of its GPUs.

    missing: about GPUs that the driver may have lost. log: what the kernel log tells, {} if this
    look did not read it.
    """

    missing: missing.MissingGpuFacts
    log: Fact[Mapping[str, Any]]


def read_health_facts(policy: Policy, obs: Observation) -> HealthFacts:
    """Return the facts. The kernel log is read where the look asked for it."""
    asked = obs.was_asked(kernel_log.log_question(kernel_log.KERNEL_LOG))

    def read_log() -> Mapping[str, Any]:
        return kernel_log.read_kernel_log(obs, kernel_log.KERNEL_LOG) if asked else {}

    return HealthFacts(missing.read_missing_gpu_facts(policy, obs), Fact(read_log))


def judge_health(policy: Policy, facts: HealthFacts, driver: Driver) -> list[findings.Finding]:
    """List what is wrong with the GPUs of a host, by files and by its kernel log."""
    counted = judge_counts(policy, facts, driver)
    whole = driver.state == "ok" and not counted
    every = [*counted, *judge_log(facts.log.value, driver, whole=whole)]
    return findings.mark_accepted(every, policy.accepted_findings)


# --- how many GPUs there are
# ----------------------------------------------------------------------------------


def judge_counts(policy: Policy, facts: HealthFacts, driver: Driver) -> list[findings.Finding]:
    """Compare three numbers: the GPUs that the driver serves, the GPUs on the PCI bus, and the
    number in the inventory.
    """
    lost = list_lost_gpus(facts, driver)
    unserved = [
        findings.Finding(messages.NOT_SERVED.fill(gpu=bus), bus, "reset", "files") for bus in lost
    ]
    wanted, served = policy.gpus, len(driver.gpus)
    if wanted is None or served >= wanted:
        return unserved
    on_bus = len(facts.missing.buses.value)
    row = messages.FEWER_SERVED if on_bus >= wanted else messages.FEWER_ON_BUS
    fewer = row.fill(served=served, on_bus=on_bus, expected=wanted, withheld=count_withheld(facts))
    step = choose_count_step(driver, enough=on_bus >= wanted)
    return [*unserved, findings.Finding(fewer, "", step, "files")]


def choose_count_step(driver: Driver, *, enough: bool) -> xids.Step:
    """Return what a person does about GPUs that are missed. enough: they are all on the PCI bus."""
    if not enough:
        return "replace"
    return "reset" if driver.state == "ok" else "driver"


def list_lost_gpus(facts: HealthFacts, driver: Driver) -> list[str]:
    """List the GPUs on PCI that a driver which serves others does not serve."""
    return missing.list_unserved_gpus(facts.missing, driver) if driver.state == "ok" else []


def count_withheld(facts: HealthFacts) -> str:
    """Return how many GPUs a person keeps from containers, in words."""
    number = len({*facts.missing.held.value, *facts.missing.excluded.value})
    return names.count_noun(number, "GPU")


# --- what the kernel log tells
# ----------------------------------------------------------------------------------


def judge_log(log: Mapping[str, Any], driver: Driver, *, whole: bool) -> list[findings.Finding]:
    """List a finding for each device that a line of this boot says is sick, and no later line says
    is well.

    whole: the driver serves all GPUs that the host should have.
    """
    by_device: dict[str, list[Mapping[str, Any]]] = {}
    for line in kernel_log.list_lines(log):
        step = kernel_log.get_line_step(line)
        if line.get("xid") == xids.RECOVERY_CHANGED and step == "none":
            by_device.pop(line["pci"], None)  # the driver says that nothing is to be done any more
        elif xids.is_sick(step):
            by_device.setdefault(line["pci"], []).append(line)
    served = {findings.shorten_pci(gpu.bus_id) for gpu in driver.gpus} | ({""} if whole else set())
    lasting = (
        (pci, [line for line in lines if not is_overtaken(line, served)])
        for pci, lines in by_device.items()
    )
    return [build_log_finding(pci, lines) for pci, lines in sorted(lasting) if lines]


def is_overtaken(line: Mapping[str, Any], served: set[str]) -> bool:
    """Tell whether the driver has begun to serve the GPU since a line that says it could not.

    served: addresses, with '' if that is true of each GPU.
    """
    return line.get("kind") in BEFORE_SERVICE and findings.shorten_pci(line["pci"]) in served


def build_log_finding(pci: str, lines: Sequence[Mapping[str, Any]]) -> findings.Finding:
    newest = lines[::-1]
    told = messages.LOG_TELLS.fill(lines=kernel_log.describe_lines(newest))
    return findings.Finding(told, pci, kernel_log.choose_step(lines), "log")


def report_health(
    policy: Policy,
    facts: HealthFacts,
    driver: Driver,
    more: Sequence[findings.Finding] = (),
) -> dict[str, Any]:
    """Return what a result shows of the health of a host's GPUs.

    more: findings of other rooms that keep the GPUs from working.
    """
    log = facts.log.value or NOT_ASKED
    return {
        "expected": policy.gpus,
        "served": len(driver.gpus),
        "on_bus": len(facts.missing.buses.value),
        "log": {key: log[key] for key in ("known", "why", "code")},
        "accepted": list(policy.accepted_findings),
        "findings": findings.convert_findings(
            [
                *judge_health(policy, facts, driver),
                *findings.mark_accepted(more, policy.accepted_findings),
            ]
        ),
    }
