# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions that people reported in public, in our words and with names of our own, each with what is right on such a host."""

from __future__ import annotations

import json
import pathlib
import tomllib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import node
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view import reader
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError, Policy

from tests.unit import cdi_plans, gpus
from tests.unit.bare_trees import Tree
from tests.unit.builders import obs
from tests.unit.gpus import BUSES, UUIDS, nvml
from tests.unit.gpus import node as device
from tests.unit.taken_back import JSON, ROOT, SPEC

GITHUB = "https://github.com"
TOOLKIT = f"{GITHUB}/NVIDIA/nvidia-container-toolkit"
OURS, THEIRS = cdi_plans.OURS, cdi_plans.THEIRS
IMEX, SWITCHES = "/etc/cdi/nvidia.com-imex-channel.yaml", "/etc/cdi/nvidia.com-nvswitch.yaml"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel"
SWITCH = {f"/dev/nvidia-nvswitch{name}": device(234, minor) for name, minor in (("0", 0), ("ctl", 255))}
SECOND, NETWORK = BUSES[1], "0000:00:03.0"
UNSERVED: dict[str, Any] = {f"/proc/driver/nvidia/gpus/{SECOND}/information": None, "/dev/nvidia1": None}
GPUS = {"0", "1", *UUIDS[:2], "all"}
FORMER = next(str(c["content"]) for c in cdi_plans.plan(cdi_plans.seen()).changes if c["op"] == "write")
Host = tuple[str, str, dict[str, Any], dict[str, Any], Any]

# ---------------------------------------------------------------- what containers get by CDI

# Where it was told, the host, its files, the options, and which devices each file that is written names.
SPECS: list[Host] = [
    (
        f"{GITHUB}/Project-HAMi/HAMi/issues/2891",
        "channels are there and asked for, and no container got them",
        {f"{CHANNEL}{number}": device(509, number) for number in (0, 3)},
        {"cdi_imex_channels": ("all",)},
        {OURS: GPUS, IMEX: {"0", "3"}},
    ),
    (
        f"{TOOLKIT}/pull/1913",
        "a driver with more channels than it has by default",
        {f"{CHANNEL}{number}": device(509, number) for number in (0, 4000)},
        {"cdi_imex_channels": ("4000",)},
        {OURS: GPUS, IMEX: {"4000"}},
    ),
    (
        f"{TOOLKIT}/pull/733",
        "channels that the spec for management has, and nobody else asked for",
        {f"{CHANNEL}0": device(509, 0), "/etc/cdi/management.nvidia.com-gpu.yaml": cdi_plans.file_of(kind="management.nvidia.com/gpu")},
        {},
        {OURS: GPUS},
    ),
    (
        f"{TOOLKIT}/pull/1661",
        "switches that are asked for",
        SWITCH,
        {"cdi_nvswitch": True},
        {OURS: GPUS, SWITCHES: {"all"}},
    ),
    (
        f"{GITHUB}/kaito-project/kaito/issues/2326",
        "the toolkit's own unit has failed for good and left no spec",
        {},
        {},
        {OURS: GPUS},
    ),
    (
        f"{GITHUB}/Azure/AgentBaker/pull/8736",
        "the toolkit wrote its spec before the driver was whole, and it names a device that is not there",
        {THEIRS: cdi_plans.file_of().replace("/dev/nvidia0", "/dev/nvidia9")},
        {},
        {OURS: GPUS},
    ),
    (
        f"{GITHUB}/cncf-tags/container-device-interface/pull/217",
        "a file that no engine reads, by its name, stays",
        {"/etc/cdi/nvidia.yml": cdi_plans.file_of(), "/var/run/cdi/nvidia.yaml.bak": cdi_plans.file_of()},
        {},
        {OURS: GPUS},
    ),
    (
        f"{TOOLKIT}/issues/885",
        "a spec names a render node that has another number since the host booted",
        {OURS: FORMER.replace("- path: /dev/nvidia0\n", "- path: /dev/nvidia0\n    - path: /dev/dri/renderD129\n")},
        {},
        {OURS: GPUS},
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", SPECS, ids=[row[1] for row in SPECS])
def test_containers_get_what_is_there_and_asked_for(row: Host) -> None:
    _address, _condition, files, options, right = row
    made = cdi_plans.plan(cdi_plans.seen(files), **options)
    specs = {c["path"]: reader.parse(c["content"]) for c in made.changes if c["op"] == "write"}
    assert {path: {d.name for d in spec.devices} for path, spec in specs.items()} == right
    assert {c["path"] for c in made.changes if c["op"] != "write"} <= {THEIRS}
    named = {n.path for spec in specs.values() for d in spec.devices for n in d.edits.device_nodes}
    assert named <= {path for path, there in {**gpus.host(), **files}.items() if there is not None}


REFUSED: list[Host] = [
    (
        f"{TOOLKIT}/issues/1309",
        "a channel that no node is there for",
        {f"{CHANNEL}0": device(509, 0)},
        {"cdi_imex_channels": ("0", "9999")},
        f"device node missing: {CHANNEL}9999",
    ),
    (
        f"{GITHUB}/NVIDIA/NVSentinel/issues/155",
        "a GPU that the driver could not probe: off the bus without an Xid",
        {OURS: FORMER, **UNSERVED},
        {},
        f"GPU {SECOND} is on the PCI bus, but the driver does not serve it",
    ),
    (
        f"{GITHUB}/aws/eks-node-monitoring-agent/pull/94",
        "fewer GPUs answer than have nodes",
        {OURS: FORMER, **{path: None for path in UNSERVED if "/proc/" in path}},
        {},
        f"GPU {SECOND} is on the PCI bus, but the driver does not serve it",
    ),
    (
        f"{GITHUB}/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1089",
        "a GPU without any driver since it could not be given to a virtual machine",
        {OURS: FORMER, **UNSERVED, "/sys/bus/pci/drivers/vfio-pci/new_id": ""},
        {},
        f"GPU {SECOND} is on the PCI bus, but the driver does not serve it",
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=[row[1] for row in REFUSED])
def test_what_is_not_there_is_told_and_nothing_goes(row: Host) -> None:
    _address, _condition, files, options, right = row
    with pytest.raises(PlanError) as caught:
        cdi_plans.plan(cdi_plans.seen(files, answers=nvml(1) if OURS in files else {}), **options)
    assert right in str(caught.value)
    assert caught.value.next


def test_a_fabric_stays_where_virtual_machines_have_the_gpus() -> None:
    """NVIDIA/gpu-operator/pull/2045: the host's driver serves the switches, Fabric Manager shares them, and the GPUs are vfio-pci's."""
    made = cdi_plans.plan(cdi_plans.seen(SWITCH), cdi_nvswitch=True)
    before = {c["path"]: c["content"] for c in made.changes if c["op"] == "write"}
    without = {f"/proc/driver/nvidia/gpus/{bus}/information": None for bus in BUSES[:2]}
    given = {
        **without,
        "/dev/nvidia0": None,
        "/dev/nvidia1": None,
        **{f"/sys/bus/pci/drivers/vfio-pci/{bus}": "" for bus in (NETWORK, *BUSES[:2])},
    }
    for switches, gone in ((SWITCH, [OURS]), ({}, [OURS, SWITCHES])):
        there = cdi_plans.seen({**before, **given, **switches}, answers=nvml(0))
        found = cdi_plans.plan(there, cdi_nvswitch=True)
        assert cdi_plans.paths(found) == [("remove", path) for path in gone]
        assert [d.cause for d in found.differences] == ["hardware_gone"] * len(gone)
        assert f"it serves no GPU. GPU {BUSES[0]}: it is passed through to virtual machines" in found.advice[0]
    unasked = cdi_plans.plan(cdi_plans.seen({**before, **given, **SWITCH}, answers=nvml(0)))
    assert cdi_plans.paths(unasked) == [("remove", OURS), ("remove", SWITCHES)]


# ---------------------------------------------------------------- an engine that is stopped

DOWN: Any = {"docker.service": {"ActiveState": "inactive", "UnitFileState": "disabled"}, "docker.socket": {"ActiveState": "active"}}


def test_a_docker_that_is_stopped_is_not_reached_by_its_socket() -> None:
    """geerlingguy/ansible-role-docker/issues/332: switched off, and started by whoever connected to its socket."""
    files = {**gpus.host(1), "/usr/bin/dockerd": "", JSON: "{}"}
    there = obs(files=files, packages={"docker-ce": "5:28.1.1-1"}, units=DOWN, answers=nvml(1))
    with pytest.raises(PlanError, match=r"Docker is installed but not running \(docker\.service is inactive and disabled\)"):
        node.plan(Policy(), there, node.see(Policy(), there), "")


# ---------------------------------------------------------------- files that tools choked on

PLUGIN = 'plugins."io.containerd.grpc.v1.cri"'
BASE = (
    f'version = 2\n[{PLUGIN}]\n  sandbox_image = "pause:3.9"\n'
    f'[{PLUGIN}.containerd.runtimes.runc]\n  runtime_type = "io.containerd.runc.v2"\n'
)
Choked = tuple[str, str, str, str, bytes, str]
# Where it was told, what is with the file, the engine, its version, the file, and what is said: '' where it is edited.
CHOKED: list[Choked] = [
    (f"{GITHUB}/NVIDIA/nvidia-docker/issues/761", "two objects, one after the other", "docker", "26.1.5",
     b'{"runtimes": {}}\n{"dns": ["192.0.2.1"]}\n', "daemon.json"),
    (f"{GITHUB}/NVIDIA/nvidia-docker/issues/761", "typographic quotation marks", "docker", "26.1.5",
     "{\n  \u201cdns\u201d: [\u201c192.0.2.1\u201d]\n}\n".encode(), "daemon.json"),
    (f"{GITHUB}/NVIDIA/NemoClaw/issues/1875", "no comma between two keys", "docker", "28.5.2",
     b'{\n  "default-runtime": "nvidia"\n  "runtimes": {}\n}\n', "daemon.json"),
    (f"{GITHUB}/rnanosaur/nanosaur/pull/47", "a page of a web server", "docker", "26.1.5",
     b"<!DOCTYPE html>\n<html><body>404</body></html>\n", "daemon.json"),
    (f"{GITHUB}/moby/moby/pull/44777", "a byte order mark and line ends of Windows", "docker", "26.1.5",
     b'\xef\xbb\xbf{\r\n  "debug": true\r\n}\r\n', ""),
    (f"{GITHUB}/moby/moby/pull/44832", "UTF-16", "docker", "26.1.5",
     '\ufeff{\n  "debug": true\n}\n'.encode("utf-16-le"), "daemon.json"),
    (f"{GITHUB}/deckhouse/deckhouse/issues/13934", "one table twice", "containerd", "1.7.24",
     (BASE + f"[{PLUGIN}]\n  enable_selinux = false\n").encode(), "config.toml"),
    (f"{GITHUB}/containerd/containerd/issues/7833", "a dotted key at the end, which belongs to the last table", "containerd", "1.7.24",
     (BASE + f'{PLUGIN}.registry.config_path = "/etc/containerd/certs.d"\n').encode(), ""),
    (f"{GITHUB}/containerd/containerd/issues/7833", "a dotted key before the tables", "containerd", "1.7.24",
     BASE.replace("\n", f'\n{PLUGIN}.registry.config_path = "/etc/containerd/certs.d"\n', 1).encode(), "config.toml"),
    (f"{TOOLKIT}/issues/1430", "Docker's own file of containerd, which switches CRI off", "containerd", "1.7.24",
     b'disabled_plugins = ["cri"]\n', "disabled_plugins"),
    (f"{GITHUB}/containerd/containerd/issues/10905", "the same with a release that does not start with it", "containerd", "2.1.9",
     b'disabled_plugins = ["cri"]\n', "config.toml"),
]  # fmt: skip
PLACES = {"docker": JSON, "containerd": ROOT}


def read(engine: str, data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data.decode("utf-8-sig")) if engine == "docker" else tomllib.loads(data.decode())
    return found


def within(less: Any, more: Any) -> bool:
    """Every value is still there."""
    return all(key in more and within(value, more[key]) for key, value in less.items()) if isinstance(less, dict) else bool(less == more)


@pytest.mark.parametrize("row", CHOKED, ids=[row[1] for row in CHOKED])
def test_a_file_is_edited_and_keeps_its_values_or_stays(tmp_path: pathlib.Path, row: Choked) -> None:
    _address, _condition, engine, version, data, right = row
    home = Tree(tmp_path / "host")
    home.write(PLACES[engine], "")
    home.path(PLACES[engine]).write_bytes(data)
    before = home.state()
    made = home.single(engine, engines=(engine,), engine_version=version)
    if right:
        assert (made["failed"], home.state()) == (True, before)
        assert right in made["msg"]
        return
    assert (made["failed"], made["changed"]) == (False, True)
    after = home.path(PLACES[engine]).read_bytes()
    assert within(read(engine, data), read(engine, after))
    assert after.count(b"\r\n") == (after.count(b"\n") if b"\r\n" in data else 0)
    assert after.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    assert home.single(engine, engines=(engine,), engine_version=version)["changed"] is False
    assert home.single(engine, engines=(engine,), engine_version=version, state="absent")["failed"] is False
    assert home.state() == before


def test_a_handler_is_where_an_imported_table_does_not_hide_it(tmp_path: pathlib.Path) -> None:
    """NVIDIA/gpu-operator/issues/301: this release takes the whole CRI table of an imported file instead of the main one's."""
    home = Tree(tmp_path / "host")
    extra = "/etc/containerd/config.d/registries.toml"
    home.write(ROOT, BASE.replace("\n", '\nimports = ["/etc/containerd/config.d/*.toml"]\n', 1))
    home.write(extra, f'version = 2\n[{PLUGIN}.registry]\n  config_path = "/etc/containerd/certs.d"\n')
    before = home.state()
    made = home.single("containerd", engines=("containerd",), engine_version="1.6.20")
    last = tomllib.loads(home.read(extra))["plugins"]["io.containerd.grpc.v1.cri"]
    assert (made["failed"] and home.state() == before) or "nvidia" in last.get("containerd", {}).get("runtimes", {})


# ---------------------------------------------------------------- requests by mounts

STRICT = "accept-nvidia-visible-devices-as-volume-mounts = true\naccept-nvidia-visible-devices-envvar-when-unprivileged = false\n"
# Where it was told, the host, by which way its device plugin asks, and what the runtime accepts: (mounts, variables).
ASKED: list[tuple[str, str, str, tuple[bool, bool]]] = [
    (f"{TOOLKIT}/issues/1089", "mounts alone are accepted, and the plugin asks by the variable", "envvar", (False, True)),
    (f"{GITHUB}/NVIDIA/gpu-operator/issues/372", "mounts alone are accepted, and the plugin asks by them", "volume-mounts", (True, False)),
    (f"{GITHUB}/bottlerocket-os/bottlerocket/pull/3718", "pods must not ask for all GPUs by the variable", "cdi-cri", (False, False)),
]  # fmt: skip


@pytest.mark.parametrize("row", ASKED, ids=[row[1] for row in ASKED])
def test_the_runtime_accepts_what_the_plugin_asks_by(tmp_path: pathlib.Path, row: tuple[str, str, str, tuple[bool, bool]]) -> None:
    _address, _condition, plugin, right = row
    home = Tree(tmp_path / "host")
    home.write(ROOT, BASE)
    home.write(SPEC, STRICT)
    home.write("/usr/bin/kubelet", "", 0o755)
    made = home.node(engines=("containerd",), engine_version="1.7.24", device_plugin_strategy=(plugin,))
    assert made["failed"] is False
    found = tomllib.loads(home.read(SPEC))
    names = ("accept-nvidia-visible-devices-as-volume-mounts", "accept-nvidia-visible-devices-envvar-when-unprivileged")
    assert tuple(found[name] for name in names) == right
