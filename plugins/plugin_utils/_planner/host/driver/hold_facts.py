# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a host about a hold of its driver, and read the facts."""

from __future__ import annotations

import dataclasses as dc

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_RECORD,
    Keep,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    base_package,
    earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    package_movers,
)

RECORD = "/etc/gpufleet-driver-hold.json"
BLACKLIST = f"{package_movers.APT_PARTS}99gpufleet-driver-hold"
MARK = "// Written by gpufleet.nvidia.\n"
OWN: Keep = {"format": "text", "patterns": [r"(?s)\A// Written by gpufleet\.nvidia\.\n.*"]}


@dc.dataclass(frozen=True)
class HoldingFacts:
    """A host's facts about a hold.

    packages: those of the driver. movers: what moves them by itself, with the locks of dnf and
    zypper. record, blacklist: the files of this collection. manager: apt, dnf or zypper, '' for
    none. epoch: the host's time, in seconds since 1970.
    """

    packages: Fact[driver_packages.DriverSet]
    movers: Fact[package_movers.MoverFiles]
    record: Fact[ObservedFile]
    blacklist: Fact[ObservedFile]
    manager: Fact[str]
    epoch: float
    earlier: earlier_runs.EarlierRuns


def list_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions about a hold. A record is looked for wherever one may be taken back."""
    record = queries.ask_for_file(RECORD, keep=OWN_RECORD)
    if policy.state == "absent":
        return [record, queries.ask_for_file(BLACKLIST, keep=OWN)]
    if policy.driver != "hold":
        return [] if policy.driver == "ignore" else [record]
    return [record, queries.ask_for_file(BLACKLIST, keep=OWN)]


def read_holding_facts(policy: Policy, obs: Observation) -> HoldingFacts:
    packages = Fact(lambda: driver_packages.read_driver_set(policy, obs))
    return HoldingFacts(
        packages=packages,
        movers=Fact(lambda: package_movers.read_mover_files(obs)),
        record=Fact(lambda: obs.get_file(RECORD, OWN_RECORD)),
        blacklist=Fact(lambda: obs.get_file(BLACKLIST, OWN)),
        manager=Fact(lambda: base_package.get_package_manager(obs)),
        epoch=float(obs.host.get("epoch") or 0),
        earlier=earlier_runs.read_earlier_runs(obs),
    )


def is_held(package: driver_packages.DriverPackage, facts: HoldingFacts) -> bool:
    """Tell whether a hold or a lock is about a package, whatever it lets in."""
    return package.held or bool(facts.movers.value.locks.index.list_locks(package.name))
