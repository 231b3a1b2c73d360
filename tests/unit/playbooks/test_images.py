# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook `images` as a user runs it: a wrong catalogue ends it first, a host without an image
fails, files are written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.unit.playbooks import bare
from tests.unit.playbooks.bare import play, written
from tests.unit.playbooks.rollouts import DEAD

CATALOGUE: dict[str, Any] = {
    "schema": 1,
    "images": [
        {"name": "gpu", "image": "registry.example.org/app:gpu", "requires": {"cuda": "12.4"}},
        {"name": "cpu", "image": "registry.example.org/app:cpu"},
    ],
}


def inventory(place: Path, **more: Any) -> Path:
    hosts = {host: bare.variables(place, host) for host in ("gpu1", "gpu2")}
    return written(
        place / "hosts.json",
        json.dumps({"all": {"children": {"gpu_hosts": {"hosts": {**hosts, **more}}}}}),
    )


def test_each_host_gets_its_image_and_the_files_are_written(tmp_path: Path) -> None:
    written(tmp_path / "images.yml", yaml.safe_dump(CATALOGUE))
    status, words = play(tmp_path, inventory(tmp_path), "images", gpufleet_image_dir="out")
    assert status == 0, words
    assert "2 hosts, 2 with an image" in words
    found = json.loads((tmp_path / "out/images.json").read_text())
    assert found["matrix"] == {
        "cpu": {"gpu1": "chosen", "gpu2": "chosen"},
        "gpu": {"gpu1": "no", "gpu2": "no"},
    }
    nodes = list(yaml.safe_load_all((tmp_path / "out/labels.yml").read_text()))
    assert [node["metadata"]["name"] for node in nodes] == ["gpu1", "gpu2"]
    assert (tmp_path / "out/affinity.yml").exists()
    status, words = play(
        tmp_path, inventory(tmp_path), "images", "--check", gpufleet_image_dir="checked"
    )
    assert status == 0, words
    for name in ("images.json", "labels.yml", "affinity.yml"):
        assert (tmp_path / "checked" / name).read_text() == (tmp_path / "out" / name).read_text(), (
            "the same in check mode"
        )


def test_two_hosts_of_one_node_are_named_before_a_file_is_written(tmp_path: Path) -> None:
    written(tmp_path / "images.yml", yaml.safe_dump(CATALOGUE))
    status, words = play(
        tmp_path,
        inventory(tmp_path),
        "images",
        gpufleet_image_dir="out",
        gpufleet_kubernetes_node="worker-1",
    )
    assert status == 2, words
    assert "gpu1 and gpu2 would both be the node worker-1" in words
    assert "2 hosts, 2 with an image" in words
    assert not (tmp_path / "out").exists()


def test_each_cluster_has_a_file_of_labels_of_its_own(tmp_path: Path) -> None:
    """Applied to another cluster, a document would make the node. In two clusters two nodes may
    have one name.
    """
    written(tmp_path / "images.yml", yaml.safe_dump(CATALOGUE))
    hosts = {host: bare.variables(tmp_path, host) for host in ("gpu1", "gpu2", "gpu3")}
    for host, cluster in {"gpu1": "north", "gpu2": "south"}.items():
        hosts[host].update(gpufleet_cluster=cluster, gpufleet_kubernetes_node="worker-1")
    places = written(
        tmp_path / "hosts.json", json.dumps({"all": {"children": {"gpu_hosts": {"hosts": hosts}}}})
    )
    status, words = play(tmp_path, places, "images", gpufleet_image_dir="out")
    assert status == 0, words
    found = {
        path.name: [n["metadata"]["name"] for n in yaml.safe_load_all(path.read_text())]
        for path in (tmp_path / "out").glob("labels*")
    }
    assert found == {
        "labels.yml": ["gpu3"],
        "labels-north.yml": ["worker-1"],
        "labels-south.yml": ["worker-1"],
    }
    status, words = play(
        tmp_path, places, "images", gpufleet_image_dir="other", gpufleet_cluster="../north"
    )
    assert status == 2, words
    assert "gpufleet_cluster is '../north'" in words
    assert not (tmp_path / "other").exists()


def test_a_host_without_an_image_and_one_out_of_reach_are_no_success(tmp_path: Path) -> None:
    only = {**CATALOGUE, "images": CATALOGUE["images"][:1]}
    status, words = play(
        tmp_path, inventory(tmp_path, gone1=DEAD), "images", gpufleet_image_catalogue=only
    )
    assert status != 0, words
    assert "2 of 3 hosts get no image and 1 of 3 hosts could not be looked at" in words
    assert "A directory tree has no driver and no GPU" in " ".join(words.split())


def test_a_wrong_catalogue_ends_the_run_before_a_host_is_looked_at(tmp_path: Path) -> None:
    wrong = yaml.safe_dump(CATALOGUE).replace("cuda:", "cudda:")
    written(tmp_path / "images.yml", wrong)
    status, words = play(tmp_path, inventory(tmp_path), "images")
    assert status == 2, words
    assert "there is no field cudda (did you mean cuda?)" in words
    assert "TASK [Choose]" not in words
