# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of the pages about GPU health and about machines run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks import bare

DOCS = Path(__file__).resolve().parents[3] / "docs"
EXAMPLE = re.compile(r"<!-- example (\w+) -->\n```yaml\n(.*?)```", re.DOTALL)


def read_examples(page: str) -> dict[str, Any]:
    """Return the examples of a page by their kind."""
    found = EXAMPLE.findall((DOCS / f"{page}.md").read_text())
    return {kind: yaml.safe_load(text) for kind, text in found}


@pytest.mark.parametrize(("page", "said"), [("gpu-health", "ok=2"), ("platform", "none: ")])
def test_a_playbook_of_a_page_runs(page: str, said: str, tmp_path: Path) -> None:
    """On an image beneath a directory, where neither NVML nor the kernel log is asked."""
    [play] = read_examples(page)["playbook"]
    host = bare.variables(tmp_path, "gpu1")
    hosts = {"all": {"children": {"gpu_hosts": {"hosts": {"gpu1": host}}}}}
    bare.written(tmp_path / "hosts.yml", yaml.safe_dump(hosts))
    root = {"root": host["gpufleet_root"]}
    image = {**root, "engine_version": host["gpufleet_engine_version"], "no_gpu": "prepare"}
    modules = {"gpufleet.nvidia.gpu_health_info": root, "gpufleet.nvidia.host_info": image}
    book = bare.written(
        tmp_path / "book.yml", yaml.safe_dump([{**play, "module_defaults": modules}])
    )
    status, words = bare.play(tmp_path, tmp_path / "hosts.yml", str(book))
    assert (status, said in words) == (0, True), words


def plan(place: Path, inventory: Mapping[str, Any]) -> str:
    """Return what the playbook plan says of the hosts of an example, which have no GPU."""
    group = inventory["gpu_hosts"]
    hosts = {
        name: {**(own or {}), **bare.variables(place, name)} for name, own in group["hosts"].items()
    }
    whole = {"all": {"children": {"gpu_hosts": {**group, "hosts": hosts}}}}
    bare.written(place / "hosts.yml", yaml.safe_dump(whole))
    return bare.play(place, place / "hosts.yml", "plan")[1]


def test_the_inventory_of_the_page_says_how_many_gpus_there_are(tmp_path: Path) -> None:
    words = plan(tmp_path, read_examples("gpu-health")["inventory"])
    assert "gpufleet_gpus says 8" in words, words
    assert "gpu-health.fewer-on-bus" in words


def test_an_accepted_finding_accepts_no_number_of_gpus(tmp_path: Path) -> None:
    words = plan(tmp_path, read_examples("gpu-health")["accepted"])
    assert "gpufleet_gpus says 7" in words, words
    assert "gpu-health.fewer-on-bus" in words
