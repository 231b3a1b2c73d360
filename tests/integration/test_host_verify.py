# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verification on real engines: every way of injection, on hosts that the collection converged,
and what it says where nothing is right.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import preloaded
from tests.lab import images
from tests.lab.lab import Lab
from tests.tools import onlab

pytestmark = pytest.mark.lab

RECORD = "/var/log/nvidia-container-cli.jsonl"
CRICTL = "/opt/lab/bin/crictl"
PLAYBOOKS = Path(sys.executable).with_name("ansible-playbook")
COUNT_SSH = Path(__file__).resolve().parents[1] / "tools" / "count-ssh"
WITHOUT_CDI, STRICT = {"gpufleet_cdi": "disabled"}, {"gpufleet_isolation": "strict"}
# host -> (kind, GPUs, its variables, cases that must be verified by which way). By night
# test_each_release.py verifies each release of each engine.
HOSTS: dict[str, tuple[str, int, dict[str, str], str, tuple[str, ...]]] = {
    "check-16": ("containerd-1.6", 2, {}, "nvidia-runtime", ("one", "all", "none")),
    "check-16-strict": (
        "containerd-1.6",
        2,
        STRICT,
        "nvidia-runtime",
        ("one", "all", "none", "isolation"),
    ),
    "check-17": ("containerd-1.7", 1, {}, "native-cdi", ("one", "none", "management")),
    "check-17-legacy": ("containerd-1.7", 2, WITHOUT_CDI, "legacy", ("one", "all", "none")),
    "check-21": ("containerd-2.1", 2, {}, "native-cdi", ("one", "all", "none", "management")),
    "check-24": ("containerd-2.4", 2, {}, "native-cdi", ("one", "all", "none", "management")),
    "check-crio": ("crio-1.34", 2, {}, "native-cdi", ("one", "all", "none", "management")),
    "check-crio-hook": ("crio-1.34", 2, WITHOUT_CDI, "oci-hook", ("one", "all", "none")),
    "check-no-gpu": ("containerd-1.7", 0, {}, "", ()),
    "check-docker": ("docker", 1, {}, "native-cdi", ("one", "none", "runtime")),
    "check-docker-20": ("docker-20.10", 2, {}, "nvidia-runtime", ("one", "all", "none")),
    "check-docker-legacy": ("docker", 2, WITHOUT_CDI, "legacy", ("one", "all", "none")),
}
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
{tasks}
    - name: Keep what was found
      ansible.builtin.copy:
        content: "{{{{ gpufleet_verify_result | default({{}}) | to_json }}}}"
        dest: "{place}/{{{{ inventory_hostname }}}}.json"
        mode: "0600"
      delegate_to: localhost
      connection: local
      vars:
        ansible_python_interpreter: "{python}"
"""
CONVERGE = """
    - ansible.builtin.import_role:
        name: gpufleet.nvidia.toolkit
    - ansible.builtin.import_role:
        name: gpufleet.nvidia.host
"""
VERIFY = """
    - ansible.builtin.import_role:
        name: gpufleet.nvidia.verify
      ignore_errors: true
"""


class Fleet:
    """The hosts of this file, and running the role on them."""

    def __init__(self, lab: Lab, place: Path) -> None:
        self.lab, self.place = lab, place
        self.variables = onlab.settings()

    def play(
        self, tasks: str, *arguments: str, hosts: str = "all", **variables: Any
    ) -> dict[str, dict[str, Any]]:
        """Run tasks, and give each host's result of the role verify."""
        book = self.place / "play.yml"
        for old in self.place.glob("*.json"):
            old.unlink()
        book.write_text(PLAY.format(tasks=tasks, place=self.place, python=sys.executable))
        extra = self.place / "variables"
        extra.write_text(json.dumps({**self.variables, **variables}))
        for host, (_kind, _gpus, own, *_rest) in HOSTS.items():
            (self.place / "host_vars").mkdir(exist_ok=True)
            (self.place / "host_vars" / f"{host}.yml").write_text(json.dumps(own))
        command = [str(PLAYBOOKS), "-i", str(self.lab.inventory_path()), str(book), "-f", "12"]
        command += ["-l", hosts, "-e", f"@{extra}", *arguments]
        done = preloaded.run(command, self.place, self.lab.environment())
        # 2: a host failed, which is for that host's own test to tell
        assert done.returncode in (0, 2), done.stdout[-6000:] + done.stderr[-3000:]
        return {path.stem: json.loads(path.read_text()) for path in self.place.glob("*.json")}

    def exec(self, host: str, *argv: str) -> str:
        done = self.lab.exec(host, argv)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Lab.of_run("check") as lab:
        hosts = {
            name: {"kind": row[0], "gpus": row[1], "driver": "ok" if row[1] else "none"}
            for name, row in HOSTS.items()
        }
        lab.up({"hosts": hosts})
        yield Fleet(lab, tmp_path_factory.mktemp("check"))


@pytest.fixture(scope="module")
def untouched(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """What the verification says before anything was configured."""
    return fleet.play(VERIFY)


@pytest.fixture(scope="module")
def verified(fleet: Fleet, untouched: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What it says after the collection converged the hosts."""
    fleet.play(CONVERGE)
    return fleet.play(VERIFY)


def of(results: dict[str, dict[str, Any]], host: str, fleet: Fleet) -> dict[str, Any]:
    if host in fleet.lab.skipped:
        pytest.skip(f"{host} cannot be carried here: it {fleet.lab.skipped[host]}")
    return results[host]


# What an untouched host of that kind must complain about.
COMPLAINTS = [
    ("check-16", "/dev/nvidia0 was requested and is not in the container"),
    ("check-17", "[verify.cdi-ignored]"),
    ("check-21", "unresolvable CDI devices nvidia.com/gpu=0"),
    ("check-24", 'no runtime for "nvidia" is configured'),
    ("check-crio", "failed to find runtime handler nvidia"),
    ("check-docker", 'could not select device driver "cdi"'),
    ("check-crio-hook", "says nothing that matches --device=0"),
]


@pytest.mark.parametrize(("host", "complaint"), COMPLAINTS)
def test_an_untouched_host_fails_with_the_reason_and_the_next_step(
    host: str, complaint: str, fleet: Fleet, untouched: dict[str, dict[str, Any]]
) -> None:
    result = of(untouched, host, fleet)
    assert result["failed"]
    assert complaint in result["msg"]
    assert "Next: " in result["msg"]
    assert {c["name"].partition(": ")[2]: c["ok"] for c in result["checks"]}["none"], (
        "nothing asked for, nothing given"
    )


@pytest.mark.parametrize("host", [name for name, row in HOSTS.items() if row[3]])
def test_a_converged_host_is_verified_by_its_own_way(
    host: str, fleet: Fleet, verified: dict[str, dict[str, Any]]
) -> None:
    result = of(verified, host, fleet)
    _kind, gpus, _own, injection, names = HOSTS[host]
    assert result.get("msg", "") == ""
    assert result["verified"]
    assert not result["changed"]
    assert [c["name"].partition(": ")[2] for c in result["checks"]] == list(names)
    assert {c["injection"] for c in result["checks"]} == {injection}
    for check in result["checks"]:
        assert check["found"] == expected(
            check, gpus, recorded=injection in ("legacy", "oci-hook")
        ), check["name"]


def expected(check: dict[str, Any], gpus: int, *, recorded: bool) -> dict[str, str]:
    """What each node must have given: allowed and no driver behind it, refused by the device
    cgroup, or not there.
    """
    given = "absent" if recorded else "ENXIO"
    answers = {"refused": "EPERM", "allowed": given, "optional": given}
    assert (
        len([path for path in check["expected"] if re.fullmatch("/dev/nvidia[0-9]+", path)]) == gpus
    )
    companions = {
        path: result
        for path, result in check["found"].items()
        if check["expected"][path] == "optional" and not recorded
    }
    assert set(companions.values()) <= {"ENXIO", "absent"}
    return {**{path: answers[expect] for path, expect in check["expected"].items()}, **companions}


@pytest.mark.parametrize("host", ["check-17-legacy", "check-crio-hook", "check-docker-legacy"])
def test_the_legacy_ways_call_the_command_line_for_just_what_was_asked(
    host: str, fleet: Fleet, verified: dict[str, dict[str, Any]]
) -> None:
    one, everything, none = of(verified, host, fleet)["checks"]
    assert ["--device=0" in line for line in one["record"]] == [True]
    assert ["--device=all" in line for line in everything["record"]] == [True]
    assert none["record"] == []


def test_a_host_with_nothing_to_verify_says_why(
    fleet: Fleet, verified: dict[str, dict[str, Any]]
) -> None:
    result = of(verified, "check-no-gpu", fleet)
    assert "no GPU" in result["skipped_why"]
    assert (result["checks"], result["verified"], result.get("failed", False)) == ([], False, False)


def test_nothing_is_left_on_the_hosts(fleet: Fleet, verified: dict[str, dict[str, Any]]) -> None:
    for host, result in verified.items():
        assert result["left"] == []
        if result["checks"]:
            listed = ["docker", "ps", "-aq"] if "docker" in host else [CRICTL, "pods", "-q"]
            assert fleet.exec(host, *listed) == ""
        assert fleet.exec(host, "find", "/run", "-maxdepth", "1", "-name", "gpufleet-check*") == ""


def test_the_gpus_option_of_docker_works_beside_cdi(
    fleet: Fleet, verified: dict[str, dict[str, Any]]
) -> None:
    """It calls NVIDIA's hook by itself, which refuses to work in cdi mode unless it is told to."""
    of(verified, "check-docker", fleet)
    install = "apt-get install -qq -y --no-install-recommends nvidia-container-toolkit"
    fleet.exec("check-docker", "sh", "-c", f"{install} && systemctl restart docker")
    run = (
        "docker",
        "run",
        "--rm",
        "--pull=never",
        "--network=none",
        "--gpus=all",
        images.PROBE,
        "echo",
        "started",
    )
    assert fleet.exec("check-docker", *run).strip() == "started"
    assert "--device=all" in fleet.exec("check-docker", "tail", "-n1", RECORD)


def test_check_mode_starts_nothing(fleet: Fleet, verified: dict[str, dict[str, Any]]) -> None:
    result = fleet.play(VERIFY, "--check", hosts="check-16")
    assert result == {} or [c["ok"] for c in result["check-16"]["checks"]] == [None, None, None]
    assert fleet.exec("check-16", CRICTL, "pods", "-q") == ""


def timeless(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in check.items() if k not in ("seconds", "record", "again")}
        for check in result["checks"]
    ]


def test_the_module_finds_what_the_script_over_stdin_finds(
    fleet: Fleet, verified: dict[str, dict[str, Any]]
) -> None:
    again = fleet.play(VERIFY, hosts="check-16,check-17-legacy", gpufleet_transport="module")
    for host in again:
        assert timeless(again[host]) == timeless(verified[host])


def test_a_verification_costs_two_ssh_operations_per_host(
    fleet: Fleet,
    verified: dict[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One look, and all the containers."""
    counted = tmp_path / "counted"
    counted.touch()
    monkeypatch.setenv("COUNT_SSH_LOG", str(counted))
    monkeypatch.setenv("COUNT_SSH_PROGRAM", str(fleet.lab.runtime / "ssh"))
    fleet.play(VERIFY, hosts="check-16,check-17", ansible_ssh_executable=str(COUNT_SSH))
    assert sorted(Counter(counted.read_text().split()).values()) == [2, 2]


def test_an_image_that_is_not_there_is_said_with_the_way_to_load_it(
    fleet: Fleet, verified: dict[str, dict[str, Any]]
) -> None:
    result = fleet.play(VERIFY, hosts="check-16", gpufleet_verify_image="localhost/none:1")[
        "check-16"
    ]
    assert result["msg"].startswith("3 of 3 checks failed. containerd: one, ")
    assert result["msg"].count("ImageStatus: image localhost/none:1 is not on this host") == 1, (
        "once for all checks"
    )
    assert "ctr -n k8s.io images import" in result["msg"]


# Hosts with runc, with crun and with Docker. Each says in its own words what it lacks.
LACKING = ("check-21", "check-24", "check-crio", "check-docker")
FIND_CUDA = "find /usr/lib -name 'libcuda.so.*.*' -type f"


def test_a_file_of_the_spec_that_is_gone_is_named_with_its_path(
    fleet: Fleet, verified: dict[str, dict[str, Any]]
) -> None:
    hosts = [host for host in LACKING if host not in fleet.lab.skipped]
    libraries = {host: fleet.exec(host, "sh", "-c", FIND_CUDA).split()[0] for host in hosts}
    for host, path in libraries.items():
        fleet.exec(host, "mv", path, f"{path}.away")
    try:
        results = fleet.play(VERIFY, hosts=",".join(hosts))
    finally:
        for host, path in libraries.items():
            fleet.exec(host, "mv", f"{path}.away", path)
    for host, path in libraries.items():
        assert path in results[host]["msg"], results[host]["msg"]
        assert "[verify.spec-file-gone]" in results[host]["msg"]
