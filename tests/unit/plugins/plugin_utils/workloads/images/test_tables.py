# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers, CUDA, chips and CPUs: the tables are in order, and give what their sources say of known
machines.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    chips,
    cpu,
    cuda,
    dotted,
)
from hypothesis import given
from hypothesis import strategies as st

DRIVERS = [
    # driver, the CUDA that it brings
    ("340.108", ""),
    ("384.81", "9.0"),
    ("390.30", "9.1"),
    ("396.44", "9.2"),
    ("418.87.01", "10.1"),
    ("450.80.02", "11.0"),
    ("470.256.02", "11.4"),
    ("525.60.13", "12.0"),
    ("535.104.05", "12.2"),
    ("550.54.14", "12.4"),
    ("565.57.01", "12.6"),
    ("570.124.06", "12.8"),
    ("580.65.06", "13.0"),
    ("610.43.02", "13.3"),
    ("615.71.08", "13.3"),
    ("615.71.09", "13.4"),
    ("620.70.06", "13.5"),
    ("700.1", "13.5"),
]


def written(numbers: dotted.Numbers | None) -> str:
    return dotted.write_dotted(numbers) if numbers else ""


@pytest.mark.parametrize(("driver", "brings"), DRIVERS)
def test_the_cuda_of_a_driver(driver: str, brings: str) -> None:
    assert written(cuda.get_cuda_of_driver(dotted.parse_known_dotted(driver))) == brings


def test_the_table_of_drivers_is_monotone() -> None:
    versions = [
        (dotted.parse_known_dotted(toolkit), dotted.parse_known_dotted(driver))
        for toolkit, driver in cuda.TOOLKITS
    ]
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in zip(versions, versions[1:], strict=False))
    assert [
        dotted.parse_known_dotted(cuda.FLOORS[major]) for major in sorted(cuda.FLOORS)
    ] == sorted(map(dotted.parse_known_dotted, cuda.FLOORS.values()))


@given(
    st.tuples(st.integers(340, 700), st.integers(0, 200), st.integers(0, 99)),
    st.tuples(st.integers(0, 60), st.integers(0, 200)),
)
def test_a_newer_driver_brings_no_older_cuda(
    driver: tuple[int, ...], more: tuple[int, int]
) -> None:
    later = (driver[0] + more[0], driver[1] + more[1], driver[2])
    assert (cuda.get_cuda_of_driver(driver) or ()) <= (cuda.get_cuda_of_driver(later) or ())


SUPPORTS = [
    # CUDA of the image, driver, branches that its own libcuda serves, how it runs, best first
    ("9.0", "390.30", (), ("native",)),
    ("9.2", "390.30", (), ()),
    ("11.8", "450.80.02", (), ("minor",)),
    ("11.8", "450.51.05", (), ()),
    ("12.4", "525.60.13", (), ("minor",)),
    ("12.4", "525.60.13", (470, 525), ("minor", "forward")),
    ("12.4", "470.256.02", (), ()),
    ("12.4", "470.256.02", (470, 525), ("forward",)),
    ("12.4", "550.54.14", (470, 525), ("native",)),
    ("13.1", "580.65.06", (), ("minor",)),
    ("13.5", "610.57.04", (), ("minor",)),
    ("13.4", "620.70.06", (), ("native",)),
    ("13.1", "575.57.08", (), ()),
    ("14.0", "610.43.02", (), ()),
]


@pytest.mark.parametrize(("wanted", "driver", "compat", "ways"), SUPPORTS)
def test_how_an_image_of_one_cuda_runs_with_a_driver(
    wanted: str, driver: str, compat: tuple[int, ...], ways: tuple[str, ...]
) -> None:
    have = dotted.parse_known_dotted(driver)
    assert (
        cuda.supports(
            dotted.parse_known_dotted(wanted), have, cuda.get_cuda_of_driver(have) or (), compat
        )
        == ways
    )


CARDS = [
    # PCI device id, card, compute capability
    (0x102D, "Tesla K80", "3.7"),
    (0x1023, "Tesla K40m", "3.5"),
    (0x13F2, "Tesla M60", "5.2"),
    (0x13BD, "Tesla M10", "5.0"),
    (0x17FD, "Tesla M40", "5.2"),
    (0x15F8, "Tesla P100 PCIe 16GB", "6.0"),
    (0x1B38, "Tesla P40", "6.1"),
    (0x1DB6, "Tesla V100 PCIe 32GB", "7.0"),
    (0x1EB8, "Tesla T4", "7.5"),
    (0x20B0, "A100 SXM4 40GB", "8.0"),
    (0x2236, "A10", "8.6"),
    (0x25B6, "A2 / A16", "8.6"),
    (0x26B5, "L40", "8.9"),
    (0x27B8, "L4", "8.9"),
    (0x2330, "H100 SXM5 80GB", "9.0"),
    (0x2335, "H200 SXM 141GB", "9.0"),
    (0x2901, "B200", "10.0"),
    (0x3182, "B300 SXM6 AC", "10.3"),
    (0x2BB1, "RTX PRO 6000 Blackwell Workstation Edition", "12.0"),
    (0x2BB3, "RTX PRO 5000 Blackwell", "12.0"),
    (0x2BB4, "RTX PRO 6000 Blackwell Max-Q Workstation Edition", "12.0"),
    (0x2BB5, "RTX PRO 6000 Blackwell Server Edition", "12.0"),
    (0x2C31, "RTX PRO 4500 Blackwell", "12.0"),
    (0x2C33, "RTX PRO 4000 Blackwell SFF Edition", "12.0"),
    (0x2C34, "RTX PRO 4000 Blackwell", "12.0"),
    (0x2C3A, "RTX PRO 4500 Blackwell Server Edition", "12.0"),
    (0x2D30, "RTX PRO 2000 Blackwell", "12.0"),
    (0x2E12, "GB10", "12.1"),
    (0x2B00, "Jetson AGX Thor", "11.0"),
    (0x3021, "a card with GR100", "10.7"),
    (0x30C0, "GR102, whose compute capability is not published", ""),
    (0x1AF1, "A100 NVSwitch", ""),
    (0x3340, "a chip whose compute capability is not published", ""),
]


@pytest.mark.parametrize(
    ("device", "card", "capability"), CARDS, ids=[card for _id, card, _cc in CARDS]
)
def test_the_compute_capability_of_a_card(device: int, card: str, capability: str) -> None:
    assert written(chips.compute_capability(device)) == capability, card


def list_overlapping_chips(blocks: Sequence[tuple[int, int, str, str]]) -> list[str]:
    """List the chips whose blocks are not in order, or share ids with the block before."""
    return [
        after[2]
        for before, after in zip(blocks, blocks[1:], strict=False)
        if after[0] <= before[1] or after[1] < after[0]
    ]


def test_blocks_of_device_ids_are_in_order_and_apart() -> None:
    assert list_overlapping_chips(chips.CHIPS) == []


# blocks -> the chips that are out of order, or share ids with the block before
BLOCKS = {
    "apart": (((1, 2, "A", ""), (3, 3, "B", "")), []),
    "a shared id": (((1, 2, "A", ""), (2, 4, "B", "")), ["B"]),
    "the end before the beginning": (((1, 2, "A", ""), (5, 4, "B", "")), ["B"]),
    "out of order": (((5, 6, "A", ""), (1, 2, "B", ""), (7, 8, "C", "")), ["B"]),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks_that_are_not_apart_are_named(case: str) -> None:
    blocks, named = BLOCKS[case]
    assert list_overlapping_chips(blocks) == named


MODELS = [
    # name, first brand, whether another libcuda may be used, memory in MiB
    ("Tesla V100-SXM2-16GB", "Tesla", True, 15258),
    ("NVIDIA A100-SXM4-80GB", "NVIDIA", True, 76293),
    ("NVIDIA H100 80GB HBM3", "NVIDIA", True, 76293),
    ("NVIDIA L4", "NVIDIA", True, 22888),
    ("NVIDIA GeForce RTX 4090", "GeForceRTX", False, None),
    ("GeForce GTX 1080 Ti", "GeForce", False, None),
    ("Quadro RTX 6000", "QuadroRTX", None, None),
    ("NVIDIA RTX A6000", "NvidiaRTX", None, 45776),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NvidiaRTX", None, 91552),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NvidiaRTX", None, 91552),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "NvidiaRTX", None, 91552),
    ("NVIDIA RTX PRO 5000 Blackwell", "NvidiaRTX", None, 45776),
    ("NVIDIA RTX PRO 5000 72GB Blackwell", "NvidiaRTX", None, 68664),
    ("NVIDIA RTX PRO 5000 Blackwell Generation Laptop GPU", "NvidiaRTX", None, None),
    ("NVIDIA RTX PRO 4500 Blackwell", "NvidiaRTX", None, 30517),
    ("NVIDIA RTX PRO 4500 Blackwell Server Edition", "NvidiaRTX", None, 30517),
    ("NVIDIA RTX PRO 4000 Blackwell", "NvidiaRTX", None, 22888),
    ("NVIDIA RTX PRO 4000 Blackwell SFF Edition", "NvidiaRTX", None, 22888),
    ("NVIDIA RTX PRO 2000 Blackwell", "NvidiaRTX", None, 15258),
    ("NVIDIA TITAN RTX", "TitanRTX", False, None),
    ("", "", None, None),
]


@pytest.mark.parametrize(("model", "brand", "forward", "memory"), MODELS)
def test_what_a_name_tells(
    model: str, brand: str, forward: bool | None, memory: int | None
) -> None:
    assert next(iter(chips.list_gpu_brands(model)), "") == brand
    assert (chips.serves_forward(model), chips.get_model_memory(model)) == (forward, memory)


V2 = "fpu cx8 cmov mmx fxsr sse sse2 pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
BROADWELL = f"{V2} movbe xsave avx f16c abm bmi1 avx2 bmi2 fma rdseed adx"
SKYLAKE = f"{BROADWELL} avx512f avx512dq avx512cd avx512bw avx512vl"
FLAGS = [
    ("fpu cx8 cmov mmx fxsr sse sse2", "x86-64-v1"),
    (V2, "x86-64-v2"),
    (BROADWELL, "x86-64-v3"),
    (SKYLAKE, "x86-64-v4"),
    (SKYLAKE.replace("avx512vl", ""), "x86-64-v3"),
    (BROADWELL.replace("movbe", ""), "x86-64-v2"),
    ("fp asimd aes", ""),
]


@pytest.mark.parametrize(("flags", "level"), FLAGS)
def test_the_level_of_a_cpu(flags: str, level: str) -> None:
    assert cpu.get_cpu_level(flags.split()) == level


@given(
    st.sets(st.sampled_from(sorted(cpu.list_level_flags("x86-64-v4")))),
    st.sampled_from(sorted(cpu.list_level_flags("x86-64-v4"))),
)
def test_another_flag_never_lowers_the_level(flags: set[str], another: str) -> None:
    assert cpu.get_cpu_level(flags) <= cpu.get_cpu_level({*flags, another})


X86, INTEL = "x86_64", "GenuineIntel"
V3 = frozenset({"sse3", "avx2", "bmi2"})
TARGETS = {
    "x86_64": cpu.CpuTarget("generic", frozenset()),
    "x86_64_v3": cpu.CpuTarget("generic", V3, (X86,)),
    "haswell": cpu.CpuTarget(INTEL, V3 | {"aes"}, ("x86_64_v3", X86)),
    "broadwell": cpu.CpuTarget(INTEL, V3 | {"aes", "adx"}, ("haswell", "x86_64_v3", X86)),
    "skylake_avx512": cpu.CpuTarget(
        INTEL, V3 | {"aes", "adx", "avx512f"}, ("broadwell", "haswell", "x86_64_v3", X86)
    ),
    "zen": cpu.CpuTarget("AuthenticAMD", V3, ("x86_64_v3", X86)),
    "aarch64": cpu.CpuTarget("generic", frozenset()),
    "armv8.2a": cpu.CpuTarget("generic", frozenset(), ("aarch64",)),
    "neoverse_n1": cpu.CpuTarget("ARM", frozenset({"fp", "lrcpc"}), ("armv8.2a", "aarch64")),
    "power9": cpu.CpuTarget("generic", frozenset(), ("ppc64le",)),
}
MACHINES = [
    # architecture, vendor, flags, the microarchitectures that it can stand in for (None: not known)
    (X86, INTEL, "pni avx2 bmi2 aes adx", {"x86_64", "x86_64_v3", "haswell", "broadwell"}),
    (
        X86,
        INTEL,
        "pni avx2 bmi2 aes adx avx512f",
        {"x86_64", "x86_64_v3", "haswell", "broadwell", "skylake_avx512"},
    ),
    (X86, "AuthenticAMD", "pni avx2 bmi2 aes adx", {"x86_64", "x86_64_v3", "zen"}),
    (X86, INTEL, "pni", {"x86_64"}),
    (X86, "", "pni avx2 bmi2", None),
    ("aarch64", "0x41", "fp lrcpc", {"aarch64", "armv8.2a", "neoverse_n1"}),
    ("aarch64", "0xc0", "fp lrcpc", {"aarch64"}),
    ("ppc64le", "IBM", "", None),
]


@pytest.mark.parametrize(("architecture", "vendor", "flags", "names"), MACHINES)
def test_the_microarchitectures_of_a_machine(
    architecture: str, vendor: str, flags: str, names: set[str] | None
) -> None:
    assert cpu.list_microarchitectures(architecture, vendor, flags.split(), TARGETS) == names
    assert cpu.list_microarchitectures(architecture, vendor, flags.split(), {}) is None


def test_code_for_a_microarchitecture_is_more_specific_than_for_its_ancestor() -> None:
    order = [
        ("", ""),
        ("x86-64-v3", ""),
        ("", "haswell"),
        ("", "broadwell"),
        ("", "skylake_avx512"),
        ("", "not_in_archspec"),
    ]
    found = [cpu.weigh_code(level, march, TARGETS) for level, march in order]
    assert found == sorted(set(found))
    assert [cpu.weigh_code(level, "", {}) for level in cpu.LEVELS] == sorted(
        {cpu.weigh_code(level, "", {}) for level in cpu.LEVELS}
    )
