# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MPS on a real host without Kubernetes, with an imitated control program: daemons run as units,
containers reach theirs, and all goes.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.sharing_hosts import MODES, OPTIONS, run, stand_in_for_the_toolkit, uuids_of
from tests.lab import images
from tests.tools.onlab import HERE, Fleet

pytestmark = pytest.mark.lab

HOST, PODMAN = "mps", "mps-podman"
CONTROL = (
    "echo {command} | CUDA_MPS_PIPE_DIRECTORY=/run/gpufleet-mps/{gpu}/pipe nvidia-cuda-mps-control"
)
DOCKER = "docker run --rm --pull=never --network=none"
SHOW = (
    "env; ls -d /run/gpufleet-mps/*/pipe/*; grep /dev/shm /proc/mounts; cd /dev; echo nvidia[0-9]"
)
# A client of the imitated daemon, which says what its server is limited to and stays.
CLIENT = """
import signal, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect('/run/gpufleet-mps/{gpu}/pipe/control')
s.send(b'client')
print(s.recv(4096).decode(), flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot(
        {HOST: {"kind": "docker", "gpus": 3}, PODMAN: {"kind": "podman-4.3", "gpus": 2}}
    )
    stand_in_for_the_toolkit(found, HOST)
    return found


def answer_of(fleet: Fleet, gpu: str, command: str) -> str:
    """What the GPU's daemon answers to a command of its control program."""
    return fleet.shell(HOST, CONTROL.format(command=command, gpu=gpu)).strip()


def state(fleet: Fleet, gpu: str) -> str:
    return fleet.shell(
        HOST, f"systemctl show -p ActiveState --value gpufleet-mps@{gpu}.service"
    ).strip()


def limits(fleet: Fleet, gpu: str) -> list[str]:
    return [
        answer_of(fleet, gpu, f"get_default_{limit}")
        for limit in ("active_thread_percentage", "device_pinned_mem_limit 0")
    ]


def process(fleet: Fleet, gpu: str) -> str:
    return fleet.shell(
        HOST, f"systemctl show -p MainPID --value gpufleet-mps@{gpu}.service"
    ).strip()


def begin_client(fleet: Fleet, gpu: str, minor: int) -> None:
    """With the GPU's node open, as the driver's clients have it: one in a tree of its own, since
    the lab's driver opens no node.
    """
    fleet.shell(
        HOST,
        f"mkdir -p /srv/tree/dev; [ -e /srv/tree/dev/nvidia{minor} ] || mknod /srv/tree/dev/nvidia{minor} c 1 3",
    )
    fleet.shell(HOST, f"cat >/srv/tree/client.py <<'END'{CLIENT.format(gpu=gpu)}END")
    unit = f"--unit client -p StandardInput=file:/srv/tree/dev/nvidia{minor}"
    fleet.shell(HOST, f"systemd-run -q {unit} python3 -IS /srv/tree/client.py")
    until(fleet, "journalctl -b -o cat -u client | grep -q 8192M")


def until(fleet: Fleet, condition: str) -> None:
    fleet.shell(HOST, f"timeout 30 sh -c 'until {condition}; do sleep 0.1; done'")


def test_daemons_serve_containers_and_go(fleet: Fleet) -> None:
    run(fleet, HOST)
    before = fleet.tree(HOST)
    uuids = uuids_of(fleet, HOST)
    sharing: dict[str, Any] = {
        uuids[0]: {"mps": {"clients": 4}},
        uuids[1]: {"mps": {"memory": "8Gi", "threads": 50}},
        uuids[2]: "dedicated",
    }

    announced = run(fleet, HOST, "--check", "--diff", sharing=sharing).of("host")[HOST]
    assert fleet.tree(HOST) == before
    assert state(fleet, uuids[0]) == "inactive"
    done = run(fleet, HOST, sharing=sharing).of("host")[HOST]
    assert done["differences"] == announced["differences"]
    assert [state(fleet, uuid) for uuid in uuids] == ["active", "active", "inactive"]
    assert fleet.shell(HOST, MODES).split() == ["Exclusive_Process", "Exclusive_Process", "Default"]
    assert [limits(fleet, uuid) for uuid in uuids[:2]] == [["25.0", "20389M"], ["50.0", "8192M"]]

    # A container has the way to its daemon, and to no other.
    shown = fleet.shell(HOST, f"{DOCKER} --device nvidia.com/mps=1 {images.PROBE} sh -c '{SHOW}'")
    assert f"CUDA_MPS_PIPE_DIRECTORY=/run/gpufleet-mps/{uuids[1]}/pipe\n" in shown
    assert f"\n/run/gpufleet-mps/{uuids[1]}/pipe/control\n" in shown
    assert "gpufleet-mps /dev/shm tmpfs rw,nosuid,nodev,noexec" in shown
    assert "\nnvidia1\n" in shown
    assert uuids[0] not in shown

    again = run(fleet, HOST, sharing=sharing)
    assert (again.changed, again.operations[HOST]) == ({}, 1)

    # What the role verify does after the role host.
    converge = {f"{HERE}host": {**OPTIONS, "sharing": sharing}, "register": "converged"}
    verify = {
        f"{HERE}host_verify": {
            "image": images.PROBE,
            "cdi_owner": "collection",
            "host_result": "{{ converged }}",
        }
    }
    verification = fleet.play(
        [{"hosts": HOST, "gather_facts": False, "tasks": [converge, verify]}], [HOST]
    )
    checks = {
        check["name"]: check["ok"] for check in verification.of("host_verify")[HOST]["checks"]
    }
    del checks["docker: runtime"]  # by the toolkit's own program, for which there is a stub here
    assert checks == {
        "docker: one": True,
        "docker: all": True,
        "docker: none": True,
        "docker: mps": True,
    }, verification.words
    seen = {
        row["gpu"]: row
        for row in fleet.task("host_info", [HOST], {**OPTIONS, "sharing": sharing}).of("host_info")[
            HOST
        ]["sharing"]
    }
    assert [(seen[uuid]["daemon"], seen[uuid]["violation"]) for uuid in uuids] == [
        ("active", ""),
        ("active", ""),
        ("", ""),
    ]

    # Other limits: one daemon begins again, the other does not.
    kept = process(fleet, uuids[0])
    run(fleet, HOST, sharing={**sharing, uuids[1]: {"mps": {"memory": "4G"}}})
    assert limits(fleet, uuids[1]) == ["100.0", "4096M"]
    assert process(fleet, uuids[0]) == kept
    run(fleet, HOST, sharing=sharing)

    # A daemon with a client is not ended by a run, and waits for it where a person ends it.
    begin_client(fleet, uuids[1], 1)
    assert "50.0 {'0': '8192M'}" in fleet.shell(HOST, "journalctl -b -o cat -u client")
    for change in ({}, {uuids[0]: sharing[uuids[0]]}, {**sharing, uuids[1]: "mps"}):
        failed = fleet.task("host", [HOST], {**OPTIONS, "sharing": change}).failed
        assert f"GPU {uuids[1]} is in use by /system.slice/client.service (process " in failed[HOST]
    assert run(fleet, HOST, sharing=sharing).changed == {}
    fleet.shell(HOST, f"systemctl stop --no-block gpufleet-mps@{uuids[1]}.service")
    until(
        fleet,
        f"[ $(systemctl show -p ActiveState --value gpufleet-mps@{uuids[1]}.service) = deactivating ]",
    )
    assert fleet.shell(HOST, "systemctl is-active client").strip() == "active"
    fleet.shell(HOST, "systemctl stop client")
    until(
        fleet,
        f"[ $(systemctl show -p ActiveState --value gpufleet-mps@{uuids[1]}.service) = inactive ]",
    )
    assert run(fleet, HOST, sharing=sharing).changed
    assert limits(fleet, uuids[1]) == ["50.0", "8192M"]

    # A daemon that is killed comes back, with its limits, where a container that runs already finds
    # it.
    fleet.shell(
        HOST,
        f"{DOCKER.replace('--rm', '-d --name tenant')} --device nvidia.com/mps=0 {images.PROBE} sleep 1000",
    )
    fleet.shell(HOST, f"kill -9 {kept}")
    until(
        fleet,
        f"[ $(systemctl show -p NRestarts,ActiveState gpufleet-mps@{uuids[0]}.service | tr -d [:space:]) = NRestarts=1ActiveState=active ]",
    )
    assert limits(fleet, uuids[0]) == ["25.0", "20389M"]
    pipe = f"/run/gpufleet-mps/{uuids[0]}/pipe"
    assert fleet.shell(
        HOST, f"docker exec tenant cat {pipe}/nvidia-cuda-mps-control.pid"
    ) == process(fleet, uuids[0])

    # Root of a container may write to the directory of sockets. It fills a file system of that
    # GPU's, and keeps no daemon from its start.
    full = f"chmod 777 {pipe}; mkdir -p {pipe}/a/b; dd if=/dev/zero of={pipe}/x bs=1M count=4"
    assert "No space left on device" in fleet.shell(
        HOST, f"docker exec tenant sh -c '{full}' 2>&1", fails=True
    )
    assert int(fleet.shell(HOST, f"stat -c %s {pipe}/x")) <= 1 << 20
    serving = process(fleet, uuids[0])
    fleet.shell(HOST, f"systemctl start gpufleet-mps@{uuids[0]}")
    assert (process(fleet, uuids[0]), limits(fleet, uuids[0])) == (serving, ["25.0", "20389M"])
    fleet.shell(HOST, f"kill -9 {serving}")
    until(
        fleet, f"systemctl show -p NRestarts gpufleet-mps@{uuids[0]}.service | grep -qx NRestarts=2"
    )
    until(
        fleet,
        f"[ $(systemctl show -p ActiveState --value gpufleet-mps@{uuids[0]}.service) = active ]",
    )
    assert limits(fleet, uuids[0]) == ["25.0", "20389M"]
    assert fleet.shell(HOST, f"stat -c %a {pipe}; ls {pipe} | grep -cx '[ax]' || true").split() == [
        "755",
        "0",
    ]
    fleet.shell(HOST, "docker rm -f tenant")

    # The daemon writes to no disk through a link of theirs: it has the driver's devices, and the
    # devices that every service has.
    fleet.shell(HOST, "[ -e /srv/tree/dev/disk ] || mknod /srv/tree/dev/disk b 7 0")
    group = fleet.shell(
        HOST, f"systemctl show -p ControlGroup --value gpufleet-mps@{uuids[0]}.service"
    ).strip()
    enter = f'echo $$ >"/sys/fs/cgroup{group}/cgroup.procs"'
    write = "sh -c '{}exec 3<>/srv/tree/dev/disk' 2>&1 || true"
    assert "not permitted" not in fleet.shell(HOST, write.format(""))
    assert "not permitted" in fleet.shell(HOST, write.format(f"{enter}; "))

    fleet.lab.kill(HOST)
    fleet.lab.boot(HOST)
    until(fleet, "systemctl is-active -q docker")
    assert [state(fleet, uuid) for uuid in uuids[:2]] == ["active"] * 2
    assert [limits(fleet, uuid) for uuid in uuids[:2]] == [["25.0", "20389M"], ["50.0", "8192M"]]
    assert fleet.shell(HOST, MODES).split() == ["Exclusive_Process", "Exclusive_Process", "Default"]
    assert run(fleet, HOST, sharing=sharing).changed == {}

    run(fleet, HOST, sharing={})
    assert [state(fleet, uuid) for uuid in uuids] == ["inactive"] * 3
    assert fleet.shell(HOST, MODES).split() == ["Default"] * 3
    assert fleet.tree(HOST) == before
    fleet.shell(HOST, "[ ! -e /run/gpufleet-mps ] && [ ! -e /var/lib/gpufleet-mps ]")


def test_what_does_not_serve_changes_nothing(fleet: Fleet) -> None:
    """A control program that takes no limit, and a host without one."""
    uuid = uuids_of(fleet, HOST)[0]
    program = "/usr/bin/nvidia-cuda-mps-control"
    before = fleet.tree(HOST)
    sharing = {uuid: {"mps": {"clients": 4}}}
    fleet.shell(
        HOST, f"cp -a {program} /root/; sed -i 's/self.threads = float/pass; float/' {program}"
    )
    failed = fleet.task("host", [HOST], {**OPTIONS, "sharing": sharing}).failed
    assert f"gpufleet-mps@{uuid}.service failed" in failed[HOST]
    assert "after set_default_active_thread_percentage 25 it answers 100.0" in fleet.shell(
        HOST, f"journalctl -b -o cat -u gpufleet-mps@{uuid}"
    )
    assert fleet.shell(HOST, MODES).split()[0] == "Default"
    fleet.shell(
        HOST,
        "[ ! -e /run/gpufleet-mps ] && [ ! -e /var/lib/gpufleet-mps ] && ! grep gpufleet-mps /proc/mounts",
    )
    fleet.shell(HOST, f"rm {program}")
    missing = fleet.task("host", [HOST], {**OPTIONS, "sharing": sharing}).failed
    assert "[sharing.no-control-program]" in missing[HOST]
    fleet.shell(HOST, f"mv /root/nvidia-cuda-mps-control {program}")
    assert fleet.tree(HOST) == before


def test_podman_asks_by_the_kind(fleet: Fleet) -> None:
    """It has a /dev/shm of its own for each container, in whose place the daemon's is. Units of
    GPUs without a UUID take a second look.
    """
    sharing = {"0": "dedicated", "0000:43:00.0": {"mps": {"threads": 30}}}
    done = fleet.task("host", [PODMAN], {**OPTIONS, "sharing": sharing})
    assert done.failed == {}, done.words
    uuid = uuids_of(fleet, PODMAN)[1]
    command = f"podman run --rm --pull=never --network=none --device nvidia.com/mps=1 {images.PROBE} sh -c '{SHOW}'"
    shown = fleet.shell(PODMAN, command)
    assert f"CUDA_MPS_PIPE_DIRECTORY=/run/gpufleet-mps/{uuid}/pipe\n" in shown
    assert f"\n/run/gpufleet-mps/{uuid}/pipe/control\n" in shown
    assert (
        shown.count("/dev/shm")
        == shown.count("gpufleet-mps /dev/shm tmpfs rw,nosuid,nodev,noexec")
        == 1
    )
    again = fleet.task("host", [PODMAN], {**OPTIONS, "sharing": sharing})
    assert (again.changed, again.operations[PODMAN]) == ({}, 2)
    # Without its daemon's directory no container starts with it.
    fleet.shell(
        PODMAN,
        f"systemctl stop gpufleet-mps@{uuid}; umount /run/gpufleet-mps/{uuid}/shm /run/gpufleet-mps/{uuid}/pipe; rm -r /run/gpufleet-mps",
    )
    assert f"/run/gpufleet-mps/{uuid}" in fleet.shell(PODMAN, f"{command} 2>&1", fails=True)
