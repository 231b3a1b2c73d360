# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option `sharing`: what it may say, case by case, and the sentence for what it may not."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import options
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing import wanted
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing.by_plugin import WAYS, Replicas
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing.mps_limits import Limits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.sharing.wanted import GpuEntry

UUID = "GPU-11111111-0000-5000-8000-000000000001"
HAS, OF_MPS = f"gpufleet_sharing has for {UUID}", f"gpufleet_sharing.{UUID}.mps"
NO_DICTIONARY = "gpufleet_sharing is ['GPU-1'], which is no dictionary"
GOOD: list[tuple[str, dict[str, Any], GpuEntry]] = [
    ("dedicated by agreement", {UUID: {"dedicated": {}}}, GpuEntry(UUID, "uuid", "dedicated")),
    ("in one word", {UUID: "dedicated"}, GpuEntry(UUID, "uuid", "dedicated")),
    ("exclusive", {UUID: {"dedicated": {"exclusive": True}}}, GpuEntry(UUID, "uuid", "dedicated", exclusive=True)),
    ("a PCI address", {"0000:17:00.0": "time_slicing"}, GpuEntry("0000:17:00.0", "bus", "time_slicing")),
    ("a PCI address as nvidia-smi writes it", {"00000000:9D:00.0": "dedicated"}, GpuEntry("00000000:9D:00.0", "bus", "dedicated")),
    ("without its domain", {"17:00.0": "dedicated"}, GpuEntry("17:00.0", "bus", "dedicated")),
    (
        "a product",
        {"NVIDIA H100 80GB HBM3": {"time_slicing": {"interval": "long"}}},
        GpuEntry("NVIDIA H100 80GB HBM3", "product", "time_slicing", interval="long"),
    ),
    (
        "by a device plugin",
        {UUID: {"time_slicing": {"replicas": 4, "rename_by_default": True, "fail_requests_greater_than_one": True}}},
        GpuEntry(UUID, "uuid", "time_slicing", replicas=Replicas("time_slicing", 4, rename=True, fail=True)),
    ),
    (
        "by its MPS daemon, and nothing runs beneath that root",
        {UUID: {"mps": {"replicas": 48}}},
        GpuEntry(UUID, "uuid", "mps", replicas=Replicas("mps", 48)),
    ),
    ("by MPS, without limits", {UUID: "mps"}, GpuEntry(UUID, "uuid", "mps", limits=Limits())),
    ("for so many clients", {UUID: {"mps": {"clients": 4}}}, GpuEntry(UUID, "uuid", "mps", limits=Limits(4))),
    (
        "with limits of its own",
        {UUID: {"mps": {"memory": "8Gi", "threads": 25}}},
        GpuEntry(UUID, "uuid", "mps", limits=Limits(memory=8192, threads=25)),
    ),
    ("in megabytes", {UUID: {"mps": {"memory": "512M"}}}, GpuEntry(UUID, "uuid", "mps", limits=Limits(memory=512))),
    ("an index, which YAML reads as a number", {2: {"dedicated": None}}, GpuEntry("2", "index", "dedicated")),
]


@pytest.mark.parametrize(("given", "expected"), [c[1:] for c in GOOD], ids=[c[0] for c in GOOD])
def test_what_it_may_say(given: dict[str, Any], expected: GpuEntry) -> None:
    options.check({"sharing": given})
    assert wanted.parse(given) == (expected,)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"sharing": ["GPU-1"]}, f"{NO_DICTIONARY}. {wanted.KEYS} with one of dedicated, time_slicing, mps"),
    ({"sharing": {UUID: 7}}, f"{HAS} the value 7, which is no policy. Give it one of dedicated, time_slicing, mps"),
    ({"sharing": {UUID: {}}}, f"{HAS} no policy (a GPU has one policy). Give it one of dedicated, time_slicing, mps"),
    (
        {"sharing": {UUID: {"dedicated": {}, "time_slicing": {}}}},
        f"{HAS} dedicated and time_slicing (a GPU has one policy). Give it one of dedicated, time_slicing, mps",
    ),
    ({"sharing": {UUID: "shared"}}, f"{HAS} the unknown policy 'shared'. Known policies are dedicated, time_slicing, mps"),
    ({"sharing": {UUID: {"mig": {}}}}, f"{HAS} the unknown policy 'mig'. MIG is set up by nvidia-mig-parted"),
    *(
        ({"sharing": {UUID: {"mps": {name: value}}}}, f"{OF_MPS}: {name} is {value!r} ({why}). Write a whole number from 1 to {most}")
        for name, most, why in (
            ("clients", 48, "an MPS server has at most 48 clients"),
            ("threads", 100, "it is a share of the GPU's threads in percent"),
        )
        for value in (0, 101, True, "4", 2.5)
    ),
    *(
        (
            {"sharing": {UUID: {"mps": {"memory": value}}}},
            f"{OF_MPS}: memory is {value!r} (nvidia-cuda-mps-control takes a whole number with a unit). Write it as 8G or 512M",
        )
        for value in (8, "8", "8 G", "0G", "1.5G", "8T", "8G; quit")
    ),
    (
        {"sharing": {UUID: {"mps": {"percent": 4}}}},
        f"{OF_MPS}: unknown key 'percent'. The known keys are clients, memory, threads; on a Kubernetes node, replicas",
    ),
    ({"sharing": {UUID: {"mps": 4}}}, f"{OF_MPS} is 4, which is no dictionary. Write {{}}, or some of clients, memory, threads"),
    (
        {"sharing": {UUID: {"mps": {"replicas": 2, "clients": 4}}}},
        (
            f"gpufleet_sharing.{UUID}.mps: 'clients' and replicas together (with replicas "
            "it is the device plugin that shares GPUs, which has no "
            "such setting). Its keys are replicas, rename_by_default, fail_requests_greater_than_one"
        ),
    ),
    (
        {"sharing": {UUID: {"dedicated": {"exclusive": "yes"}}}},
        f"gpufleet_sharing.{UUID}.dedicated: exclusive is 'yes'. Write true or false",
    ),
    (
        {"sharing": {UUID: {"dedicated": {"slots": 2}}}},
        f"gpufleet_sharing.{UUID}.dedicated: unknown key 'slots'. The known key is exclusive",
    ),
    (
        {"sharing": {UUID: {"dedicated": 1}}},
        f"gpufleet_sharing.{UUID}.dedicated is 1, which is no dictionary. Write {{}}, or exclusive with its value",
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"interval": 3}}}},
        f"gpufleet_sharing.{UUID}.time_slicing: interval is 3. Write one of default, short, medium, long",
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": 1}}}},
        f"gpufleet_sharing.{UUID}.time_slicing: replicas is 1. Write how many pods may have each GPU, which is 2 or more",
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": True}}}},
        f"gpufleet_sharing.{UUID}.time_slicing: replicas is True. Write how many pods may have each GPU, which is 2 or more",
    ),
    (
        {"sharing": {UUID: {"mps": {"replicas": 49}}}},
        f"gpufleet_sharing.{UUID}.mps: replicas is 49 (an MPS server has at most 48 clients). Write fewer",
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": 2, "rename_by_default": "yes"}}}},
        f"gpufleet_sharing.{UUID}.time_slicing: rename_by_default is 'yes'. Write true or false",
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": 2, "interval": "short"}}}},
        (
            f"gpufleet_sharing.{UUID}.time_slicing: 'interval' and replicas together (with replicas it is the device plugin"
            f" that shares GPUs, which has"
            " no such setting). Its keys are replicas, rename_by_default, fail_requests_greater_than_one"
        ),
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": 2}, "mps": {"replicas": 2}}}},
        f"gpufleet_sharing.{UUID} has time_slicing and mps (the device plugin has one policy for a node). Keep one of time_slicing, mps",
    ),
    (
        {"sharing": {UUID: {"time_slicing": {"replicas": 2}}, "0000:17:00.0": "dedicated"}},
        (
            f"gpufleet_sharing shares GPU {UUID} by replicas of the device plugin, and has another policy for GPU 0000:17:00.0"
            f" (the device plugin has"
            f" one policy for all GPUs of a node). {WAYS}"
        ),
    ),
    (
        {"sharing": {"MIG-1": "dedicated"}},
        "gpufleet_sharing names the MIG device MIG-1 (a policy is one of a whole GPU). Share MIG devices by MIG itself",
    ),
    (
        {"sharing": {"GPU-1": "dedicated"}},
        f"gpufleet_sharing has the key 'GPU-1', which is no GPU. {wanted.KEYS}",
    ),
    (
        {"sharing": {1020.0: "dedicated"}},
        (
            "gpufleet_sharing has the key 1020.0, which is no GPU (YAML reads a PCI address "
            "without a letter and without quotes as a number of "
            'minutes and seconds). Write the address in quotes: "0000:17:00.0"'
        ),
    ),
    (
        {"sharing": {"": "dedicated"}},
        f"gpufleet_sharing has the key '', which is no GPU. {wanted.KEYS}",
    ),
    (
        {"sharing": {"0000:17:00.0": "dedicated", "00000000:17:00.0": "time_slicing"}},
        "gpufleet_sharing has two entries for one GPU, 0000:17:00.0 and 00000000:17:00.0 (the same PCI address)",
    ),
    (
        {"sharing": {UUID: "dedicated"}, "root": "/mnt/image"},
        (
            "gpufleet_sharing is set, and gpufleet_root is /mnt/image (modes are set in a "
            "driver that runs, and nothing runs beneath another root)"
        ),
    ),
    (
        {"sharing": {UUID: "dedicated"}, "cdi_driver_root": "/run/nvidia/driver"},
        (
            "gpufleet_sharing is set, and gpufleet_cdi_driver_root is /run/nvidia/driver "
            "(nvidia-smi of the host itself sets modes, and the driver is elsewhere)"
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), BAD, ids=[sentence[:60] for _given, sentence in BAD])
def test_what_it_may_not_say_is_refused_before_any_host_is_looked_at(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PlanError) as refused:
        options.check(given)
    assert str(refused.value).removesuffix(". Leave out one of the two") == sentence


def test_without_the_option_nothing_is_judged() -> None:
    options.check({})
    options.check({"sharing": None, "root": "/mnt/image"})
    options.check({"sharing": {}, "root": "/mnt/image"})


PARTS: list[tuple[Limits, int, Limits, str]] = [
    # as written, the GPU's memory in MiB, what its daemon is told, as tables show it
    (Limits(), 81559, Limits(), ""),
    (Limits(4), 81559, Limits(4, 20389, 25), "4 clients, 20389 MiB, 25 % of the threads"),
    (Limits(3), 0, Limits(3, 0, 33), "3 clients, 33 % of the threads"),
    (Limits(4, memory=8192), 81559, Limits(4, 8192, 25), "4 clients, 8192 MiB, 25 % of the threads"),
    (Limits(4, threads=60), 81559, Limits(4, 20389, 60), "4 clients, 20389 MiB, 60 % of the threads"),
    (Limits(memory=512), 81559, Limits(memory=512), "512 MiB"),
]


@pytest.mark.parametrize(("written", "total", "told", "text"), PARTS, ids=[case[3] or "nothing" for case in PARTS])
def test_a_number_of_clients_makes_equal_parts(written: Limits, total: int, told: Limits, text: str) -> None:
    assert written.of(total) == told
    assert told.text == text
