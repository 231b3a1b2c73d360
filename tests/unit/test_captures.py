# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that were measured: our spec of each is what nvidia-ctk made there, and nothing in a
capture names the machine.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    read_spec_of_document,
)

from tests.gpu import capture, spec_facts, specs
from tests.lab import recorded

NODES = {name: node for name, node in recorded.nodes().items() if node.seen}
INTENDED = {
    "full": {spec_facts.NODE_NUMBERS, spec_facts.MEMORY_LIMITS},
    "management": {spec_facts.NODE_NUMBERS},
}
CASES = [(name, kind) for name in NODES for kind in INTENDED]


def compare(
    node: recorded.Node, kind: str, root: Path, answers: dict[str, Any] | None = None
) -> dict[str, list[tuple[str, spec_facts.Fact]]]:
    seen = Observation(node.seen["host"], answers or node.seen["answers"])
    ours = specs.plan(specs.make_policy(), seen, transport.probe_source("nvml"), *specs.KINDS[kind])
    both = [
        spec_facts.list_facts(spec, root)
        for spec in (read_spec_of_document(node.theirs[kind]), ours.spec)
    ]
    if kind == "management":
        both = [spec_facts.select_device_facts(found, "all") for found in both]
    return spec_facts.compare_facts(*both)


def test_there_are_machines() -> None:
    measured = {gpu.name for node in NODES.values() for gpu in node.inventory.gpus}
    assert measured >= {"NVIDIA H100 80GB HBM3", "NVIDIA H200"}
    assert all(node.measured and node.theirs["version"] == "1.20.2" for node in NODES.values())


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_our_spec_is_what_nvidia_ctk_made_there(name: str, kind: str, tmp_path: Path) -> None:
    found = compare(NODES[name], kind, tmp_path)
    assert found.get("", []) == []
    assert set(found) == INTENDED[kind]


HARMS = ("libcuda.so.{driver}", "gsp_ga10x.bin", "nvidia-smi", "nvidia-uvm")


@pytest.mark.parametrize("gone", HARMS)
@pytest.mark.parametrize("name", NODES)
def test_the_judge_notices_what_is_missing(name: str, gone: str, tmp_path: Path) -> None:
    gone = gone.format(driver=NODES[name].inventory.version)
    answers = copy.deepcopy(dict(NODES[name].seen["answers"]))
    for answer in answers.values():
        if isinstance(answer.get("files"), list):
            answer["files"] = [f for f in answer["files"] if not f["path"].endswith(f"/{gone}")]
    assert compare(NODES[name], "full", tmp_path, answers).get("")


# ---------------------------------------------------------------- nothing names the machine

KEPT = re.compile(
    r"GPU-0{8}-0000-0000-0000-\d{12}|0{8}-(0000-){3}[0-9a-f]{12}|(?<![0-9a-f])0x[0-9a-f]{1,16}"
)
IDENTIFYING = {
    "UUID": r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
    "MAC": r"(?<![0-9a-fA-F:])[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}(?![0-9a-fA-F:])",
    "address": r"(?<![\d.])(\d{1,3}\.){3}\d{1,3}(?![\d.])",
    "serial or PDI": r"(?<![\d.a-f])\d{9,}(?![\d.a-f])",
    "digest or machine id": r"(?<![0-9a-f])[0-9a-f]{32,}(?![0-9a-f])",
}
# Texts of the loader's cache are left out; 4294967295 is a setting of the driver's.
NUMBERS = {"4294967295"}


@pytest.mark.parametrize("file", sorted(recorded.CAPTURES.glob("*.json")), ids=lambda f: f.stem)
def test_a_capture_names_no_machine(file: Path) -> None:
    document = json.loads(file.read_text())
    (record,) = document["nodes"].values()
    record["seen"]["answers"].pop("file:/etc/ld.so.cache")
    text = KEPT.sub("", json.dumps(document))
    left = {kind: re.search(form, text) for kind, form in IDENTIFYING.items()}
    assert {k: f.group() for k, f in left.items() if f and f.group() not in NUMBERS} == {}
    assert record["seen"]["host"]["hostname"] == "host"


def test_the_loaders_cache_of_a_capture_has_paths_alone() -> None:
    for node in NODES.values():
        content = node.seen["answers"]["file:/etc/ld.so.cache"]["content"]
        words = set(re.findall(r"[\w.+/-]{4,}", content))
        odd = {w for w in words if not w.startswith("/") and ".so" not in w}
        assert not {w for w in odd if re.search(r"[0-9a-f]{8}-|\d{9}", w)}


# ---------------------------------------------------------------- captures that are refused

GOOD = json.loads(next(recorded.CAPTURES.glob("*.json")).read_text())


def harmed(*path: str, value: object) -> str:
    document = copy.deepcopy(GOOD)
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(document)


NODE = next(iter(GOOD["nodes"]))
OTHER = {"value": {"gpus": [{"bus_id": "0000:99:00.0"}]}}
BAD = {
    "another schema": (harmed("schema", value=3), "other-schema"),
    "a report": (json.dumps({"schema": 1, "checks": []}), "other-schema"),
    "a list": ("[]", "other-schema"),
    "cut short": (json.dumps(GOOD)[:-9], "truncated"),
    "empty": ("", "truncated"),
    "no node": (harmed("nodes", value={}), "no-node"),
    "two nodes": (harmed("nodes", value={"a": {}, "b": {}}), "no-node"),
    "an unknown GPU": (harmed("nodes", NODE, "seen", "answers", "probe:nvml", value=OTHER), "unknown-gpu"),
    "an unknown field": (harmed("nodes", NODE, "colour", value="green"), "record"),
    "a GPU without a bus": (harmed("nodes", NODE, "gpus", value=[{"minor": 0}]), "unknown-gpu"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_capture_is_refused(name: str, tmp_path: Path) -> None:
    text, code = BAD[name]
    file = tmp_path / "capture.json"
    file.write_text(text)
    with pytest.raises(recorded.BadRecord) as caught:
        recorded.nodes(file)
    assert caught.value.code == code
    assert str(caught.value).count("\n") == 0


def test_a_capture_that_is_cut_anywhere_is_refused() -> None:
    text = capture.render(GOOD)
    for end in range(0, len(text) - 2, 4999):
        with pytest.raises(capture.BadCapture) as caught:
            capture.read(text[:end])
        assert caught.value.code == "truncated"
