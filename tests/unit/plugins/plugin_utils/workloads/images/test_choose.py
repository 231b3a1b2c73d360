# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which image a host gets: the hosts of a mixed cluster against the images that are built for them,
row by row.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    catalogue,
    choose,
    cpu,
    facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.document import (
    YamlFile,
    read_yaml_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.requires import (
    Image,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.coded import Coded, get_codes, read_all_coded, read_coded

GENERIC = frozenset({"sse2"})
HASWELL = GENERIC | {"avx2", "bmi2"}
BROADWELL = HASWELL | {"rdseed", "adx"}
SKYLAKE = BROADWELL | {"avx512f"}
TARGETS = {
    "x86_64": cpu.CpuTarget("generic", frozenset()),
    "haswell": cpu.CpuTarget("GenuineIntel", HASWELL, ("x86_64",)),
    "broadwell": cpu.CpuTarget("GenuineIntel", BROADWELL, ("haswell", "x86_64")),
    "skylake_avx512": cpu.CpuTarget("GenuineIntel", SKYLAKE, ("broadwell", "haswell", "x86_64")),
}
K80, M60, V100, A100, H100, RTX = (
    {"name": "k80", "model": "Tesla K80", "device": "0x102d"},
    {"name": "m60", "model": "Tesla M60", "device": "0x13f2"},
    {"name": "v100", "model": "Tesla V100-SXM2-32GB", "device": "0x1db5"},
    {"name": "a100", "model": "NVIDIA A100-SXM4-80GB", "device": "0x20b2", "mig": False},
    {"name": "h100", "model": "NVIDIA H100 80GB HBM3", "device": "0x2330", "mig": False},
    {"name": "rtx", "model": "NVIDIA GeForce RTX 4090", "device": "0x2684", "mig": False},
)


def images(*entries: dict[str, Any]) -> tuple[Image, ...]:
    full = [{"image": f"registry.example.org/{entry['name']}:1", **entry} for entry in entries]
    return catalogue.parse_catalogue(YamlFile({"schema": 1, "images": full}), TARGETS)


def host(
    driver: str, *gpus: dict[str, Any], flags: frozenset[str] = BROADWELL, **more: Any
) -> facts.ImageHost:
    own = {"arch": "x86_64", "vendor": "GenuineIntel", "flags": sorted(flags)}
    return facts.parse_host_facts(
        {"driver": driver, "gpus": list(gpus), "cpu": own, **more}, TARGETS
    )


def outcome(
    found: tuple[Image, ...], of: facts.ImageHost, across: choose.Across = "all"
) -> dict[str, Any]:
    return choose.report_choices(found, of, across, TARGETS)


# One application for the nodes of a cluster that grew: by CPU and by CUDA, for the GPUs of its
# time.
OLD = {"compute_capability": {"real": ["3.7", "5.2"]}}
SOURCE = images(
    {"name": "generic-cuda9.0", "requires": {"cuda": "9.0", **OLD}},
    {"name": "generic-cuda9.2", "requires": {"cuda": "9.2", **OLD}},
    {"name": "broadwell-cuda9.0", "requires": {"cuda": "9.0", "cpu_march": "broadwell", **OLD}},
    {"name": "broadwell-cuda9.2", "requires": {"cuda": "9.2", "cpu_march": "broadwell", **OLD}},
    {
        "name": "skylake512-cuda9.0",
        "requires": {"cuda": "9.0", "cpu_march": "skylake_avx512", **OLD},
    },
    {
        "name": "skylake512-cuda9.2",
        "requires": {"cuda": "9.2", "cpu_march": "skylake_avx512", **OLD},
    },
)
CLUSTER = [
    # driver, GPU, CPU, the image that this node gets
    ("390.30", K80, BROADWELL, "broadwell-cuda9.0"),
    ("396.44", K80, BROADWELL, "broadwell-cuda9.2"),
    ("390.30", M60, SKYLAKE, "skylake512-cuda9.0"),
    ("396.44", M60, SKYLAKE, "skylake512-cuda9.2"),
    ("396.44", K80, GENERIC, "generic-cuda9.2"),
    ("390.30", M60, HASWELL, "generic-cuda9.0"),
    ("375.26", K80, BROADWELL, ""),
    ("396.44", A100, BROADWELL, ""),
]


@pytest.mark.parametrize(("driver", "gpu", "flags", "name"), CLUSTER)
def test_a_node_of_a_cluster_that_grew_gets(
    driver: str, gpu: dict[str, Any], flags: frozenset[str], name: str
) -> None:
    found = outcome(SOURCE, host(driver, gpu, flags=flags))
    assert found["choices"][0]["chosen"].get("name", "") == name
    assert found["fits"] is bool(name)
    assert bool(found["problem"]) is not bool(name)


def test_skylake_code_on_a_broadwell_is_an_illegal_instruction() -> None:
    reasons = {
        r["name"]: r["reasons"]
        for r in outcome(SOURCE, host("396.44", K80))["choices"][0]["rejected"]
    }
    assert read_all_coded(reasons["skylake512-cuda9.2"]) == [
        ("image-fit.other-march", {"wanted": "skylake_avx512"})
    ]
    preferred = (
        "image-fit.second",
        {"best": "broadwell-cuda9.2", "criterion": ("image-fit.ranks-older-cuda", {})},
    )
    assert read_all_coded(reasons["broadwell-cuda9.0"]) == [preferred]


EXACT = images(
    {"name": "with-390.30", "requires": {"exact_driver": "390.30", **OLD}},
    {"name": "with-396.44", "requires": {"exact_driver": "396.44", **OLD}},
)


@pytest.mark.parametrize(("kernel", "other"), [("390.30", "396.44"), ("396.44", "390.30")])
def test_an_image_with_its_own_driver_wants_the_kernel_module_of_just_that_version(
    kernel: str, other: str
) -> None:
    (found,) = outcome(EXACT, host(kernel, K80, engines=[{"engine": "e", "injection": "legacy"}]))[
        "choices"
    ]
    assert found["chosen"]["name"] == f"with-{kernel}"
    assert read_coded(found["rejected"][0]["reasons"][0]) == (
        "image-fit.brings-other-driver",
        {"wanted": other, "found": kernel},
    )
    (engine,) = found["engines"]
    assert (engine["inject"], engine["environment"]) == (
        "device-nodes",
        {"NVIDIA_VISIBLE_DEVICES": "void"},
    )


NEEDS = [
    # what an image needs, a host, the code below image-fit and the values of the reason why it does
    # not get it (None where it does)
    ({"cuda": "12.4"}, host("550.54.14", A100), None),
    ({"cuda": "12.4"}, host("525.60.13", A100), None),
    (
        {"cuda": "12.4"},
        host("520.61.05", A100),
        (
            "cuda-older",
            {
                "wanted": "12.4",
                "driver": "driver 520.61.05 brings CUDA 11.8",
                "more": ": drivers from 525.60.13 on run it",
            },
        ),
    ),
    ({"cuda": "12.4"}, host("", A100), ("cuda-without-driver", {"wanted": "12.4"})),
    ({"cuda": "12.4"}, host("550.54.14"), ("no-gpu", {})),
    (
        {"cuda": "9.2"},
        host("390.30", K80),
        (
            "cuda-older",
            {
                "wanted": "9.2",
                "driver": "driver 390.30 brings CUDA 9.1",
                "more": ": drivers from 396.26 on run it",
            },
        ),
    ),
    ({"driver": ">=525, <580"}, host("535.104.05"), None),
    (
        {"driver": ">=525, <580"},
        host("580.65.06"),
        ("other-driver", {"wanted": ">=525, <580", "found": "580.65.06"}),
    ),
    ({"driver": "535"}, host(""), ("no-driver", {"wanted": ">=535"})),
    ({"compute_capability": {"real": ["8.0"]}}, host("550.54.14", A100), None),
    ({"compute_capability": {"real": ["8.0"]}}, host("550.54.14", RTX), None),
    (
        {"compute_capability": {"real": ["8.9"]}},
        host("550.54.14", A100),
        (
            "other-code",
            {
                "gpu": "GPU a100 (NVIDIA A100-SXM4-80GB)",
                "code": "machine code for 8.9",
                "found": "8.0",
            },
        ),
    ),
    ({"compute_capability": {"real": ["9.0a"]}}, host("550.54.14", H100), None),
    (
        {"compute_capability": {"real": ["8.0"]}},
        host("550.54.14", {"name": "x"}),
        ("code-unknown", {"gpu": "GPU x", "code": "machine code for 8.0"}),
    ),
    ({"compute_capability": {"ptx": ["8.0"]}, "cuda": "12.4"}, host("550.54.14", H100), None),
    (
        {"compute_capability": {"ptx": ["8.0"]}, "cuda": "12.4"},
        host("535.54.03", H100),
        (
            "ptx-too-new",
            {"gpu": "GPU h100 (NVIDIA H100 80GB HBM3)", "code": "PTX for 8.0", "found": "9.0"},
        ),
    ),
    (
        {"compute_capability": {"ptx": ["9.0"]}, "cuda": "12.4"},
        host("550.54.14", A100),
        (
            "other-code",
            {"gpu": "GPU a100 (NVIDIA A100-SXM4-80GB)", "code": "PTX for 9.0", "found": "8.0"},
        ),
    ),
    ({"memory": "70GB"}, host("550.54.14", A100), None),
    ({"memory": "80000MB"}, host("550.54.14", A100), None),
    ({"memory": "76293MiB"}, host("550.54.14", A100), None),
    (
        {"memory": "76294MiB"},
        host("550.54.14", A100),
        (
            "less-memory",
            {"gpu": "GPU a100 (NVIDIA A100-SXM4-80GB)", "wanted": 76294, "found": 76293},
        ),
    ),
    ({"memory": "80GiB"}, host("550.54.14", {**A100, "memory": 81920}), None),
    (
        {"memory": "90GB"},
        host("550.54.14", A100),
        (
            "less-memory",
            {"gpu": "GPU a100 (NVIDIA A100-SXM4-80GB)", "wanted": 85830, "found": 76293},
        ),
    ),
    (
        {"memory": "16GB"},
        host("550.54.14", RTX),
        ("memory-unknown", {"gpu": "GPU rtx (NVIDIA GeForce RTX 4090)", "wanted": 15258}),
    ),
    ({"mig": True}, host("550.54.14", {**A100, "mig": True}), None),
    (
        {"mig": True},
        host("550.54.14", A100),
        (
            "other-mig",
            {"gpu": "GPU a100 (NVIDIA A100-SXM4-80GB)", "wanted": "with", "found": "none"},
        ),
    ),
    ({"cuda": "12.8"}, host("580.95.05", V100), None),
    # its nvcc and its libraries have nothing before Turing
    (
        {"cuda": "13.0"},
        host("580.95.05", A100, V100),
        (
            "gpu-dropped",
            {
                "gpu": "GPU v100 (Tesla V100-SXM2-32GB)",
                "cuda": "13.0",
                "oldest": "7.5",
                "found": "7.0",
            },
        ),
    ),
    ({"cuda": "13.0"}, host("580.95.05", A100), None),
    ({"cuda": "13.0"}, host("580.95.05", {"name": "0"}), None),
    # whoever states the code knows it
    (
        {"cuda": "13.0", "compute_capability": {"real": ["7.0"]}},
        host("580.95.05", V100),
        None,
    ),
    (
        {"mig": False},
        host("550.54.14", {**A100, "mig": True}),
        (
            "other-mig",
            {"gpu": "GPU a100 (NVIDIA A100-SXM4-80GB)", "wanted": "without", "found": "some"},
        ),
    ),
    (
        {"mig": False},
        host("390.30", K80),
        ("mig-unknown", {"gpu": "GPU k80 (Tesla K80)", "wanted": "without"}),
    ),
    ({"cpu_arch": "amd64"}, host("550.54.14"), None),
    (
        {"cpu_arch": ["arm64"]},
        host("550.54.14"),
        ("other-architecture", {"wanted": "aarch64", "found": "x86_64"}),
    ),
    ({"cpu_level": "x86-64-v3"}, host("550.54.14", cpu={"level": "x86-64-v4"}), None),
    (
        {"cpu_level": "x86-64-v3"},
        host("550.54.14", cpu={"level": "x86-64-v2"}),
        ("level-too-low", {"wanted": "x86-64-v3", "found": "x86-64-v2"}),
    ),
    (
        {"cpu_level": "x86-64-v2"},
        host("550.54.14"),
        (
            "level-lacks",
            {
                "wanted": "x86-64-v2",
                "found": "of none",
                "flags": "cmov, cx16, cx8, fpu, fxsr, lahf_lm, mmx, pni, popcnt, sse, sse4_1, sse4_2, ssse3",
            },
        ),
    ),
    (
        {"cpu_level": "x86-64-v2"},
        host("550.54.14", cpu={}),
        ("level-unknown", {"wanted": "x86-64-v2"}),
    ),
    (
        {"cpu_march": "haswell"},
        host("550.54.14", cpu={"arch": "x86_64"}),
        ("march-unknown", {"wanted": "haswell"}),
    ),
    ({"cpu_march": "haswell"}, host("550.54.14", cpu={"march": ["haswell"]}), None),
    ({"glibc": "2.34"}, host("550.54.14", glibc="2.36"), None),
    (
        {"glibc": "2.34"},
        host("550.54.14", glibc="2.28"),
        ("glibc-older", {"wanted": "2.34", "found": "2.28"}),
    ),
    ({"glibc": "2.34"}, host("550.54.14"), ("glibc-unknown", {"wanted": "2.34"})),
]


@pytest.mark.parametrize(("needs", "of", "why"), NEEDS)
def test_what_an_image_needs(needs: dict[str, Any], of: facts.ImageHost, why: Coded | None) -> None:
    found = outcome(images({"name": "app", "requires": needs}), of)
    assert found["fits"] is (why is None), found
    if why is None:
        assert found["problem"] == ""
        return
    code, values = why
    (reason,) = found["choices"][0]["nearest"]["reasons"]
    assert read_coded(reason) == (f"image-fit.{code}", values)
    assert read_coded(found["problem"]) == (
        "image-fit.none",
        {"name": "app", "reasons": str(reason)},
    )


RANKS = [
    # what the better image and the worse one need, on an H100 with driver 550.54.14
    (
        {"compute_capability": {"real": ["9.0"]}},
        {"compute_capability": {"ptx": ["9.0"]}, "cuda": "12.4"},
    ),
    ({"compute_capability": {"ptx": ["9.0"]}, "cuda": "12.4"}, {"cuda": "12.4"}),
    (
        {"compute_capability": {"real": ["9.0"]}, "cuda": "12.0"},
        {"compute_capability": {"ptx": ["8.0"]}, "cuda": "12.4"},
    ),
    ({"cpu_march": "broadwell", "cuda": "11.0"}, {"cpu_march": "haswell", "cuda": "12.0"}),
    ({"cpu_march": "haswell"}, {}),
    ({"cuda": "12.4"}, {"cuda": "12.3"}),
    ({"cuda": "12.6"}, {"cuda": "12.4"}),
]


@pytest.mark.parametrize(("better", "worse"), RANKS)
def test_of_two_images_that_fit_one_is_preferred(
    better: dict[str, Any], worse: dict[str, Any]
) -> None:
    both = images(
        {"name": "a-worse", "requires": worse, "weight": 9},
        {"name": "b-better", "requires": better},
    )
    (found,) = outcome(both, host("550.54.14", H100))["choices"]
    assert found["chosen"]["name"] == "b-better", found


def test_same_major_code_comes_between_native_code_and_ptx() -> None:
    three = images(
        {"name": "ptx", "requires": {"compute_capability": {"ptx": ["8.9"]}, "cuda": "12.4"}},
        {"name": "major", "requires": {"compute_capability": {"real": ["8.0"]}}},
        {"name": "native", "requires": {"compute_capability": {"real": ["8.9"]}}},
    )
    choice = choose.choose_image(
        three, host("550.54.14", RTX), host("550.54.14", RTX).gpus, TARGETS
    )
    assert [(f.image.name, f.code) for f in choice.ranked] == [
        ("native", "native"),
        ("major", "same-major"),
        ("ptx", "ptx"),
    ]


def test_weight_then_name_decide_between_equals() -> None:
    found = outcome(
        images({"name": "b"}, {"name": "a"}, {"name": "c", "weight": 1}), host("550.54.14", A100)
    )["choices"][0]
    assert [found["chosen"]["name"], *(r["name"] for r in found["rejected"])] == ["c", "a", "b"]
    assert [r["reasons"][0].values["criterion"] for r in found["rejected"]] == [
        "its weight is less",
        "its weight is less",
    ]


COMPAT = {
    "name": "forward",
    "requires": {"cuda": "12.4", "compute_capability": {"ptx": ["8.0"]}},
    "forward_compat": [470, 535],
}
FORWARD = [
    # driver, GPU, injection, whether it fits, the code of the note or of the reason
    ("470.256.02", A100, "native-cdi", True, "image-fit.own-libcuda-by-hook"),
    ("470.256.02", A100, "legacy", True, "image-fit.own-libcuda-by-runtime"),
    ("535.104.05", A100, "native-cdi", True, "image-fit.own-libcuda-by-hook"),
    ("470.256.02", RTX, "native-cdi", False, "image-fit.no-forward"),
    ("450.80.02", A100, "native-cdi", False, "image-fit.cuda-older"),
]


@pytest.mark.parametrize(("driver", "gpu", "injection", "fits", "code"), FORWARD)
def test_forward_compatibility(
    driver: str, gpu: dict[str, Any], injection: str, fits: bool, code: str
) -> None:
    found = outcome(
        images(COMPAT), host(driver, gpu, engines=[{"engine": "e", "injection": injection}])
    )
    assert found["fits"] is fits, found
    (choice,) = found["choices"]
    assert get_codes(choice["engines"][0]["notes"] if fits else choice["nearest"]["reasons"]) == [
        code
    ]


def test_a_newer_cuda_with_its_own_libcuda_is_not_preferred() -> None:
    both = images(
        COMPAT,
        {"name": "older", "requires": {"cuda": "11.4", "compute_capability": {"ptx": ["8.0"]}}},
    )
    assert outcome(both, host("470.256.02", A100))["choices"][0]["chosen"]["name"] == "older"


REQUIRE = {"environment": {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}, "requires": {"cuda": "12.4"}}
OWN = [
    # heed_require, injection, fits, what is set
    (True, "legacy", False, {}),
    (True, "native-cdi", False, {}),
    (False, "legacy", True, {"NVIDIA_DISABLE_REQUIRE": "true"}),
    (False, "oci-hook", True, {"NVIDIA_DISABLE_REQUIRE": "true"}),
    (False, "native-cdi", True, {}),
]


@pytest.mark.parametrize(("heeded", "injection", "fits", "variables"), OWN)
def test_what_an_image_says_of_itself(
    heeded: bool, injection: str, fits: bool, variables: dict[str, str]
) -> None:
    """Driver 535 runs CUDA 12.4 by minor-version compatibility, which the image's own condition
    knows nothing of.
    """
    entry = {"name": "app", "heed_require": heeded, **REQUIRE}
    found = outcome(
        images(entry), host("535.104.05", RTX, engines=[{"engine": "e", "injection": injection}])
    )
    assert found["fits"] is fits
    assert fits or "NVIDIA_REQUIRE_CUDA=cuda>=12.4 is not met by cuda 12.2" in found["problem"]
    assert not fits or found["choices"][0]["engines"][0]["environment"] == variables


MIXED = images({"name": "for-all", "requires": {"compute_capability": {"real": ["8.0", "9.0"]}}}, {"name": "h", "requires": {
    "compute_capability": {"real": ["9.0"]}, "cpu_march": "broadwell"}})  # fmt: skip


def test_a_host_with_different_gpus_gets_one_image_for_all_or_one_for_each() -> None:
    of = host("550.54.14", A100, H100)
    (both,) = outcome(MIXED, of)["choices"]
    assert (both["chosen"]["name"], both["gpus"]) == ("for-all", ["a100", "h100"])
    values = {
        "gpu": "GPU a100 (NVIDIA A100-SXM4-80GB)",
        "code": "machine code for 9.0",
        "found": "8.0",
    }
    assert ("image-fit.other-code", values) in read_all_coded(both["rejected"][0]["reasons"])
    each = outcome(MIXED, of, "each")["choices"]
    assert [(c["gpus"], c["chosen"]["name"]) for c in each] == [
        (["a100"], "for-all"),
        (["h100"], "h"),
    ]


PINNED = [
    (
        "registry.example.org:5000/team/app:1.2",
        "sha256:" + "a" * 64,
        "registry.example.org:5000/team/app@sha256:" + "a" * 64,
    ),
    ("registry.example.org/team/app:1.2", "", "registry.example.org/team/app:1.2"),
]


@pytest.mark.parametrize(("reference", "digest", "pinned"), PINNED)
def test_an_image_with_a_digest_is_named_by_it(reference: str, digest: str, pinned: str) -> None:
    assert choose.pin_reference(Image("app", reference, digest)) == pinned


# ---------------------------------------------------------------- what holds for all catalogues and
# hosts

CUDAS = st.sampled_from(["9.0", "11.8", "12.0", "12.4", "13.0"])
CODE = st.lists(st.sampled_from(["3.7", "5.2", "8.0", "8.6", "9.0", "9.0a"]), max_size=3)
REQUIRES = st.fixed_dictionaries(
    {"cuda": CUDAS},
    optional={
        "compute_capability": st.fixed_dictionaries({"real": CODE, "ptx": CODE}).filter(
            lambda c: c["real"] or c["ptx"]
        ),
        "driver": st.sampled_from([">=390", ">=525, <580", "<550"]),
        "cpu_march": st.sampled_from(["haswell", "broadwell", "skylake_avx512"]),
        "memory": st.sampled_from(["10GB", "70GB", "100GB"]),
        "mig": st.booleans(),
        "glibc": st.sampled_from(["2.28", "2.36"]),
    },
)
ENTRY = st.fixed_dictionaries(
    {"requires": REQUIRES},
    optional={"weight": st.integers(0, 2), "forward_compat": st.just([470, 535])},
)
ENTRIES = st.lists(ENTRY, min_size=1, max_size=5).map(
    lambda found: [{"name": f"i{n}", **entry} for n, entry in enumerate(found)]
)
GPUS = st.lists(
    st.sampled_from([K80, A100, H100, RTX, {**A100, "mig": True}]), min_size=1, max_size=3
)
DRIVERS = st.sampled_from(["390.30", "470.256.02", "535.104.05", "550.54.14", "580.65.06", ""])
HOSTS = st.builds(
    lambda driver, gpus, flags: host(driver, *gpus, flags=flags, glibc="2.31"),
    DRIVERS,
    GPUS,
    st.sampled_from([HASWELL, SKYLAKE]),
)


@given(ENTRIES, HOSTS, st.randoms())
def test_the_order_of_the_catalogue_does_not_matter(
    entries: list[dict[str, Any]], of: facts.ImageHost, random: Any
) -> None:
    mixed = list(entries)
    random.shuffle(mixed)
    assert outcome(images(*entries), of) == outcome(images(*mixed), of)


@given(ENTRIES, HOSTS)
def test_each_image_is_chosen_or_has_a_reason(
    entries: list[dict[str, Any]], of: facts.ImageHost
) -> None:
    (found,) = outcome(images(*entries), of)["choices"]
    assert sorted(
        [*filter(None, [found["chosen"].get("name")]), *(r["name"] for r in found["rejected"])]
    ) == [e["name"] for e in entries]
    assert all(r["reasons"] and all(r["reasons"]) for r in found["rejected"])


@given(ENTRIES, HOSTS)
def test_what_is_chosen_has_all_that_it_needs(
    entries: list[dict[str, Any]], of: facts.ImageHost
) -> None:
    """Judged here by words of the catalogue, and not by the code that chooses."""
    name = outcome(images(*entries), of)["choices"][0]["chosen"].get("name")
    for entry in entries:
        if entry["name"] != name:
            continue
        needs = entry["requires"]
        major = int(needs["cuda"].partition(".")[0])
        runs_it = {
            "390.30": [9],
            "470.256.02": [9, 11],
            "535.104.05": [9, 11, 12],
            "550.54.14": [9, 11, 12],
            "580.65.06": [9, 11, 12, 13],
        }
        assert major in runs_it[of.driver] or int(of.driver[:3]) in entry.get("forward_compat", [])
        assert needs.get("glibc", "2.28") == "2.28"
        assert needs.get("cpu_march") in (None, *(of.cpu.names or ()))
        assert all(
            needs.get("memory", "0GB") in ("0GB", "10GB", "70GB") and gpu.memory
            for gpu in of.gpus
            if "memory" in needs
        )
        assert all(needs.get("mig") in (None, gpu.mig) for gpu in of.gpus)


@given(ENTRIES, HOSTS, st.sampled_from([K80, A100, H100, RTX]))
def test_another_gpu_never_widens_the_choice(
    entries: list[dict[str, Any]], of: facts.ImageHost, more: dict[str, Any]
) -> None:
    (another,) = host("", more).gpus
    both = [
        choose.choose_image(images(*entries), of, gpus, TARGETS).ranked
        for gpus in (of.gpus, (*of.gpus, another))
    ]
    before, after = ({fit.image.name for fit in ranked} for ranked in both)
    assert after <= before


def test_facts_of_the_file_are_read_as_those_of_a_variable() -> None:
    text = "schema: 1\nimages:\n  - name: a\n    image: registry.example.org/a:1\n"
    assert catalogue.parse_catalogue(read_yaml_file(text, "c.yml"), {}) == images(
        {"name": "a", "image": "registry.example.org/a:1"}
    )
