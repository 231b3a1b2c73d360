# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""examples/driver on real hosts of two distributions: a rollout upgrades their driver and reboots
them.

First the controller is killed between a host's reboot and the judgement. The next run continues
with that host, and meets one that is well, one whose new module is not built, one that boots the
old module again, and one that does not come back. Then these are repaired, and a last run ends it.
Everything happens once, the tests read. The packages are those of driver_hosts.py.
"""

from __future__ import annotations

import dataclasses as dc
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    kept_driver,
)

from tests.integration.conftest import Boot
from tests.lab import driver_hosts
from tests.lab.driver_hosts import DEBIAN, ROCKY, Distribution
from tests.lab.fakegpu import packaged
from tests.tools.killed_at import killed_at
from tests.tools.onlab import ROOT, RUNTIME, Fleet, Run
from tests.tools.tables import read_column

pytestmark = pytest.mark.lab

EXAMPLE = ROOT / "examples/driver"
WELL, UNBUILT, GONE = "dwell", "dunbuilt", "dgone"
KILLED, OLD_IMAGE = "rkilled", "rimage"
HOSTS: Mapping[str, Distribution] = {
    WELL: DEBIAN,
    UNBUILT: DEBIAN,
    GONE: DEBIAN,
    KILLED: ROCKY,
    OLD_IMAGE: ROCKY,
}
FAMILIES = {DEBIAN.name: "debian_family", ROCKY.name: "redhat_family"}
BAD = 3  # hosts whose change does not end well
SETTINGS = {
    "gpufleet_packages": "ignore",
    "gpufleet_toolkit_repository": "",
    "gpufleet_cdi": "disabled",
    # one batch, for time's sake
    "gpufleet_rollout_waves": "100%",
    "gpufleet_rollout_canaries": 0,
    "gpufleet_rollout_max_unavailable": "100%",
    "gpufleet_rollout_id": "driver",
}
RECORD = "/var/lib/gpufleet/kept/record.json"
# The command of the page and of the message, which asks no question here.
BACK = kept_driver.WAY_BACK["apt"].replace("apt-get install", "apt-get install -q -y")
KERNEL = "/lib/modules/$(uname -r)"


@dc.dataclass(frozen=True)
class Upgrades:
    """The runs by name, and what was on the hosts after each of them."""

    runs: Mapping[str, Run]
    loaded: Mapping[str, Mapping[str, str]]
    states: Mapping[str, Mapping[str, str]]  # of the change that is noted on each host
    kept: Mapping[str, int]  # packages on each host, before the change was judged
    back: set[str]  # releases on UNBUILT after a person has gone back
    held: Mapping[str, bool]  # after all

    def word(self, run: str, host: str) -> str:
        """What became of a host, by the table."""
        return read_column(self.runs[run].words, "CHANGED")[host]

    def why(self, run: str) -> str:
        return " ".join(self.runs[run].words.split())


class Scene:
    """The hosts, with the variables of the example."""

    def __init__(self, up: Fleet, place: Path) -> None:
        self.up, self.place = up, place
        own = EXAMPLE / "inventory/group_vars"
        shared = yaml.safe_load((own / "gpu_hosts.yml").read_text())
        groups = {
            group: {
                "vars": {**shared, **yaml.safe_load((own / f"{group}.yml").read_text())},
                "hosts": {host: {} for host, of in HOSTS.items() if FAMILIES[of.name] == group},
            }
            for group in FAMILIES.values()
        }
        groups["debian_family"]["hosts"][GONE] = {"driver_reboot_timeout": 20}
        (place / "more.json").write_text(json.dumps(groups))

    def play(self, *hosts: str, at: str = "", files: tuple[str, ...] = (), **more: Any) -> Run:
        """Run the rollout with the files of the example."""
        given = {
            name: value
            for file in ("rollout.yml", *files)
            for name, value in yaml.safe_load((EXAMPLE / file).read_text()).items()
        }
        tasks = {k: str(EXAMPLE / v) for k, v in given.get("gpufleet_rollout_tasks", {}).items()}
        variables = {**given, **SETTINGS, **more, "gpufleet_rollout_tasks": tasks}
        return self.up.play(
            "rollout",
            hosts or tuple(HOSTS),
            variables=variables,
            arguments=["-i", str(self.place / "more.json")],
            around=killed_at(at) if at else (),
            environment={"ANSIBLE_HOME": str(self.place / "home")},
        )

    def map_loaded(self) -> dict[str, str]:
        return {host: driver_hosts.find_loaded(self.up.lab, host) for host in HOSTS}

    def map_states(self) -> dict[str, str]:
        said = {host: self.up.shell(host, f"cat {RECORD} 2>/dev/null || true") for host in HOSTS}
        return {host: json.loads(text)["state"] if text else "" for host, text in said.items()}


@pytest.fixture(scope="module")
def upgrades(boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Upgrades:
    kinds = {DEBIAN.name: driver_hosts.DEBIAN_HOST, ROCKY.name: driver_hosts.ROCKY_HOST}
    up = boot({host: kinds[of.name] for host, of in HOSTS.items()})
    driver_hosts.install(up.lab, HOSTS)
    for host in HOSTS:
        up.shell(host, RUNTIME)
    return tell(Scene(up, tmp_path_factory.mktemp("driver")))


def tell(scene: Scene) -> Upgrades:
    up, runs, loaded, states = scene.up, {}, {}, {}
    runs["first"] = scene.play()
    for host, of in HOSTS.items():
        if of is DEBIAN:
            driver_hosts.offer_on_debian(up.lab, host)
    up.shell(UNBUILT, f"rm -r {KERNEL}/build")
    up.shell(
        OLD_IMAGE, f"mkdir /{packaged.INITRAMFS}; cp {KERNEL}/extra/nvidia.ko /{packaged.INITRAMFS}"
    )
    up.shell(GONE, "systemctl mask ssh.service ssh.socket")

    upgrade = {"files": ("upgrade.yml",)}
    at = "TASK [Judge whether the driver fits together]"
    runs["killed"] = scene.play(KILLED, at=at, **upgrade)
    loaded["killed"], states["killed"] = scene.map_loaded(), scene.map_states()
    kept = {KILLED: int(up.shell(KILLED, f"ls {RECORD.rpartition('/')[0]}/packages | wc -l"))}

    runs["second"] = scene.play(gpufleet_rollout_max_failed=BAD, **upgrade)
    loaded["second"], states["second"] = scene.map_loaded(), scene.map_states()
    kept[UNBUILT] = int(up.shell(UNBUILT, f"ls {RECORD.rpartition('/')[0]}/packages | wc -l"))

    # back by the command that the reason has, which builds the old module again
    up.shell(UNBUILT, f"mkdir -p {KERNEL}/build; export DEBIAN_FRONTEND=noninteractive; {BACK}")
    back = driver_hosts.find_installed(up.lab, UNBUILT, DEBIAN)
    up.shell(OLD_IMAGE, f"rm -r /{packaged.INITRAMFS}")
    up.shell(GONE, "systemctl unmask ssh.service ssh.socket; systemctl start ssh.service")
    runs["third"] = scene.play(**upgrade)
    loaded["third"], states["third"] = scene.map_loaded(), scene.map_states()
    runs["last"] = scene.play()
    holding = {DEBIAN.name: "apt-mark showhold", ROCKY.name: "dnf -q versionlock list"}
    held = {h: "nvidia" in up.shell(h, holding[of.name]) for h, of in HOSTS.items()}
    return Upgrades(runs, loaded, states, kept, back, held)


def test_the_example_configures_and_holds_first(upgrades: Upgrades) -> None:
    assert upgrades.runs["first"].status == 0, upgrades.runs["first"].words


def test_a_controller_that_dies_before_the_judgement_leaves_a_note(upgrades: Upgrades) -> None:
    assert upgrades.runs["killed"].status != 0
    assert upgrades.loaded["killed"][KILLED] == ROCKY.new
    assert upgrades.states["killed"][KILLED] == "changing"


def test_the_next_run_goes_on_with_that_host(upgrades: Upgrades) -> None:
    assert upgrades.word("second", KILLED) == "yes", upgrades.runs["second"].words
    assert upgrades.states["second"][KILLED] == "settled"
    assert upgrades.loaded["second"][KILLED] == ROCKY.new


def test_a_good_upgrade_returns_to_service(upgrades: Upgrades) -> None:
    assert upgrades.word("second", WELL) == "yes", upgrades.runs["second"].words
    assert upgrades.loaded["second"][WELL] == DEBIAN.new
    assert upgrades.states["second"][WELL] == "settled"


def test_packages_are_kept_where_the_package_manager_has_them(upgrades: Upgrades) -> None:
    """dnf has no file of a package that came out of a directory."""
    assert upgrades.kept[KILLED] == 0
    assert upgrades.kept[UNBUILT] >= len(DEBIAN.packages)
    assert "apt-get install --allow-downgrades" in upgrades.why("second")
    assert upgrades.back == {DEBIAN.old}


def test_a_module_that_was_not_built_keeps_its_host_out(upgrades: Upgrades) -> None:
    assert upgrades.word("second", UNBUILT) == "failed", upgrades.runs["second"].words
    assert "[moved.not-loaded]" in upgrades.why("second")
    assert upgrades.loaded["second"][UNBUILT] == ""
    assert upgrades.states["second"][UNBUILT] == "changing"


def test_an_initramfs_with_the_old_module_keeps_its_host_out(upgrades: Upgrades) -> None:
    assert upgrades.word("second", OLD_IMAGE) == "failed", upgrades.runs["second"].words
    assert upgrades.loaded["second"][OLD_IMAGE] == ROCKY.old
    assert "[moved.broken]" in upgrades.why("second")
    assert upgrades.states["second"][OLD_IMAGE] == "changing"


def test_a_host_that_does_not_come_back_counts(upgrades: Upgrades) -> None:
    """As ansible.builtin.reboot gives up when its time is over, the host has failed."""
    assert upgrades.word("second", GONE) == "lost", upgrades.runs["second"].words
    assert upgrades.states["second"][GONE] == "changing"
    assert upgrades.runs["second"].status == 2


def test_what_was_mended_is_judged_again_and_all_end_well(upgrades: Upgrades) -> None:
    run = upgrades.runs["third"]
    assert run.status == 0, run.words
    assert upgrades.loaded["third"] == {host: of.new for host, of in HOSTS.items()}
    assert set(upgrades.states["third"].values()) <= {"settled", ""}


def test_a_last_run_holds_the_new_driver(upgrades: Upgrades) -> None:
    assert upgrades.runs["last"].status == 0, upgrades.runs["last"].words
    assert upgrades.held == dict.fromkeys(HOSTS, True)
