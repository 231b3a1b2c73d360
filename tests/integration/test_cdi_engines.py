# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our CDI specs and real engines: each reads them at the highest version that the table names for
it, none reads the next one.

A container that was given a GPU may open its node (ENXIO: no driver answers), and none other, even
if it makes the node itself (EPERM).
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    version,
    writer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Device,
    Edits,
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)

from tests.integration.containers import ROOTLESS, Inside, start
from tests.lab.fakegpu.device_nodes import mig_minor, nodes
from tests.lab.fakegpu.inventories import Gpu, Inventory
from tests.tools.onlab import Fleet, Run, repository

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
    # Whether it sees by itself a file that is moved in: the CDI library does from 1.1.1 on
    # (container-device-interface#344).
    sees_moved: bool = False

    @property
    def name(self) -> str:
        return self.kind.partition("-")[0]


ENGINES = {
    "cdi-c17": Engine(
        "containerd-1.7", "containerd", "0.8.0", {"/etc/containerd/config.toml": CONTAINERD_17}
    ),
    "cdi-c21": Engine("containerd-2.1", "containerd", "1.0.0"),
    "cdi-c24": Engine("containerd-2.4", "containerd", "1.1.0", sees_moved=True),
    "cdi-crio": Engine("crio-1.34", "crio", "1.0.0"),
    # CDI is an experiment in Docker 26 and off unless asked for; 28.2 is the first with it on.
    "cdi-docker": Engine(
        "docker", "dockerd", "0.7.0", {"/etc/docker/daemon.json": '{"features": {"cdi": true}}'}
    ),
    "cdi-p43": Engine("podman-4.3", "podman", "0.5.0", sees_moved=True),  # no process of it stays
    "cdi-p54": Engine("podman-5.4", "podman", "0.8.0", sees_moved=True),
}
PODMAN = [host for host, engine in ENGINES.items() if engine.name == "podman"]
GPUS = [{}, {}, {"mig": "on", "migs": 2}]
COMMON = {"cdi_owner": "collection", "cdi_version": "{{ caps[inventory_hostname] }}"}
TASKS = [
    {"gpufleet.nvidia.cdi_spec": {**COMMON, "cdi_profile": "{{ profile }}"}},
    {"gpufleet.nvidia.cdi_spec": {**COMMON, "cdi_profile": "devices", "cdi_layout": "management"}},
    # as docs/images.md has it
    {"gpufleet.nvidia.cdi_spec": {**COMMON, "cdi_profile": "devices", "cdi_class": "gpu-nodes"}},
]
REPOSITORY = [{"hosts": "all", "gather_facts": False, "roles": ["gpufleet.nvidia.toolkit"]}]
HOOKS = "apt-get -qq update; apt-get -qq install -y nvidia-container-toolkit-base >/dev/null 2>&1"
CONFIGURES_MIG = "/dev/nvidia-caps/nvidia-cap1"
USERS = [*((host, "root") for host in ENGINES), *((host, ROOTLESS) for host in PODMAN)]
HOSTS = pytest.mark.parametrize("host", ENGINES)


def ladder(known: str) -> Spec:
    """A spec that says nothing but its version: whoever reads it gets a variable."""
    name = "V" + known.replace(".", "")
    return Spec(
        known, (Device("rung", Edits(env=(f"{name}={known}",))),), f"ladder.test/{name.lower()}"
    )


@dc.dataclass(frozen=True)
class Asked:
    """One container: the devices that it asks for, and the nodes that it must be able to open. None
    other.
    """

    devices: tuple[str, ...]
    opens: tuple[str, ...]


SHARED = ("/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
# MIG is made and watched by these
CONTROL = (
    *SHARED,
    "/dev/nvidia-caps/nvidia-cap1",
    "/dev/nvidia-caps/nvidia-cap2",
)
CASES = (
    "nothing",
    "one by index, the others hidden",
    "one by UUID",
    "two by name",
    "all",
    "a MIG device, its sibling hidden",
    "a MIG device by UUID",
    "management of one GPU",
    "management of all",
)


def cases(host: str, fleet: Fleet) -> dict[str, Asked]:
    one, two, mig = inventory(host, fleet).gpus
    first, second = (caps(mig, number) for number in (0, 1))
    gpus = ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2")
    asked = [
        Asked((), ()),
        Asked(("nvidia.com/gpu=0",), ("/dev/nvidia0", *SHARED)),
        Asked((f"nvidia.com/gpu={two.uuid}",), ("/dev/nvidia1", *SHARED)),
        Asked(
            (f"nvidia.com/gpu={one.uuid}", "nvidia.com/gpu=1"),
            ("/dev/nvidia0", "/dev/nvidia1", *SHARED),
        ),
        Asked(("nvidia.com/gpu=all",), (*gpus, *first, *second, *SHARED)),
        Asked(("nvidia.com/gpu=2:0",), ("/dev/nvidia2", *first, *SHARED)),
        Asked((f"nvidia.com/gpu={mig.migs[1][2]}",), ("/dev/nvidia2", *second, *SHARED)),
        Asked(("management.nvidia.com/gpu=2",), ("/dev/nvidia2", *first, *second, *CONTROL)),
        Asked(("management.nvidia.com/gpu=all",), (*gpus, *first, *second, *CONTROL)),
    ]
    return dict(zip(CASES, asked, strict=True))


def caps(gpu: Gpu, number: int) -> tuple[str, str]:
    """The two capabilities of a MIG device: of its GPU instance and of its compute instance."""
    instance, compute, _uuid = gpu.migs[number]
    minors = (mig_minor(gpu.minor, instance, None), mig_minor(gpu.minor, instance, compute))
    return tuple(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors)  # type: ignore[return-value]


def inventory(host: str, fleet: Fleet) -> Inventory:
    return fleet.lab.host(host).spec.gpus


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    wanted = {
        host: {"kind": engine.kind, "gpus": GPUS, "files": engine.files}
        for host, engine in ENGINES.items()
    }
    return boot(wanted)  # type: ignore[no-any-return]


@dc.dataclass(frozen=True)
class Written:
    texts: Mapping[str, str]  # as the module wrote them, by host
    again: Run  # the same tasks a second time


def write(fleet: Fleet, profile: str) -> Run:
    play, limits = (
        [{"hosts": "all", "gather_facts": False, "tasks": TASKS}],
        {host: engine.cap for host, engine in ENGINES.items()},
    )
    run = fleet.play(play, list(ENGINES), variables={"caps": limits, "profile": profile})
    assert run.status == 0, run.words
    return run


@pytest.fixture(scope="module")
def written(fleet: Fleet) -> Written:
    """The nodes only, raised to each engine's cap, since nothing in it needs so much; beside it a
    file of every version there is.
    """
    write(fleet, "devices")
    found = Written({host: fleet.text(host, SPEC) for host in ENGINES}, write(fleet, "devices"))
    for host in ENGINES:
        raise_version(fleet, host)
        for known in version.KNOWN:
            put(fleet, host, f"/etc/cdi/ladder-{known}.yaml", writer.render_spec(ladder(known)))
    return found


def raise_version(fleet: Fleet, host: str) -> None:
    put(
        fleet,
        host,
        SPEC,
        writer.render_spec(
            dc.replace(reader.parse_spec(fleet.text(host, SPEC)), version=ENGINES[host].cap)
        ),
    )


def put(fleet: Fleet, host: str, path: str, text: str) -> None:
    done = fleet.lab.exec(host, ["sh", "-c", 'umask 022; cat > "$0"', path], stdin=text)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def seen(fleet: Fleet, written: Written) -> Seen:
    """Every case on every host, hosts side by side: (host, account, case) -> what the container
    saw.
    """
    found = each(lambda host: on(host, fleet))
    return {key: inside for one in found for key, inside in one.items()}


def each(act: Callable[[str], Any]) -> list[Any]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(act, ENGINES))


def on(host: str, fleet: Fleet) -> dict[tuple[str, str, str], Inside]:
    engine, tried = ENGINES[host], nodes(inventory(host, fleet))
    found = {
        (host, account, name): start(fleet.lab, host, asked.devices, tried, account=account)
        for account in [account for at, account in USERS if at == host]
        for name, asked in cases(host, fleet).items()
    }
    below = [
        known
        for known in version.KNOWN
        if version.get_spec_version_key(known) <= version.get_spec_version_key(engine.cap)
    ]
    found[host, "root", "ladder"] = start(fleet.lab, host, [rung(known) for known in below])
    for known in sorted(set(version.KNOWN) - set(below)):
        found[host, "root", known] = start(fleet.lab, host, [rung(known)])
    return found


def rung(known: str) -> str:
    return ladder(known).names[0]


@HOSTS
def test_the_table_names_the_version_that_the_engine_in_the_lab_reads(
    host: str, fleet: Fleet
) -> None:
    engine = ENGINES[host]
    said = versions.read_version_banner(fleet.shell(host, f"{engine.program} --version"))
    assert cdi_versions.get_max_cdi_version(engine.name, said) == engine.cap, said


@HOSTS
def test_the_engine_reads_every_version_up_to_its_cap(host: str, seen: Seen) -> None:
    inside = seen[host, "root", "ladder"]
    assert inside.refused == ""
    below = [
        known
        for known in version.KNOWN
        if version.get_spec_version_key(known) <= version.get_spec_version_key(ENGINES[host].cap)
    ]
    assert {
        value
        for name, value in inside.environment.items()
        if name.startswith("V") and name[1:].isdigit()
    } == set(below)


@HOSTS
def test_the_engine_reads_no_version_above_its_cap(host: str, seen: Seen) -> None:
    above = [
        known
        for known in version.KNOWN
        if version.get_spec_version_key(known) > version.get_spec_version_key(ENGINES[host].cap)
    ]
    if not above:
        assert ENGINES[host].cap == version.KNOWN[-1]
    for known in above:
        assert rung(known) in seen[host, "root", known].refused, known


@pytest.mark.parametrize(("host", "account"), USERS)
@pytest.mark.parametrize("case", CASES)
def test_a_container_may_open_just_what_it_asked_for(
    host: str, account: str, case: str, fleet: Fleet, seen: Seen
) -> None:
    asked, inside = cases(host, fleet)[case], seen[host, account, case]
    if account != "root" and CONFIGURES_MIG in asked.opens:  # mode 0400, as the driver makes it
        assert inside.nodes.pop(CONFIGURES_MIG) == "EACCES"
        asked = dc.replace(asked, opens=tuple(set(asked.opens) - {CONFIGURES_MIG}))
    opened(asked, inside)


def opened(asked: Asked, inside: Inside) -> None:
    assert inside.refused == ""
    assert {path for path, answer in inside.nodes.items() if answer == "ENXIO"} == set(asked.opens)
    assert {answer for path, answer in inside.nodes.items() if path not in asked.opens} <= {"EPERM"}
    assert inside.environment.get("NVIDIA_VISIBLE_DEVICES") == ("void" if asked.opens else None)


@HOSTS
def test_the_spec_is_readable_for_all_and_of_no_higher_version_than_needed(
    host: str, fleet: Fleet, written: Written
) -> None:
    assert fleet.shell(host, f"stat -c %a {SPEC}") == "644\n"
    assert yaml.safe_load(written.texts[host])["cdiVersion"] == "0.5.0"


def test_specs_that_are_right_are_left_alone_for_one_ssh_operation_a_task(written: Written) -> None:
    assert written.again.changed == {}, written.again.words
    assert dict(written.again.operations) == dict.fromkeys(ENGINES, len(TASKS))


@pytest.mark.parametrize("host", PODMAN)
def test_a_file_that_only_root_may_read_is_no_file_for_others(
    host: str, fleet: Fleet, seen: Seen
) -> None:
    fleet.shell(host, f"chmod 0600 {SPEC}")
    hidden = start(fleet.lab, host, ["nvidia.com/gpu=0"], account=ROOTLESS)
    fleet.shell(host, f"chmod 0644 {SPEC}")
    assert "nvidia.com/gpu=0" in hidden.refused
    assert start(fleet.lab, host, ["nvidia.com/gpu=0"], account=ROOTLESS).refused == ""


# They read CDI specs for users' containers, and Debian has no package of a release that does: their
# rows are from the sources.
NOT_HERE = {"apptainer", "singularity"}


def test_every_engine_with_cdi_in_the_table_is_here() -> None:
    assert {engine.name for engine in ENGINES.values()} == set(cdi_versions.MAX_CDI) - NOT_HERE


FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")
LIBRARIES = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1")
LOADED = [f"{folder}/{name}" for folder in FOLDERS for name in LIBRARIES]
LOOK = f"for f in {' '.join(LOADED)}; do test ! -e $f || echo $f; done; ! grep -q libcuda.so.1 /etc/ld.so.cache || echo cached"
ONE, ITS_NODES, NODES = (
    "nvidia.com/gpu=0",
    "nvidia.com/gpu-nodes=0",
    [("/dev/nvidia0", 195, 0), ("/dev/nvidia1", 195, 1)],
)


@pytest.fixture(scope="module")
def profiles(fleet: Fleet, seen: Seen) -> Mapping[tuple[str, str, str], Inside]:
    """With the driver's files: without hooks, then with those of NVIDIA's package. (profile, host,
    account) -> what the container saw.
    """
    found: dict[tuple[str, str, str], Inside] = {}
    for profile in ("hookless", "full"):
        if profile == "full":
            done = fleet.play(REPOSITORY, list(ENGINES), variables=repository())
            assert done.status == 0, done.words
            each(lambda host: fleet.shell(host, HOOKS))
        write(fleet, profile)
        each(lambda host: raise_version(fleet, host))
        with ThreadPoolExecutor(4) as pool:
            for name, device in (
                (profile, ONE),
                *([("nodes", ITS_NODES)] if profile == "full" else []),
            ):
                seen_there = pool.map(
                    lambda user, device=device: start(
                        fleet.lab, user[0], [device], NODES, LOOK, account=user[1]
                    ),
                    USERS,
                )
                found.update(
                    {(name, *user): inside for user, inside in zip(USERS, seen_there, strict=True)}
                )
    return found


@pytest.mark.parametrize(("host", "account"), USERS)
def test_the_driver_is_where_loaders_look_without_any_program_on_the_host(
    host: str, account: str, profiles: Seen
) -> None:
    assert gave(profiles["hookless", host, account]) == set(LOADED)


@pytest.mark.parametrize(("host", "account"), USERS)
def test_the_driver_is_in_the_cache_of_the_loader_by_nvidias_hooks(
    host: str, account: str, profiles: Seen
) -> None:
    assert {"cached", *LOADED[:2]} <= gave(profiles["full", host, account])


@pytest.mark.parametrize(("host", "account"), USERS)
def test_an_image_with_a_driver_of_its_own_gets_nodes_and_no_file(
    host: str, account: str, profiles: Seen
) -> None:
    assert gave(profiles["nodes", host, account]) == set()


def gave(inside: Inside) -> set[str]:
    assert inside.refused == ""
    assert inside.nodes == {"/dev/nvidia0": "ENXIO", "/dev/nvidia1": "EPERM"}
    return set(inside.output.split())


# ---------------------------------------------------------------- while the engine runs

LATE, MOVED = "late.test/gpu", dc.replace(ladder("0.3.0"), kind="moved.test/gpu")
# A file as `mv` brings one, from another directory of the same file system: what the executor does,
# and nothing besides.
MOVE = "umask 022; mkdir /etc/aside; cat >/etc/aside/moved.yaml; mv /etc/aside/moved.yaml /etc/cdi/; rmdir /etc/aside"
SERVED = {"written", "changed"}
DAEMONS = [host for host in ENGINES if host not in PODMAN]


class Running:
    """Engines that nobody restarts: what each says at every step, and in which process."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.refused: dict[tuple[str, str], str] = {}  # (host, step) -> the sentence, or nothing
        self.processes = self._processes()

    def ask(self, step: str, device: str) -> None:
        """Start a container with the device everywhere; {uuid} is that of the host's first GPU."""

        def one(host: str) -> None:
            name = device.format(uuid=inventory(host, self.fleet).gpus[0].uuid)
            self.refused[host, step] = start(self.fleet.lab, host, [name]).refused

        each(one)

    def write(self, name: str, state: str = "present") -> None:
        options = {
            **COMMON,
            "cdi_profile": "devices",
            "cdi_vendor": "late.test",
            "cdi_device_names": [name],
            "state": state,
        }
        play = [
            {
                "hosts": "all",
                "gather_facts": False,
                "tasks": [{"gpufleet.nvidia.cdi_spec": options}],
            }
        ]
        run = self.fleet.play(
            play,
            list(ENGINES),
            variables={"caps": {host: engine.cap for host, engine in ENGINES.items()}},
        )
        assert (run.status, set(run.changed)) == (0, set(ENGINES)), run.words

    def same_processes(self) -> bool:
        return self.processes == self._processes()

    def _processes(self) -> dict[str, str]:
        return {
            host: self.fleet.shell(host, f"pidof -s {ENGINES[host].program}") for host in DAEMONS
        }


@pytest.fixture(scope="module")
def running(fleet: Fleet, profiles: Seen) -> Running:
    found = Running(fleet)
    found.ask("before", f"{LATE}=0")
    each(lambda host: fleet.lab.exec(host, ["sh", "-ec", MOVE], stdin=writer.render_spec(MOVED)))
    found.ask("moved in", MOVED.names[0])
    found.write("index")
    found.ask("written", f"{LATE}=0")
    found.write("uuid")
    found.ask("changed", f"{LATE}={{uuid}}")
    found.ask("changed, by the old name", f"{LATE}=0")
    found.write("uuid", "absent")
    found.ask("removed", f"{LATE}={{uuid}}")
    return found


@HOSTS
def test_an_engine_that_runs_serves_what_is_written_changed_and_removed(
    host: str, running: Running
) -> None:
    for step in ("before", "written", "changed", "changed, by the old name", "removed"):
        said = running.refused[host, step]
        assert said == "" if step in SERVED else LATE in said, step
    assert running.same_processes()


@HOSTS
def test_which_engines_see_a_file_that_is_moved_in_and_not_announced(
    host: str, running: Running
) -> None:
    said = running.refused[host, "moved in"]
    assert said == "" if ENGINES[host].sees_moved else MOVED.names[0] in said
