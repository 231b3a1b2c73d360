# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""However the host's programs get to a host (stdin or modules, root or sudo, with and without
pipelining), results are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.night import leave_rest, leave_unless
from tests.tools.onlab import Fleet, Tree, repository

pytestmark = pytest.mark.lab

SUDO = {"ansible_user": "ops", "ansible_become": True, "ansible_become_method": "sudo"}
PLAIN = {"ansible_ssh_pipelining": False, "ansible_pipelining": False}
# way -> (gpufleet_transport, connection variables)
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "stdin": ("stdin", {}),
    "module": ("module", {}),
    "stdin, sudo": ("stdin", SUDO),
    "module, sudo": ("module", SUDO),
    "stdin, no pipelining": ("stdin", PLAIN),
    "module, sudo, no pipelining": ("module", {**SUDO, **PLAIN}),
}
HOSTS = {"way17": "containerd-1.7", "waycrio": "crio-1.34"}
STEPS = ("look", "announce", "converge", "again", "back")
MORTAL = (
    "journal",
    "history",
    "pid",
    "ticks",
    "invocation_id",
    "_ansible_verbose_always",
    "_ansible_no_log",
    "invocation",
)
OUTSIDE = '[plugins."io.containerd.grpc.v1.cri"]\n  # ours since 2021\n  sandbox_image = "registry.example.org/pause:3.9"\n'

Told = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    """Hosts that have the packages already."""
    up = boot({name: {"kind": kind, "gpus": 2, "driver": "ok"} for name, kind in HOSTS.items()})
    assert up.play("site", list(HOSTS), variables=repository()).failed == {}
    assert up.play("rollback", list(HOSTS)).failed == {}
    return up


def five_tasks(transport: str) -> list[dict[str, Any]]:
    common = {"transport": transport}
    return [
        {"name": "look", "gpufleet.nvidia.host_info": common},
        {"name": "announce", "gpufleet.nvidia.host": common, "check_mode": True, "diff": True},
        {"name": "converge", "gpufleet.nvidia.host": common, "diff": True},
        {"name": "again", "gpufleet.nvidia.host": common},
        {"name": "back", "gpufleet.nvidia.host": {**common, "state": "absent"}},
    ]


def told(
    fleet: Fleet, transport: str, variables: Mapping[str, Any]
) -> tuple[Told, dict[str, Tree]]:
    """What each step answered on each host, without what must differ from run to run."""
    play = {"hosts": ",".join(HOSTS), "gather_facts": False, "tasks": five_tasks(transport)}
    run = fleet.play([play], list(HOSTS), variables=variables)
    assert run.failed == {}, run.words
    found: Told = {host: {} for host in HOSTS}
    for host in HOSTS:
        answers = [entry["result"] for entry in run.entries if entry["host"] == host]
        for step, answer in zip(STEPS, answers, strict=True):
            found[host][step] = lasting(answer)
    return found, {host: fleet.tree(host) for host in HOSTS}


def lasting(value: Any) -> Any:
    """Drop what belongs to one run (its journal, the daemon's process), and what -v and Ansible
    add.
    """
    if isinstance(value, dict):
        return {key: lasting(inner) for key, inner in value.items() if key not in MORTAL}
    return [lasting(inner) for inner in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def standard(fleet: Fleet) -> tuple[Told, dict[str, Tree]]:
    """The usual way, by which the others are measured."""
    return told(fleet, "auto", {})


BY_NIGHT = pytest.mark.nightly(
    "by day the farthest of the ways are compared; these lie between two of them"
)


@pytest.mark.parametrize(
    "way",
    leave_unless(
        BY_NIGHT,
        WAYS,
        ("module", "stdin, no pipelining", "module, sudo, no pipelining").__contains__,
    ),
)
def test_all_ways_tell_and_do_the_same(
    way: str, fleet: Fleet, standard: tuple[Told, dict[str, Tree]]
) -> None:
    transport, variables = WAYS[way]
    found, trees = told(fleet, transport, variables)
    for host in HOSTS:
        for step in STEPS:
            assert found[host][step] == standard[0][host][step], f"{host}: {step}"
    assert trees == standard[1]


def test_the_usual_way_has_something_to_compare(standard: tuple[Told, dict[str, Tree]]) -> None:
    for steps in standard[0].values():
        assert [steps[step]["changed"] for step in STEPS] == [False, True, True, False, True]
        assert (
            steps["announce"]["differences"]
            == steps["converge"]["differences"]
            == steps["look"]["differences"]
        )


OTHER_WAY = pytest.mark.nightly(
    "by day all ways are compared on hosts, and the trees are compared by one of them"
)


@pytest.mark.parametrize("transport", leave_rest(OTHER_WAY, ["stdin", "module"]))
def test_a_tree_here_and_a_tree_there_become_the_same(
    transport: str, fleet: Fleet, tmp_path: Path
) -> None:
    """The local connection works on a bare tree, as image builds do; the same tree on a host is the
    measure.
    """
    place = tmp_path / "root"
    (place / "etc/containerd").mkdir(parents=True)
    config = place / "etc/containerd/config.toml"
    config.write_text("version = 2\n" + OUTSIDE)
    fleet.shell("way17", f"rm -rf {place}; mkdir -p {config.parent}")
    fleet.lab.exec("way17", ["tee", str(config)], stdin=config.read_text())
    options = {
        "root": str(place),
        "engine_version": "1.7.24",
        "transport": transport,
        "set_as_default": "enabled",
    }
    here = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
    for state in ("present", "absent"):
        answers = [
            fleet.task(
                "containerd_runtime",
                ["way17"],
                {**options, "state": state},
                variables=variables,
                arguments=["--diff"],
            ).of("containerd_runtime")["way17"]
            for variables in (here, {})
        ]
        assert answers[0]["changed"]
        assert lasting(answers[0]) == lasting(answers[1])
        assert fleet.text("way17", str(config)) == config.read_text()
    assert config.read_text() == "version = 2\n" + OUTSIDE
