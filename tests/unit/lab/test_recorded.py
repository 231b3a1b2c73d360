# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of foreign nodes: read strictly, and shown by the fake's NVML as they were recorded."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab import recorded
from tests.lab.fakegpu import inventories
from tests.unit import recorded_hosts

GIVEN: dict[str, Any] = yaml.safe_load(recorded.FILE.read_text())
NODES = recorded.nodes()
FULL = "vrnvl72"


def test_domains_orders_and_architectures_that_no_other_host_here_has() -> None:
    domains = {
        name: [gpu.bus.partition(":")[0] for gpu in node.inventory.gpus]
        for name, node in NODES.items()
    }
    assert domains["gb300"] == ["0008", "0009", "0018", "0019"]
    assert domains[FULL] == ["0002", "0002", "000a", "000a"]
    assert [gpu.minor for gpu in NODES[FULL].inventory.gpus] == [0, 3, 1, 2]
    assert {name for name, node in NODES.items() if node.inventory.cpu == "aarch64"} >= {
        "gb200",
        "gb300",
        FULL,
    }
    assert {node.inventory.version.partition(".")[0] for node in NODES.values()} >= {
        "570",
        "580",
        "595",
        "615",
    }


def test_what_was_measured_is_told_from_what_was_imitated() -> None:
    assert {name for name, node in NODES.items() if not node.measured} == {
        "gb200-ecc-injected",
        "gb200-fabric-degraded",
        "gb200-lost",
        "h100-mig-enabled",
    }


def harmed(*path: object, value: object = None) -> dict[str, Any]:
    """One record with a value in another place; None takes the key away."""
    record = copy.deepcopy(GIVEN["nodes"][FULL])
    at: Any = record
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return dict(record)


BAD = {
    "no source": harmed("source"),
    "a source without a commit": harmed("source", value="https://github.com/a/b/blob/main/c.xml"),
    "an unknown field": harmed("colour", value="green"),
    "an unknown GPU": harmed("gpus", 1, value={"name": "GPU 1"}),
    "a GPU that is no mapping": harmed("gpus", 1, value="0002:c1:00.0"),
    "no GPU": harmed("gpus", value=[]),
    "no GPUs": harmed("gpus"),
    "two GPUs at one address": harmed("gpus", 1, "bus", value="0002:81:00.0"),
    "two GPUs with one minor": harmed("gpus", 1, "minor", value=0),
    "an address in NVML's upper case": harmed("gpus", 2, "bus", value="000A:81:00.0"),
    "a minor that is no number": harmed("gpus", 1, "minor", value="3"),
    "a negative minor": harmed("gpus", 1, "minor", value=-1),
    "MIG as a truth value": harmed("mig", value=True),
    "a state of the fabric that NVML has not": harmed("fabric", "state", value="Degraded"),
    "a part of the health that NVML has not": harmed("fabric", "health", "colour", value=1),
    "a part of the health in words": harmed("fabric", "health", "manager", value="Connected"),
    "a driver's release cut short": harmed("driver", value="615"),
    "no board": harmed("model"),
    "an addressing mode of the future": harmed("addressing", value="CXL"),
    "an error in words": harmed("errors", value={"nvmlInit": "lost"}),
    "instances that are no pairs": harmed("migs", value=[[1, 0], [2]]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_record_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(recorded.BadRecord):
        recorded.read_node(FULL, BAD[name])


@pytest.mark.parametrize(
    "text",
    ["", "[]", "schema: 1\n", "schema: 2\nnodes: {a: {}}\n", "schema: 1\nnodes: []\n", "a: [\n"],
    ids=["empty", "a list", "no nodes", "another schema", "nodes in a list", "cut short"],
)
def test_a_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "nodes.yml"
    file.write_text(text)
    with pytest.raises(recorded.BadRecord):
        recorded.nodes(file)


def test_a_file_that_is_cut_anywhere_is_refused_or_has_whole_nodes(tmp_path: Path) -> None:
    text = recorded.FILE.read_text()
    file = tmp_path / "nodes.yml"
    for end in range(0, len(text), 211):
        file.write_text(text[:end])
        recorded.nodes.cache_clear()
        try:
            found = recorded.nodes(file)
        except recorded.BadRecord:
            continue
        assert all(NODES[name].source == node.source for name, node in found.items())
        assert all(node.inventory.gpus for node in found.values())


# ---------------------------------------------------------------- what NVML answers

BINDING = """
import pynvml
pynvml.nvmlInit()
for number in range(pynvml.nvmlDeviceGetCount()):
    gpu = pynvml.nvmlDeviceGetHandleByIndex(number)
    try:
        info = pynvml.c_nvmlGpuFabricInfo_v2_t()
        pynvml.nvmlDeviceGetGpuFabricInfoV(gpu, pynvml.byref(info))
        cluster = "".join("%02x" % (byte & 255) for byte in bytearray(info.clusterUuid))
        print(info.state, info.status, info.cliqueId, info.healthMask, cluster)
    except pynvml.NVMLError as error:
        print("error", error.value)
"""


def told(gpu: inventories.Gpu) -> str:
    fabric = gpu.fabric or inventories.Fabric(state=0)
    cluster = fabric.cluster.replace("-", "")
    return f"{fabric.state} {fabric.status} {fabric.clique} {fabric.health} {cluster}"


@recorded_hosts.NEEDS_COMPILER
@pytest.mark.parametrize("name", NODES)
def test_nvidias_own_binding_reads_the_fabric_as_it_was_recorded(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is a development dependency")
    inv = NODES[name].inventory
    wanted = [told(gpu) for gpu in inv.gpus]
    if name == "gb200-lost":
        wanted[1] = "error 15"
    assert recorded_hosts.run_with_nvml(inv, tmp_path, BINDING).splitlines() == wanted


@recorded_hosts.NEEDS_COMPILER
@pytest.mark.parametrize("name", NODES)
def test_the_probe_reads_the_gpus_as_they_were_recorded(name: str) -> None:
    inv = NODES[name].inventory
    answer = recorded_hosts.ask_nvml(inv)
    assert answer["errors"] == []
    assert [(g["index"], g["minor"], g["bus_id"], g["uuid"]) for g in answer["gpus"]] == [
        (index, gpu.minor, gpu.bus, gpu.uuid) for index, gpu in enumerate(inv.gpus)
    ]
