# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent to a host is what was approved for it, whatever has changed since: on hosts that
run, by whole tasks.
"""

from __future__ import annotations

import json
import os
import pathlib
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import transport
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    approved,
    change,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    registered,
)

from tests.unit import gpus, repository_keys, running_host, running_hosts
from tests.unit.bound_hosts import mps, running
from tests.unit.running_host import Host, HostProcess, start_process

PHASE = "approval: "
SETTINGS = "/etc/gpufleet/mps.json"


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from start_process()


def look(host: Host, **options: Any) -> str:
    """The digest that the preflight of a rollout has of this host."""
    result = host.task("host_info", **{"packages": "ignore", **options})
    assert not result.get("failed"), result
    assert not result["problem"], result
    return change.digest_change(result, "gpu1")


def converge(host: Host, digest: str, **options: Any) -> dict[str, Any]:
    return host.task("host", **{"packages": "ignore", "approved_change": digest, **options})


def sent(host: Host) -> list[Any]:
    """The transactions that the host got. A request by which it only judges files is none."""
    return [
        request
        for request in host.wire
        if isinstance(request, dict)
        and "changes" in request
        and "journal_dir" in request
        and not request["judge"]
    ]


def test_what_was_approved_is_done(process: HostProcess) -> None:
    with running(process) as host:
        digest = look(host)
        result = converge(host, digest)
        assert not result.get("failed"), result
        assert change.digest_change(result, "gpu1") == digest
        # what is converged needs no approval, and one that nobody gives binds nothing
        for again in (digest, approved.NONE, ""):
            assert not converge(host, again)["changed"]


VARIABLES = [
    # approved with, rolled out with
    (mps(clients=2), mps(clients=48, memory="64M", threads=1)),
    ({}, {"cdi_profile": "devices"}),
    ({"cdi_features": ["utility"]}, {"cdi_profile": "devices"}),
    ({}, {"isolation": "strict", "cdi_device_names": ["uuid"]}),
    ({}, {"handlers": {"nvidia": {"binary": f"/opt/{'a' * 40}/nvidia"}}}),
]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(("before", "after"), VARIABLES)
def test_variables_that_changed_after_the_approval_are_not_carried_out(
    process: HostProcess, before: dict[str, Any], after: dict[str, Any], check: bool
) -> None:
    with running(process) as host:
        digest = look(host, **before)
        result = converge(host, digest, check=check, **after)
        assert result["failed"]
        assert result["msg"].startswith(PHASE)
        assert digest[: change.SHOWN] in result["msg"]
        assert not result["changed"]
        assert sent(host) == []
        assert not host.path(SETTINGS).exists()


def test_a_host_that_had_nothing_to_do_gets_nothing(process: HostProcess) -> None:
    with running(process) as host:
        result = converge(host, approved.NONE)
        assert result["msg"].startswith(f"{PHASE}nothing was approved")
        assert sent(host) == []


def test_a_host_that_changed_after_the_approval_is_not_changed(process: HostProcess) -> None:
    with running(process) as host:
        digest = look(host)
        host.put("/dev/nvidia2", gpus.node(195, 2))
        host.write(
            f"/proc/driver/nvidia/gpus/{gpus.BUSES[2]}/information",
            gpus.information(gpus.BUSES[2], 2, gpus.UUIDS[2]),
        )
        assert converge(host, digest)["msg"].startswith(PHASE)
        assert sent(host) == []


CONFLICTS = [
    # what somebody writes between the look and the transaction, whether what is planned then is
    # what was approved
    ("", True),
    ("\n[debug]\n  address = '/run/debug.sock'\n", True),
    (
        '\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n  runtime_type = "io.containerd.runc.v2"\n',
        False,
    ),
]


@pytest.mark.parametrize(("more", "same"), CONFLICTS)
def test_after_a_conflict_the_new_plan_is_compared(
    process: HostProcess, more: str, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = transport.run_host_program
    with running(process) as host:
        digest = look(host)

        def moved(action: Any, program: str, *rest: Any) -> dict[str, Any]:
            if program == "transaction" and not sent(host):
                place = host.path("/etc/containerd/config.toml")
                place.write_text(place.read_text() + more)
            return exchange(action, program, *rest)

        monkeypatch.setattr(transport, "run_host_program", moved)
        result = converge(host, digest)
        assert bool(result.get("failed")) is not same, result
        assert len(sent(host)) == (2 if same and more else 1)
        assert same or result["msg"].startswith(PHASE)


# ---------------------------------------------------------------- packages, after which the host is
# planned again

FAMILY = (
    "libnvidia-container1",
    "libnvidia-container-tools",
    "nvidia-container-toolkit-base",
    "nvidia-container-toolkit",
)
OFFERED = "".join(f"{name}:\n  Installed: (none)\n  Candidate: 1.17.8-1\n" for name in FAMILY)
BROUGHT = (
    "nvidia-cdi-hook",
    "nvidia-ctk",
    "nvidia-container-runtime",
    "nvidia-container-runtime.cdi",
    "nvidia-container-runtime.legacy",
)
CONFIG = """disable-require = false

[nvidia-container-cli]
environment = []

[nvidia-container-runtime]
mode = "auto"
runtimes = ["docker-runc", "runc", "crun"]
"""


def installed(_argv: list[str]) -> str:
    """What the packages do, in the host's own directory."""
    status, config = (
        pathlib.Path("/var/lib/dpkg/status"),
        pathlib.Path("/etc/nvidia-container-runtime/config.toml"),
    )
    rows = (
        f"Package: {name}\nStatus: install ok installed\nVersion: 1.17.8-1\n\n" for name in FAMILY
    )
    status.write_text(status.read_text() + "".join(rows))
    config.write_text(CONFIG)
    for name in BROUGHT:
        place = pathlib.Path("/usr/bin", name)
        place.write_text("x")
        place.chmod(0o755)
    return ""


def with_another_gpu(argv: list[str]) -> str:
    """The same on a host that has another GPU when the packages are there."""
    folder = pathlib.Path("/proc/driver/nvidia/gpus", gpus.BUSES[2])
    folder.mkdir()
    (folder / "information").write_text(gpus.information(gpus.BUSES[2], 2, gpus.UUIDS[2]))
    os.mknod("/dev/nvidia2", stat.S_IFCHR | 0o666, os.makedev(195, 2))
    return installed(argv)


def without_packages(host: Host, install: Callable[[list[str]], str]) -> None:
    for path in ("/etc/nvidia-container-runtime/config.toml", "/usr/bin/nvidia-container-runtime"):
        host.path(path).unlink()
    host.path("/etc/systemd/system/nvidia-cdi-refresh.service").unlink()
    host.program("apt-cache", OFFERED)
    host.program("env DEBIAN_FRONTEND=noninteractive apt-get install", install)
    host.program("rm -f /var/run/cdi/nvidia.yaml")


@pytest.mark.parametrize("engine", ["containerd, GPU", "containerd", "docker", "crio"])
def test_what_follows_from_packages_is_part_of_the_approved_plan(
    process: HostProcess, engine: str
) -> None:
    with running(process, engine) as host:
        without_packages(host, installed)
        more: dict[str, Any] = {"packages": "present", "no_gpu": "prepare"}
        result = converge(host, look(host, **more), **more)
        assert not result.get("failed"), result
        assert len(sent(host)) == 2


def test_a_host_that_changes_between_the_stages_gets_the_first_alone(process: HostProcess) -> None:
    with running(process) as host:
        without_packages(host, with_another_gpu)
        result = converge(host, look(host, packages="present"), packages="present")
        assert result["failed"]
        assert result["msg"].startswith(
            f"{PHASE}after its first stage this host plans something else"
        )
        assert "write /etc/ansible/facts.d/gpufleet.fact" in result["msg"]
        assert "What was done before stays in place: " in result["msg"]
        assert (len(sent(host)), result["changed"]) == (1, True)


LISTS = OFFERED.replace("1.17.8-1", "(none)")
REPOSITORY = {
    "packages": "present",
    "toolkit_repository": "http://mirror.example/deb",
    "toolkit_key": repository_keys.armor(repository_keys.OLD),
    "toolkit_key_fingerprint": repository_keys.FINGERPRINT,
}


def probed(argv: list[str]) -> str:
    """What the programs answer that a look brings: whether the repository is reached, and NVML."""
    if "proxies" in argv[-1]:
        return json.dumps({"tried": True, "reached": True, "why": ""})
    return running_hosts.answer_probe(json.dumps(gpus.nvml(2)["probe:nvml"]["value"]), argv)


@pytest.mark.parametrize(("version", "known"), [("1.17.8-1", True), ("", False)])
def test_a_repository_whose_release_the_plan_knows_brings_what_was_approved(
    process: HostProcess, version: str, known: bool
) -> None:
    """Without one, the mirror has an older release than the plan reckons with, and another CDI spec
    would follow.
    """
    with running(process) as host:
        without_packages(host, installed)
        host.path("/etc/apt/sources.list.d/gpufleet-nvidia.sources").unlink()
        first: list[Any] = [
            ("apt-cache", 0, LISTS, ""),
            (f"{sys.executable} -I -S - ", 0, probed, ""),
        ]
        host.known[:] = [*first, *host.known, ("apt-get", 0, "", ""), ("apt-config", 0, "", "")]
        more = {**REPOSITORY, "toolkit_version": version}
        result = converge(host, look(host, **more), **more)
        assert bool(result.get("failed")) is not known, result
        assert len(sent(host)) == (3 if known else 2)
        assert known or "gpufleet_toolkit_version" in result["msg"]


@pytest.mark.parametrize(
    ("value", "code"),
    [("5f0c1d2e3a4b5c6d", "digest"), ("yes", "digest"), ("A" * 64, "digest")],
)
def test_what_is_no_digest_is_refused_before_a_host_is_looked_at(
    process: HostProcess, value: str, code: str
) -> None:
    with pytest.raises(PlanError, match=rf"\[approval.{code}\]$"):
        approved.parse_approval(value)


@pytest.mark.parametrize("given", [{}, {"approved_change": "b" * 64}])
def test_a_rollouts_own_approval_is_required_before_a_host_is_looked_at(
    given: dict[str, Any],
) -> None:
    plan = {"hosts": {"gpu1": {"approved": "a" * 64}}}
    looks: list[Any] = []
    result = running_host.played_task(
        "host",
        given,
        lambda *asked: looks.append(asked),
        lambda **asked: looks.append(asked),
        variables={registered.ROLLOUT_PLAN: plan},
    )
    assert result["failed"]
    assert result["msg"].endswith(f"[{messages.OTHER_CHANGE.code}]")
    assert looks == []
