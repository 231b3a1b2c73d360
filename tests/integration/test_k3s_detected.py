# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases of k3s that read no drop-ins: the package and one restart, a template where more is
wanted, and the way back.

One host has containerd 1.7 and a release that knows config.toml.tmpl alone, the other one
containerd 2.3 and templates of both versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.conftest import Boot
from tests.tools import onlab
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

OLD, NEWER = "k3s17", "k3s23"
UNITS = {OLD: "k3s-agent.service", NEWER: "k3s.service"}
HOME = "/var/lib/rancher/k3s/agent/etc/containerd"
TEMPLATES = {OLD: f"{HOME}/config.toml.tmpl", NEWER: f"{HOME}/config-v3.toml.tmpl"}
NVIDIA = "/usr/bin/nvidia-container-runtime"
MORE = {"nvidia": {"binary": NVIDIA}, "gpu": {"binary": NVIDIA, "options": {"NoNewKeyring": True}}}
BOTH = (OLD, NEWER)


@pytest.fixture(scope="module")
def fleet(boot: Boot) -> Fleet:
    found = boot({OLD: {"kind": "k3s-like-1.7", "gpus": 1}, NEWER: {"kind": "k3s-like", "gpus": 1}})
    found.shell(NEWER, "echo templates >/etc/lab-rancher; systemctl restart k3s.service")
    return found


def site(fleet: Fleet, host: str, *arguments: str, **variables: Any) -> dict[str, Any]:
    """What the whole run said of one host."""
    run = fleet.play(
        "site", [host], variables={**onlab.repository(), **variables}, arguments=arguments
    )
    return run.of("host")[host]


def handlers(fleet: Fleet, host: str) -> Mapping[str, Any]:
    """What the running daemon says of its handlers."""
    runtimes: Mapping[str, Any] = fleet.read_daemon_settings(host)["runtimes"]
    return runtimes


def started(fleet: Fleet, host: str) -> str:
    return fleet.shell(host, f"systemctl show --property InvocationID {UNITS[host]}")


@pytest.mark.parametrize("host", BOTH)
def test_the_package_and_one_restart_bring_the_handler(fleet: Fleet, host: str) -> None:
    before, tree = started(fleet, host), fleet.tree(host, HOME)
    # the order of a rollout needs to know of the restart before the package is there
    announced = site(fleet, host, "--check")
    assert (announced["status"], announced["restarted"], started(fleet, host)) == (
        "ok",
        [UNITS[host]],
        before,
    ), announced
    done = site(fleet, host)
    assert (done["status"], done["restarted"]) == ("ok", [UNITS[host]]), done
    found = {name: entry["options"] for name, entry in handlers(fleet, host).items()}
    assert (found["nvidia"]["BinaryName"], found["nvidia"]["SystemdCgroup"]) == (
        NVIDIA,
        found["runc"]["SystemdCgroup"],
    )
    assert started(fleet, host) != before
    # nothing is written beside what k3s renders
    assert sorted(fleet.tree(host, HOME)) == sorted(tree)
    again = fleet.play("site", [host], variables=onlab.repository())
    assert (again.of("host")[host]["changed"], again.operations[host]) == (False, 1)


@pytest.mark.parametrize("host", BOTH)
def test_more_goes_into_a_template_and_comes_back_by_state_absent(fleet: Fleet, host: str) -> None:
    done = site(fleet, host, gpufleet_handlers=MORE)
    assert (done["status"], done["restarted"]) == ("ok", [UNITS[host]]), done
    assert handlers(fleet, host)["gpu"]["options"]["NoNewKeyring"] is True
    assert 'template "base"' in fleet.text(host, TEMPLATES[host])
    assert site(fleet, host, gpufleet_handlers=MORE)["changed"] is False
    gone = fleet.task("host", [host], {"state": "absent", "handlers": MORE}).of("host")[host]
    assert gone["status"] == "ok", gone
    assert "gpu" not in handlers(fleet, host)
    assert fleet.shell(host, f"ls {HOME}/*.tmpl", fails=True) == ""


def test_a_template_that_its_release_cannot_read_is_taken_back(fleet: Fleet) -> None:
    """Releases before August 2023 have no base: k3s does not start with such a template. Its own
    rendered handlers are there again.
    """
    place = f"/run/systemd/system/{UNITS[OLD]}.d"
    unreadable = f"ExecStartPre=/usr/bin/test ! -e {TEMPLATES[OLD]}"
    fleet.shell(
        OLD,
        f"mkdir {place}; printf '[Service]\\n{unreadable}\\n' >{place}/old.conf; systemctl daemon-reload",
    )
    done = site(fleet, OLD, gpufleet_handlers=MORE)
    fleet.shell(OLD, f"rm -r {place}; systemctl daemon-reload")
    assert (done["status"], done["rolled_back"]) == ("failed", True), done
    assert "nvidia" in handlers(fleet, OLD)
    assert fleet.shell(OLD, f"ls {HOME}/*.tmpl", fails=True) == ""


REFUSED = {
    "a copied configuration": (
        f"printf 'version = 2\\n' >{TEMPLATES[OLD]}", f"rm {TEMPLATES[OLD]}", {"gpufleet_handlers": MORE},
        "[containerd.template-of-others]"),
    "a default that is wanted": (
        "true", "true", {"gpufleet_set_as_default": "enabled"},
        "Add the line default-runtime: nvidia in /etc/rancher/k3s/config.yaml, and run again"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_said_by_the_line_and_nothing_changes(fleet: Fleet, case: str) -> None:
    script, back, variables, sentence = REFUSED[case]
    fleet.shell(OLD, script)
    before, tree = started(fleet, OLD), fleet.tree(OLD, HOME, "/etc/rancher")
    done = site(fleet, OLD, **variables)
    assert (done["status"], started(fleet, OLD), fleet.tree(OLD, HOME, "/etc/rancher")) == (
        "failed",
        before,
        tree,
    )
    assert sentence in done["msg"]
    fleet.shell(OLD, back)


def test_a_default_that_a_person_sets_is_rendered_verified_and_respected(fleet: Fleet) -> None:
    fleet.shell(OLD, "echo 'default-runtime: nvidia' >>/etc/rancher/k3s/config.yaml")
    done = site(fleet, OLD, gpufleet_set_as_default="enabled")
    assert (done["status"], done["restarted"]) == ("ok", [UNITS[OLD]]), done
    assert fleet.read_daemon_settings(OLD)["defaultRuntimeName"] == "nvidia"
    assert site(fleet, OLD)["changed"] is False
