# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet's images: the table, the matrix, the labels; and the page about it, whose examples are
read from it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import image_table
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    catalogue,
    choose,
    facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.document import (
    read_yaml_file,
)

from tests.unit.coded import read_coded

PAGE = (Path(__file__).resolve().parents[5] / "docs/images.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
CATALOGUE = next(block for block in BLOCKS if block.startswith("schema: 1"))
FACTS = yaml.safe_load(next(block for block in BLOCKS if block.startswith("driver:")))
IMAGES = catalogue.parse_catalogue(read_yaml_file(CATALOGUE, "docs/images.md"), {})
TARGETS: dict[str, Any] = {}


def gpus(number: int, model: str, device: str) -> list[dict[str, Any]]:
    return [{"name": str(n), "model": model, "device": device} for n in range(number)]


HOSTS: dict[str, dict[str, Any]] = {
    "volta1": {
        "driver": "470.256.02",
        "gpus": gpus(4, "Tesla V100-SXM2-16GB", "0x1db1"),
        "cpu": {"level": "x86-64-v2"},
    },
    "ampere1": {
        "driver": "550.54.14",
        "gpus": gpus(8, "NVIDIA A100-SXM4-80GB", "0x20b2"),
        "cpu": {"level": "x86-64-v3"},
    },
    "kepler1": {
        "driver": "390.30",
        "gpus": gpus(2, "Tesla K80", "0x102d"),
        "cpu": {"level": "x86-64-v3"},
    },
}


def result(given: dict[str, Any]) -> dict[str, Any]:
    host = facts.parse_host_facts(given, TARGETS)
    return {
        "changed": False,
        "facts": facts.give_host_facts(host),
        **choose.report_choices(IMAGES, host, "all", TARGETS),
    }


RESULTS = {host: result(given) for host, given in HOSTS.items()}
LOST = {"unreachable": True, "msg": "Connection timed out"}


def test_the_table_on_the_page_is_that_of_its_catalogue() -> None:
    (shown,) = re.findall(r"```text\n(HOST .*?)```", PAGE, re.DOTALL)
    assert shown.splitlines() == image_table.list_image_lines(RESULTS, 120)


def test_the_facts_on_the_page_are_facts() -> None:
    assert result(FACTS)["choices"][0]["chosen"]["name"] == "trainer-cuda12"


def test_all_that_a_catalogue_may_say_is_on_the_page() -> None:
    named = set(re.findall(r"`(\w+)(?:: [\w.]+)?`", PAGE))
    assert (
        sorted(
            {*catalogue.REQUIRES, *catalogue.COMPUTE, *catalogue.ENTRY} - named - {"name", "image"}
        )
        == []
    )


def test_a_host_that_could_not_be_looked_at_is_no_success() -> None:
    lines = image_table.list_image_lines({**RESULTS, "gone1": LOST}, 120)
    assert [line.split()[0] for line in lines if line.startswith(("gone", "kepler", "volta"))] == [
        "gone1",
        "kepler1",
        "volta1",
    ]
    assert lines[-1] == "4 hosts, 2 with an image, 1 without an image, 1 not looked at"
    coded = read_coded(image_table.explain_image_failure({**RESULTS, "gone1": LOST}))
    assert coded == (
        "image-fit.hosts-without-image-and-not-seen",
        {"number": 1, "all": 4, "unseen": 1},
    )
    seen = {"ampere1": RESULTS["ampere1"], "gone1": LOST}
    assert read_coded(image_table.explain_image_failure(seen)) == (
        "image-fit.hosts-not-seen",
        {"number": 1, "all": 2},
    )
    assert image_table.explain_image_failure({"ampere1": RESULTS["ampere1"]}) == ""


def test_a_host_that_is_known_to_have_no_gpu_misses_no_image() -> None:
    """It may run no image of the catalogue. A host with a broken driver may have a GPU, so the run
    fails.
    """
    bare = result({"cpu": {"level": "x86-64-v3"}})
    assert bare["problem"]
    assert (
        image_table.explain_image_failure(
            {"ampere1": RESULTS["ampere1"], "web1": {**bare, "without_gpu": True}}
        )
        == ""
    )
    assert (
        image_table.list_image_lines({"web1": {**bare, "without_gpu": True}}, 120)[-1]
        == "1 host, 1 without a GPU"
    )
    coded = read_coded(
        image_table.explain_image_failure({"broken1": {**bare, "without_gpu": False}})
    )
    assert coded == ("image-fit.hosts-without-image", {"number": 1, "all": 1})


def test_the_matrix_has_every_image_on_every_host() -> None:
    found = image_table.build_image_matrix(RESULTS)
    assert found["trainer-cuda12"] == {"ampere1": "chosen", "kepler1": "no", "volta1": "no"}
    assert found["trainer-cuda11"] == {"ampere1": "fits", "kepler1": "no", "volta1": "chosen"}
    assert set(found["trainer-own-driver"].values()) == {"no"}


COVERS = [
    # image -> hosts that it runs on; the images that serve all of them
    ({"a": "12", "b": "23", "c": "123"}, ["c"]),
    ({"a": "12", "b": "3"}, ["a", "b"]),
    ({"a": "1", "b": "1"}, ["a"]),
    ({"a": ""}, []),
    ({}, []),
]


@pytest.mark.parametrize(("runs", "cover"), COVERS)
def test_few_images_serve_all_hosts(runs: dict[str, str], cover: list[str]) -> None:
    results = {
        host: {
            "choices": [
                {
                    "chosen": {},
                    "rejected": [
                        {"name": name, "fits": host in hosts} for name, hosts in runs.items()
                    ],
                }
            ]
        }
        for host in "1234"
    }
    assert image_table.list_covering_images(results) == cover


def test_labels_and_affinity_agree() -> None:
    nodes = {"volta1": "worker-1", "ampere1": "worker-2", "kepler1": "worker-3"}
    labelled = {
        node["metadata"]["name"]: node["metadata"]["labels"]
        for node in yaml.safe_load_all(image_table.render_image_labels(RESULTS, nodes))
    }
    assert labelled == {
        "worker-1": {"images.gpufleet.nvidia/trainer-cuda11": "chosen"},
        "worker-2": {
            "images.gpufleet.nvidia/trainer-cuda12": "chosen",
            "images.gpufleet.nvidia/trainer-cuda11": "fits",
        },
        "worker-3": {},
    }
    asked = {
        entry["image"]: entry["nodeAffinity"]
        for entry in yaml.safe_load_all(image_table.render_image_affinity(RESULTS))
    }
    wanted = asked["trainer-cuda11"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ][0]["matchExpressions"]
    assert wanted == [
        {
            "key": "images.gpufleet.nvidia/trainer-cuda11",
            "operator": "In",
            "values": ["chosen", "fits"],
        }
    ]


NODES = [
    # engines of a host, and whether it may be a node
    ([], True),
    (["containerd"], True),
    (["crio"], True),
    (["docker", "containerd"], True),
    (["docker"], False),
    (["podman", "docker"], False),
]


@pytest.mark.parametrize(("engines", "may"), NODES)
def test_a_host_of_docker_or_podman_alone_is_no_node(engines: list[str], may: bool) -> None:
    assert (
        image_table.may_be_node({"facts": {"engines": [{"engine": name} for name in engines]}})
        is may
    )
    assert image_table.may_be_node({"unreachable": True})


def test_a_host_that_is_no_node_has_no_document() -> None:
    """Applied, it would make the node."""
    found = list(
        yaml.safe_load_all(
            image_table.render_image_labels(RESULTS, {"volta1": "worker-1", "kepler1": "worker-3"})
        )
    )
    assert {node["metadata"]["name"] for node in found} == {"worker-1", "worker-3"}


def test_two_hosts_are_no_one_node() -> None:
    """A host without a choice has no labels, and so no node."""
    nodes = {"volta1": "worker-1", "ampere1": "worker-2", "kepler1": "worker-1"}
    with pytest.raises(PlanError, match=r"\[image.node-of-two-hosts\]$") as refused:
        image_table.render_image_labels(RESULTS, nodes)
    assert refused.value.values == {"first": "kepler1", "second": "volta1", "node": "worker-1"}
    assert "gpufleet_kubernetes_node" in (refused.value.next or "")
    assert "worker-1" in image_table.render_image_labels({**RESULTS, "kepler1": LOST}, nodes)


def test_a_name_may_be_as_long_as_a_label() -> None:
    longest = "a" * 63
    assert catalogue.NAME.fullmatch(longest)
    assert not catalogue.NAME.fullmatch(longest + "a")


def test_the_document_has_all_of_it() -> None:
    found = image_table.build_images_document({**RESULTS, "gone1": LOST})
    assert list(found["hosts"]) == ["ampere1", "gone1", "kepler1", "volta1"]
    assert found["totals"] == {
        "hosts": 4,
        "with_an_image": 2,
        "without_an_image": 1,
        "without_a_gpu": 0,
        "not_looked_at": 1,
    }
    assert found["cover"] == ["trainer-cuda11"]
