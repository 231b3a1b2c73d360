# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real Docker daemons: what a reload brings, what a restart costs and who is asked for it, and the
way back.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tools.onlab import PROBE, RUNTIME, Fleet, differing

pytestmark = pytest.mark.lab

NEW, OLD = "dock-26", "dock-20"  # Debian trixie's, which knows CDI, and bookworm's, which does not
BOTH = "dock-cri"  # as Debian's and Ubuntu's docker.io comes: its containerd serves CRI as well
SERVES_CRI = """version = 2

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
"""
CONFIG = "/etc/docker/daemon.json"
OURS = f"{CONFIG} /var/lib/gpufleet /etc/cdi/nvidia.yaml /etc/nvidia-container-runtime /etc/ansible/facts.d"
RUN = "docker run --pull=never --network=none"
BYSTANDERS = (
    f"for name in web db; do {RUN} -d --stop-signal=KILL --name $name {PROBE} sleep 100000; done"
)
PIDS = "docker inspect -f '{{.State.Pid}}' web db"
# Only the runtime is there, which does not tell its version.
UNJUDGED = "[known-bad.not-judged]"
NO_LIST = {"handlers": {"nvidia": {"options": {"runtimeArgs": "no list"}}}}
OWN = '{\n\t"log-opts": {"max-size": "10m"},\n\t"shutdown-timeout": 2\n}'


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    both = {"kind": "docker", "gpus": 1, "files": {"/etc/containerd/config.toml": SERVES_CRI}}
    found: Fleet = boot(
        {NEW: {"kind": "docker", "gpus": 1}, OLD: {"kind": "docker-20.10", "gpus": 1}, BOTH: both}
    )
    for host in (NEW, OLD, BOTH):
        found.shell(host, RUNTIME)
    return found


def begin(fleet: Fleet, host: str, text: str) -> None:
    """A daemon that runs with this file, and two containers in it."""
    fleet.shell(
        host,
        f"docker ps -aq | xargs -r docker rm -f >/dev/null; rm -rf {OURS}; printf %s '{text}' >{CONFIG};"
        f" systemctl reset-failed docker; systemctl restart docker; {BYSTANDERS}",
    )


def run_host(fleet: Fleet, host: str, *arguments: str, **options: Any) -> dict[str, Any]:
    run = fleet.task("host", [host], {"packages": "ignore", **options}, arguments=arguments)
    assert run.failed == {}, run.words
    return run.of("host")[host]


def info(fleet: Fleet, host: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(fleet.shell(host, "docker info --format '{{json .}}'"))
    return said


def daemon(fleet: Fleet, host: str) -> str:
    return fleet.shell(host, "systemctl show -P MainPID docker")


def test_a_restart_that_would_end_containers_is_left_to_you(fleet: Fleet) -> None:
    begin(fleet, NEW, OWN)
    before, tree = (daemon(fleet, NEW), fleet.shell(NEW, PIDS)), fleet.tree(NEW)
    announced = run_host(fleet, NEW, "--check")
    assert differing(tree, fleet.tree(NEW)) == {}
    done = run_host(fleet, NEW)
    for told in (announced, done):
        assert (told["changed"], told["restarted"]) == (True, [])
        assert told["actions"][-1] == "reload docker.service"
        assert "2 running containers (db, web)" in told["advice"][0]
        assert told["advice"][0].endswith("[docker.restart-left]")
    assert (daemon(fleet, NEW), fleet.shell(NEW, PIDS)) == before
    said = info(fleet, NEW)
    assert ("nvidia" in said["Runtimes"], said["CDISpecDirs"]) == (True, []), (
        "the reload brings the runtime, and not CDI"
    )
    assert "Hello" in fleet.shell(NEW, f"{RUN} --rm --runtime nvidia {PROBE} echo Hello")
    again = run_host(fleet, NEW)
    assert (again["changed"], again["restarted"]) == (False, [])
    (pending,) = fleet.task("host_info", [NEW]).of("host_info")[NEW]["pending"]
    assert pending["unit"] == "docker.service"
    fleet.shell(NEW, "systemctl restart docker")  # the person, when it suits
    after = fleet.task("host_info", [NEW], {"packages": "ignore"}).of("host_info")[NEW]
    assert (after["pending"], after["differences"]) == ([], [])
    assert info(fleet, NEW)["CDISpecDirs"] == ["/etc/cdi", "/var/run/cdi"]
    assert fleet.text(NEW, CONFIG).endswith(OWN[2:]), "every line of others is as it was"


OTHER_WAY = pytest.mark.nightly(
    "by day Docker is restarted and refused in other ways on the same hosts; unit tests have the rule"
)
# As nvidia-ctk 1.20.1 writes it, and the package nvidia-docker2 before.
BY_TOOLS = {
    "nvidia-ctk": '{{"default-runtime": "nvidia", {}"runtimes": {{"nvidia": {{"args": [], "path": "nvidia-container-runtime"}}}}}}',
    "nvidia-docker2": '{{{}"runtimes": {{"nvidia": {{"path": "nvidia-container-runtime", "runtimeArgs": []}}}}}}',
}


@pytest.mark.nightly(
    "the judge of Docker reads the same files, and unit tests take over the same runtimes"
)
@pytest.mark.parametrize("tool", list(BY_TOOLS))
def test_the_runtime_of_nvidias_own_tools_is_used_where_it_stands_and_given_back(
    fleet: Fleet, tool: str
) -> None:
    text = BY_TOOLS[tool].format('"live-restore": true, ')
    begin(fleet, NEW, text)
    pids, default = fleet.shell(NEW, PIDS), json.loads(text).get("default-runtime")
    done = run_host(fleet, NEW)
    assert [(left["tool"], left["settings"][0], left["fate"]) for left in done["leftovers"]] == [
        (tool, "runtimes.nvidia", "adopted")
    ]
    after = json.loads(fleet.text(NEW, CONFIG))
    assert after == {**json.loads(text), "features": {"cdi": True}}
    assert (info(fleet, NEW)["DefaultRuntime"], fleet.shell(NEW, PIDS)) == (default or "runc", pids)
    assert run_host(fleet, NEW)["changed"] is False
    run_host(fleet, NEW, state="absent")
    assert (fleet.text(NEW, CONFIG), fleet.shell(NEW, PIDS)) == (text, pids)


@OTHER_WAY
def test_with_live_restore_containers_live_on(fleet: Fleet) -> None:
    begin(fleet, NEW, '{"live-restore": true}')
    before, pids = daemon(fleet, NEW), fleet.shell(NEW, PIDS)
    done = run_host(fleet, NEW)
    assert done["restarted"] == ["docker.service"]
    assert [sentence.endswith(UNJUDGED) for sentence in done["advice"][1:]] == [True]
    assert daemon(fleet, NEW) != before
    assert fleet.shell(NEW, PIDS) == pids
    assert info(fleet, NEW)["CDISpecDirs"]
    assert json.loads(fleet.text(NEW, CONFIG))["live-restore"] is True
    back = run_host(fleet, NEW, state="absent")
    assert (back["restarted"], fleet.shell(NEW, PIDS)) == (["docker.service"], pids)
    assert fleet.text(NEW, CONFIG) == '{"live-restore": true}'


@OTHER_WAY
def test_a_forced_restart_says_what_it_ends(fleet: Fleet) -> None:
    begin(fleet, NEW, OWN)
    done = run_host(fleet, NEW, restart="force")
    assert done["restarted"] == ["docker.service"]
    said = "\n".join(done["advice"])
    assert (
        "the restart of docker.service ends 2 running containers (db, web), as restart: force allows"
        in said
    )
    assert "2 containers ended while docker.service restarted" in said
    assert fleet.shell(NEW, "docker ps -q") == ""


def test_what_docker_refuses_is_known_in_check_mode(fleet: Fleet) -> None:
    begin(fleet, NEW, OWN)
    tree = fleet.tree(NEW)
    for arguments in (["--check"], []):
        run = fleet.task("docker_runtime", [NEW], NO_LIST, arguments=arguments)
        assert "validate: " in run.failed[NEW]
        assert "a value in the JSON is a string, but another type is expected" in run.failed[NEW]
    assert differing(tree, fleet.tree(NEW)) == {}


def test_what_docker_refuses_only_when_it_starts_is_taken_back(fleet: Fleet) -> None:
    """A runtime by path and by type: `dockerd --validate` takes it, and no daemon starts with it."""
    begin(fleet, NEW, OWN)
    fleet.shell(NEW, "docker rm -f web db")
    options = {
        "cdi": "enabled",
        "handlers": {"nvidia": {"options": {"runtimeType": "io.containerd.runc.v2"}}},
    }
    failed = fleet.task("docker_runtime", [NEW], options).of("docker_runtime")[NEW]
    assert (failed["status"], failed["rolled_back"], failed["changed"]) == ("failed", True, False)
    assert "Everything is as it was before" in failed["msg"]
    assert fleet.text(NEW, CONFIG) == OWN
    said = info(fleet, NEW)
    assert ("nvidia" in said["Runtimes"], said["CDISpecDirs"]) == (False, [])


def test_an_old_docker_gets_the_runtime_without_a_restart_and_forgets_it_again(
    fleet: Fleet,
) -> None:
    begin(fleet, OLD, OWN)
    before = (daemon(fleet, OLD), fleet.shell(OLD, PIDS))
    done = run_host(fleet, OLD)
    assert [d["injection"] for d in done["decision"]["decisions"]] == ["nvidia-runtime"]
    assert (done["restarted"], done["actions"][-1]) == ([], "reload docker.service")
    assert "Hello" in fleet.shell(OLD, f"{RUN} --rm --runtime nvidia {PROBE} echo Hello")
    back = run_host(fleet, OLD, state="absent")
    assert (fleet.text(OLD, CONFIG), back["restarted"]) == (OWN, [])
    assert "2 running containers (db, web)" in "\n".join(back["advice"]), (
        "a reload forgets no runtime"
    )
    assert (daemon(fleet, OLD), fleet.shell(OLD, PIDS)) == before


@OTHER_WAY
def test_a_reload_that_docker_does_not_take_is_taken_back(fleet: Fleet) -> None:
    """20.10 cannot validate, and a reload that fails ends well and writes a line to the log: only
    /info tells.
    """
    begin(fleet, OLD, OWN)
    before = (daemon(fleet, OLD), fleet.shell(OLD, PIDS))
    failed = fleet.task("docker_runtime", [OLD], NO_LIST).of("docker_runtime")[OLD]
    assert (failed["status"], failed["rolled_back"]) == ("failed", True)
    assert "its Runtimes.nvidia.path is None" in failed["msg"]
    assert fleet.text(OLD, CONFIG) == OWN
    assert (daemon(fleet, OLD), fleet.shell(OLD, PIDS)) == before


def test_dockers_containers_live_through_a_restart_of_its_containerd(fleet: Fleet) -> None:
    begin(fleet, BOTH, '{"live-restore": true}')
    before = fleet.shell(BOTH, PIDS)
    done = run_host(fleet, BOTH)
    assert [d["engine"] for d in done["decision"]["decisions"]] == ["containerd", "docker"]
    assert (done["restarted"], fleet.shell(BOTH, PIDS)) == (
        ["containerd.service", "docker.service"],
        before,
    )
    assert run_host(fleet, BOTH)["differences"] == []
    back = run_host(fleet, BOTH, state="absent")
    assert (back["restarted"], fleet.shell(BOTH, PIDS)) == (
        ["containerd.service", "docker.service"],
        before,
    )
    assert fleet.text(BOTH, "/etc/containerd/config.toml") == SERVES_CRI


@OTHER_WAY
def test_the_default_and_back(fleet: Fleet) -> None:
    begin(fleet, OLD, "{}")
    for default, wanted in (("enabled", "nvidia"), ("disabled", "runc")):
        done = fleet.task("docker_runtime", [OLD], {"set_as_default": default}).of(
            "docker_runtime"
        )[OLD]
        assert (done["status"], done["actions"][-1], info(fleet, OLD)["DefaultRuntime"]) == (
            "ok",
            "reload docker.service",
            wanted,
        )


def test_a_stopped_docker_is_refused_and_neither_started_nor_robbed(fleet: Fleet) -> None:
    """Its socket unit listens, so whoever connects to the socket starts the daemon: no look may."""
    begin(fleet, NEW, OWN)
    run_host(fleet, NEW, restart="force")
    fleet.shell(NEW, "systemctl stop docker.socket docker.service; systemctl start docker.socket")
    before = fleet.tree(NEW)
    try:
        for arguments in (["--check"], []):
            run = fleet.task("host", [NEW], {"packages": "ignore"}, arguments=arguments)
            assert "installed but not running" in run.failed[NEW], run.words
            assert (
                fleet.shell(NEW, "systemctl is-active docker.service || true").strip() == "inactive"
            )
            assert differing(before, fleet.tree(NEW)) == {}
    finally:
        fleet.shell(NEW, "systemctl start docker.service")
    assert run_host(fleet, NEW)["changed"] is False
