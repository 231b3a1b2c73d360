# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a host has what its kind of machine needs besides the driver. It changes nothing.

Fabric Manager, the NVLink Subnet Manager, IMEX and nvidia-persistenced are asked about in a plan and
in a verification.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    whole,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    end_with_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import unit_state
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    gpus,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health.findings import (
    Finding,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import dra
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    machines,
    messages,
    needs,
)

# Branches of the driver with packages of their own name: NVIDIA's repository up to 575, Ubuntu's
# archive since. NVIDIA's own from 580 on, and those for RPM, have no branch in their names.
BRANCHES = (
    450, 460, 470, 510, 515, 520, 525, 530, 535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595,
    610, 615, 620,
)  # fmt: skip
PACKAGES: Mapping[str, tuple[str, ...]] = {
    needs.FABRIC_MANAGER: (
        "nvidia-fabricmanager", "nvidia-fabric-manager", *(f"nvidia-fabricmanager-{b}" for b in BRANCHES),
    ),
    needs.SUBNET_MANAGER: ("nvlsm",),
    needs.IMEX: ("nvidia-imex", *(f"nvidia-imex-{b}" for b in BRANCHES if b >= 550)),
    needs.PERSISTENCED: ("nvidia-persistenced",),
}  # fmt: skip
SYSTEMD_UNITS = [unit for unit in needs.UNITS if unit.endswith(".service")]
# Units whose package has the driver's version: NVIDIA's and Ubuntu's are built together. Debian's
# nvidia-persistenced has a version of its own.
OF_DRIVERS_VERSION = (needs.FABRIC_MANAGER, needs.IMEX)
SWITCH_CLASS = "0x0680"
CONFIDENTIAL = ("/dev/tdx_guest", "/dev/sev-guest")
IMEX_CONFIG = "/etc/nvidia-imex/config.cfg"
COMMANDS = re.compile(r"(?m)^[ \t]*IMEX_CMD_ENABLED[ \t]*=[ \t]*1[ \t]*$")
DOMAINS = "compute-domain.nvidia.com"
DOMAINS_SINCE = (570, 158, 1)


@dc.dataclass(frozen=True)
class PlatformFacts:
    """A host's facts about its machine and its units.

    asked: whether this look asked about them. switches: NVSwitches on PCI, and their nodes.
    confidential: nodes of guests of confidential computing. on_bus: the GPUs on PCI. units: the
    properties of each. packages: the version of each, None if it is not installed. commands:
    whether the host's IMEX takes commands. domains: whether the DRA driver serves ComputeDomains.
    """

    asked: bool
    switches: Fact[list[str]]
    confidential: Fact[list[str]]
    on_bus: Fact[list[str]]
    units: Lookup[str, Mapping[str, str]]
    packages: Lookup[str, str | None]
    commands: Fact[bool]
    domains: Fact[bool]


def list_questions(policy: Policy) -> list[queries.Question]:
    """List the questions about units and packages, for a host that runs."""
    if policy.root != "/":
        return []
    return [
        queries.ask_for_units(SYSTEMD_UNITS),
        queries.ask_for_packages([name for names in PACKAGES.values() for name in names]),
        *(queries.ask_for_file(path, content=False) for path in CONFIDENTIAL),
        queries.ask_for_file(IMEX_CONFIG, max=1 << 16, keep=file_places.IMEX_CONFIG),
    ]


def read_platform_facts(policy: Policy, obs: Observation) -> PlatformFacts:
    p = gpus.get_gpu_paths(policy)
    asked = all(obs.was_asked(question) for question in list_questions(policy)[:1])

    def list_confidential() -> list[str]:
        return [path for path in CONFIDENTIAL if obs.is_there(path)] if asked else []

    def serves_domains() -> bool:
        files = obs.get_answer(dra.REGISTERED).get("files") or ()
        return any(posixpath.basename(str(f["path"])).startswith(DOMAINS) for f in files)

    return PlatformFacts(
        asked=asked and policy.root == "/",
        switches=Fact(lambda: list_switches(policy, obs, p)),
        confidential=Fact(list_confidential),
        on_bus=Fact(lambda: gpus.list_pci_gpus(obs, p)),
        units=Lookup(obs.get_unit),
        packages=Lookup(obs.get_package),
        commands=Fact(lambda: bool(COMMANDS.search(obs.get_file(IMEX_CONFIG).text))),
        domains=Fact(serves_domains),
    )


def list_switches(policy: Policy, obs: Observation, p: gpus.GpuPaths) -> list[str]:
    """List the NVSwitches on PCI by address, then their device nodes."""
    vendors = {
        f.path.rsplit("/", 2)[1]
        for f in obs.list_glob_files(p.pci_vendor)
        if gpus.read_proc_text(f).lower() == gpus.NVIDIA_VENDOR
    }
    classes = {
        f.path.rsplit("/", 2)[1]
        for f in obs.list_glob_files(p.pci_class)
        if gpus.read_proc_text(f).lower().startswith(SWITCH_CLASS)
    }
    nodes = gpus.list_switch_nodes(gpus.map_device_files(obs, gpus.get_dev_root(policy)))
    return [*sorted(vendors & classes), *nodes]


# --- one unit
# ----------------------------------------------------------------------------------


def find_state(facts: PlatformFacts, unit: str) -> needs.State:
    """Return the state of a unit, or of a package that has none."""
    package = next((name for name in PACKAGES[unit] if facts.packages.get(name)), "")
    if unit not in SYSTEMD_UNITS:
        return "running" if package else "absent"
    properties = facts.units.get(unit)
    if not properties:
        return "disabled" if package else "absent"
    if properties.get("LoadState") == "masked":
        return "masked"
    if unit_state.is_started(properties):
        return "running"
    if unit_state.is_failed(properties):
        return "failed"
    return "stopped" if properties.get("UnitFileState") == "enabled" else "disabled"


def find_version(facts: PlatformFacts, unit: str) -> str:
    """Return the version of the driver that the unit's package is of; '' if that is not known."""
    versions = (facts.packages.get(name) or "" for name in PACKAGES[unit])
    return next(filter(None, map(driver_packages.parse_release, versions)), "")


def compare_version(unit: str, version: str, driver: Driver) -> needs.Version:
    """Compare the version of a unit's package with the driver's, as a whole."""
    if unit not in OF_DRIVERS_VERSION or not version or not driver.version:
        return "unknown"
    return "same" if version == driver.version else "other"


def find_imex_starter(facts: PlatformFacts) -> needs.Imex:
    """Return who starts IMEX here besides its unit."""
    if not facts.domains.value:
        return "none"
    return "commands" if facts.commands.value else "claims"


# --- the host
# ----------------------------------------------------------------------------------


@dc.dataclass(frozen=True)
class Need:
    """A unit of a machine, and what is wrong with it. verdict: '' for nothing."""

    unit: str
    state: needs.State
    version: str
    verdict: str
    message: Message
    source: str


@dc.dataclass(frozen=True)
class Platform:
    """The kind of a machine, and its units.

    unknown: why its units are not known, '' if they are.
    """

    machine: machines.Machine
    needs: tuple[Need, ...]
    unknown: str = ""


def judge_platform(facts: PlatformFacts, driver: Driver, kubelet: Kubelet) -> Platform:
    """Judge the units of a host by the table. A machine that is left alone has none, nor has one
    whose driver does not serve its GPUs.
    """
    try:
        machine = machines.find_machine(
            driver, len(facts.on_bus.value), facts.switches.value, facts.confidential.value
        )
    except QueryFailed as error:  # as for its units: it stops no other plan
        return Platform(machines.describe_unknown_machine(error), (), str(error))
    if not facts.asked or not machine.judged or driver.state != "ok":
        return Platform(machine, ())
    try:
        every = [judge_unit(facts, driver, kubelet, machine, unit) for unit in needs.UNITS]
        return Platform(machine, (*every, *judge_domains(facts, driver)))
    except QueryFailed as error:  # it stops no other plan, and no unit is taken for well
        return Platform(machine, (), str(error))


def judge_unit(
    facts: PlatformFacts, driver: Driver, kubelet: Kubelet, machine: machines.Machine, unit: str
) -> Need:
    state, version = find_state(facts, unit), find_version(facts, unit)
    case = needs.Case(
        machine.kind,
        unit,
        state,
        compare_version(unit, version, driver),
        find_imex_starter(facts),
        kubelet.expected,
    )
    row = needs.find_row(case)
    values = {"unit": unit, "state": state, "version": version, "driver": driver.version}
    sentence = row.row if row else messages.WELL
    said = sentence.fill(**{name: values[name] for name in sentence.fields})
    return Need(unit, state, version, row.verdict if row else "", said, row.source if row else "")


def judge_domains(facts: PlatformFacts, driver: Driver) -> list[Need]:
    """Judge whether the driver is new enough for the ComputeDomains that are served here."""
    numbers = map(whole.read_whole, driver.version.split("."))
    release = tuple(number for number in numbers if number is not None)
    if not facts.domains.value or not release or release >= DOMAINS_SINCE:
        return []
    old = messages.DOMAINS_TOO_OLD.fill(driver=driver.version)
    return [Need("driver", "running", driver.version, "wrong", old, needs.DOMAINS)]


def list_platform_findings(platform: Platform) -> list[Finding]:
    """Return what keeps CUDA from starting, as findings of the GPUs' health."""
    return [
        Finding(Message(n.message.what, n.message.code, n.message.values), "", "fabric", "files")
        for n in platform.needs
        if n.verdict == "wrong" and n.unit in (needs.FABRIC_MANAGER, needs.SUBNET_MANAGER)
    ]


def advise_on_platform(policy: Policy, platform: Platform) -> tuple[str, ...]:
    """Return what a person should know of the units, as advice. Of nvidia-persistenced only where
    the policy asks for advice.
    """
    silent = () if policy.persistence == "advise" else (needs.PERSISTENCED,)
    return tuple(
        need.message for need in platform.needs if need.verdict and need.unit not in silent
    )


def report_platform(platform: Platform) -> dict[str, Any]:
    """Return what a result shows of the machine and its units."""
    return {
        "kind": platform.machine.kind,
        "why": platform.machine.why,
        "unknown": platform.unknown,
        "needs": [
            {
                "unit": need.unit,
                "state": need.state,
                "version": need.version,
                "verdict": need.verdict or "well",
                "why": end_with_code(need.message) if need.verdict else "",
                "code": need.message.code if need.verdict else "",
                "source": need.source,
            }
            for need in platform.needs
        ],
    }
