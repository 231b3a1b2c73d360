# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A measurement becomes a capture and a report."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    discover,
    ld_cache,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files.ld_cache import (
    Entry,
)

from tests.gpu import (
    capture,
    nvml_sources,
    report,
    specs,
)
from tests.lab import recorded
from tests.unit import gpu_tool


def test_a_measurement_becomes_a_capture_that_is_read() -> None:
    gpu = gpu_tool.NODE.inventory.gpus[0]
    more = {"pci_id": gpu.pci_id, "mib": gpu.mib, "addressing": 1,
            "fabric": {"state": 3, "status": 0, "clique": 2, "health": 8, "cluster": True}}  # fmt: skip
    own = nvml_sources.normalise(gpu_tool.NODE.seen["answers"]["probe:nvml"]["value"])
    found = {"own": own, "more": {"cuda": 13000, "gpus": [more], "refused": {}}, "specs": {}}
    document = capture.build(found, gpu_tool.NODE.seen, "make gpu of gpufleet.nvidia 1")
    ((name, record),) = capture.read(capture.render(document))["nodes"].items()
    made = recorded.read_node(name, record).inventory
    assert (made.version, made.open, made.cuda) == ("580.159.04", True, 13000)
    assert (made.gpus[0].bus, made.gpus[0].name) == (gpu.bus, gpu.name)
    assert made.gpus[0].addressing == 1
    assert made.gpus[0].fabric is not None
    assert (made.gpus[0].fabric.state, made.gpus[0].fabric.health) == (3, 8)


CACHE = (
    Entry("libcuda.so.1", "/opt/nv/lib64/libcuda.so.1", "x86_64"),
    Entry("libours.so.1", "/srv/private/libours.so.1", "x86_64"),
)


def test_a_capture_has_nothing_of_an_image_or_an_account() -> None:
    """An image may have any key in its os-release, and an account may be called by any word."""
    host = {**gpu_tool.NODE.seen["host"], "os_release": {"ID": "debian", "IMAGE_ID": "acme-42"}}
    gpu = {"bus": "0000:17:00.0", "minor": 0, "name": "NVIDIA L4", "mig": None, "places": []}
    own = {"driver": "580.159.04", "gpus": [gpu]}
    more = {"cuda": 13000, "gpus": [{"pci_id": "0x27b8", "mib": 1}], "refused": {}}
    found = {"own": own, "more": more}
    node = {"path": "/dev/nvidia0", "owner": "root", "uid": 0, "group": "mark", "gid": 1000}
    file = {"path": "/srv/libcuda.so.1", "untrusted": "/srv belongs to user mark", "trusted": ""}
    answers = {"glob:/dev/nvidia*": {"files": [node]}, "paths:driver files": {"files": [file]}}
    document = capture.build(found, {"host": host, "answers": answers}, "make gpu of a test")
    (record,) = document["nodes"].values()
    assert record["seen"]["host"]["os_release"] == {"ID": "debian"}
    assert record["seen"]["answers"] == {
        "glob:/dev/nvidia*": {"files": [{**node, "group": "account"}]},
        "paths:driver files": {"files": [{**file, "untrusted": capture.DOUBT}]},
    }


def test_a_capture_has_nothing_of_other_libraries() -> None:
    key = f"file:{ld_cache.PATH}"
    text = specs.render_loader_cache(CACHE).decode("utf-8", "surrogateescape")
    kept = specs.narrow_loader_cache({key: {"content": text, "size": len(text)}, "a": 1})
    content = kept[key]["content"]
    assert ld_cache.parse_ld_cache(content.encode("utf-8", "surrogateescape")) == CACHE[:1]
    folders = [
        discover.list_folders_elsewhere(discover.read_loader_cache(t)) for t in (content, text)
    ]
    assert folders == [["/opt/nv/lib64"]] * 2
    assert (kept[key]["size"], kept["a"]) == (len(content), 1)
    assert ld_cache.parse_ld_cache(specs.render_loader_cache(CACHE)) == CACHE


@pytest.mark.parametrize("content", ["", "rubbish"])
def test_a_cache_that_is_none_has_no_library(content: str) -> None:
    kept = specs.narrow_loader_cache({f"file:{ld_cache.PATH}": {"content": content}})
    assert discover.read_loader_cache(kept[f"file:{ld_cache.PATH}"]["content"]) == ()
    assert "rubbish" not in kept[f"file:{ld_cache.PATH}"]["content"]


@pytest.mark.parametrize("lacks", ["own", "more", "seen"])
def test_a_measurement_that_failed_makes_no_capture(lacks: str) -> None:
    own = nvml_sources.normalise(gpu_tool.NODE.seen["answers"]["probe:nvml"]["value"])
    found = {"own": own, "more": {"gpus": [{}]}}
    found.pop(lacks, None)
    with pytest.raises(capture.BadCapture) as caught:
        capture.build(found, {} if lacks == "seen" else gpu_tool.NODE.seen, "make gpu of a 1")
    assert caught.value.code == "no-capture"


OUTCOMES = [
    ([("same", "")], 0),
    ([("same", ""), ("skipped", "")], 0),
    ([("differs", ""), ("same", "")], 1),
    ([("differs", ""), ("failed", "nvml")], 6),
    ([("failed", "timeout"), ("differs", "")], 5),
    ([("failed", "timeout"), ("failed", "not-put-back")], 8),
    ([("failed", "interrupted")], 9),
]


@pytest.mark.parametrize(("checks", "status"), OUTCOMES)
def test_the_exit_status_is_that_of_the_worst(checks: list[tuple[str, str]], status: int) -> None:
    one = report.Report("gpufleet.nvidia 1")
    for result, code in checks:
        one.add("a", result, "A.", 0, code)
    assert report.STATUSES[one.get_outcome()] == status
    assert report.check_shape(one.build({}, {})) == []
    assert one.render({"driver": "1"}).count("\n") == len(checks) + 2


def test_a_report_of_another_form_is_told() -> None:
    assert report.check_shape({"schema": "1", "checks": [{}]})
