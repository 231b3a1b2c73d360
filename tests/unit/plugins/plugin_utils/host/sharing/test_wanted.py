# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option `sharing`: what it may say, case by case, and the code of the refusal for what it may
not.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import options
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import wanted
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.by_plugin import (
    Replicas,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.mps_limits import (
    Limits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.wanted import (
    GpuEntry,
)

UUID = "GPU-11111111-0000-5000-8000-000000000001"
GOOD: list[tuple[str, dict[str, Any], GpuEntry]] = [
    ("dedicated by agreement", {UUID: {"dedicated": {}}}, GpuEntry(UUID, "uuid", "dedicated")),
    ("in one word", {UUID: "dedicated"}, GpuEntry(UUID, "uuid", "dedicated")),
    (
        "exclusive",
        {UUID: {"dedicated": {"exclusive": True}}},
        GpuEntry(UUID, "uuid", "dedicated", exclusive=True),
    ),
    (
        "a PCI address",
        {"0000:17:00.0": "time_slicing"},
        GpuEntry("0000:17:00.0", "bus", "time_slicing"),
    ),
    (
        "a PCI address as nvidia-smi writes it",
        {"00000000:9D:00.0": "dedicated"},
        GpuEntry("00000000:9D:00.0", "bus", "dedicated"),
    ),
    ("without its domain", {"17:00.0": "dedicated"}, GpuEntry("17:00.0", "bus", "dedicated")),
    (
        "a product",
        {"NVIDIA H100 80GB HBM3": {"time_slicing": {"interval": "long"}}},
        GpuEntry("NVIDIA H100 80GB HBM3", "product", "time_slicing", interval="long"),
    ),
    (
        "by a device plugin",
        {
            UUID: {
                "time_slicing": {
                    "replicas": 4,
                    "rename_by_default": True,
                    "fail_requests_greater_than_one": True,
                    "shared_devices_allocation_policy": "packed",
                }
            }
        },
        GpuEntry(
            UUID,
            "uuid",
            "time_slicing",
            replicas=Replicas("time_slicing", 4, rename=True, fail=True, allocation="packed"),
        ),
    ),
    (
        "by its MPS daemon, and nothing runs beneath that root",
        {UUID: {"mps": {"replicas": 48}}},
        GpuEntry(UUID, "uuid", "mps", replicas=Replicas("mps", 48)),
    ),
    ("by MPS, without limits", {UUID: "mps"}, GpuEntry(UUID, "uuid", "mps", limits=Limits())),
    (
        "for so many clients",
        {UUID: {"mps": {"clients": 4}}},
        GpuEntry(UUID, "uuid", "mps", limits=Limits(4)),
    ),
    (
        "with limits of its own",
        {UUID: {"mps": {"memory": "8Gi", "threads": 25}}},
        GpuEntry(UUID, "uuid", "mps", limits=Limits(memory=8192, threads=25)),
    ),
    (
        "in megabytes",
        {UUID: {"mps": {"memory": "512M"}}},
        GpuEntry(UUID, "uuid", "mps", limits=Limits(memory=512)),
    ),
    (
        "an index, which YAML reads as a number",
        {2: {"dedicated": None}},
        GpuEntry("2", "index", "dedicated"),
    ),
]


@pytest.mark.parametrize(("given", "expected"), [c[1:] for c in GOOD], ids=[c[0] for c in GOOD])
def test_what_it_may_say(given: dict[str, Any], expected: GpuEntry) -> None:
    options.check_options({"sharing": given})
    assert wanted.parse_sharing(given) == (expected,)


POLICIES = "dedicated, time_slicing, mps"
AT = f"gpufleet_sharing.{UUID}"
SLICES, OF_MPS, ALONE = f"{AT}.time_slicing", f"{AT}.mps", f"{AT}.dedicated"
PLUGIN_KEYS = (
    "replicas, rename_by_default, fail_requests_greater_than_one, shared_devices_allocation_policy"
)
BAD: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    # the options, the code of the refusal, its values
    ({"sharing": ["GPU-1"]}, "not-a-dictionary", {"value": "['GPU-1']", "policies": POLICIES}),
    ({"sharing": {UUID: 7}}, "not-a-policy", {"key": UUID, "value": "7", "policies": POLICIES}),
    ({"sharing": {UUID: {}}}, "no-policy", {"key": UUID, "policies": POLICIES}),
    (
        {"sharing": {UUID: {"dedicated": {}, "time_slicing": {}}}},
        "several-policies",
        {"key": UUID, "given": "dedicated and time_slicing", "policies": POLICIES},
    ),
    ({"sharing": {UUID: "shared"}}, "unknown-policy", {"key": UUID, "policy": "'shared'", "policies": POLICIES}),
    ({"sharing": {UUID: {"mig": {}}}}, "mig-policy", {"key": UUID, "policy": "'mig'"}),
    *(
        ({"sharing": {UUID: {"mps": {name: value}}}}, f"{name}-out-of-range", {"where": OF_MPS, "value": repr(value), "most": most})
        for name, most in (("clients", 48), ("threads", 100))
        for value in (0, 101, True, "4", 2.5)
    ),
    *(
        ({"sharing": {UUID: {"mps": {"memory": value}}}}, "memory-without-unit", {"where": OF_MPS, "value": repr(value)})
        for value in (8, "8", "8 G", "0G", "1.5G", "8T", "8G; quit")
    ),
    (
        {"sharing": {UUID: {"mps": {"percent": 4}}}},
        "unknown-limit",
        {"where": OF_MPS, "key": "'percent'", "known": "clients, memory, threads"},
    ),
    (
        {"sharing": {UUID: {"mps": 4}}},
        "limits-not-a-dictionary",
        {"where": OF_MPS, "value": "4", "known": "clients, memory, threads"},
    ),
    (
        {"sharing": {UUID: {"mps": {"replicas": 2, "clients": 4}}}},
        "not-with-replicas",
        {"where": OF_MPS, "key": "'clients'", "known": PLUGIN_KEYS},
    ),
    *(
        (
            {"sharing": {UUID: {"mps": {"replicas": 2, "shared_devices_allocation_policy": value}}}},
            "unknown-allocation",
            {"where": OF_MPS, "name": "shared_devices_allocation_policy", "value": repr(value), "known": "distributed, packed"},
        )
        for value in ("spread", True, 1, ["packed"], {})
    ),
    (
        {"sharing": {UUID: {"dedicated": {"exclusive": "yes"}}}},
        "not-boolean",
        {"where": ALONE, "name": "exclusive", "value": "'yes'"},
    ),
    (
        {"sharing": {UUID: {"dedicated": {"slots": 2}}}},
        "unknown-key",
        {"where": ALONE, "key": "'slots'", "known": "exclusive"},
    ),
    (
        {"sharing": {UUID: {"dedicated": 1}}},
        "settings-not-a-dictionary",
        {"where": ALONE, "value": "1", "known": "exclusive"},
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"interval": 3}}}},
        "unknown-interval",
        {"where": SLICES, "value": "3", "intervals": "default, short, medium, long"},
    ),
    ({"sharing": {UUID: {"time_slicing": {"replicas": 1}}}}, "replicas-out-of-range", {"where": SLICES, "value": "1"}),
    ({"sharing": {UUID: {"time_slicing": {"replicas": True}}}}, "replicas-out-of-range", {"where": SLICES, "value": "True"}),
    ({"sharing": {UUID: {"mps": {"replicas": 49}}}}, "too-many-replicas", {"where": OF_MPS, "value": 49, "most": 48}),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": 2, "rename_by_default": "yes"}}}},
        "not-boolean",
        {"where": SLICES, "name": "rename_by_default", "value": "'yes'"},
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": 2, "interval": "short"}}}},
        "not-with-replicas",
        {"where": SLICES, "key": "'interval'", "known": PLUGIN_KEYS},
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": 2}, "mps": {"replicas": 2}}}},
        "two-plugin-policies",
        {"where": AT, "given": "time_slicing and mps", "policies": "time_slicing, mps"},
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": 2}}, "0000:17:00.0": "dedicated"}},
        "plugin-policies-differ",
        {"option": "gpufleet_sharing", "gpu": UUID, "other": "0000:17:00.0"},
    ),
    ({"sharing": {"MIG-1": "dedicated"}}, "mig-device", {"key": "MIG-1"}),
    ({"sharing": {"GPU-1": "dedicated"}}, "not-a-gpu", {"key": "'GPU-1'"}),
    ({"sharing": {1020.0: "dedicated"}}, "key-is-number", {"key": "1020.0"}),
    ({"sharing": {"": "dedicated"}}, "not-a-gpu", {"key": "''"}),
    (
        {"sharing": {"0000:17:00.0": "dedicated", "00000000:17:00.0": "time_slicing"}},
        "one-address-twice",
        {"first": "0000:17:00.0", "second": "00000000:17:00.0"},
    ),
    ({"sharing": {UUID: "dedicated"}, "root": "/mnt/image"}, "beneath-root", {"value": "/mnt/image"}),
    (
        {"sharing": {UUID: "dedicated"}, "cdi_driver_root": "/run/nvidia/driver"},
        "driver-elsewhere",
        {"value": "/run/nvidia/driver"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "code", "values"), BAD, ids=[f"{code} {given}" for given, code, _values in BAD]
)
def test_what_it_may_not_say_is_refused_before_any_host_is_looked_at(
    given: dict[str, Any], code: str, values: dict[str, Any]
) -> None:
    with pytest.raises(PlanError) as refused:
        options.check_options(given)
    assert (refused.value.code, refused.value.values) == (f"sharing.{code}", values)


def test_without_the_option_nothing_is_judged() -> None:
    options.check_options({})
    options.check_options({"sharing": None, "root": "/mnt/image"})
    options.check_options({"sharing": {}, "root": "/mnt/image"})


PARTS: list[tuple[Limits, int, Limits, str]] = [
    # as written, the GPU's memory in MiB, what its daemon is told, as tables show it
    (Limits(), 81559, Limits(), ""),
    (Limits(4), 81559, Limits(4, 20389, 25), "4 clients, 20389 MiB, 25 % of the threads"),
    (Limits(3), 0, Limits(3, 0, 33), "3 clients, 33 % of the threads"),
    (
        Limits(4, memory=8192),
        81559,
        Limits(4, 8192, 25),
        "4 clients, 8192 MiB, 25 % of the threads",
    ),
    (
        Limits(4, threads=60),
        81559,
        Limits(4, 20389, 60),
        "4 clients, 20389 MiB, 60 % of the threads",
    ),
    (Limits(memory=512), 81559, Limits(memory=512), "512 MiB"),
]


@pytest.mark.parametrize(
    ("written", "total", "told", "text"), PARTS, ids=[case[3] or "nothing" for case in PARTS]
)
def test_a_number_of_clients_makes_equal_parts(
    written: Limits, total: int, told: Limits, text: str
) -> None:
    assert written.complete_limits(total) == told
    assert told.text == text
