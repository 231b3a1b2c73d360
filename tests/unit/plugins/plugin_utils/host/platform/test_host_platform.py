# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kind of machine a host is, and what it needs of its units, by state and version."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Kubelet,
    Policy,
    SeenGpu,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import dra
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    host_platform,
    machines,
    needs,
)

from tests.unit import builders, gpus
from tests.unit.coded import get_codes

FM, NVLSM, IMEX, PERSISTENCED = needs.UNITS
H100, B200, GB200 = "NVIDIA H100 80GB HBM3", "NVIDIA B200", "NVIDIA GB200"
DRIVER = "580.95.05"
SWITCH = {
    "/sys/bus/pci/devices/0000:05:00.0/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:05:00.0/class": "0x068000\n",
}


def driver(model: str = H100, count: int = 2, version: str = DRIVER, **more: Any) -> Driver:
    seen = (SeenGpu(at, at, f"0000:{at:02x}:00.0", "", model) for at in range(count))
    return Driver("ok", version, tuple(seen), "", **more)


# The driver, how many GPUs PCI has, NVSwitches, nodes of confidential computing, the kind.
NO_DRIVER = Driver("none", "", (), "")
KINDS: list[tuple[Driver, int, list[str], list[str], str]] = [
    (NO_DRIVER, 0, [], [], "none"),
    (driver("NVIDIA L4"), 2, [], [], "pcie"),
    (driver("NVIDIA A100-SXM4-40GB", 4), 4, [], [], "pcie"),  # a board of four has no switches
    (driver(), 8, ["0000:05:00.0"], [], "nvswitch"),
    (driver(count=7), 8, ["/dev/nvidia-nvswitch0"], [], "nvswitch"),
    (driver(B200, 8), 8, [], [], "nvlink5"),
    (driver("NVIDIA B300 SXM6 AC", 8), 8, [], [], "nvlink5"),
    (driver(B200, 1), 1, [], [], "pcie"),  # passed through alone: the host outside has the fabric
    (driver(GB200, 4), 4, [], [], "rack"),
    (driver("NVIDIA GB300", 4), 4, [], [], "rack"),
    (driver("NVIDIA GH200 480GB", 1), 1, [], [], "pcie"),
    (driver("GRID T4-16C", 1), 1, [], [], "vgpu-guest"),
    (driver("NVIDIA A100-4-20C", 1), 1, [], [], "vgpu-guest"),
    (driver("NVIDIA H100-1-10CME", 1), 1, [], [], "vgpu-guest"),
    (driver("NVIDIA RTX PRO 6000 Blackwell Server Edition", 8), 8, [], [], "pcie"),
    (driver("NVIDIA A100-SXM4-80GB", 1), 1, [], ["/dev/sev-guest"], "confidential"),
    (Driver("none", "580.1", (), "", platform="vgpu"), 2, [], [], "vgpu-manager"),
    (Driver("none", "", (), "", platform="vfio"), 2, [], [], "passthrough"),
    (Driver("none", "", (), "", platform="tegra"), 0, [], [], "integrated"),
    (Driver("not-loaded", "", (), ""), 8, ["0000:05:00.0"], [], "nvswitch"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "on_bus", "switches", "confidential", "kind"), KINDS)
def test_a_machine_is_known_by_its_gpus_and_switches(
    seen: Driver, on_bus: int, switches: list[str], confidential: list[str], kind: str
) -> None:
    machine = machines.find_machine(seen, on_bus, switches, confidential)
    assert (machine.kind, machine.why.code) == (kind, machines.ROWS[machine.kind].code)


RUNS = {"ActiveState": "active", "UnitFileState": "enabled"}
FAILED = {"ActiveState": "failed", "UnitFileState": "enabled"}
STOPPED = {"ActiveState": "inactive", "UnitFileState": "enabled"}
DISABLED = {"ActiveState": "inactive", "UnitFileState": "disabled"}
MASKED = {"LoadState": "masked", "ActiveState": "inactive"}
STARTS = {"ActiveState": "activating", "SubState": "start-pre", "UnitFileState": "enabled"}
# systemd waits before it starts the service again, which has ended (systemd.service(5), Restart=)
ENDS_AGAIN = {"ActiveState": "activating", "SubState": "auto-restart", "UnitFileState": "enabled"}
WELL = {
    FM: (RUNS, {"nvidia-fabricmanager": f"{DRIVER}-1"}),
    NVLSM: (None, {"nvlsm": "2025.10.11-1"}),
    PERSISTENCED: (RUNS, {"nvidia-persistenced": f"{DRIVER}-1"}),
}


def judge(
    model: str = H100,
    units: dict[str, tuple[dict[str, str] | None, dict[str, str]]] | None = None,
    *,
    switch: bool = True,
    count: int = 8,
    domains: bool = False,
    config: str = "",
    kubelet: bool = False,
    version: str = DRIVER,
    error: str = "",
    answers: dict[str, Any] | None = None,
) -> host_platform.Platform:
    """Judge a host whose units are well but for the given ones. answers: other ones."""
    every = {**WELL, **(units or {})}
    buses = [f"0000:{at:02x}:00.0" for at in range(0x10, 0x10 + count)]
    pci = {
        f"/sys/bus/pci/devices/{bus}/{name}": text
        for bus in buses
        for name, text in (("vendor", "0x10de\n"), ("class", "0x030200\n"))
    }
    files = {**pci, **(SWITCH if switch else {})}
    if config:
        files[host_platform.IMEX_CONFIG] = file_places.show_own_text(
            config, file_places.IMEX_CONFIG
        )
    sockets = (
        [{"path": "/var/lib/kubelet/plugins_registry/compute-domain.nvidia.com-reg.sock"}]
        if domains
        else []
    )
    questions = host_platform.list_questions(Policy())
    packages: dict[str, str | None] = {
        name: None for names in host_platform.PACKAGES.values() for name in names
    }
    states = {name: {"LoadState": "not-found"} for name in host_platform.SYSTEMD_UNITS}
    for unit, (properties, installed) in every.items():
        packages.update(installed)
        if properties is not None:
            states[unit] = {"LoadState": "loaded", **properties}
    given = {
        str(questions[0]["id"]): {"units": states},
        str(questions[1]["id"]): {"manager": "dpkg", "installed": packages},
        str(dra.REGISTERED["id"]): {"files": sockets},
        **(answers or {}),
    }
    if error:
        given[str(questions[1]["id"])] = {"error": {"kind": "failed", "message": error}}
    seen = builders.obs(files=files, answers=given)
    facts = host_platform.read_platform_facts(Policy(), seen)
    return host_platform.judge_platform(facts, driver(model, count, version), Kubelet(kubelet))


NONE: tuple[None, dict[str, str]] = (None, {})
OTHER = {"nvidia-fabricmanager-580": "580.126.09-0ubuntu0.24.04.1"}
SAME = {"nvidia-fabricmanager-580": f"{DRIVER}-0ubuntu0.24.04.1"}
RPM = {"nvidia-fabric-manager": f"{DRIVER}-1"}
IMEX_SAME = {"nvidia-imex": f"{DRIVER}-1"}
GATE = "IMEX_CMD_ENABLED=1\nIMEX_CMD_UNIX_DOMAIN_PATH=/run/imex.sock\n"
# What a host has, and of each unit that is not well verdict and code.
CASES: dict[str, tuple[dict[str, Any], list[tuple[str, str, str]]]] = {
    "all is well": ({}, []),
    # github.com/NVIDIA/gpu-operator/issues/544: it ends, and says that the versions don't match
    "another version": ({"units": {FM: (FAILED, OTHER)}}, [(FM, "wrong", "fabric-manager-version")]),
    "another version that runs": ({"units": {FM: (RUNS, OTHER)}}, [(FM, "wrong", "fabric-manager-version")]),
    "the version of Ubuntu": ({"units": {FM: (RUNS, SAME)}}, []),
    "an RPM": ({"units": {FM: (RUNS, RPM)}}, []),
    "a version that is not known": ({"units": {FM: (RUNS, {"nvidia-fabricmanager": "unstable"})}}, []),
    # github.com/pytorch/pytorch/issues/35710
    "none": ({"units": {FM: NONE}}, [(FM, "wrong", "fabric-manager-absent")]),
    "none on a node": ({"units": {FM: NONE}, "kubelet": True}, [(FM, "advise", "fabric-manager-not-on-host")]),
    "disabled after an image's build": ({"units": {FM: (DISABLED, SAME)}}, [(FM, "wrong", "fabric-manager-off")]),
    "stopped": ({"units": {FM: (STOPPED, SAME)}}, [(FM, "wrong", "fabric-manager-off")]),
    "masked": ({"units": {FM: (MASKED, SAME)}}, [(FM, "wrong", "fabric-manager-off")]),
    "failed": ({"units": {FM: (FAILED, SAME)}}, [(FM, "wrong", "fabric-manager-failed")]),
    "on its way": ({"units": {FM: (STARTS, SAME)}}, []),
    "over and over": ({"units": {FM: (ENDS_AGAIN, SAME)}}, [(FM, "wrong", "fabric-manager-failed")]),
    "an epoch of 0": ({"units": {FM: (RUNS, {"nvidia-fabric-manager": f"0:{DRIVER}-1"})}}, []),
    "an epoch of 0, and another version": (
        {"units": {FM: (RUNS, {"nvidia-fabric-manager": "0:580.126.09-1"})}}, [(FM, "wrong", "fabric-manager-version")],
    ),
    # github.com/NVIDIA/gpu-operator/issues/610: it fails without switches, and that is harmless
    "failed without switches": ({"switch": False, "units": {FM: (FAILED, SAME)}}, []),
    "none without switches": ({"switch": False, "units": {FM: NONE}}, []),
    "another version without switches": ({"switch": False, "units": {FM: (FAILED, OTHER)}}, []),
    # github.com/siderolabs/extensions/pull/717
    "NVLink 5 without its subnet manager": (
        {"model": B200, "switch": False, "units": {NVLSM: NONE}}, [(NVLSM, "wrong", "subnet-manager-absent")],
    ),
    "NVLink 5 without both": (
        {"model": B200, "switch": False, "units": {NVLSM: NONE, FM: NONE}},
        [(FM, "wrong", "fabric-manager-absent"), (NVLSM, "wrong", "subnet-manager-absent")],
    ),
    "NVLink 5": ({"model": B200, "switch": False}, []),
    "older switches need no subnet manager": ({"units": {NVLSM: NONE}}, []),
    # github.com/Azure/AgentBaker/pull/8839
    "a rack with Fabric Manager": (
        {"model": GB200, "count": 4, "switch": False, "units": {FM: (FAILED, SAME)}}, [(FM, "advise", "fabric-manager-in-rack")],
    ),
    "a rack without": ({"model": GB200, "count": 4, "switch": False, "units": {FM: NONE}}, []),
    "IMEX by the host": ({"model": GB200, "count": 4, "switch": False, "units": {FM: NONE, IMEX: (RUNS, IMEX_SAME)}}, []),
    "IMEX of another version": (
        {"model": GB200, "count": 4, "switch": False, "units": {FM: NONE, IMEX: (RUNS, {"nvidia-imex-580": "580.126.09-1"})}},
        [(IMEX, "wrong", "imex-version")],
    ),
    "IMEX stopped, of another version": (
        {"model": GB200, "count": 4, "switch": False, "units": {FM: NONE, IMEX: (STOPPED, {"nvidia-imex-580": "580.126.09-1"})}},
        [(IMEX, "wrong", "imex-version")],
    ),
    "IMEX disabled, of another version": (
        {"model": GB200, "count": 4, "switch": False, "units": {FM: NONE, IMEX: (DISABLED, {"nvidia-imex-580": "580.126.09-1"})}}, [],
    ),
    "IMEX over and over": (
        {"model": GB200, "count": 4, "switch": False, "units": {FM: NONE, IMEX: (ENDS_AGAIN, IMEX_SAME)}},
        [(IMEX, "advise", "imex-failed")],
    ),
    "IMEX off, of another version": (
        {"model": GB200, "count": 4, "switch": False, "units": {FM: NONE, IMEX: (MASKED, {"nvidia-imex-580": "580.126.09-1"})}}, [],
    ),
    # github.com/NVIDIA/cloud-native-docs/pull/502
    "IMEX by the DRA driver": (
        {"model": GB200, "count": 4, "switch": False, "domains": True, "units": {FM: NONE, IMEX: (MASKED, IMEX_SAME)}}, [],
    ),
    "IMEX by both": (
        {"model": GB200, "count": 4, "switch": False, "domains": True, "units": {FM: NONE, IMEX: (RUNS, IMEX_SAME)}},
        [(IMEX, "wrong", "imex-twice")],
    ),
    "IMEX that may start": (
        {"model": GB200, "count": 4, "switch": False, "domains": True, "units": {FM: NONE, IMEX: (DISABLED, IMEX_SAME)}},
        [(IMEX, "advise", "imex-not-masked")],
    ),
    "IMEX of the host that takes commands": (
        {"model": GB200, "count": 4, "switch": False, "domains": True, "config": GATE, "units": {FM: NONE, IMEX: (RUNS, IMEX_SAME)}},
        [(IMEX, "advise", "imex-by-host")],
    ),
    "ComputeDomains with an old driver": (
        {"model": GB200, "count": 4, "switch": False, "domains": True, "version": "570.148.08", "units": {FM: NONE}},
        [("driver", "wrong", "compute-domains-driver")],
    ),
    # github.com/NVIDIA/NVSentinel/issues/1471: one machine with switches needs no IMEX
    "IMEX that failed beside switches": ({"units": {IMEX: (FAILED, IMEX_SAME)}}, []),
    # github.com/NVIDIA/nvidia-docker/issues/1279
    "no persistence": ({"units": {PERSISTENCED: (DISABLED, {})}}, [(PERSISTENCED, "advise", "persistence-off")]),
    "persistence on its way": ({"units": {PERSISTENCED: (STARTS, {})}}, []),
    "persistence over and over": ({"units": {PERSISTENCED: (ENDS_AGAIN, {})}}, [(PERSISTENCED, "advise", "persistence-off")]),
    "no persistenced": ({"units": {PERSISTENCED: NONE}}, []),
    "Debian's persistenced": ({"units": {PERSISTENCED: (RUNS, {"nvidia-persistenced": "535.171.04-1"})}}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_unit_is_well_or_has_a_verdict(case: str) -> None:
    given, wrong = CASES[case]
    platform = judge(**given)
    assert [(n.unit, n.verdict, n.message.code) for n in platform.needs if n.verdict] == [
        (unit, verdict, f"platform.{code}") for unit, verdict, code in wrong
    ]
    assert all(need.source.startswith("https://") for need in platform.needs if need.verdict)
    stops = [finding for finding in host_platform.list_platform_findings(platform) if finding.stops]
    assert len(stops) == sum(
        verdict == "wrong" and unit in (FM, NVLSM) for unit, verdict, _code in wrong
    )


def test_a_host_that_was_not_asked_has_a_kind_and_no_needs() -> None:
    facts = host_platform.read_platform_facts(
        Policy(), builders.obs(files={**gpus.host(2), **SWITCH})
    )
    platform = host_platform.judge_platform(facts, driver(), Kubelet())
    assert (platform.machine.kind, platform.needs) == ("nvswitch", ())


def test_a_query_that_failed_leaves_the_units_unknown() -> None:
    platform = judge(error="the package database is locked")
    assert (platform.needs, "locked" in platform.unknown) == ((), True)
    assert host_platform.list_platform_findings(platform) == []


def test_a_kind_that_could_not_be_read_leaves_the_host_unjudged() -> None:
    nodes = {"glob:/dev/nvidia*": {"error": {"kind": "failed", "message": "it hangs"}}}
    platform = judge(units={FM: (FAILED, OTHER)}, answers=nodes)
    assert (platform.machine.kind, platform.machine.why.code) == ("unknown", "platform.unknown")
    assert (platform.needs, "it hangs" in platform.unknown) == ((), True)
    assert host_platform.list_platform_findings(platform) == []


# The option `persistence`, and the codes of the advice.
@pytest.mark.parametrize(
    ("persistence", "codes"),
    [
        ("advise", ["platform.fabric-manager-off", "platform.persistence-off"]),
        ("enabled", ["platform.fabric-manager-off"]),  # the plan starts it
        ("ignore", ["platform.fabric-manager-off"]),
    ],
)
def test_only_persistence_is_advised_on_by_a_policy(
    persistence: Literal["advise", "enabled", "ignore"], codes: list[str]
) -> None:
    platform = judge(units={FM: (STOPPED, SAME), PERSISTENCED: (STOPPED, {})})
    advice = host_platform.advise_on_platform(Policy(persistence=persistence), platform)
    assert get_codes(advice) == codes


def test_a_machine_that_is_left_alone_has_no_needs() -> None:
    platform = judge("GRID T4-16C", {FM: (FAILED, OTHER)}, count=1)
    assert (platform.machine.kind, platform.needs) == ("vgpu-guest", ())


def test_each_row_of_the_table_is_reached() -> None:
    """A row behind another that fits all of its cases would never count."""
    first = {
        id(needs.find_row(needs.Case(kind, unit, state, version, imex, kubernetes)))
        for kind in needs.JUDGED for unit in needs.UNITS for state in needs.ANY_STATE for version in needs.ANY_VERSION
        for imex in needs.ANY_IMEX for kubernetes in (False, True)
    }  # fmt: skip
    assert [row.row.code for row in needs.ROWS if id(row) not in first] == []
