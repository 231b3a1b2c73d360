# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine does not live with is taken back: old bytes, engine serving, containers running,
and the reason in the result.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest

from tests.integration import story
from tests.integration.conftest import Boot
from tests.tools.onlab import Fleet, Tree, differing, repository

pytestmark = pytest.mark.lab

# host -> (kind, directory with the engine's configuration); edited in place, by drop-in, by CRI-O's
# drop-in
HOSTS = {
    "back17": ("containerd-1.7", "/etc/containerd"),
    "back23": ("containerd-2.3", "/etc/containerd"),
    "backcrio": ("crio-1.34", "/etc/crio"),
}
# cause -> what is put into the engine's unit; it strikes as soon as our handler is in the
# configuration
CAUSES = {
    "the engine does not start": "ExecStartPre=/bin/sh -c '! grep -rq nvidia {config}'",
    "the engine starts and does not serve": (
        "Type=simple\nExecStart=\nExecStart=/bin/sh -c 'grep -rq nvidia {config} && exec sleep 9999; exec {program}'"
    ),
}
PROGRAMS = {"containerd": "/usr/bin/containerd", "crio": "/usr/bin/crio"}


@dc.dataclass(frozen=True)
class Case:
    """One failed change: the host before, after, and what the module said."""

    before: Tree
    after: Tree
    bystanders: tuple[str, str]
    answer: dict[str, Any]
    serves: bool


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    """Hosts that have the packages already, so all that differs is ours."""
    up = boot(
        {name: {"kind": kind, "gpus": 1, "driver": "ok"} for name, (kind, _config) in HOSTS.items()}
    )
    up.play("site", list(HOSTS), variables=repository())
    undone = up.play("rollback", list(HOSTS))
    assert undone.failed == {}
    for host in HOSTS:
        story.start_bystander(up, host)
    return up


@pytest.fixture(scope="module", params=CAUSES)
def cases(request: pytest.FixtureRequest, fleet: Fleet) -> dict[str, Case]:
    """Converge all hosts into the trap."""
    cause = CAUSES[request.param]
    for host in HOSTS:
        fleet.shell(host, trap(host, cause))
    before = {host: fleet.tree(host) for host in HOSTS}
    first = {host: story.bystander(fleet, host) for host in HOSTS}
    run = fleet.task("host", list(HOSTS))
    answers = run.of("host")
    return {
        host: Case(
            before[host],
            fleet.tree(host),
            (first[host], story.bystander(fleet, host)),
            answers[host],
            serves(fleet, host),
        )
        for host in HOSTS
    }


def trap(host: str, cause: str) -> str:
    kind, config = HOSTS[host]
    name = story.engine(kind)
    folder = f"/etc/systemd/system/{name}.service.d"
    text = cause.format(config=config, program=PROGRAMS[name])
    return (
        f"mkdir -p {folder}; cat >{folder}/trap.conf <<'EOF'\n[Service]\n{text}\nRestart=no\nEOF\n"
        f"systemctl daemon-reload; systemctl restart {name}.service; "
        f"timeout 30 sh -c 'until {story.CRICTL} info >/dev/null 2>&1; do sleep 0.05; done'"
    )


def serves(fleet: Fleet, host: str) -> bool:
    return "RuntimeReady" in fleet.shell(host, f"{story.CRICTL} info", fails=True)


@pytest.mark.parametrize("host", HOSTS)
def test_the_host_has_its_old_bytes_back(host: str, cases: dict[str, Case]) -> None:
    assert differing(cases[host].before, cases[host].after) == {}


@pytest.mark.parametrize("host", HOSTS)
def test_the_engine_serves_and_containers_have_lived_on(host: str, cases: dict[str, Case]) -> None:
    assert cases[host].serves
    assert cases[host].bystanders[0]
    assert cases[host].bystanders[0] == cases[host].bystanders[1]


@pytest.mark.parametrize("host", HOSTS)
def test_the_result_says_what_failed_and_that_it_was_taken_back(
    host: str, cases: dict[str, Case]
) -> None:
    answer = cases[host].answer
    engine = story.engine(HOSTS[host][0])
    assert (answer["status"], answer["rolled_back"], answer["changed"]) == ("failed", True, False)
    assert answer["restarted"] == [f"{engine}.service"], (
        "it was, and who runs things there must know"
    )
    assert engine in answer["msg"]
    assert "Everything is as it was before: the transaction was rolled back" in answer["msg"]
