# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab itself: every kind of host serves containers, faults happen as asked for, and nothing is
left behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import Lab, LabError, artefacts, cgroup, doctor, images, network, seed
from tests.lab.kinds import KINDS

pytestmark = pytest.mark.lab

ANSIBLE = Path(sys.executable).with_name("ansible")
CARRIED = [name for name, kind in KINDS.items() if not doctor.obstacle(kind)]
CRI = [name for name in CARRIED if name in images.PAUSE_NAMES]
PODMAN = [name for name in CARRIED if name.startswith("podman")]
POD = {
    "metadata": {"name": "pod", "uid": "pod", "namespace": "lab", "attempt": 0},
    "linux": {"security_context": {"namespace_options": {"network": 2}}},
}
DEVICE = {"container_path": "/dev/nvidia0", "host_path": "/dev/nvidia0", "permissions": "rw"}
CONTAINER = {
    "metadata": {"name": "c"},
    "image": {"image": images.PROBE},
    "command": ["/bin/sleep", "600"],
    "linux": {},
}
OPEN = "cat /dev/nvidia0"
RUN_POD = """
set -eu
cd /run
printf %s "$1" > pod.json
printf %s "$2" > container.json
pod=$(/opt/lab/bin/crictl runp pod.json)
container=$(/opt/lab/bin/crictl create "$pod" container.json pod.json)
/opt/lab/bin/crictl start "$container" >/dev/null
/opt/lab/bin/crictl exec "$container" sh -c "$3" 2>&1 || true
/opt/lab/bin/crictl --timeout 30s rmp --force "$pod" >/dev/null
"""


def name_of(kind: str) -> str:
    return kind.replace(".", "")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One host of each kind that this machine can carry."""
    with Lab.of_run("lab") as one:
        one.up({"hosts": {name_of(kind): {"kind": kind, "gpus": 1} for kind in CARRIED}})
        yield one


def said(lab: Lab, kind: str, *argv: str) -> str:
    done = lab.exec(name_of(kind), argv)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ping(lab: Lab, kind: str) -> int:
    return lab.run([str(ANSIBLE), name_of(kind), "-m", "ansible.builtin.ping"]).returncode


@pytest.mark.parametrize("kind", CARRIED)
def test_a_host_has_booted_without_a_failed_unit(lab: Lab, kind: str) -> None:
    why = "systemctl --failed --no-legend --plain | cut -d ' ' -f 1 | while read unit; do journalctl --no-pager -n 20 -u $unit; done"
    state = lab.exec(name_of(kind), ["systemctl", "is-system-running"]).stdout
    assert state == "running\n", said(lab, kind, "sh", "-c", why)
    assert said(lab, kind, "systemctl", "is-active", KINDS[kind].service) == "active\n"


@pytest.mark.skipif(not doctor.has_go(), reason="crictl is built with Go, and there is no Go here")
@pytest.mark.parametrize("kind", CRI)
def test_an_engine_serves_cri_and_its_network_is_ready(lab: Lab, kind: str) -> None:
    status = json.loads(said(lab, kind, "/opt/lab/bin/crictl", "info"))["status"]
    assert {one["type"]: one["status"] for one in status["conditions"]}.items() >= {
        "RuntimeReady": True,
        "NetworkReady": True,
    }.items()


@pytest.mark.skipif(not doctor.has_go(), reason="crictl is built with Go, and there is no Go here")
@pytest.mark.parametrize("kind", CRI)
@pytest.mark.parametrize(
    "devices, answer",
    [
        # allowed by the device filter, and no driver answers
        (
            [DEVICE],
            "No such device or address",
        ),
        ([], "No such file or directory"),
    ],
)
def test_a_container_opens_just_the_devices_it_was_given(
    lab: Lab, kind: str, devices: list[dict[str, str]], answer: str
) -> None:
    container = json.dumps({**CONTAINER, "devices": devices})
    assert answer in said(
        lab, kind, "sh", "-c", RUN_POD, "run-pod", json.dumps(POD), container, OPEN
    )


@pytest.mark.skipif(not doctor.has_go(), reason="crictl is built with Go, and there is no Go here")
@pytest.mark.parametrize("kind", [kind for kind in CRI if kind.startswith("containerd")])
def test_the_device_filter_is_at_work(lab: Lab, kind: str) -> None:
    made = "mknod /tmp/node c 195 0; cat /tmp/node"
    assert "Operation not permitted" in said(
        lab, kind, "sh", "-c", RUN_POD, "run-pod", json.dumps(POD), json.dumps(CONTAINER), made
    )


def test_docker_runs_a_container_with_a_device_and_its_containerd_serves_no_kubelet(
    lab: Lab,
) -> None:
    run = [
        "docker",
        "run",
        "--rm",
        "--device",
        "/dev/nvidia0",
        images.PROBE,
        "sh",
        "-c",
        f"{OPEN} 2>&1 || true",
    ]
    assert "No such device or address" in said(lab, "docker", *run)
    plugins = said(lab, "docker", "ctr", "plugins", "ls")
    assert "cri" not in {line.split()[1] for line in plugins.splitlines()[1:]}


@pytest.mark.parametrize("kind", PODMAN)
@pytest.mark.parametrize("account", ["root", seed.OPERATOR])
def test_podman_runs_a_container_with_a_device_for_root_and_for_others(
    lab: Lab, kind: str, account: str
) -> None:
    run = f"podman run --rm --device /dev/nvidia0 {images.PROBE} sh -c '{OPEN} 2>&1 || true'"
    assert "No such device or address" in said(lab, kind, "runuser", "-l", account, "-c", run)


@pytest.mark.parametrize("kind", [kind for kind in CARRIED if KINDS[kind].package])
def test_the_package_database_names_the_version_that_runs(lab: Lab, kind: str) -> None:
    package = KINDS[kind].package
    version = said(lab, kind, "dpkg-query", "-W", "-f", "${Version}", package).split("-")[0]
    assert f" v{version} " in said(lab, kind, package, "--version")


RANCHER = [kind for kind in CARRIED if KINDS[kind].tree == "rancher"]
HANDLER = """{{{{ template "base" . }}}}
[plugins.{table}.containerd.runtimes.other]
runtime_type = "io.containerd.runc.v2"
"""


def restarted(lab: Lab, kind: str, template: str, text: str) -> int:
    """The status of a restart with this file of a user."""
    home = f"{Path(KINDS[kind].state[0]).parent}/etc/containerd"
    place = f"printf %s '{text}' >{home}/{template}" if text else f"rm {home}/{template}"
    return lab.exec(
        name_of(kind),
        ["sh", "-ec", f"{place}; systemctl reset-failed; systemctl restart {KINDS[kind].service}"],
    ).returncode


@pytest.mark.parametrize("kind", RANCHER)
def test_what_stands_for_k3s_renders_a_template_of_the_user_by_gos_rules(
    lab: Lab, kind: str
) -> None:
    old = kind.endswith("1.7")
    template = "config.toml.tmpl" if old else "config-v3.toml.tmpl"
    table = '"io.containerd.grpc.v1.cri"' if old else '"io.containerd.cri.v1.runtime"'
    assert restarted(lab, kind, template, HANDLER.format(table=table)) == 0
    assert '"other":' in said(lab, kind, "/opt/lab/bin/crictl", "info")
    twice = HANDLER.format(table=table).replace("other", "runc")
    for broken in ('{{ template "base" .', "{{ .NoSuchField }}", twice):
        assert restarted(lab, kind, template, broken) != 0
    assert restarted(lab, kind, template, "") == 0
    assert '"other":' not in said(lab, kind, "/opt/lab/bin/crictl", "info")


@pytest.mark.parametrize(("kind", "read"), [(kind, not kind.endswith("1.7")) for kind in RANCHER])
def test_a_drop_in_is_read_by_the_releases_that_import_it(lab: Lab, kind: str, read: bool) -> None:
    text = HANDLER.format(table='"io.containerd.cri.v1.runtime"').partition("\n")[2]
    said(
        lab,
        kind,
        "mkdir",
        "-p",
        f"{Path(KINDS[kind].state[0]).parent}/etc/containerd/config-v3.toml.d",
    )
    assert restarted(lab, kind, "config-v3.toml.d/10-other.toml", "version = 3\n" + text) == 0
    assert ('"other":' in said(lab, kind, "/opt/lab/bin/crictl", "info")) is read
    assert restarted(lab, kind, "config-v3.toml.d/10-other.toml", "") == 0


def test_ansible_reaches_every_host_as_root_and_by_sudo(lab: Lab) -> None:
    for more in ([], ["-e", "ansible_user=ops", "--become"]):
        done = lab.run(
            [str(ANSIBLE), "gpu_hosts", "-m", "ansible.builtin.command", "-a", "id -u", *more]
        )
        assert done.stdout.count("| rc=0 >>\n0\n") == len(CARRIED), done.stdout + done.stderr


def test_a_reboot_through_ansible_comes_back_with_the_disk_as_it_was(lab: Lab) -> None:
    said(lab, "containerd-1.7", "touch", "/etc/kept")
    done = lab.run([str(ANSIBLE), name_of("containerd-1.7"), "-m", "ansible.builtin.reboot"])
    assert done.returncode == 0, done.stdout + done.stderr
    said(lab, "containerd-1.7", "test", "-e", "/etc/kept")


def test_a_host_without_power_is_gone_until_it_is_booted(lab: Lab) -> None:
    said(lab, "containerd-1.6", "touch", "/etc/kept")
    lab.kill(name_of("containerd-1.6"))
    with pytest.raises(LabError, match="is not running"):
        lab.exec(name_of("containerd-1.6"), ["true"])
    lab.boot(name_of("containerd-1.6"))
    assert said(lab, "containerd-1.6", "systemctl", "is-system-running") == "running\n"
    said(lab, "containerd-1.6", "test", "-e", "/etc/kept")
    assert ping(lab, "containerd-1.6") == 0


def test_an_unplugged_host_is_unreachable_until_it_is_plugged_in(lab: Lab) -> None:
    lab.link(name_of("docker"), "down")
    assert ping(lab, "docker") != 0
    lab.link(name_of("docker"), "up")
    assert ping(lab, "docker") == 0


def test_a_full_disk_takes_what_was_left_and_no_more(lab: Lab) -> None:
    lab.fill(name_of("containerd-1.7"), "64k")
    full = lab.exec(
        name_of("containerd-1.7"), ["dd", "if=/dev/zero", "of=/var/big", "bs=4k", "count=64"]
    )
    assert "No space left on device" in full.stderr
    lab.fill(name_of("containerd-1.7"), "off")
    said(lab, "containerd-1.7", "dd", "if=/dev/zero", "of=/var/big", "bs=4k", "count=64")


@pytest.mark.skipif(not doctor.has_go(), reason="NVIDIA's tools are built with Go")
def test_a_host_installs_nvidias_packages_from_the_signed_repository(lab: Lab) -> None:
    fetch = "import urllib.request as u; open('/etc/apt/keyrings/lab.asc', 'wb').write(u.urlopen('http://10.77.0.1:8099/gpgkey').read())"
    source = "deb [signed-by=/etc/apt/keyrings/lab.asc] http://10.77.0.1:8099/stable/deb/amd64 /"
    said(lab, "containerd-1.7", "mkdir", "-p", "/etc/apt/keyrings")
    said(lab, "containerd-1.7", "python3", "-c", fetch)
    said(lab, "containerd-1.7", "sh", "-c", f"echo '{source}' > /etc/apt/sources.list.d/lab.list")
    said(lab, "containerd-1.7", "apt-get", "-q", "update")
    said(lab, "containerd-1.7", "apt-get", "-q", "install", "-y", "nvidia-container-toolkit")
    assert "1.20.2" in said(lab, "containerd-1.7", "nvidia-ctk", "--version")


def test_a_second_up_leaves_a_host_alone_and_refuses_another_one_of_its_name(lab: Lab) -> None:
    kind = "containerd-1.7"
    boot = said(lab, kind, "cat", "/proc/sys/kernel/random/boot_id")
    lab.up({"hosts": {name_of(kind): {"kind": kind, "gpus": 1}}})
    assert said(lab, kind, "cat", "/proc/sys/kernel/random/boot_id") == boot
    with pytest.raises(LabError, match="not as wanted"):
        lab.up({"hosts": {name_of(kind): {"kind": kind, "gpus": 2}}})


def test_a_host_at_the_address_of_one_that_left_is_reached_at_once(lab: Lab) -> None:
    """The controller knows the first one's hardware address for a while, and asking there first
    takes longer than Ansible waits.
    """
    addresses = []
    for name in ("first", "second"):
        host = lab.up({"hosts": {name: {"kind": "containerd-1.7", "gpus": 0, "driver": "none"}}})[
            name
        ]
        done = lab.run([str(ANSIBLE), name, "-m", "ansible.builtin.ping"])
        assert done.returncode == 0, done.stdout + done.stderr
        lab.down([name])
        addresses.append(host.address)
    assert addresses[0] == addresses[1]


def traces(name: str) -> list[str]:
    """All that a lab of this name has left on the machine."""
    places = [
        artefacts.lab_dir() / "hosts" / name,
        Path("/run/gpufleet-lab") / name,
        network.namespace(name),
    ]
    places += [home / name for home in cgroup.hierarchies()]
    commands = [Path("/proc", pid, "cmdline") for pid in os.listdir("/proc") if pid.isdigit()]
    running = []
    for command in commands:
        try:
            text = command.read_text().replace("\0", " ")
        except OSError:
            continue
        if f"/hosts/{name}/" in text and "supervise.sh" in text:
            running.append(text)
    mounts = [
        line
        for line in Path("/proc/self/mounts").read_text().splitlines()
        if f"/hosts/{name}/" in line
    ]
    return [str(place) for place in places if place.exists()] + running + mounts


BAD_INIT = {"/usr/lib/systemd/systemd": None}
HANGING = {
    "/etc/systemd/system/lab-net.service.d/hang.conf": "[Service]\nTimeoutStartSec=600\nExecStartPre=/bin/sleep 600\n"
}


def fleet_of(**files: dict[str, str | None]) -> dict[str, object]:
    return {
        "hosts": {
            name: {"kind": "containerd-1.7", "gpus": 0, "driver": "none", "files": texts}
            for name, texts in files.items()
        }
    }


def test_going_down_leaves_no_trace_and_can_be_said_twice() -> None:
    lab = Lab.of_run("down")
    lab.up(fleet_of(one={}, two={}))
    assert traces(lab.name)
    lab.down()
    assert traces(lab.name) == []
    lab.down()


def test_a_failed_boot_shows_the_console_and_leaves_no_trace() -> None:
    lab = Lab.of_run("fail")
    with pytest.raises(LabError, match=r"(?s)did not boot.*execv"):
        lab.up(fleet_of(good={}, bad=BAD_INIT))
    assert traces(lab.name) == []


def listen() -> None:
    """A shell's background job has SIGINT ignored, and so has all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupted_boot_leaves_no_trace(tmp_path: Path) -> None:
    fleet, name = tmp_path / "fleet.json", Lab.of_run("stop").name
    fleet.write_text(json.dumps(fleet_of(good={}, hangs=HANGING)))
    environment = {**os.environ, "GPUFLEET_LAB_NAME": name}
    command = [sys.executable, "-m", "tests.lab", "up", "--fleet", str(fleet)]
    with subprocess.Popen(
        command,
        cwd=artefacts.REPO,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listen,
    ) as process:
        for _turn in cgroup.until("the hanging host to begin its boot", 60):
            if (artefacts.lab_dir() / "hosts" / name / "hangs/power").exists():
                break
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)  # people press it twice
        assert "stopped" in process.communicate()[1]
    assert process.returncode == 130
    assert traces(name) == []


# A checkout of its own, so the labs of the person at the keyboard are none of its business.
IN_CHECKOUT = """
import sys
from pathlib import Path
from tests.lab import claims
claims.CHECKOUT = Path(sys.argv.pop(1))
"""
CONTROLS = (
    IN_CHECKOUT
    + """
import signal
from tests.lab.lab import Lab
lab = Lab(sys.argv[1], kept=sys.argv[2] == "kept")
lab.up({"hosts": {"left": {"kind": "containerd-1.7", "gpus": 0, "driver": "none"}}})
print("up", flush=True)
if not lab.kept:
    signal.pause()
"""
)
DOWN = IN_CHECKOUT + "from tests.lab import __main__; sys.exit(__main__.main(['down']))"
NEXT = IN_CHECKOUT + "from tests.lab.lab import take_leftovers_away; print(*take_leftovers_away())"


def in_checkout(place: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "GPUFLEET_LAB_NAME"}
    environment["GPUFLEET_LAB_DIR"] = str(artefacts.lab_dir())
    command = [sys.executable, "-c", script, str(place), *arguments]
    return subprocess.Popen(
        command,
        cwd=artefacts.REPO,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("how", "said"),
    [(DOWN, "the lab {}, which a process has left behind, is down\n"), (NEXT, "{}\n")],
)
def test_what_a_killed_process_leaves_is_taken_away_by_down_and_by_the_next_run(
    tmp_path: Path, how: str, said: str
) -> None:
    name = Lab.of_run("killed").name
    controls = in_checkout(tmp_path, CONTROLS, name, "not kept")
    assert controls.stdout
    assert controls.stdout.readline() == "up\n"
    living = in_checkout(tmp_path, DOWN)
    out, words = living.communicate()
    assert (living.returncode, out) == (1, "")
    assert f"{name} is in use by process {controls.pid} " in words
    assert in_checkout(tmp_path, NEXT).communicate()[0] == "\n"
    controls.kill()
    controls.communicate()
    assert traces(name)
    taken = in_checkout(tmp_path, how)
    assert taken.communicate() == (said.format(name), "")
    assert taken.returncode == 0
    assert traces(name) == []


def test_hosts_that_were_brought_up_to_stay_go_with_down_alone(tmp_path: Path) -> None:
    name = Lab.of_run("kept").name
    assert in_checkout(tmp_path, CONTROLS, name, "kept").communicate() == ("up\n", "")
    assert in_checkout(tmp_path, NEXT).communicate()[0] == "\n"
    assert traces(name)
    assert in_checkout(tmp_path, DOWN).communicate() == (f"the lab {name} is down\n", "")
    assert traces(name) == []
