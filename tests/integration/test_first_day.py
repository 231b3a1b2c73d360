# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a new user meets on the first day: packages from nowhere, a package's own file, a host whose
only engine is Podman.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository as resources_repository,
)

from tests.lab import artefacts
from tests.tools.onlab import PROBE, Fleet, Run, repository

pytestmark = pytest.mark.lab

PODMAN, FRESH, BEFORE = "first-podman", "first-fresh", "first-before"
CONFIG = "/etc/nvidia-container-runtime/config.toml"
LEFT = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
GUIDE = "deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg] http://10.77.0.1:8099/stable/deb/amd64 /"
NOWHERE = "http://10.77.0.1:9/nothing"


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    gpus = {"gpus": 2, "driver": "ok"}
    return boot(  # type: ignore[no-any-return]
        {
            PODMAN: {"kind": "podman-5.4", **gpus},
            FRESH: {"kind": "containerd-1.7", **gpus},
            BEFORE: {"kind": "containerd-1.7", **gpus},
        }
    )


def options(**more: Any) -> dict[str, Any]:
    """The lab's repository as a mirror, with apt's own word for the architecture."""
    known = repository()
    address = known["gpufleet_toolkit_repository"].removesuffix("amd64") + "$(ARCH)"
    key = Path(artefacts.nvidia_debs(), "key.asc").read_text()
    found = {
        "toolkit_repository": address,
        "toolkit_key": key,
        "toolkit_key_fingerprint": known["gpufleet_toolkit_key_fingerprint"],
    }
    return {**found, **more}


# ---------------------------------------------------------------- packages and where they come from


@pytest.fixture(scope="module")
def unreached(fleet: Fleet) -> tuple[Run, Run]:
    """A mirror that does not answer: the plan, and the run."""
    return fleet.task("host_info", [FRESH], options(toolkit_repository=NOWHERE)), fleet.task(
        "host", [FRESH], options(toolkit_repository=NOWHERE)
    )


@pytest.fixture(scope="module")
def fresh(fleet: Fleet, unreached: tuple[Run, Run]) -> tuple[Run, Run, Run]:
    """A host without package, and with a source of the same repository as a guide has it: check
    mode, the run, a second run.
    """
    fleet.shell(FRESH, f"echo '{GUIDE}' >{LEFT}")
    return (
        fleet.task("host", [FRESH], options(), arguments=["--check", "--diff"]),
        fleet.task("host", [FRESH], options()),
        fleet.task("host", [FRESH], options()),
    )


def test_what_cannot_be_reached_is_said_by_the_plan_and_changes_nothing(
    fleet: Fleet, unreached: tuple[Run, Run]
) -> None:
    planned, run = unreached[0].of("host_info")[FRESH], unreached[1].of("host")[FRESH]
    for said in (planned["problem"], run["msg"]):
        assert "[repository.out-of-reach]" in said
        assert "toolkit_repository" in said
    assert run["status"] == "failed"


def test_without_a_variable_the_plan_says_where_packages_would_come_from(
    fleet: Fleet, unreached: tuple[Run, Run]
) -> None:
    """NVIDIA's public repository is out of this network's reach, by the controller or by the host."""
    problem = fleet.task("host_info", [FRESH]).of("host_info")[FRESH]["problem"]
    assert "nvidia.github.io/libnvidia-container" in problem
    assert "[repository." in problem


def test_a_repository_that_another_key_signed_is_refused_before_it_is_put_in_place(
    fleet: Fleet, unreached: tuple[Run, Run]
) -> None:
    wrong = Path(artefacts.nvidia_debs(), "wrong.asc").read_text()
    run = fleet.task("host", [FRESH], options(toolkit_key=wrong, toolkit_key_fingerprint=""))
    said = run.of("host")[FRESH]
    assert (said["status"], said["changed"]) == ("failed", False)
    assert "apt-get" in said["msg"]
    assert "not signed with the configured key" in said["msg"]
    assert "toolkit_repository" in " ".join(said["advice"])
    assert (
        fleet.shell(
            FRESH, f"test -e {resources_repository.FAMILIES['debian'].list_path} || echo none"
        ).strip()
        == "none"
    )


def test_a_fresh_host_gets_repository_packages_and_configuration_in_one_task(
    fresh: tuple[Run, Run, Run],
) -> None:
    check, run, again = (r.of("host")[FRESH] for r in fresh)
    where = resources_repository.FAMILIES["debian"]
    assert [(d["path"], d["key"]) for d in check["differences"]] == [
        (d["path"], d["key"]) for d in run["differences"]
    ]
    assert {where.key_path, where.list_path, CONFIG, "nvidia-container-toolkit-base"} <= {
        d["path"] for d in run["differences"]
    }
    assert (check["changed"], run["changed"], again["changed"]) == (True, True, False)
    assert (fresh[1].operations[FRESH], fresh[2].operations[FRESH]) == (6, 1)
    assert run["restarted"] == check["restarted"]


def test_a_source_of_the_same_repository_is_taken_over_since_apt_stops_where_two_differ_in_their_key(
    fleet: Fleet, fresh: tuple[Run, Run, Run]
) -> None:
    assert LEFT in {
        left["path"]
        for left in fresh[0].of("host")[FRESH]["leftovers"]
        if left["fate"] == "adopted"
    }
    assert LEFT in {difference["path"] for difference in fresh[1].of("host")[FRESH]["differences"]}
    fleet.shell(FRESH, "apt-get -q update 2>&1")
    fleet.shell(FRESH, f"echo '{GUIDE}' >{LEFT}")
    assert "Conflicting values set for option Signed-By" in fleet.shell(
        FRESH, "apt-get -q update 2>&1", fails=True
    )
    fleet.shell(FRESH, f"rm {LEFT}")


def test_site_on_a_converged_host_with_a_repository_and_a_verification_is_two_operations(
    fleet: Fleet, fresh: tuple[Run, Run, Run]
) -> None:
    known = {f"gpufleet_{option}": value for option, value in options().items()}
    run = fleet.play("site", [FRESH], variables={**known, "gpufleet_verify_image": PROBE})
    assert (run.status, run.changed, dict(run.operations)) == (0, {}, {FRESH: 2}), run.words
    verification = run.of("host_verify")[FRESH]
    assert verification["verified"]
    assert verification["decision"] == run.of("host")[FRESH]["decision"]


def test_the_packages_own_configuration_is_kept_as_on_a_host_that_had_it_before(
    fleet: Fleet, fresh: tuple[Run, Run, Run]
) -> None:
    own = {
        k.replace("toolkit_repository", "url").replace("toolkit_", ""): v
        for k, v in options().items()
    }
    assert fleet.task("toolkit_repository", [BEFORE], own).status == 0
    fleet.shell(
        BEFORE,
        "apt-get -q update; DEBIAN_FRONTEND=noninteractive apt-get -q install -y nvidia-container-toolkit-base",
    )
    package = fleet.text(BEFORE, CONFIG)
    after = fleet.task("host", [BEFORE], options())
    assert (after.status, after.operations[BEFORE]) == (0, 2)
    assert fleet.text(FRESH, CONFIG) == fleet.text(BEFORE, CONFIG)
    kept = [
        line
        for line in package.splitlines()
        if line.startswith("#") and line in fleet.text(FRESH, CONFIG)
    ]
    assert len(kept) >= 10


def test_absent_gives_everything_back_but_the_packages_and_the_next_run_does_what_is_announced(
    fleet: Fleet, fresh: tuple[Run, Run, Run]
) -> None:
    gone = fleet.task("host", [FRESH], options(state="absent"))
    assert gone.status == 0, gone.words
    where = resources_repository.FAMILIES["debian"]
    for path in (where.key_path, where.list_path):
        assert fleet.shell(FRESH, f"test -e {path} || echo none").strip() == "none"
    assert json.dumps(gone.of("host")[FRESH]["differences"]).count(where.list_path) == 1
    assert fleet.text(FRESH, LEFT).strip() == GUIDE
    announced = fleet.task("host", [FRESH], options(), arguments=["--check", "--diff"]).of("host")[
        FRESH
    ]
    again = fleet.task("host", [FRESH], options(), arguments=["--diff"])
    done = again.of("host")[FRESH]
    for key in ("changed", "differences", "restarted", "actions"):
        assert announced[key] == done[key], key
    assert {where.key_path, where.list_path} <= {d["path"] for d in done["differences"]}


# ---------------------------------------------------------------- Kubernetes

# A program by that name under a unit of its own: all that the decision needs to know is that a
# kubelet is here.
KUBELET = """
cp /bin/sleep /usr/bin/kubelet
printf '[Service]\\nExecStart=/usr/bin/kubelet infinity\\n' >/etc/systemd/system/kubelet.service
systemctl daemon-reload
systemctl start kubelet.service
"""


def test_beside_a_kubelet_pods_of_a_plugin_with_its_default_get_their_gpu_and_it_is_verified(
    fleet: Fleet,
) -> None:
    fleet.shell(BEFORE, KUBELET)
    run = fleet.task("host", [BEFORE], options()).of("host")[BEFORE]
    assert (run["decision"]["isolation"], run["decision"]["plugin_source"]) == (
        "compatible",
        "default",
    )
    (advice,) = [
        line
        for line in run["advice"]
        if line.endswith("[kubernetes.compatible-isolation-for-plugin]")
    ]
    assert "deviceListStrategy: cdi-cri in the plugin's chart" in advice
    assert "accept-nvidia-visible-devices-envvar-when-unprivileged = true" in fleet.text(
        BEFORE, CONFIG
    )
    verification = fleet.task("host_verify", [BEFORE], {"image": PROBE}).of("host_verify")[BEFORE]
    asked = {
        c["name"]: (c["ok"], (c.get("env") or {}).get("NVIDIA_VISIBLE_DEVICES", "")[:4])
        for c in verification["checks"]
    }
    assert asked["containerd: plugin"] == (True, "GPU-")
    assert all(ok for ok, _env in asked.values())


# ---------------------------------------------------------------- Podman


@pytest.fixture(scope="module")
def podman(fleet: Fleet) -> tuple[Run, Run, Run, Run]:
    """The plan, the run, a second run, and the verification."""
    return (
        fleet.task("host_info", [PODMAN]),
        fleet.task("host", [PODMAN]),
        fleet.task("host", [PODMAN]),
        fleet.task("host_verify", [PODMAN], {"image": PROBE}),
    )


def test_a_host_with_podman_alone_is_planned_made_and_verified(
    fleet: Fleet, podman: tuple[Run, Run, Run, Run]
) -> None:
    modules = ("host_info", "host", "host", "host_verify")
    planned, first, second, verification = (
        run.of(module)[PODMAN] for run, module in zip(podman, modules, strict=True)
    )
    assert planned["problem"] == ""
    assert [d["path"] for d in planned["differences"]] == [d["path"] for d in first["differences"]]
    assert (first["changed"], second["changed"], first["restarted"]) == (True, False, [])
    assert podman[2].operations[PODMAN] == 1
    assert {c["name"]: c["ok"] for c in verification["checks"]} == {
        "podman: one": True,
        "podman: all": True,
        "podman: none": True,
    }
    assert fleet.shell(PODMAN, "podman ps -aq") == ""
    assert (
        fleet.shell(PODMAN, "test -e /etc/nvidia-container-runtime || echo none").strip() == "none"
    )
