# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`NVIDIA_REQUIRE_*` as nvidia-container-cli reads them: a table of its language, and one of the
variables that count.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    nvidia_require,
    preflight,
)
from hypothesis import given
from hypothesis import strategies as st

A100 = nvidia_require.Subject("12.2", "535.104.05", "8.0", ("Tesla",))
GEFORCE = nvidia_require.Subject("12.2", "535.104.05", "8.6", ("GeForceRTX", "GeForce"))
# What nvidia/cuda:12.4.1-base-ubuntu22.04 says of itself.
CUDA_12_4 = (
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471 brand=nvidia,driver>=470,driver<471"
    " brand=geforce,driver>=470,driver<471 brand=geforcertx,driver>=470,driver<471 brand=tesla,driver>=525,driver<526"
    " brand=geforcertx,driver>=535,driver<536 brand=geforce,driver>=535,driver<536 brand=tesla,driver>=535,driver<536"
)
EXPRESSIONS = [
    # expression, whether it is met on A100 with driver 535.104.05 (CUDA 12.2)
    ("", True),
    (" ", True),
    ("cuda>=12.2", True),
    ("cuda>=12.4", False),
    ("cuda=12.2.0", True),
    ("cuda=12", False),
    ("cuda!=12", True),
    ("cuda!12", True),
    ("cuda<=12.2", True),
    ("cuda<12.2", False),
    ("cuda<12.10", True),
    ("cuda>12", True),
    ("CUDA>=12.2", True),
    ("driver>=535.104.05", True),
    ("driver>=535.104.5", True),
    ("driver<536", True),
    ("driver<535.104", False),
    ("arch>=8.0", True),
    ("arch=8", True),
    ("arch>=8.6", False),
    ("brand=tesla", True),
    ("brand=TESLA", True),
    ("brand!=geforce", True),
    ("brand=geforce", False),
    ("cuda>=12.4 brand=tesla", True),
    ("cuda>=12.4,brand=tesla", False),
    ("cuda>=12.0,arch>=7.0,brand=tesla", True),
    (",,cuda>=12.0,,", True),
    ("cuda>=12.4  driver>=535", True),
    ("cuda>=12.4 , driver>=535", False),
    (CUDA_12_4, True),
    # numbers of 2^64 - 1 and more are an error only where both versions are read as far as that
    ("cuda>=12.1.18446744073709551616", True),
    ("cuda>=13.18446744073709551616", False),
    ("cuda!=12.2.18446744073709551616", True),
    ("cuda>=12.18446744073709551614", False),
    ("cuda>=" + "0" * 100 + "12", True),
    # what stands behind the first alternative that holds is not read
    ("cuda>=12.0 nonsense", True),
    ("cuda>=12.4,nonsense driver>=535", True),
]
INVALID = [
    "nonsense",
    "cuda",
    ">=12.4",
    "cuda>=",
    "cuda==12.4",
    "cuda=>12.4",
    "cuda>=12.4-rc1",
    "cuda>=.4",
    "cuda>=v12",
    "colour=red",
    "brand>tesla",
    "cuda>=12.4 nonsense",
    "brand=" + "x" * 140,
    "cuda>=" + "9" * 5000,
    "cuda>=18446744073709551615",
    "cuda<18446744073709551616",
    "cuda!=99999999999999999999",
    "driver>=535.18446744073709551616",
    "driver<535.104.18446744073709551615",
]


@pytest.mark.parametrize(("text", "met"), EXPRESSIONS)
def test_an_expression_is_met(text: str, met: bool) -> None:
    assert nvidia_require.evaluate_requirement(text, A100) is met


@pytest.mark.parametrize("text", INVALID)
def test_an_invalid_expression_stops_the_container(text: str) -> None:
    with pytest.raises(nvidia_require.Invalid):
        nvidia_require.evaluate_requirement(text, A100)
    assert nvidia_require.judge_requirements({"NVIDIA_REQUIRE_X": text}, [A100]).met is False


UNKNOWN = [
    # expression, what comes of it where neither driver nor GPU is known
    ("cuda>=12.4", None),
    ("cuda>=12.4 arch>=1", None),
    ("", True),
    (" , ", True),
]


@pytest.mark.parametrize(("text", "met"), UNKNOWN)
def test_what_is_not_known_is_no_answer(text: str, met: bool | None) -> None:
    assert nvidia_require.evaluate_requirement(text, nvidia_require.Subject()) is met


VARIABLES = [
    # the image's environment, the expressions that count
    ({}, {}),
    ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}, {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}),
    (
        {"NVIDIA_REQUIRE_DRIVER": "driver>=535", "PATH": "/bin"},
        {"NVIDIA_REQUIRE_DRIVER": "driver>=535"},
    ),
    ({"NVIDIA_REQUIRE_JETPACK": "csv-mounts=all", "NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS": "x"}, {}),
    ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "NVIDIA_DISABLE_REQUIRE": "1"}, {}),
    ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "NVIDIA_DISABLE_REQUIRE": "true"}, {}),
    (
        {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "NVIDIA_DISABLE_REQUIRE": "yes"},
        {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"},
    ),
    # an image from before these variables
    ({"CUDA_VERSION": "9.0.176"}, {"CUDA_VERSION": "cuda>=9.0"}),
    ({"CUDA_VERSION": "9.2"}, {"CUDA_VERSION": "cuda>=9.2"}),
    ({"CUDA_VERSION": "v8"}, {"CUDA_VERSION": "cuda>=8.0"}),
    (
        {"CUDA_VERSION": "9.0.176", "NVIDIA_REQUIRE_CUDA": "cuda>=8"},
        {"NVIDIA_REQUIRE_CUDA": "cuda>=8"},
    ),
    ({"CUDA_VERSION": ""}, {}),
]


@pytest.mark.parametrize(("environment", "counts"), VARIABLES)
def test_which_variables_count(environment: dict[str, str], counts: dict[str, str]) -> None:
    assert nvidia_require.list_requirement_variables(environment) == counts


VERDICTS = [
    # environment, GPUs that the container sees, met, a part of why
    (
        {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"},
        [A100],
        False,
        "NVIDIA_REQUIRE_CUDA=cuda>=12.4 is not met by cuda 12.2, driver 535.104.05",
    ),
    ({"NVIDIA_REQUIRE_CUDA": "cuda>=12"}, [A100, GEFORCE], True, ""),
    # what is not known of one GPU, or of one variable, is not made up for by the next
    (
        {"NVIDIA_REQUIRE_CUDA": "cuda>=12"},
        [nvidia_require.Subject(), A100],
        None,
        "NVIDIA_REQUIRE_CUDA=cuda>=12",
    ),
    (
        {"NVIDIA_REQUIRE_A": "arch>=8", "NVIDIA_REQUIRE_B": "cuda>=12"},
        [nvidia_require.Subject(cuda="12.2")],
        None,
        "NVIDIA_REQUIRE_A=arch>=8",
    ),
    ({"NVIDIA_REQUIRE_GPU": "arch>=8.6"}, [A100, GEFORCE], False, "arch 8.0"),
    (
        {"NVIDIA_REQUIRE_CUDA": "cuda>=12", "NVIDIA_REQUIRE_GPU": "brand=tesla"},
        [GEFORCE],
        False,
        "brand geforcertx or geforce",
    ),
    # which brand a GeForce RTX is depends on the driver's release
    ({"NVIDIA_REQUIRE_GPU": "brand=geforcertx"}, [GEFORCE], None, "is not known from"),
    ({"NVIDIA_REQUIRE_CUDA": CUDA_12_4}, [GEFORCE], True, ""),
    ({"CUDA_VERSION": "twelve"}, [A100], False, "CUDA_VERSION=twelve is not a version"),
    ({f"NVIDIA_REQUIRE_{n}": "" for n in range(32)}, [A100], True, ""),
    ({f"NVIDIA_REQUIRE_{n}": "" for n in range(33)}, [A100], False, "at most 32"),
    ({"NVIDIA_REQUIRE_GPU": "arch>=8.6"}, [], None, "what is known of this host"),
    # the first refusal is the answer, whatever stands behind it
    (
        {"NVIDIA_REQUIRE_A": "cuda>=12.4", "NVIDIA_REQUIRE_B": "nonsense"},
        [A100],
        False,
        "NVIDIA_REQUIRE_A=cuda>=12.4 is not met",
    ),
    (
        {"NVIDIA_REQUIRE_A": "cuda>=12", "NVIDIA_REQUIRE_B": "nonsense"},
        [A100],
        False,
        "the condition 'nonsense' is invalid",
    ),
    (
        {"NVIDIA_REQUIRE_A": "brand=geforce", "NVIDIA_REQUIRE_B": "cuda>=12.4"},
        [GEFORCE],
        False,
        "NVIDIA_REQUIRE_B=cuda>=12.4 is not met",
    ),
]


@pytest.mark.parametrize(("environment", "gpus", "met", "why"), VERDICTS)
def test_what_the_legacy_runtime_would_say(
    environment: dict[str, str],
    gpus: list[nvidia_require.Subject],
    met: bool | None,
    why: str,
) -> None:
    found = nvidia_require.judge_requirements(environment, gpus)
    assert found.met is met, found
    assert why in found.why


LONG = " ".join(["cuda>=99"] * 1800)
SHORT = [
    # the image's environment, where each is far longer than a sentence should be
    {"NVIDIA_REQUIRE_CUDA": LONG},
    {"NVIDIA_REQUIRE_CUDA": "arch>=99 " + LONG},
    {"NVIDIA_REQUIRE_CUDA": "x" * 16_000},
    {"NVIDIA_REQUIRE_CUDA": "cuda>=" + "x" * 16_000},
    {"NVIDIA_REQUIRE_CUDA": "brand>" + "x" * 16_000},
    {"NVIDIA_REQUIRE_CUDA": "brand=" + "x" * 16_000},
    {"NVIDIA_REQUIRE_" + "X" * 16_000: "cuda>=99"},
    {"CUDA_VERSION": "x" * 16_000},
    {f"NVIDIA_REQUIRE_{n}": LONG for n in range(900)},
]


@pytest.mark.parametrize("environment", SHORT)
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_what_is_shown_of_an_image_stays_short(environment: dict[str, str], known: bool) -> None:
    found = nvidia_require.judge_requirements(
        environment, [A100 if known else nvidia_require.Subject()]
    )
    assert found.met is not True
    assert 0 < len(found.why) < 500
    shown = preflight.list_bounded_expressions(environment)
    assert len(shown) <= nvidia_require.MOST
    assert all(len(name) < 200 and len(text) < 2100 for name, text in shown.items())
    assert preflight.list_bounded_expressions({"NVIDIA_REQUIRE_CUDA": CUDA_12_4}) == {
        "NVIDIA_REQUIRE_CUDA": CUDA_12_4
    }


CONDITIONS = st.sampled_from(
    [
        "cuda>=12.0",
        "cuda>=12.4",
        "arch>=8.0",
        "arch>=9.0",
        "driver<500",
        "brand=tesla",
        "brand=geforce",
    ]
)
EXPRESSION = st.lists(
    st.lists(CONDITIONS, min_size=1, max_size=3).map(",".join), min_size=1, max_size=4
).map(" ".join)
HIDDEN = st.sets(st.sampled_from(["cuda", "driver", "arch", "brands"]))


@given(EXPRESSION, HIDDEN)
def test_an_answer_without_all_facts_is_the_one_with_them(text: str, hidden: set[str]) -> None:
    """An unknown value may leave a question open, and never turns an answer round."""
    known = {
        name: getattr(A100, name)
        for name in ("cuda", "driver", "arch", "brands")
        if name not in hidden
    }
    found = nvidia_require.evaluate_requirement(text, nvidia_require.Subject(**known))
    assert found in (None, nvidia_require.evaluate_requirement(text, A100))


@given(EXPRESSION, st.randoms())
def test_the_order_of_alternatives_and_conditions_does_not_matter(
    text: str, random: object
) -> None:
    alternatives = [alternative.split(",") for alternative in text.split(" ")]
    for alternative in alternatives:
        random.shuffle(alternative)  # type: ignore[attr-defined]
    random.shuffle(alternatives)  # type: ignore[attr-defined]
    assert nvidia_require.evaluate_requirement(
        " ".join(map(",".join, alternatives)), A100
    ) is nvidia_require.evaluate_requirement(text, A100)
