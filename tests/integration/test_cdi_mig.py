# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDI specs of hosts with MIG, NVSwitches, IMEX channels and DRM nodes: written once, told alike by
every source, given back.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.tools.onlab import PROBE, Fleet, settings

pytestmark = pytest.mark.lab

HOST, OURS = "cdi-mig", "/etc/cdi/nvidia.yaml"
MODELS, MANAGEMENT = "/etc/cdi/nvidia.com-model.yaml", "/etc/cdi/management.nvidia.com-gpu.yaml"
# A GPU with three MIG devices, two of them in one GPU instance; a whole GPU that draws; one in MIG
# mode without an instance.
GPUS = [{"mig": "on", "migs": [[1, 0], [2, 0], [2, 1]]}, {"drm": True}, {"mig": "on"}]
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.163.01"
# The lab's nvidia-smi loads the library as the probe does, so it alone is told where the library
# went.
ONLY_SMI = f"mv {LIBRARY} /root/nvml; cp /usr/bin/nvidia-smi /root; sed -i 's|CDLL(.*)|CDLL(\"/root/nvml\")|' /usr/bin/nvidia-smi; ldconfig"
BOTH_AGAIN = f"mv /root/nvml {LIBRARY}; mv /root/nvidia-smi /usr/bin/nvidia-smi; ldconfig"


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    return boot({HOST: {"kind": "containerd-1.7", "gpus": GPUS, "switches": 2, "channels": 1}})  # type: ignore[no-any-return]


def result(fleet: Fleet, options: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    run = fleet.task("cdi_spec", [HOST], options, **more)
    assert not run.failed, run.failed
    return {**run.of("cdi_spec")[HOST], "operations": run.operations[HOST]}


def spec(fleet: Fleet, path: str = OURS) -> dict[str, Any]:
    return yaml.safe_load(fleet.text(HOST, path))  # type: ignore[no-any-return]


def nodes(device: dict[str, Any]) -> list[str]:
    return [node["path"] for node in device["containerEdits"]["deviceNodes"]]


def test_written_once_and_given_back(fleet: Fleet) -> None:
    before = fleet.tree(HOST)
    announced = result(fleet, arguments=["--check"])
    first = result(fleet)
    assert (first["changed"], first["source"], first["operations"]) == (True, "nvml", 3)
    assert announced["differences"] == first["differences"]
    assert [
        "GPU 2" in text for text in first["advice"] if text.endswith("[spec.mig-without-instance]")
    ] == [True]
    written = spec(fleet)
    found = {d["name"]: nodes(d) for d in written["devices"]}
    assert [name for name in found if not name.startswith(("GPU-", "MIG-"))] == [
        "0:0",
        "0:1",
        "0:2",
        "1",
        "all",
    ]
    assert [len(found[name]) for name in ("0:0", "0:1", "0:2")] == [3, 3, 3]
    # one GPU instance
    assert set(found["0:1"]) & set(found["0:2"]) == {
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap21",
    }
    assert found["1"] == ["/dev/nvidia1", "/dev/dri/card1", "/dev/dri/renderD129"]
    shared = nodes(written)
    assert set(shared) == {
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia-modeset",
    }
    for path in (*shared, *found["all"]):
        fleet.shell(HOST, f"test -c {path}")
    assert fleet.shell(HOST, f"stat -c %a {OURS}").strip() == "644"
    second = result(fleet)
    assert (second["changed"], second["advice"]) == (
        False,
        [word for word in first["advice"] if "[cdi.fabric-on-request]" not in word],
    )
    result(fleet, {"state": "absent"})
    assert fleet.tree(HOST) == before


FABRIC = {"cdi_imex_channels": ["all"], "cdi_nvswitch": True}


def test_the_fabric_has_files_of_its_own(fleet: Fleet) -> None:
    before = fleet.tree(HOST)
    first = result(fleet, FABRIC)
    channels, switches = (
        spec(fleet, f"/etc/cdi/nvidia.com-{name}.yaml") for name in ("imex-channel", "nvswitch")
    )
    assert {d["name"]: nodes(d) for d in channels["devices"]} == {
        "0": ["/dev/nvidia-caps-imex-channels/channel0"]
    }
    assert {d["name"]: len(nodes(d)) for d in switches["devices"]} == {"all": 3}
    assert not set(nodes(spec(fleet))) & {
        *nodes(channels["devices"][0]),
        *nodes(switches["devices"][0]),
    }
    assert first["changed"]
    assert not result(fleet, FABRIC)["changed"]
    result(fleet, {**FABRIC, "state": "absent"})
    assert fleet.tree(HOST) == before


def planned(fleet: Fleet) -> tuple[str, list[dict[str, Any]]]:
    """Who told the devices, and the devices of the spec that would be written."""
    said = result(fleet, arguments=["--check", "--diff", "-v"])
    return said["source"], yaml.safe_load(said["diff"][0]["after"])["devices"]


def test_all_sources_tell_the_same(fleet: Fleet) -> None:
    source, by_nvml = planned(fleet)
    assert source == "nvml"
    fleet.shell(HOST, ONLY_SMI)
    try:
        assert planned(fleet) == ("nvidia-smi", by_nvml)
        fleet.shell(HOST, "rm /usr/bin/nvidia-smi")
        source, by_proc = planned(fleet)
        assert source == "procfs"
    finally:
        fleet.shell(HOST, BOTH_AGAIN)
    mine, theirs = (
        {d["name"]: nodes(d) for d in devices if d["name"] != "all"}
        for devices in (by_proc, by_nvml)
    )
    # /proc tells no UUID of a MIG device, and not that a GPU without an instance is in MIG mode.
    idle = {name for name, paths in mine.items() if paths == ["/dev/nvidia2"]}
    assert "2" in idle
    assert {n: p for n, p in mine.items() if n not in idle} == {
        n: p for n, p in theirs.items() if not n.startswith("MIG-")
    }


def test_instances_come_and_go(fleet: Fleet) -> None:
    result(fleet)
    home = "/opt/fakegpu/proc/driver/nvidia/capabilities/gpu0/mig"
    fleet.shell(HOST, f"cp -a {home} /root/mig; cp /etc/fake-nvml.conf /root")
    fleet.shell(HOST, f"rm -r {home}/gi2; sed -i '/^mig 0|.*|2|/d' /etc/fake-nvml.conf")
    try:
        fewer = result(fleet)
        assert fewer["changed"] is True
        assert [name for name in fewer["devices"] if ":" in name] == ["nvidia.com/gpu=0:0"]
        assert result(fleet)["changed"] is False
    finally:
        fleet.shell(
            HOST, f"rm -r {home}; mv /root/mig {home}; mv /root/fake-nvml.conf /etc/fake-nvml.conf"
        )
    assert len([name for name in result(fleet)["devices"] if ":" in name]) == 3
    result(fleet, {"state": "absent"})


def test_management_and_models_have_files_of_their_own(fleet: Fleet) -> None:
    before = fleet.tree(HOST)
    result(fleet, {"cdi_model_class": "model"})
    result(fleet, {"cdi_layout": "management"})
    assert spec(fleet, MODELS)["kind"] == "nvidia.com/model"
    models = [d["name"] for d in spec(fleet, MODELS)["devices"]]
    assert models[:3] == ["h100-80gb-hbm3", "h100-80gb-hbm3-1", "h100-80gb-hbm3-mig-1g.10gb-0:0"]
    agents = {d["name"]: nodes(d) for d in spec(fleet, MANAGEMENT)["devices"]}
    assert {"0", "1", "2", "all"} <= set(agents)
    assert len(agents["0"]) == 6  # the GPU, two GPU instances, three compute instances
    for options in ({"cdi_model_class": "model"}, {"cdi_layout": "management"}):
        again = result(fleet, options)
        assert again["changed"] is False
    # the first that came made the folder, and takes it along
    for options in (
        {"cdi_layout": "management"},
        {"cdi_model_class": "model"},
    ):
        result(fleet, {**options, "state": "absent"})
    assert fleet.tree(HOST) == before


def test_containers_get_mig_devices(fleet: Fleet) -> None:
    """The whole of `node`, and its verification: `0:0` for one, never the whole GPU."""
    fleet.play("site", [HOST], variables={**settings(), "gpufleet_cdi_owner": "collection"})
    run = fleet.task("host_verify", [HOST], {"image": PROBE})
    assert not run.failed, run.failed
    said = run.of("host_verify")[HOST]
    one = next(check for check in said["checks"] if check["name"].endswith(": one"))
    assert "0:0" in str(one)
