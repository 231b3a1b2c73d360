# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What images say of themselves, as tools print it, and what follows for a host: from tables of
real outputs, cut to what is read.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    facts,
    inspected,
    preflight,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.inspected import (
    Inspected,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.requires import (
    Image,
    Requires,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import obs
from tests.unit.coded import Coded, read_coded

DIGEST = "sha256:" + "a" * 64
ENV = [
    "PATH=/bin",
    "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470,driver<471",
    "CUDA_VERSION=12.4.1",
]
VARIABLES = (
    ("CUDA_VERSION", "12.4.1"),
    ("NVIDIA_REQUIRE_CUDA", "cuda>=12.4 brand=tesla,driver>=470,driver<471"),
    ("PATH", "/bin"),
)
OUTPUTS = [
    # a tool, what it prints, what the image says
    (
        "skopeo inspect",
        {
            "Name": "registry.example.org/app",
            "Digest": DIGEST,
            "Architecture": "amd64",
            "Os": "linux",
            "Env": ENV,
        },
        Inspected(VARIABLES, DIGEST, ("x86_64",)),
    ),
    (
        "skopeo inspect --config",
        {"architecture": "arm64", "os": "linux", "config": {"Env": ENV}},
        Inspected(VARIABLES, "", ("aarch64",)),
    ),
    (
        "docker image inspect",
        [
            {
                "Id": DIGEST,
                "RepoTags": ["app:1"],
                "Architecture": "amd64",
                "Variant": "v3",
                "Config": {"Env": ENV},
            }
        ],
        Inspected(VARIABLES, "", ("x86_64",), "x86-64-v3"),
    ),
    (
        "an image without variables",
        {"architecture": "amd64", "config": {}},
        Inspected((), "", ("x86_64",)),
    ),
    (
        "an architecture that is not known",
        {"architecture": "s390x", "config": {"Env": []}},
        Inspected(),
    ),
]


@pytest.mark.parametrize(("tool", "output", "said"), OUTPUTS)
def test_an_image_says(tool: str, output: Any, said: Inspected) -> None:
    assert inspected.read_inspected(output) == said, tool


OTHERS = [
    (None, "no-single-image"),
    ([], "no-single-image"),
    ([{}, {}], "no-single-image"),
    ({"schemaVersion": 2, "layers": []}, "no-configuration"),
    ({"Env": "PATH=/bin"}, "environment-shape"),
    ({"Env": [1]}, "environment-shape"),
    ({"Env": ["X=" + "x" * 20000]}, "environment-values"),
    ({"config": {"Env": {"A": 1}}}, "environment-values"),
]


@pytest.mark.parametrize(("output", "code"), OTHERS)
def test_what_describes_no_image_is_said(output: Any, code: str) -> None:
    with pytest.raises(inspected.UnreadableImage) as caught:
        inspected.read_inspected(output)
    assert get_code(read_error_message(caught.value)) == f"image-description.{code}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["config", "Config", "Env", "architecture", "Architecture", "Digest"]),
            inner,
            max_size=4,
        )
    ),
)


@given(JSON)
def test_anything_is_read_or_refused(data: Any) -> None:
    try:
        found = inspected.read_inspected(data)
    except inspected.UnreadableImage:
        return
    assert all(isinstance(text, str) for pair in found.environment for text in pair)


PLATFORMS = [
    # platforms of an index, architectures, level
    ([("amd64", ""), ("arm64", "v8")], ("x86_64", "aarch64"), ""),
    ([("amd64", "v3")], ("x86_64",), "x86-64-v3"),
    ([("amd64", "v2"), ("amd64", "v4")], ("x86_64",), "x86-64-v2"),
    ([("amd64", ""), ("amd64", "v3")], ("x86_64",), ""),
    ([("amd64", "v1")], ("x86_64",), ""),
    ([("amd64", "v99")], ("x86_64",), ""),
    ([("unknown", "")], (), ""),
]


@pytest.mark.parametrize(("found", "architectures", "level"), PLATFORMS)
def test_the_platforms_of_an_image(
    found: list[tuple[str, str]], architectures: tuple[str, ...], level: str
) -> None:
    assert inspected.list_image_platforms(found) == (architectures, level)


def test_a_catalogue_is_completed_and_counts_before_the_image() -> None:
    said = Inspected(VARIABLES, DIGEST, ("x86_64",), "x86-64-v3")
    plain = inspected.complete_image(Image("a", "example.org/a:1"), said)
    assert (plain.digest, plain.environment, plain.requires) == (
        DIGEST, VARIABLES, Requires(cuda=(12, 4), cpu_arch=("x86_64",), cpu_level="x86-64-v3")
    )  # fmt: skip
    own = Image(
        "a", "example.org/a:1", "sha256:" + "b" * 64, environment=(("CUDA_VERSION", "11.8"),)
    )
    wanted = Requires(cuda=(11, 8), cpu_arch=("aarch64",), cpu_march="neoverse_n1")
    kept = inspected.complete_image(
        Image(own.name, own.reference, own.digest, 0, wanted, (), own.environment), said
    )
    assert (kept.digest, kept.requires) == (own.digest, wanted)
    assert dict(kept.environment)["CUDA_VERSION"] == "11.8"


A100 = facts.parse_host_facts(
    {"driver": "535.104.05", "gpus": [{"model": "Tesla V100-SXM2-16GB", "device": "0x1db1"}]}, {}
)
UNMET = (
    "image-requirement.unmet",
    {
        "shown": ENV[1],
        "subject": "cuda 12.2, driver 535.104.05, arch 7.0, brand tesla",
    },
)
VERDICTS = [
    # environment, injections of the host, met, enforced, the reason
    (["NVIDIA_REQUIRE_CUDA=cuda>=12.2"], ["native-cdi"], True, False, None),
    (ENV, ["native-cdi"], False, False, UNMET),
    (ENV, ["native-cdi", "legacy"], False, True, UNMET),
    (
        ["CUDA_VERSION=twelve"],
        [],
        False,
        False,
        ("image-requirement.version", {"shown": "CUDA_VERSION=twelve"}),
    ),
    ([*ENV, "NVIDIA_DISABLE_REQUIRE=1"], ["legacy"], True, True, None),
]


@pytest.mark.parametrize(("env", "injections", "met", "enforced", "reason"), VERDICTS)
def test_what_the_legacy_runtime_would_refuse(
    env: list[str], injections: list[str], met: bool, enforced: bool, reason: Coded | None
) -> None:
    decision = {"decisions": [{"injection": injection} for injection in injections]}
    found = preflight.judge_image_requirements(
        Inspected(inspected.parse_image_environment(env)), A100, decision
    )
    assert (found["met"], found["enforced"]) == (met, enforced)
    if not met:
        code, values = read_coded(preflight.explain_preflight_refusal(found))
        assert code == ("image-fit.not-started" if enforced else "image-fit.fails-later")
        assert values["reason"] == reason


OFF = [
    # what the host's config.toml says, the injections, met, enforced
    ("disable-require = true\n", ["legacy"], True, False),
    ("disable-require = true\n", ["native-cdi"], False, False),
    ("disable-require = false\n", ["legacy"], False, True),
    ("#disable-require = true\n", ["legacy"], False, True),
    ("disable-require = 1\n", ["legacy"], False, True),
    (None, ["legacy"], False, True),
]


@pytest.mark.parametrize(("text", "injections", "met", "enforced"), OFF)
def test_the_owner_of_a_host_may_switch_requirements_off(
    text: str | None, injections: list[str], met: bool, enforced: bool
) -> None:
    off = preflight.is_switched_off(obs(files={toolkit_config.PATH: text}))
    decision = {"decisions": [{"injection": injection} for injection in injections]}
    found = preflight.judge_image_requirements(
        Inspected(inspected.parse_image_environment(ENV)), A100, decision, off=off
    )
    assert (found["met"], found["enforced"]) == (met, enforced)


def test_a_file_that_is_no_toml_switches_nothing_off() -> None:
    broken = {"exists": True, "type": "file", "fault": {"code": "toml-value", "line": 1}}
    assert not preflight.is_switched_off(obs(answers={f"file:{toolkit_config.PATH}": broken}))


def test_on_a_host_without_a_known_driver_nothing_is_refused() -> None:
    assert (
        preflight.judge_image_requirements(
            Inspected(inspected.parse_image_environment(ENV)), facts.ImageHost(), {}
        )["met"]
        is None
    )
