# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Catalogues as people write them: what is wrong is said in a sentence with file and line, before any host is looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.images import catalogue, cpu, facts
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.images.document import Document, read
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.schemas import judged

SCHEMA = json.loads((Path(__file__).resolve().parents[5] / "docs/image-catalogue.schema.json").read_text())
TARGETS = {"broadwell": cpu.Target("GenuineIntel", frozenset()), "skylake_avx512": cpu.Target("GenuineIntel", frozenset())}
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
    trainer, old = catalogue.parsed(read(GOOD, "catalogue.yml"), TARGETS)
    assert (trainer.name, trainer.weight, trainer.compat, trainer.heeded) == ("trainer-cuda12", 10, (470, 535), False)
    assert (trainer.requires.memory, trainer.requires.cpu_arch, trainer.requires.mig) == (40960, ("x86_64",), False)
    assert str(trainer.requires.compute) == "machine code for 8.0, 9.0a and PTX for 9.0"
    assert (old.reference, old.digest) == ("registry.example.org/team/old", "sha256:" + "b" * 64)
    assert judged(yaml.safe_load(GOOD), SCHEMA) == []


ONE = "schema: 1\nimages:\n  - name: a\n    image: example.org/a:1\n"
NEEDS = ONE + "    requires:\n      {}\n"
BAD = [
    # the file, the line that is named, a part of the sentence
    ("", 0, "this is no dictionary"),
    ("{", 1, "this file is no YAML"),
    ("a: &a [*a]\nb: 2001-99-99\n", 1, "this file is no YAML"),
    ("a: !!timestamp x\n", 1, "this file is no YAML"),
    ("a: !!bool x\n", 1, "this file is no YAML"),
    ("- a\n", 1, "this is no dictionary"),
    ("schema: 2\nimages: []\n", 1, "this release reads schema 1"),
    ("schema: 1\nimages: []\n", 2, "this is no list of images"),
    ("schema: 1\nimages: {a: b}\n", 2, "this is no list of images"),
    ("schema: 1\nimagse: []\n", 2, "there is no field imagse (did you mean images?)"),
    ("schema: 1\nimages:\n  - image: example.org/a:1\n", 3, "it has no name"),
    ("schema: 1\nimages:\n  - name: a\n", 3, "it has no image"),
    ("schema: 1\nimages:\n  - just a text\n", 3, "this is no dictionary"),
    (ONE + "  - name: a\n    image: example.org/b:1\n", 5, "the name a stands twice"),
    (ONE + "    image: example.org/b:1\n", 5, "images[0].image stands twice"),
    (ONE + "    digest: sha256:abc\n", 5, "'sha256:abc' is not allowed there"),
    (ONE.replace("example.org/a:1", "example.org/a@sha256:abc"), 4, "is not allowed there"),
    (ONE.replace("example.org/a:1", '"example.org/a b; rm"'), 4, "is not allowed there"),
    (ONE.replace("name: a", "name: a/b"), 3, "is not allowed there"),
    (ONE + "    weight: heavy\n", 5, "'heavy' is no weight"),
    (ONE + "    weight: true\n", 5, "True is no weight"),
    (ONE + "    requires: [cuda]\n", 5, "this is no dictionary"),
    (ONE + "    forward_compat: ['535']\n", 5, "are no driver branches"),
    (ONE + "    environment: {CUDA_VERSION: 12.4}\n", 5, "12.4 is a number and no text"),
    (ONE + "    tags: '1.*'\n", 5, "the image has a tag, a digest or a file of its own as well"),
    (ONE + "    tags: '1 *'\n", 5, "'1 *' is not allowed there"),
    (ONE + "    heed_require: sometimes\n", 5, "neither true nor false"),
    (ONE + "    forward_compat: [535]\n", 5, "which CUDA its libcuda is for is not said"),
    (NEEDS.format("cuda: 12.10"), 6, "12.1 is a number and no text. Write it in quotes"),
    (NEEDS.format('cuda: "twelve"'), 6, "'twelve' is no version"),
    (NEEDS.format('cuda_version: "12.4"'), 6, "there is no field cuda_version"),
    (NEEDS.format("driver: 535"), 6, "535 is a number and no text"),
    (NEEDS.format('driver: "~>535"'), 6, "'~>535' is no range of versions"),
    (NEEDS.format('driver: ">=580, <525"'), 6, "no version is >=580, <525"),
    (NEEDS.format('driver: ">535, <=535"'), 6, "no version is >535, <=535"),
    (NEEDS.format('driver: "=535, =550"'), 6, "no version is =535, =550"),
    (NEEDS.format('driver: ">=535, <=535, !=535"'), 6, "no version is"),
    (NEEDS.format("compute_capability: {}"), 6, "it names no GPU"),
    (NEEDS.format("compute_capability: {real: [8.0]}"), 6, "8.0 is no compute capability"),
    (NEEDS.format('compute_capability: {real: ["80"]}'), 6, "'80' is no compute capability"),
    (NEEDS.format('compute_capability: {real: ["9.0x"]}'), 6, "'9.0x' is no compute capability"),
    (NEEDS.format('compute_capability: {ptx: ["9.0"]}'), 6, "only a driver that brings the CUDA of the PTX compiles it"),
    (NEEDS.format('compute_capability: {sass: ["9.0"]}'), 6, "there is no field sass"),
    (NEEDS.format("cpu_arch: sparc"), 6, "'sparc' is no architecture"),
    (NEEDS.format("cpu_level: x86-64-v9"), 6, "there is no level 'x86-64-v9'"),
    (NEEDS.format("cpu_level: x86-64-v3\n      cpu_arch: arm64"), 6, "x86-64-v3 is a level of x86_64, and cpu_arch is aarch64"),
    (NEEDS.format("cpu_march: skylake512"), 6, "archspec knows no skylake512 (did you mean skylake_avx512?)"),
    (NEEDS.format("memory: 40"), 6, "40 is a number and no text"),
    (NEEDS.format("memory: 40G"), 6, "'40G' is no size"),
    (NEEDS.format("memory: 0GiB"), 6, "'0GiB' is no size"),
    (NEEDS.format("mig: 1g.5gb"), 6, "neither true nor false"),
    (NEEDS.format('exact_driver: "396.44"\n      driver: ">=400"'), 6, "396.44 is not within requires.driver"),
    (NEEDS.format('exact_driver: "396.44"') + "    forward_compat: [390]\n", 7, "uses its own driver only"),
]


@pytest.mark.parametrize(("text", "line", "said"), BAD)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        catalogue.parsed(read(text, "catalogue.yml"), TARGETS)
    assert said in str(refused.value)
    assert refused.value.where == "catalogue.yml"
    assert (refused.value.line or 0) == line, refused.value
    assert refused.value.next


def test_a_file_whose_values_are_without_end_is_refused() -> None:
    with pytest.raises(PlanError, match="contains itself"):
        read("a: &a [*a]\n", "catalogue.yml")
    text = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        text += f"{name}: &{name} [{', '.join(f'*{before}' for _time in range(10))}]\n"
    with pytest.raises(PlanError, match="more than 100000 values"):
        read(text, "catalogue.yml")


def test_a_value_of_a_variable_has_no_line() -> None:
    with pytest.raises(PlanError, match=r"^catalogue: images\[0\]\.requires\.cuda: 12\.4 is a number"):
        catalogue.parsed(Document({"schema": 1, "images": [{"name": "a", "image": "a", "requires": {"cuda": 12.4}}]}), {})


FIELDS = st.sampled_from([*catalogue.TOP, *catalogue.ENTRY, *catalogue.REQUIRES, *catalogue.COMPUTE, "x"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a", "8.0", ">=1", "40GiB", "", "x86-64-v3"])
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=20)


@given(ANYTHING)
def test_anything_is_read_or_refused_in_a_sentence(data: Any) -> None:
    found = [refusal(value) for value in (data, {"schema": 1, "images": data}, {"schema": 1, "images": [data]})]
    assert all(error.next for error in found if error)


def refusal(data: Any) -> PlanError | None:
    try:
        catalogue.parsed(Document(data), {})
    except PlanError as error:
        return error
    return None


BAD_FACTS = [
    ([], "facts: this is no dictionary"),
    ({"gpu": []}, "facts: there is no field gpu"),
    ({"driver": 550.54}, "facts: driver is 550.54, which is no text"),
    ({"driver": "new"}, "facts: driver is 'new', which is no version"),
    ({"gpus": {}}, "facts: gpus is no list"),
    ({"gpus": "all"}, "facts: gpus is no list"),
    ({"gpus": ["A100"]}, "facts.gpus[0]: this is no dictionary"),
    ({"gpus": [{"device": "0x20b2x"}]}, "facts.gpus[0]: device is '0x20b2x', which is no PCI device id"),
    ({"gpus": [{"memory": "80"}]}, "facts.gpus[0]: memory is '80'"),
    ({"gpus": [{"mig": "yes"}]}, "facts.gpus[0]: mig is 'yes'"),
    ({"cpu": {"level": "v3"}}, "facts.cpu: level is 'v3'"),
    ({"cpu": {"flags": "avx2"}}, "facts.cpu: flags is no list"),
    ({"engines": [{"name": "x"}]}, "facts.engines[0]: there is no field name"),
]


@pytest.mark.parametrize(("given_", "said"), BAD_FACTS)
def test_facts_that_are_none_are_refused(given_: Any, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        facts.parsed(given_, {})
    assert said in str(refused.value)
    assert refused.value.next
