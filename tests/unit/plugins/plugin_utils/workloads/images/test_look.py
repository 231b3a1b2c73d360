# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host offers to images, from files as procfs and sysfs have them and from a machine's own
words.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    cpu,
    facts,
    look,
)

from tests.unit import gpus
from tests.unit.builders import obs

TARGETS = {
    "x86_64": cpu.CpuTarget("generic", frozenset()),
    "haswell": cpu.CpuTarget("GenuineIntel", frozenset({"avx2"}), ("x86_64",)),
}
MACHINE = {
    "architecture": "x86_64",
    "vendor": "GenuineIntel",
    "flags": ["avx2", "sse2"],
    "library": "glibc 2.36",
}
RECORD = {
    "writer": "gpufleet.nvidia",
    "engines": [{"engine": "containerd", "injection": "native-cdi"}, "odd"],
}
BUSES = "/sys/bus/pci/devices"
DEVICES = {
    f"{BUSES}/{gpus.BUSES[0]}/device": "0x2330\n",
    f"{BUSES}/{gpus.BUSES[1]}/device": "0x2330\n",
    f"{BUSES}/0000:00:03.0/device": "0x1000\n",
}


def seen(
    files: dict[str, Any], machine: dict[str, Any] | None = None
) -> tuple[facts.ImageHost, str]:
    answer = {
        "probe:machine": {"value": machine}
        if machine
        else {"error": {"code": "timeout", "message": "it took too long"}}
    }
    return look.read_image_host(Policy(), obs(files=files, answers=answer), TARGETS)


def test_a_host_offers_its_driver_its_gpus_and_its_cpu() -> None:
    host, trouble = seen(
        {**gpus.host(), **DEVICES, decision_file.DECISION_PATH: json.dumps(RECORD)}, MACHINE
    )
    assert trouble == ""
    assert (host.driver, host.cuda, host.glibc) == ("550.163.01", (12, 4), (2, 36))
    assert [(g.name, g.capability, g.memory, g.mig) for g in host.gpus] == [
        (bus, (9,), 76293, False) for bus in gpus.BUSES[:2]
    ]
    assert (host.cpu.architecture, host.cpu.names) == ("x86_64", {"x86_64", "haswell"})
    assert host.engines == (facts.ImageEngine("containerd", "native-cdi"),)


def test_what_the_look_found_can_be_given_again() -> None:
    host, _trouble = seen({**gpus.host(), **DEVICES}, MACHINE)
    again = facts.parse_host_facts(json.loads(json.dumps(facts.give_host_facts(host))), TARGETS)
    assert again == host


ABSENT = [
    # files, the machine's words, what is not known
    ({**gpus.host(version="550.90.07"), **DEVICES}, MACHINE, ("driver", "cuda", "gpus")),
    (gpus.pci(1), MACHINE, ("driver", "cuda", "gpus")),
    ({}, MACHINE, ("driver", "cuda", "gpus")),
    (gpus.host(), None, ("cpu", "glibc")),
    (gpus.host(), {**MACHINE, "library": ""}, ("glibc",)),
    (gpus.host(), {**MACHINE, "library": "musl 1.2"}, ("glibc",)),
]


@pytest.mark.parametrize(("files", "machine", "unknown"), ABSENT)
def test_what_cannot_be_seen_is_not_known(
    files: dict[str, Any], machine: dict[str, Any] | None, unknown: tuple[str, ...]
) -> None:
    host, trouble = seen(files, machine)
    assert [
        name
        for name in ("driver", "cuda", "gpus", "cpu", "glibc")
        if getattr(host, name) == getattr(facts.ImageHost(), name)
    ] == [*unknown]
    assert bool(trouble) is ("driver" in unknown)


def test_a_gpu_without_a_device_id_has_no_known_compute_capability() -> None:
    host, _trouble = seen(gpus.host(), MACHINE)
    assert [g.capability for g in host.gpus] == [None, None]


def test_mig_devices_are_seen() -> None:
    host, _trouble = seen({**gpus.host(), **gpus.instances(0, (1, 0))}, MACHINE)
    assert [g.mig for g in host.gpus] == [True, False]


def test_an_ordinary_look_asks_nothing_of_this() -> None:
    ordinary = {q["id"] for q in seen_host.list_host_questions(Policy())}
    assert look.MACHINE["id"] not in ordinary


@pytest.mark.parametrize(("files", "certain"), [({}, True), (gpus.host(), False)])
def test_a_host_without_a_gpu_is_known_to_have_none(files: dict[str, Any], certain: bool) -> None:
    assert look.has_no_gpu(Policy(), obs(files=files)) is certain
