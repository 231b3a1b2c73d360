# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our CDI specs in the hands of real engines: each reads them at the highest version that the table names for it, none reads the next one.

A container that was given a GPU may open its node (ENXIO: no driver answers), and none other, even if it makes the node itself (EPERM).
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi import read, render, version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi.model import Device, Edits, Spec

from tests.integration.containers import ROOTLESS, Inside, start
from tests.lab.fakegpu import Inventory, nodes
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

SPEC = "/etc/cdi/nvidia.yaml"
# CDI is off there unless asked for.
CONTAINERD_17 = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
"""
Seen = Mapping[tuple[str, str, str], Inside]


@dc.dataclass(frozen=True)
class Engine:
    kind: str
    program: str
    cap: str  # what the release in the lab reads; the table of the collection must say the same
    files: Mapping[str, str] = dc.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.kind.partition("-")[0]


ENGINES = {
    "cdi-c17": Engine("containerd-1.7", "containerd", "0.8.0", {"/etc/containerd/config.toml": CONTAINERD_17}),
    "cdi-c21": Engine("containerd-2.1", "containerd", "1.0.0"),
    "cdi-c24": Engine("containerd-2.4", "containerd", "1.1.0"),
    "cdi-crio": Engine("crio-1.34", "crio", "1.0.0"),
    # CDI is an experiment in Docker 26 and off unless asked for; 28.2 is the first with it on.
    "cdi-docker": Engine("docker", "dockerd", "0.7.0", {"/etc/docker/daemon.json": '{"features": {"cdi": true}}'}),
    "cdi-p43": Engine("podman-4.3", "podman", "0.5.0"),
    "cdi-p54": Engine("podman-5.4", "podman", "0.8.0"),
}
PODMAN = [host for host, engine in ENGINES.items() if engine.name == "podman"]
GPUS = 2
ROOTS = {"proc_root": "/opt/fakegpu/proc", "sys_root": "/opt/fakegpu/sys"}
TASK = {"gpufleet.nvidia.cdi_spec": {**ROOTS, "cdi_owner": "ours", "cdi_version": "{{ caps[inventory_hostname] }}"}}
HOSTS = pytest.mark.parametrize("host", ENGINES)


def ladder(known: str) -> Spec:
    """A spec that says nothing but its version: whoever reads it gets a variable."""
    name = "V" + known.replace(".", "")
    return Spec(known, (Device("rung", Edits(env=(f"{name}={known}",))),), f"ladder.test/{name.lower()}")


@dc.dataclass(frozen=True)
class Asked:
    """One container: the devices that it asks for, and the nodes that it must be able to open. None other."""

    devices: tuple[str, ...]
    opens: tuple[str, ...]


def cases(host: str, fleet: Fleet) -> dict[str, Asked]:
    one, two = (gpu.uuid for gpu in inventory(host, fleet).gpus)
    return {
        "nothing": Asked((), ()),
        "one by index, the other hidden": Asked(("nvidia.com/gpu=0",), ("/dev/nvidia0",)),
        "one by UUID": Asked((f"nvidia.com/gpu={two}",), ("/dev/nvidia1",)),
        "both by name": Asked((f"nvidia.com/gpu={one}", "nvidia.com/gpu=1"), ("/dev/nvidia0", "/dev/nvidia1")),
        "all": Asked(("nvidia.com/gpu=all",), ("/dev/nvidia0", "/dev/nvidia1")),
    }


CASES = ("nothing", "one by index, the other hidden", "one by UUID", "both by name", "all")
SHARED = ("/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


def inventory(host: str, fleet: Fleet) -> Inventory:
    return fleet.lab.host(host).spec.gpus


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    wanted = {host: {"kind": engine.kind, "gpus": GPUS, "files": engine.files} for host, engine in ENGINES.items()}
    return boot(wanted)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def written(fleet: Fleet) -> Mapping[str, str]:
    """What the module writes for each engine's cap; it is then raised to the cap, since nothing in it needs so much."""
    play = [{"hosts": "all", "gather_facts": False, "tasks": [TASK]}]
    caps = {host: engine.cap for host, engine in ENGINES.items()}
    first, second = (fleet.play(play, list(ENGINES), variables={"caps": caps}) for _ in "12")
    assert sorted(first.changed) == sorted(ENGINES), first.words
    assert second.changed == {}, second.words
    assert dict(second.operations) == dict.fromkeys(ENGINES, 1)  # a spec that is right costs one look
    texts = {host: fleet.text(host, SPEC) for host in ENGINES}
    for host, engine in ENGINES.items():
        put(fleet, host, SPEC, render.render(dc.replace(read.parse(texts[host]), version=engine.cap)))
        for known in version.KNOWN:
            put(fleet, host, f"/etc/cdi/ladder-{known}.yaml", render.render(ladder(known)))
    return texts


def put(fleet: Fleet, host: str, path: str, text: str) -> None:
    done = fleet.lab.exec(host, ["sh", "-c", 'umask 022; cat > "$0"', path], stdin=text)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def seen(fleet: Fleet, written: Mapping[str, str]) -> Seen:
    """Every case on every host, hosts side by side: (host, account, case) -> what the container saw."""
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda host: on(host, fleet), ENGINES))
    return {key: inside for one in found for key, inside in one.items()}


def on(host: str, fleet: Fleet) -> dict[tuple[str, str, str], Inside]:
    engine, tried = ENGINES[host], nodes(inventory(host, fleet))
    accounts = ["root", *([ROOTLESS] if engine.name == "podman" else [])]
    found = {
        (host, account, name): start(fleet.lab, host, asked.devices, tried, account=account)
        for account in accounts
        for name, asked in cases(host, fleet).items()
    }
    below = [known for known in version.KNOWN if version.key(known) <= version.key(engine.cap)]
    found[host, "root", "ladder"] = start(fleet.lab, host, [rung(known) for known in below])
    for known in sorted(set(version.KNOWN) - set(below)):
        found[host, "root", known] = start(fleet.lab, host, [rung(known)])
    return found


def rung(known: str) -> str:
    return ladder(known).names[0]


@HOSTS
def test_the_table_names_the_version_that_the_engine_in_the_lab_reads(host: str, fleet: Fleet) -> None:
    engine = ENGINES[host]
    said = versions.banner(fleet.shell(host, f"{engine.program} --version"))
    assert versions.max_cdi(engine.name, said) == engine.cap, said


@HOSTS
def test_the_engine_reads_every_version_up_to_its_cap(host: str, seen: Seen) -> None:
    inside = seen[host, "root", "ladder"]
    assert inside.refused == ""
    below = [known for known in version.KNOWN if version.key(known) <= version.key(ENGINES[host].cap)]
    assert {value for name, value in inside.environment.items() if name.startswith("V") and name[1:].isdigit()} == set(below)


@HOSTS
def test_the_engine_reads_no_version_above_its_cap(host: str, seen: Seen) -> None:
    above = [known for known in version.KNOWN if version.key(known) > version.key(ENGINES[host].cap)]
    if not above:
        assert ENGINES[host].cap == version.KNOWN[-1]
    for known in above:
        assert rung(known) in seen[host, "root", known].refused, known


@HOSTS
@pytest.mark.parametrize("case", CASES)
def test_a_container_may_open_just_what_it_asked_for(host: str, case: str, fleet: Fleet, seen: Seen) -> None:
    opened(cases(host, fleet)[case], seen[host, "root", case])


@pytest.mark.parametrize("host", PODMAN)
@pytest.mark.parametrize("case", CASES)
def test_so_may_one_of_an_account_without_rights(host: str, case: str, fleet: Fleet, seen: Seen) -> None:
    opened(cases(host, fleet)[case], seen[host, ROOTLESS, case])


def opened(asked: Asked, inside: Inside) -> None:
    assert inside.refused == ""
    wanted: Sequence[str] = (*asked.opens, *SHARED) if asked.opens else ()
    assert [path for path, answer in inside.nodes.items() if answer == "ENXIO"] == [path for path in inside.nodes if path in wanted]
    assert {answer for path, answer in inside.nodes.items() if path not in wanted} <= {"EPERM"}
    assert inside.environment.get("NVIDIA_VISIBLE_DEVICES") == ("void" if wanted else None)


@HOSTS
def test_the_spec_is_readable_for_all_and_of_no_higher_version_than_needed(host: str, fleet: Fleet, written: Mapping[str, str]) -> None:
    assert fleet.shell(host, f"stat -c %a {SPEC}") == "644\n"
    assert yaml.safe_load(written[host])["cdiVersion"] == "0.5.0"


@pytest.mark.parametrize("host", PODMAN)
def test_a_file_that_only_root_may_read_is_no_file_for_others(host: str, fleet: Fleet, seen: Seen) -> None:
    fleet.shell(host, f"chmod 0600 {SPEC}")
    hidden = start(fleet.lab, host, ["nvidia.com/gpu=0"], account=ROOTLESS)
    fleet.shell(host, f"chmod 0644 {SPEC}")
    assert "nvidia.com/gpu=0" in hidden.refused
    assert start(fleet.lab, host, ["nvidia.com/gpu=0"], account=ROOTLESS).refused == ""


def test_every_engine_with_cdi_in_the_table_is_here() -> None:
    assert {engine.name for engine in ENGINES.values()} == set(versions.MAX_CDI)
