# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Catalogues as people write them: what is wrong is said in a sentence with file and line, before
any host is looked at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    catalogue,
    cpu,
    facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.document import (
    YamlFile,
    read_yaml_file,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.schemas import judged

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[6] / "docs/image-catalogue.schema.json").read_text()
)
TARGETS = {
    "broadwell": cpu.CpuTarget("GenuineIntel", frozenset()),
    "skylake_avx512": cpu.CpuTarget("GenuineIntel", frozenset()),
}
GOOD = """\
schema: 1
images:
  - name: trainer-cuda12
    image: registry.example.org:5000/team/trainer:1.4-cuda12.4
    digest: sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    weight: 10
    requires:
      driver: ">=525.60.13, <600"
      cuda: "12.4"
      compute_capability:
        real: ["8.0", "9.0a"]
        ptx: ["9.0"]
      cpu_arch: amd64
      cpu_level: x86-64-v3
      cpu_march: broadwell
      memory: 40GiB
      mig: false
      glibc: "2.31"
    forward_compat: [470, 535]
    environment:
      NVIDIA_REQUIRE_CUDA: cuda>=12.4
    heed_require: false
  - name: own-driver
    image: registry.example.org/team/old@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
    requires:
      exact_driver: "396.44"
"""


def test_a_catalogue_is_read_and_fits_its_schema() -> None:
    trainer, old = catalogue.parse_catalogue(read_yaml_file(GOOD, "catalogue.yml"), TARGETS)
    assert (trainer.name, trainer.weight, trainer.compat, trainer.heeded) == (
        "trainer-cuda12",
        10,
        (470, 535),
        False,
    )
    assert (trainer.requires.memory, trainer.requires.cpu_arch, trainer.requires.mig) == (
        40960,
        ("x86_64",),
        False,
    )
    assert str(trainer.requires.compute) == "machine code for 8.0, 9.0a and PTX for 9.0"
    assert (old.reference, old.digest) == ("registry.example.org/team/old", "sha256:" + "b" * 64)
    assert judged(yaml.safe_load(GOOD), SCHEMA) == []


ONE = "schema: 1\nimages:\n  - name: a\n    image: example.org/a:1\n"
NEEDS = ONE + "    requires:\n      {}\n"
BAD = [
    # the file, the line that is named, the code below image, the place of the value
    ("", 0, "not-a-dictionary", "the catalogue"),
    ("{", 1, "not-yaml", ""),
    ("a: &a [*a]\nb: 2001-99-99\n", 1, "not-yaml", ""),
    ("a: !!timestamp x\n", 1, "not-yaml", ""),
    ("a: !!bool x\n", 1, "not-yaml", ""),
    ("- a\n", 1, "not-a-dictionary", "the catalogue"),
    ("schema: 2\nimages: []\n", 1, "other-schema", "schema"),
    ("schema: 1\nimages: []\n", 2, "no-list-of-images", "images"),
    ("schema: 1\nimages: {a: b}\n", 2, "no-list-of-images", "images"),
    ("schema: 1\nimagse: []\n", 2, "unknown-field-near", "imagse"),
    ("schema: 1\nimages:\n  - image: example.org/a:1\n", 3, "no-name", "images[0]"),
    ("schema: 1\nimages:\n  - name: a\n", 3, "no-image", "images[0]"),
    ("schema: 1\nimages:\n  - just a text\n", 3, "not-a-dictionary", "images[0]"),
    (ONE + "  - name: a\n    image: example.org/b:1\n", 5, "name-twice", "images[1]"),
    (ONE + "    image: example.org/b:1\n", 5, "field-twice", "images[0].image"),
    (ONE + "    digest: sha256:abc\n", 5, "digest-form", "images[0].digest"),
    (
        ONE.replace("example.org/a:1", "example.org/a@sha256:abc"),
        4,
        "reference-form",
        "images[0].image",
    ),
    (
        ONE.replace("example.org/a:1", '"example.org/a b; rm"'),
        4,
        "reference-form",
        "images[0].image",
    ),
    (ONE.replace("name: a", "name: a/b"), 3, "name-form", "images[0].name"),
    (ONE + "    weight: heavy\n", 5, "not-a-weight", "images[0].weight"),
    (ONE + "    weight: true\n", 5, "not-a-weight", "images[0].weight"),
    (ONE + "    requires: [cuda]\n", 5, "not-a-dictionary", "images[0].requires"),
    (ONE + "    forward_compat: ['535']\n", 5, "not-driver-branches", "images[0].forward_compat"),
    (
        ONE + "    environment: {CUDA_VERSION: 12.4}\n",
        5,
        "not-a-text",
        "images[0].environment.CUDA_VERSION",
    ),
    (ONE + "    tags: '1.*'\n", 5, "tags-and-more", "images[0].tags"),
    (ONE + "    tags: '1 *'\n", 5, "tags-form", "images[0].tags"),
    (ONE + "    heed_require: sometimes\n", 5, "not-boolean", "images[0].heed_require"),
    (ONE + "    forward_compat: [535]\n", 5, "compat-without-cuda", "images[0].forward_compat"),
    (NEEDS.format("cuda: 12.10"), 6, "not-a-text", "images[0].requires.cuda"),
    (NEEDS.format('cuda: "twelve"'), 6, "not-a-version", "images[0].requires.cuda"),
    (NEEDS.format('cuda_version: "12.4"'), 6, "unknown-field", "images[0].requires.cuda_version"),
    (NEEDS.format("driver: 535"), 6, "not-a-text", "images[0].requires.driver"),
    (NEEDS.format('driver: "~>535"'), 6, "driver-range", "images[0].requires.driver"),
    (NEEDS.format('driver: ">=580, <525"'), 6, "driver-impossible", "images[0].requires.driver"),
    (NEEDS.format('driver: ">535, <=535"'), 6, "driver-impossible", "images[0].requires.driver"),
    (NEEDS.format('driver: "=535, =550"'), 6, "driver-impossible", "images[0].requires.driver"),
    (
        NEEDS.format('driver: ">=535, <=535, !=535"'),
        6,
        "driver-impossible",
        "images[0].requires.driver",
    ),
    (
        NEEDS.format("compute_capability: {}"),
        6,
        "no-compute-capability",
        "images[0].requires.compute_capability",
    ),
    (
        NEEDS.format("compute_capability: {real: [8.0]}"),
        6,
        "not-compute-capability",
        "images[0].requires.compute_capability.real[0]",
    ),
    (
        NEEDS.format('compute_capability: {real: ["80"]}'),
        6,
        "not-compute-capability",
        "images[0].requires.compute_capability.real[0]",
    ),
    (
        NEEDS.format('compute_capability: {real: ["9.0x"]}'),
        6,
        "not-compute-capability",
        "images[0].requires.compute_capability.real[0]",
    ),
    (
        NEEDS.format('compute_capability: {ptx: ["9.0"]}'),
        6,
        "ptx-without-cuda",
        "images[0].requires.compute_capability.ptx",
    ),
    (
        NEEDS.format('compute_capability: {sass: ["9.0"]}'),
        6,
        "unknown-field",
        "images[0].requires.compute_capability.sass",
    ),
    (NEEDS.format("cpu_arch: sparc"), 6, "not-an-architecture", "images[0].requires.cpu_arch"),
    (NEEDS.format("cpu_level: x86-64-v9"), 6, "unknown-level", "images[0].requires.cpu_level"),
    (
        NEEDS.format("cpu_level: x86-64-v3\n      cpu_arch: arm64"),
        6,
        "level-of-other-cpu",
        "images[0].requires.cpu_level",
    ),
    (
        NEEDS.format("cpu_march: skylake512"),
        6,
        "unknown-march-near",
        "images[0].requires.cpu_march",
    ),
    (NEEDS.format("memory: 40"), 6, "not-a-text", "images[0].requires.memory"),
    (NEEDS.format("memory: 40G"), 6, "not-a-size", "images[0].requires.memory"),
    (NEEDS.format("memory: 0GiB"), 6, "not-a-size", "images[0].requires.memory"),
    (NEEDS.format("mig: 1g.5gb"), 6, "not-boolean", "images[0].requires.mig"),
    (
        NEEDS.format('exact_driver: "396.44"\n      driver: ">=400"'),
        6,
        "exact-driver-outside",
        "images[0].requires.exact_driver",
    ),
    (
        NEEDS.format('exact_driver: "396.44"') + "    forward_compat: [390]\n",
        7,
        "own-driver-only",
        "images[0].forward_compat",
    ),
]


@pytest.mark.parametrize(("text", "line", "code", "field"), BAD)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, code: str, field: str) -> None:
    with pytest.raises(PlanError) as refused:
        catalogue.parse_catalogue(read_yaml_file(text, "catalogue.yml"), TARGETS)
    assert refused.value.code == f"image.{code}"
    assert refused.value.values.get("field", "") == field
    assert refused.value.where == "catalogue.yml"
    assert (refused.value.line or 0) == line, refused.value
    assert refused.value.next


def test_a_file_whose_values_are_without_end_is_refused() -> None:
    with pytest.raises(PlanError, match="contains itself"):
        read_yaml_file("a: &a [*a]\n", "catalogue.yml")
    text = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        text += f"{name}: &{name} [{', '.join(f'*{before}' for _time in range(10))}]\n"
    with pytest.raises(PlanError, match="more than 100000 values"):
        read_yaml_file(text, "catalogue.yml")


def test_a_value_of_a_variable_has_no_line() -> None:
    with pytest.raises(PlanError, match=r"\[image.not-a-text\]$") as refused:
        catalogue.parse_catalogue(
            YamlFile(
                {"schema": 1, "images": [{"name": "a", "image": "a", "requires": {"cuda": 12.4}}]}
            ),
            {},
        )
    assert (refused.value.where, refused.value.line) == ("catalogue", None)
    assert refused.value.values == {"field": "images[0].requires.cuda", "value": "12.4"}


FIELDS = st.sampled_from(
    [*catalogue.TOP, *catalogue.ENTRY, *catalogue.REQUIRES, *catalogue.COMPUTE, "x"]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["a", "8.0", ">=1", "40GiB", "", "x86-64-v3"])
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=20,
)


@given(ANYTHING)
def test_anything_is_read_or_refused_in_a_sentence(data: Any) -> None:
    found = [
        refusal(value)
        for value in (data, {"schema": 1, "images": data}, {"schema": 1, "images": [data]})
    ]
    assert all(error.next for error in found if error)


def refusal(data: Any) -> PlanError | None:
    try:
        catalogue.parse_catalogue(YamlFile(data), {})
    except PlanError as error:
        return error
    return None


BAD_FACTS = [
    # the facts, the code below image-facts, its place, its name
    ([], "not-a-dictionary", "facts", ""),
    ({"gpu": []}, "unknown-field", "facts", "gpu"),
    ({"driver": 550.54}, "not-a-text", "facts", "driver"),
    ({"driver": "new"}, "not-a-version", "facts", "driver"),
    ({"gpus": {}}, "not-a-list", "facts", "gpus"),
    ({"gpus": "all"}, "not-a-list", "facts", "gpus"),
    ({"gpus": ["A100"]}, "not-a-dictionary", "facts.gpus[0]", ""),
    ({"gpus": [{"device": "0x20b2x"}]}, "not-a-device", "facts.gpus[0]", ""),
    ({"gpus": [{"memory": "80"}]}, "not-a-size", "facts.gpus[0]", ""),
    ({"gpus": [{"mig": "yes"}]}, "not-boolean", "facts.gpus[0]", "mig"),
    ({"cpu": {"level": "v3"}}, "unknown-level", "facts.cpu", ""),
    ({"cpu": {"flags": "avx2"}}, "not-a-list", "facts.cpu", "flags"),
    ({"engines": [{"name": "x"}]}, "unknown-field", "facts.engines[0]", "name"),
]


@pytest.mark.parametrize(("given_", "code", "where", "name"), BAD_FACTS)
def test_facts_that_are_none_are_refused(given_: Any, code: str, where: str, name: str) -> None:
    with pytest.raises(PlanError) as refused:
        facts.parse_host_facts(given_, {})
    assert (refused.value.code, refused.value.where) == (f"image-facts.{code}", where)
    assert refused.value.values.get("name", "") == name
    assert refused.value.next
